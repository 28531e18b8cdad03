// Rows of heads that are moved between two layouts: a row's heads one after the other, and a head's rows one after the other,
// as each head's own matrix reads them. The heads are multiplied as experts are, so each is a group of rows.
#include "kernels/cuda/cuda_latent.h"
#include "kernels/cuda/rows.cuh"

OR_GLOBAL void gather_head_rows(or_cuda_head_rows_t from, uint32_t n, uint32_t rows,
                                or_cuda_rows_t to)
{
    uint32_t row = blockIdx.x;
    uint32_t head = blockIdx.z;
    uint32_t i = row_element();
    const float *x = from.values + row * from.row_stride + head * from.head_stride;
    write_in_warp(&to, head * rows + row, n, i, i < n ? x[i] : 0.0f);
}

int or_cuda_gather_heads(or_cuda_t *cuda, const or_cuda_head_rows_t *from, uint32_t n,
                         uint32_t heads, uint32_t rows, const or_cuda_rows_t *to)
{
    if (rows == 0 || n == 0 || heads == 0) {
        return OR_CUDA_OK;
    }
    dim3 grid = row_grid(rows, n);
    return or_launch(cuda, gather_head_rows, dim3(grid.x, grid.y, heads), dim3(ROW_THREADS), 0,
                     *from, n, rows, *to);
}

OR_GLOBAL void copy_head_rows(or_cuda_head_rows_t from, uint32_t n, or_cuda_head_rows_t to)
{
    uint32_t row = blockIdx.x;
    uint32_t head = blockIdx.z;
    uint32_t i = row_element();
    if (i < n) {
        to.values[row * to.row_stride + head * to.head_stride + i] =
            from.values[row * from.row_stride + head * from.head_stride + i];
    }
}

int or_cuda_copy_heads(or_cuda_t *cuda, const or_cuda_head_rows_t *from, uint32_t n, uint32_t heads,
                       uint32_t rows, const or_cuda_head_rows_t *to)
{
    if (rows == 0 || n == 0 || heads == 0) {
        return OR_CUDA_OK;
    }
    dim3 grid = row_grid(rows, n);
    return or_launch(cuda, copy_head_rows, dim3(grid.x, grid.y, heads), dim3(ROW_THREADS), 0, *from,
                     n, *to);
}

OR_GLOBAL void write_head_groups(uint32_t first, uint32_t heads, uint32_t rows,
                                 or_cuda_group_t *groups)
{
    uint32_t head = blockIdx.x * ROW_THREADS + threadIdx.x;
    if (head < heads) {
        groups[head] = {first + head, head * rows, rows};
    }
}

int or_cuda_group_heads(or_cuda_t *cuda, uint32_t first, uint32_t heads, uint32_t rows,
                        or_cuda_group_t *groups)
{
    if (heads == 0) {
        return OR_CUDA_OK;
    }
    return or_launch(cuda, write_head_groups, dim3((heads - 1) / ROW_THREADS + 1),
                     dim3(ROW_THREADS), 0, first, heads, rows, groups);
}
