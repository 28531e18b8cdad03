// Quantised products with VNNI.
#include "kernels/avx512/kernels_avx512_quant_tile.h"

void matmul_quants_avx512vnni(or_quant_t type, const void *panels, size_t panel_bytes,
                              uint32_t panel_count, uint32_t first, uint32_t blocks,
                              const or_q8_block_t *x, size_t x_stride, uint32_t rows, float *y,
                              size_t y_stride)
{
    const quant_weights_t w = {&avx512_quant_formats[type],
                               panels,
                               panel_bytes,
                               panel_count,
                               first,
                               first + blocks,
                               or_quant_unit_blocks(type),
                               or_quant_unit_bytes(type)};
    multiply_quants(&w, x, x_stride, rows, y, y_stride);
}
