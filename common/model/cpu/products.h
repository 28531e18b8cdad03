// products - matrices times rows, shared among the workers.
//
//     y[row][output] = sum over inputs of x[row][input] * matrix[output][input]
//
// Workers take pairs of panels, 32 outputs, which is what the kernels like best; for sums of a row
// alone, as many as the kernels read at once. They take many at a time while many are left and one by
// one at the end, so that a worker whose core is disturbed keeps nobody waiting. Many rows are cut into
// tiles that stay in a core's own cache while weights stream past them. How anything is cut never shows
// in the numbers: each output of each row is a chain of its own.
#pragma once

#include "common/model/cpu/weights.h"

// Outputs of whole panels, summed over a range of inputs, which for a quantised matrix is one of whole
// blocks. Both are here.
typedef struct {
    const or_matrix_t *matrix;
    or_span_t panels;
    or_span_t inputs; // not empty, unless there are no panels
    float *y;         // rows of all panels that are here
    size_t y_stride;
} or_product_t;

// Return the product of the panels that have outputs begin .. end - 1, over all inputs that are here.
or_product_t or_product(const or_matrix_t *matrix, uint32_t begin, uint32_t end, float *y,
                        size_t y_stride);

// Return the product of all outputs that are here.
or_product_t or_product_here(const or_matrix_t *matrix, float *y, size_t y_stride);

// Compute `count` products with `rows` rows of x, from `first` on, whose quants are there if a matrix
// is quantised.
void or_products_run(const or_kernels_t *kernels, or_workers_t *workers, const or_activations_t *x,
                     uint32_t first, uint32_t rows, const or_product_t *products, uint32_t count);

// The same with rows of its own for each product: rows[i] of x, which is not empty, and y is where the first of them goes.
void or_products_run_each(const or_kernels_t *kernels, or_workers_t *workers,
                          const or_activations_t *x, const or_product_t *products,
                          const or_span_t *rows, uint32_t count);

// Floats of scratch that one worker takes for a sum of shards.
#define OR_SHARD_SUM_FLOATS (4u * 64u * 32u)

// y = ((p0 + p1) + (p2 + p3)) + ..., where part p_s is the product over the inputs shards[s], or +0 of an empty
// one. All of it is done for a few outputs and rows at a time, before the parts leave the cache. The shards
// follow one another; `count` is 1, 2, 4 or 8; product->inputs is not looked at. `scratch` is
// [workers][OR_SHARD_SUM_FLOATS].
void or_shard_sum_run(const or_kernels_t *kernels, or_workers_t *workers, float *scratch,
                      const or_activations_t *x, uint32_t rows, const or_product_t *product,
                      const or_span_t *shards, uint32_t count);

// One of the products that or_part_sum_run adds.
typedef struct {
    or_matrix_t matrix;        // borrows its memory
    const or_activations_t *x; // rows first .. first + count - 1 of it; count >= 1
    uint32_t first, count;
    const uint32_t
        *rows; // [count] the rows of y to which they are added, none twice; NULL: 0 .. count - 1
    const or_span_t *shards; // of its inputs, as many as there are shards in all
} or_part_product_t;

#define OR_PART_SUM_ROWS 256u // the most rows of y
// Floats of scratch that one worker takes for such a sum.
#define OR_PART_SUM_FLOATS ((8u + 1u) * OR_PART_SUM_ROWS * 32u)

// y[row] = ((P0 + P1) + (P2 + P3)) + ..., where P_s = ((+0 + first part's shard s) + second part's shard s) + ...: those
// of the row, in the order of `parts`. So a row's sum does not depend on the rows beside it, nor on the number of ranks.
// The matrices have the same outputs; shards are as in or_shard_sum_run. `scratch` is [workers][OR_PART_SUM_FLOATS].
void or_part_sum_run(const or_kernels_t *kernels, or_workers_t *workers, float *scratch,
                     const or_part_product_t *parts, uint32_t count, uint32_t shards, uint32_t rows,
                     float *y, size_t y_stride);
