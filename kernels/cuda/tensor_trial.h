// tensor_trial - the choice of an algorithm that gives a row the same bits wherever it is. It may be at any place of
// a tile, beside any other rows, and in any part of the matrix that a rank has.
//
//     place        0    1 ... 30   31   32 ... 62   63
//     full tile    row  others     row  others      row    by the whole matrix, and by a half, a quarter, an eighth
//     half tile    row  others     row  no numbers ...     by the whole matrix
//
// An algorithm that splits its sums by place, or with the load (stream-K), may not do that. The algorithms that
// cuBLASLt recommends for a shape are tried on a whole matrix of numbers that are always the same, so all ranks make
// the same choice. The trial waits, so it cannot be recorded. One thread.
#pragma once

#include <stdbool.h>

#include "kernels/cuda/cuda_tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

// Arrays on the device, for the first outputs of the whole matrix, or the first parts. Rows of weights and x have all
// parts of the shape, one behind the other.
typedef struct {
    uint32_t outputs;
    uint32_t parts;
    const uint16_t *weights; // [outputs][inputs of all parts]
    const uint16_t *x;       // [OR_CUDA_TENSOR_ROWS][inputs of all parts]
    float *y;                // [parts][OR_CUDA_TENSOR_ROWS][outputs]
} or_tensor_operands_t;

// Multiply by a candidate. *refuses, which is false before, says that this candidate cannot, which is no failure.
typedef int or_tensor_multiply_t(void *context, uint32_t candidate,
                                 const or_tensor_operands_t *operands, bool *refuses);

typedef struct {
    or_cuda_t *cuda;
    or_cuda_tensor_shape_t shape;
    uint32_t candidates; // best first
    or_tensor_multiply_t *multiply;
    void *context;
} or_tensor_trial_t;

// Set *chosen, on success only, to the first candidate for which all copies of the row have the same bits, or to
// `candidates` if there is none. Returns a code for or_cuda_text.
int or_tensor_choose(const or_tensor_trial_t *trial, uint32_t *chosen);

#ifdef __cplusplus
}
#endif
