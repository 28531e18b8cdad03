// Quantised products with VNNI.
#include "kernels/avx512/kernels_avx512_quant_tile.h"

void matmul_quants_avx512vnni(const or_quant_panels_t *w, const or_q8_block_t *x, size_t x_stride,
                              uint32_t rows, float *y, size_t y_stride)
{
    multiply_quants(w, x, x_stride, rows, y, y_stride);
}
