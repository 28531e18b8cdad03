// weights - matrices re-laid for the kernels.
//
//     file     [outputs][inputs]             a row per output
//     panels   [panel][inputs][16 outputs]   the last panel padded with zeros; element type kept
//
// Immutable after packing: any thread.
#pragma once

#include <stdint.h>

#include "common/gguf/gguf.h"
#include "common/model/workers.h"
#include "kernels/kernels.h"

typedef struct {
    or_tensor_type_t type;
    uint32_t inputs;
    uint32_t outputs;
    uint32_t panel_count;
    void *panels; // owned
} or_matrix_t;

// A part of a matrix times some rows: outputs of whole panels, summed over a range of inputs. x and
// y start at the matrix's first input and output, whatever the part.
typedef struct {
    const or_matrix_t *matrix;
    uint32_t panel_begin;
    uint32_t panel_end;
    uint32_t input_begin;
    uint32_t input_end; // over input_begin
    const float *x;
    size_t x_stride;
    float *y; // rows of at least panel_count * 16 floats
    size_t y_stride;
} or_product_t;

// `size` bytes times `count`, zeroed, on a cache line. NULL if there is no memory or the product
// overflows. Free with free().
void *or_zeroed(size_t count, size_t size);

// Pack a tensor of two dimensions (F32 or F16). OR_ERR_NO_MEMORY.
or_status_t or_matrix_pack(const or_gguf_tensor_t *tensor, or_matrix_t *matrix);
void or_matrix_free(or_matrix_t *matrix);

// The product of the panels that hold outputs begin .. end - 1 over all inputs.
or_product_t or_product(const or_matrix_t *matrix, uint32_t begin, uint32_t end, const float *x,
                        size_t x_stride, float *y, size_t y_stride);

// Compute `count` products of the same number of rows, shared among the workers.
void or_products_run(const or_kernels_t *kernels, or_workers_t *workers,
                     const or_product_t *products, uint32_t count, uint32_t rows);

// Row `row` of a tensor [width, rows] as floats (F32 or F16).
void or_tensor_read_row(const or_gguf_tensor_t *tensor, uint64_t row, uint32_t width, float *out);
