// Quantised kernels for any AArch64 processor.
#include "kernels/neon/kernels_neon_quant.h"

void matmul_quants_neon(const or_quant_panels_t *w, const or_q8_block_t *x, size_t x_stride,
                        uint32_t rows, float *y, size_t y_stride)
{
    multiply_panels(w, x, x_stride, rows, y, y_stride);
}
