// tensor_trial - does an algorithm give a row the same bits wherever it stands in a tile, and whatever is beside it?
//
//     place        0    1 ... 30   31   32 ... 62   63
//     full tile    row  others     row  others      row
//     half tile    row  others     row  no numbers ...
//
// One that splits its sums by place, or with the load (stream-K), may not. What cuBLASLt recommends is tried when a
// shape is first multiplied, and cuda_tensor.h promises what came out of it. Waits, so that nothing of it can be
// recorded. One thread.
#pragma once

#include <stdbool.h>

#include "kernels/cuda/cuda_tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

// Multiplies a tile [OR_CUDA_TENSOR_ROWS][inputs] by the algorithm that is tried.
typedef int or_tensor_multiply_t(void *context, const uint16_t *x);

typedef struct {
    or_cuda_t *cuda;
    or_cuda_float_t type;
    uint32_t inputs; // of all parts
    uint32_t outputs;
    uint32_t parts;
    float *y; // where products go, as in or_cuda_parts_t: has room for a tile
    size_t y_stride;
    size_t part_stride;
    or_tensor_multiply_t *multiply;
    void *context;
} or_tensor_trial_t;

// *invariant, set on success: all copies of the row had the same bits. A code for or_cuda_text.
int or_tensor_try(const or_tensor_trial_t *trial, bool *invariant);

#ifdef __cplusplus
}
#endif
