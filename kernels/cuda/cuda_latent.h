// cuda_latent - what latent attention (common/model/cpu/latent.h) moves on a GPU, besides its products, norms and attention.
//
//     gather   a row's heads ──▶ entries, a head's rows one after the other: [head * rows + row]
//     copy     heads ──▶ heads, of either layout
//     group    each head's entries as a group, which the head's own matrix is multiplied with (or_cuda_groups_t)
#pragma once

#include "kernels/cuda/cuda_kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

// A part of each head in each row: that of head h in row r begins at values + r * row_stride + h * head_stride.
typedef struct {
    float *values;
    size_t row_stride, head_stride;
} or_cuda_head_rows_t;

// to [heads * rows] = n floats of each head.
int or_cuda_gather_heads(or_cuda_t *cuda, const or_cuda_head_rows_t *from, uint32_t n,
                         uint32_t heads, uint32_t rows, const or_cuda_rows_t *to);
// to = n floats of each head.
int or_cuda_copy_heads(or_cuda_t *cuda, const or_cuda_head_rows_t *from, uint32_t n, uint32_t heads,
                       uint32_t rows, const or_cuda_head_rows_t *to);
// groups [heads] = rows of entries, with the matrices from number `first` on.
int or_cuda_group_heads(or_cuda_t *cuda, uint32_t first, uint32_t heads, uint32_t rows,
                        or_cuda_group_t *groups);

#ifdef __cplusplus
}
#endif
