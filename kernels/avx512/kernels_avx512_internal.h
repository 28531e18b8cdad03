// kernels_avx512_internal - what the files of the two AVX-512 tables share.
#pragma once

#include <immintrin.h>

#include "kernels/kernels_internal.h"

#define WIDTH 16u // floats in a vector: the outputs of a panel, the lanes of a lane sum

// or_kernels_t's matmul_quants: the second multiplies with VNNI, the first without.
void matmul_quants_avx512(const or_quant_panels_t *w, const or_q8_block_t *x, size_t x_stride,
                          uint32_t rows, float *y, size_t y_stride);
void matmul_quants_avx512vnni(const or_quant_panels_t *w, const or_q8_block_t *x, size_t x_stride,
                              uint32_t rows, float *y, size_t y_stride);
