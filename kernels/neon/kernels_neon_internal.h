// kernels_neon_internal - what the files of the NEON tables share.
//
// Every AArch64 processor has what "neon" needs. "neon_dot" differs in one kernel, compiled for the
// dot products of four bytes that ARMv8.2 added.
#pragma once

#include "kernels/kernels.h"

#define WIDTH 4u // floats in a vector
#define ALWAYS_INLINE static inline __attribute__((always_inline))

// kernels_neon_quant.c, kernels_neon_quant_dot.c
void quantize_row_neon(const float *x, uint32_t blocks, or_q8_block_t *out);
void matmul_quants_neon(const or_quant_panels_t *w, const or_q8_block_t *x, size_t x_stride,
                        uint32_t rows, float *y, size_t y_stride);
void matmul_quants_neon_dot(const or_quant_panels_t *w, const or_q8_block_t *x, size_t x_stride,
                            uint32_t rows, float *y, size_t y_stride);

// kernels_neon_attention.c
void attention_scores_neon(const float *q, size_t q_stride, uint32_t queries, const float *k_block,
                           uint32_t head_dim, float scale, float *scores, size_t score_stride);
void attention_values_neon(const float *weights, size_t weight_stride, uint32_t queries,
                           const float *v_block, uint32_t head_dim, uint32_t n, float *out,
                           size_t out_stride);

// kernels_neon_widen.c
void widen_f16_neon(const uint16_t *x, size_t n, float *y);
void widen_q8_0_neon(const uint16_t *scales, const int8_t *quants, uint32_t n, float *y);
void widen_q8_0_keys_neon(const uint16_t *scales, const int8_t *quants, uint32_t head_dim,
                          float *y);

// ceilings_neon_dot.c: or_ceilings_t's `dot`.
void dot_products_neon(uint32_t rounds, int32_t *sum);
