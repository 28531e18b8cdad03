// Rows of floats that are moved, or scaled by a number that only the device knows.
#include "kernels/cuda/rows.cuh"

OR_GLOBAL void scale_rows_by(float *x, size_t x_stride, const float *factor, uint32_t n)
{
    uint32_t i = row_element();
    if (i < n) {
        x[blockIdx.x * x_stride + i] *= *factor;
    }
}

int or_cuda_scale_by(or_cuda_t *cuda, float *x, size_t x_stride, const float *factor, uint32_t n,
                     uint32_t rows)
{
    if (rows == 0 || n == 0) {
        return OR_CUDA_OK;
    }
    return or_launch(cuda, scale_rows_by, row_grid(rows, n), dim3(ROW_THREADS), 0, x, x_stride,
                     factor, n);
}
