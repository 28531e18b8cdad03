// kernels_avx2_internal - what the files of the AVX2 table share.
#pragma once

#include "kernels/kernels.h"

#define WIDTH 8u // floats in a vector
#define ALWAYS_INLINE static inline __attribute__((always_inline))

// kernels_avx2_quant.c
void quantize_row_avx2(const float *x, uint32_t blocks, int8_t *quants, float *scales,
                       int32_t *sums);
void matmul_q8_0_avx2(const void *panels, size_t panel_blocks, uint32_t panel_count,
                      uint32_t blocks, const or_q8_rows_t *x, uint32_t rows, float *y,
                      size_t y_stride);
void matmul_q4_0_avx2(const void *panels, size_t panel_blocks, uint32_t panel_count,
                      uint32_t blocks, const or_q8_rows_t *x, uint32_t rows, float *y,
                      size_t y_stride);

// kernels_avx2_widen.c
void widen_f16_avx2(const uint16_t *x, size_t n, float *y);
void widen_q8_0_avx2(const uint16_t *scales, const int8_t *quants, uint32_t n, float *y);
void widen_q8_0_keys_avx2(const uint16_t *scales, const int8_t *quants, uint32_t head_dim,
                          float *y);
