// weights - matrices re-laid for the kernels, and the activations they are multiplied with.
//
//     file     [outputs][inputs]                 a row per output
//     panels   [panel][inputs][16 outputs]       F32, F16, BF16: the element type is kept
//              [panel][inputs / 32] blocks       Q8_0, Q4_0: each of 16 outputs (kernels.h)
//
// The last panel is padded with zeros. A rank holds a part of a matrix: some whole panels, or some
// of the inputs of all. Outputs, panels and inputs are numbered as in the whole matrix, but the rows
// that a part is multiplied with begin with the first input it holds, its products with the first
// panel:
//
//     x   [inputs.begin .. inputs.end)            y   [panels.begin * 16 .. panels.end * 16)
//
// A quantised matrix reads activations that are quantised too, once for all matrices that read the
// same rows. Matrices are immutable after packing: any thread.
#pragma once

#include <stdint.h>

#include "common/gguf/gguf.h"
#include "common/model/shards.h"
#include "common/model/workers.h"
#include "kernels/kernels.h"

typedef struct {
    or_tensor_type_t type;
    or_span_t panels;    // those that are here
    or_span_t inputs;    // likewise; of whole blocks if quantised
    size_t panel_stride; // elements, or blocks if quantised, from panel to panel
    size_t bytes;
    void *memory; // owned; NULL: nothing is here
} or_matrix_t;

// Rows that matrices read. Owns its buffers. Rows may have no values.
typedef struct {
    float *values; // [rows][stride]
    size_t stride;
    int8_t *quants; // [rows][blocks_stride][32]; NULL: only floats are asked for
    float *scales;  // [rows][blocks_stride]
    int32_t *sums;  // [rows][blocks_stride]
    size_t blocks_stride;
    size_t bytes; // of all buffers
} or_activations_t;

// A matrix times some rows: outputs of whole panels, summed over a range of inputs, which for a
// quantised matrix is one of whole blocks. Both are here.
typedef struct {
    const or_matrix_t *matrix;
    or_span_t panels;
    or_span_t inputs; // not empty, unless there are no panels
    float *y;         // rows of all panels that are here
    size_t y_stride;
} or_product_t;

// `size` bytes times `count`, zeroed, on a cache line. NULL if there is no memory or the product
// overflows. Free with free().
void *or_zeroed(size_t count, size_t size);

// Pack, of a tensor of two dimensions and any or_tensor_type_t, the panels that have some of these
// outputs and of them these inputs. OR_ERR_NO_MEMORY.
or_status_t or_matrix_pack(const or_gguf_tensor_t *tensor, or_span_t outputs, or_span_t inputs,
                           or_matrix_t *matrix);
void or_matrix_free(or_matrix_t *matrix);
bool or_matrix_is_quantised(const or_matrix_t *matrix);

// The panels that have some of these outputs; none of none.
or_span_t or_panels_of(or_span_t outputs);

// Where in a row of a product an output of this matrix lies.
static inline size_t or_matrix_place(const or_matrix_t *matrix, uint32_t output)
{
    return output - (size_t)matrix->panels.begin * OR_PANEL;
}

// Zeroed rows of `width` floats, and of as many quants if `quantised`. OR_ERR_NO_MEMORY.
or_status_t or_activations_init(or_activations_t *activations, size_t rows, size_t width,
                                bool quantised);
void or_activations_fini(or_activations_t *activations);

// The product of the panels that have outputs begin .. end - 1 over all inputs that are here.
or_product_t or_product(const or_matrix_t *matrix, uint32_t begin, uint32_t end, float *y,
                        size_t y_stride);

// Compute `count` products with `rows` rows of x, from `first` on, shared among the workers; what
// the quantised ones read of x is quantised before.
void or_products_run(const or_kernels_t *kernels, or_workers_t *workers, or_activations_t *x,
                     uint32_t first, uint32_t rows, const or_product_t *products, uint32_t count);

// Row `row` of a tensor [width, rows] as floats, of any or_tensor_type_t.
void or_tensor_read_row(const or_gguf_tensor_t *tensor, uint64_t row, uint32_t width, float *out);
