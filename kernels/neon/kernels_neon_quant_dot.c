// Quantised kernels for processors with dot products: compiled for those as a whole.
#include "kernels/neon/kernels_neon_quant.h"

void matmul_quants_neon_dot(or_quant_t type, const void *panels, size_t panel_bytes,
                            uint32_t panel_count, uint32_t first, uint32_t blocks,
                            const or_q8_block_t *x, size_t x_stride, uint32_t rows, float *y,
                            size_t y_stride)
{
    multiply_panels(type, panels, panel_bytes, panel_count, first, blocks, x, x_stride, rows, y,
                    y_stride);
}
