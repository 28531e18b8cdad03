// products - matrices times rows, shared among the workers.
//
//     y[row][output] = sum over inputs of x[row][input] * matrix[output][input]
//
// Workers take pairs of panels, 32 outputs, which is what the kernels like best. They take many at a
// time while many are left and one by one at the end, so that a worker whose core is disturbed keeps
// nobody waiting. Many rows are cut into tiles that stay in a core's own cache while weights stream
// past them. How anything is cut never shows in the numbers: each output of each row is a chain of its
// own.
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

// Compute `count` products with `rows` rows of x, from `first` on, whose quants are there if a matrix
// is quantised.
void or_products_run(const or_kernels_t *kernels, or_workers_t *workers, const or_activations_t *x,
                     uint32_t first, uint32_t rows, const or_product_t *products, uint32_t count);

// Floats of scratch that one worker takes for a sum of shards.
#define OR_SHARD_SUM_FLOATS (4u * 64u * 32u)

// y = ((p0 + p1) + (p2 + p3)) + ..., where part p_s is the product over the inputs shards[s], or +0 of an empty
// one. All of it is done for a few outputs and rows at a time, before the parts leave the cache. The shards
// follow one another; `count` is 1, 2, 4 or 8; product->inputs is not looked at. `scratch` is
// [workers][OR_SHARD_SUM_FLOATS].
void or_shard_sum_run(const or_kernels_t *kernels, or_workers_t *workers, float *scratch,
                      const or_activations_t *x, uint32_t rows, const or_product_t *product,
                      const or_span_t *shards, uint32_t count);
