// kernels_ref_internal - what the files of the reference table share.
#pragma once

#include "kernels/kernels.h"

// kernels_ref_quant.c
void quantize_row_ref(const float *x, uint32_t blocks, or_q8_block_t *out);
void matmul_quants_ref(const or_quant_panels_t *w, const or_q8_block_t *x, size_t x_stride,
                       uint32_t rows, float *y, size_t y_stride);
