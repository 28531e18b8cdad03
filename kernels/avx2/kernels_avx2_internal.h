// kernels_avx2_internal - what the files of the AVX2 table share.
#pragma once

#include "kernels/kernels.h"

#define WIDTH 8u // floats in a vector
#define ALWAYS_INLINE static inline __attribute__((always_inline))

// kernels_avx2_quant.c
void quantize_row_avx2(const float *x, uint32_t blocks, or_q8_block_t *out);
void matmul_quants_avx2(const or_quant_panels_t *w, const or_q8_block_t *x, size_t x_stride,
                        uint32_t rows, float *y, size_t y_stride);

// kernels_avx2_matmul.c
void matmul_f32_avx2(const float *panels, size_t panel_stride, uint32_t panel_count, uint32_t k,
                     const float *x, size_t x_stride, uint32_t rows, float *y, size_t y_stride);
void matmul_f16_avx2(const uint16_t *panels, size_t panel_stride, uint32_t panel_count, uint32_t k,
                     const float *x, size_t x_stride, uint32_t rows, float *y, size_t y_stride);
void matmul_bf16_avx2(const uint16_t *panels, size_t panel_stride, uint32_t panel_count, uint32_t k,
                      const float *x, size_t x_stride, uint32_t rows, float *y, size_t y_stride);

// kernels_avx2_attention.c
void attention_scores_avx2(const float *q, size_t q_stride, uint32_t queries, const float *k_block,
                           uint32_t head_dim, float scale, float *scores, size_t score_stride);
void attention_values_avx2(const float *weights, size_t weight_stride, uint32_t queries,
                           const float *v_block, uint32_t head_dim, uint32_t n, float *out,
                           size_t out_stride);

// kernels_avx2_widen.c
void widen_f16_avx2(const uint16_t *x, size_t n, float *y);
void widen_q8_0_avx2(const uint16_t *scales, const int8_t *quants, uint32_t n, float *y);
void widen_q8_0_keys_avx2(const uint16_t *scales, const int8_t *quants, uint32_t head_dim,
                          float *y);
