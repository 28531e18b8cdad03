// kernels_ref_internal - what the files of the reference table share.
#pragma once

#include "kernels/kernels.h"

// kernels_ref_quant.c
void quantize_row_ref(const float *x, uint32_t blocks, or_q8_block_t *out);
void matmul_quants_ref(or_quant_t type, const void *panels, size_t panel_bytes,
                       uint32_t panel_count, uint32_t first, uint32_t blocks,
                       const or_q8_block_t *x, size_t x_stride, uint32_t rows, float *y,
                       size_t y_stride);
