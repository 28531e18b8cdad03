// tensor_trial - which algorithm gives a row the same bits wherever it stands in a tile, whatever is beside it, and
// whatever of the matrix a rank has?
//
//     place        0    1 ... 30   31   32 ... 62   63
//     full tile    row  others     row  others      row    by the whole matrix, and by a half, a quarter, an eighth
//     half tile    row  others     row  no numbers ...     by the whole matrix
//
// One that splits its sums by place, or with the load (stream-K), may not. What cuBLASLt recommends for a shape is
// tried on a whole matrix of it, of numbers that are always the same: so the choice is that of all ranks. Waits, so
// that nothing of it can be recorded. One thread.
#pragma once

#include <stdbool.h>

#include "kernels/cuda/cuda_tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

// On the device: outputs of the whole matrix, or parts, the first ones. Rows of weights and x have all parts of the shape,
// one behind the other.
typedef struct {
    uint32_t outputs;
    uint32_t parts;
    const uint16_t *weights; // [outputs][inputs of all parts]
    const uint16_t *x;       // [OR_CUDA_TENSOR_ROWS][inputs of all parts]
    float *y;                // [parts][OR_CUDA_TENSOR_ROWS][outputs]
} or_tensor_operands_t;

// Multiplies by a candidate. *refuses, false before: that one cannot, which is no failure.
typedef int or_tensor_multiply_t(void *context, uint32_t candidate,
                                 const or_tensor_operands_t *operands, bool *refuses);

typedef struct {
    or_cuda_t *cuda;
    or_cuda_tensor_shape_t shape;
    uint32_t candidates; // best first
    or_tensor_multiply_t *multiply;
    void *context;
} or_tensor_trial_t;

// *chosen, set on success: the first candidate for which all copies of the row have the same bits; none has them:
// `candidates`. A code for or_cuda_text.
int or_tensor_choose(const or_tensor_trial_t *trial, uint32_t *chosen);

#ifdef __cplusplus
}
#endif
