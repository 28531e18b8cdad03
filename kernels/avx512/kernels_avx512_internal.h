// kernels_avx512_internal - what the files of the two AVX-512 tables share.
#pragma once

#include <immintrin.h>

#include "kernels/kernels.h"

#define WIDTH 16u // floats in a vector: the outputs of a panel, the lanes of a lane sum
#define ALWAYS_INLINE static inline __attribute__((always_inline))

// The lanes of a vector that holds what is left of an array.
ALWAYS_INLINE __mmask16 first_lanes(size_t left)
{
    return left < WIDTH ? (__mmask16)((1u << left) - 1) : 0xFFFF;
}

// kernels_avx512_quant*.c: the second multiplies with VNNI, the first without.
void quantize_row_avx512(const float *x, uint32_t blocks, or_q8_block_t *out);
void matmul_quants_avx512(const or_quant_panels_t *w, const or_q8_block_t *x, size_t x_stride,
                          uint32_t rows, float *y, size_t y_stride);
void matmul_quants_avx512vnni(const or_quant_panels_t *w, const or_q8_block_t *x, size_t x_stride,
                              uint32_t rows, float *y, size_t y_stride);

// kernels_avx512_matmul.c
void matmul_f32_avx512(const float *panels, size_t panel_stride, uint32_t panel_count, uint32_t k,
                       const float *x, size_t x_stride, uint32_t rows, float *y, size_t y_stride);
void matmul_f16_avx512(const uint16_t *panels, size_t panel_stride, uint32_t panel_count,
                       uint32_t k, const float *x, size_t x_stride, uint32_t rows, float *y,
                       size_t y_stride);
void matmul_bf16_avx512(const uint16_t *panels, size_t panel_stride, uint32_t panel_count,
                        uint32_t k, const float *x, size_t x_stride, uint32_t rows, float *y,
                        size_t y_stride);

// kernels_avx512_attention.c
void attention_scores_avx512(const float *q, size_t q_stride, uint32_t queries,
                             const float *k_block, uint32_t head_dim, float scale, float *scores,
                             size_t score_stride);
void attention_values_avx512(const float *weights, size_t weight_stride, uint32_t queries,
                             const float *v_block, uint32_t head_dim, uint32_t n, float *out,
                             size_t out_stride);

// kernels_avx512_widen.c
void widen_f16_avx512(const uint16_t *x, size_t n, float *y);
void widen_q8_0_avx512(const uint16_t *scales, const int8_t *quants, uint32_t n, float *y);
void widen_q8_0_keys_avx512(const uint16_t *scales, const int8_t *quants, uint32_t head_dim,
                            float *y);
