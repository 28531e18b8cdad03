// cuda_tensor - products of F16 and BF16 weights on tensor cores, by cuBLASLt. They have an arithmetic of their
// own, not the canonical one:
//
//     inputs      rounded to the type of the weights, to nearest even (or_cuda_rows_t's halves)
//     products    exact, added up as floats in the order of the algorithm that the library recommends
//     algorithm   one for all weights of a shape; rows are multiplied 64 at a time, by it alone. The first
//                 recommended one that, tried on a matrix of this shape, gives a row the same bits at all places
//                 of a tile, and whatever part of the matrix is there (tensor_trial.h)
//
// So a row's bits depend on its own inputs only, here too: not on the batch, and not on how many ranks share a
// matrix. They do depend on the library's version and on the device, which or_cuda_tensor_name tells.
// F16 ends at 65504: a greater activation is infinite.
//
// cuBLASLt is looked for when it is needed, so that a program starts without it.
#pragma once

#include "kernels/cuda/cuda_kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

#define OR_CUDA_TENSOR_ROWS 64u    // multiplied at a time
#define OR_CUDA_TENSOR_MULTIPLE 8u // of inputs: what cores take at once
#define OR_CUDA_TENSOR_NAME 40u    // bytes

typedef struct or_cuda_tensor or_cuda_tensor_t;

// Open the library, and take memory for its products, on this device; close it before the device. Returns a code for
// or_cuda_text if there is no library, or none that works.
int or_cuda_tensor_open(or_cuda_t *cuda, or_cuda_tensor_t **tensor_p);
void or_cuda_tensor_close(or_cuda_tensor_t **tensor_p);
// Write the name of the arithmetic, from version and device: "cublaslt-130100/sm_90x132". The same name means the
// same bits.
void or_cuda_tensor_name(const or_cuda_tensor_t *tensor, char name[OR_CUDA_TENSOR_NAME]);
// Return the text that or_cuda_text has for OR_CUDA_TENSOR and above.
const char *or_cuda_tensor_text(int status);

// The shape of a product with a whole matrix, whatever part of it is on which rank.
typedef struct {
    or_cuda_float_t type; // OR_CUDA_F16 or OR_CUDA_BF16
    uint32_t outputs;     // a multiple of OR_PANEL
    uint32_t inputs;      // of a part; a multiple of OR_CUDA_TENSOR_MULTIPLE
    uint32_t parts;
} or_cuda_tensor_shape_t;

// Choose the algorithm for a shape, unless that was done. Takes memory for a whole matrix for a moment, waits, and
// must not be recorded: to be called at load. A code for or_cuda_text, also where no algorithm will do.
int or_cuda_tensor_prepare(or_cuda_tensor_t *tensor, const or_cuda_tensor_shape_t *shape);

typedef struct {
    or_cuda_float_t type; // OR_CUDA_F16 or OR_CUDA_BF16
    const void *weights;  // [outputs][inputs], aligned to 16 bytes
    uint32_t outputs;     // a multiple of OR_PANEL
    uint32_t inputs;      // a multiple of OR_CUDA_TENSOR_MULTIPLE, as all spans are
    // The numbers of the matrix that these weights are a part of. With the inputs of a span they are its shape, which
    // must have been prepared.
    uint32_t whole_outputs;
    uint32_t whole_parts;
} or_cuda_tensor_matrix_t;

// Compute parts of a product, as or_cuda_matmul_floats does, from x->halves, which are of the matrix's type. Rows,
// and all parts, have room for whole tiles, OR_CUDA_TENSOR_ROWS: behind the last row x is read, whatever is there,
// and y is written. Nothing waits. Returns a code for or_cuda_text.
int or_cuda_matmul_tensor(or_cuda_tensor_t *tensor, const or_cuda_tensor_matrix_t *matrix,
                          const or_cuda_rows_t *x, uint32_t rows, const or_cuda_parts_t *to);

#ifdef __cplusplus
}
#endif
