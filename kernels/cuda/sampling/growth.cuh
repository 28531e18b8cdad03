// growth - what the two steps of growing a draft tree share: what drafter/build/build_coupled.c chooses, without the host.
//
//     list    growth_children.cu    a block for each row that was run    tells of it; its best children and their weights
//     grow    growth.cu             one block                            offers them to the tree, chooses the next rows,
//                                                                        writes their tables
//
// Numbers are made as drafter/build/builder_model.c makes them, from the same operations in the same order. A distribution that
// top-k or top-p has ranked is summed there in another, and its weights may be apart in the last bits.
#pragma once

#include "kernels/cuda/sampling/contenders.cuh"

#define NO_SLOT UINT32_MAX
#define CHILDREN                                                                                   \
    WARP // of a guess at most, as OR_BUILD_CHILDREN of drafter/build/builder_internal.h

// The children of a row, best first.
typedef struct {
    double weights[CHILDREN]; // log softmax(scores / tau): at most 0; -INFINITY: there are no more
    int32_t ids[CHILDREN];
    uint32_t widths[CHILDREN]; // bytes that they print
} children_t;

// Fill in `children` of the batch's rows, and tell of them. `rows` is not 0.
int or_cuda_list_children(or_cuda_t *cuda, const or_cuda_growth_t *growth, uint32_t rows,
                          const uint64_t *token_keys, const uint32_t *widths,
                          const or_cuda_contender_t *list, const uint32_t *counts,
                          children_t *children, or_cuda_grown_t *grown);

OR_DEVICE uint32_t least_of(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

OR_DEVICE uint32_t batch_count_of(const or_cuda_growth_t *growth)
{
    return least_of(growth->batch_count, OR_CUDA_GROWTH_MAX);
}

OR_DEVICE uint32_t batch_place(const or_cuda_growth_t *growth, uint32_t row)
{
    return least_of(growth->batch[row], OR_CUDA_GROWTH_MAX);
}

// ---- what the host is told ----

// The rows and contenders that the host is told of.
typedef struct {
    uint32_t rows;
    uint32_t contenders;
} told_t;

OR_DEVICE bool has_room(const told_t *told, uint32_t count)
{
    return count > 0 && count <= OR_CUDA_CONTENDERS_MAX && told->rows < OR_CUDA_GROWTH_ROWS &&
           count <= OR_CUDA_GROWTH_CONTENDERS - told->contenders;
}

// Return what the host is told of with the first `rows` rows of the batch that was run.
OR_DEVICE told_t told_with(const or_cuda_grown_t *grown, const uint32_t *counts, uint32_t rows)
{
    told_t told = {least_of(grown->row_count, OR_CUDA_GROWTH_ROWS),
                   least_of(grown->contender_count, OR_CUDA_GROWTH_CONTENDERS)};
    for (uint32_t row = 0; row < rows; row++) {
        if (has_room(&told, counts[row])) {
            told.rows++;
            told.contenders += counts[row];
        }
    }
    return told;
}
