// kernels_avx2_internal - what the files of the AVX2 table share.
#pragma once

#include "kernels/kernels_internal.h"

#define WIDTH 8u // floats in a vector

// or_kernels_t's matmul_quants and row_panels (kernels_avx2_quant_matmul.c).
void matmul_quants_avx2(const or_quant_panels_t *w, const or_q8_block_t *x, size_t x_stride,
                        uint32_t rows, float *y, size_t y_stride);
uint32_t row_panels_avx2(or_quant_t type);
