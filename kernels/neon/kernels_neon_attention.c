// Attention for NEON: several queries against one block of K or V, which is read once for all of a tile.
#include "kernels/neon/kernels_neon_internal.h"

#include <math.h>

#include "kernels/neon/kernels_neon_tile.h"

void attention_scores_neon(const float *q, size_t q_stride, uint32_t queries, const float *k_block,
                           uint32_t head_dim, float scale, float *scores, size_t score_stride)
{
    const lines_t keys = {k_block, OR_KV_BLOCK, OR_PANEL, OR_KV_BLOCK / OR_PANEL, WEIGHTS_F32};
    const rows_t at = {q, q_stride, scores, score_stride, queries};
    multiply_lines(&keys, head_dim, &at, false);
    for (size_t i = 0; i < queries; i++) {
        float *row = scores + i * score_stride;
        for (uint32_t p = 0; p < OR_KV_BLOCK; p += WIDTH) {
            vst1q_f32(row + p, vmulq_n_f32(vld1q_f32(row + p), scale));
        }
    }
}

void attention_values_neon(const float *weights, size_t weight_stride, uint32_t queries,
                           const float *v_block, uint32_t head_dim, uint32_t n, float *out,
                           size_t out_stride)
{
    const lines_t values = {v_block, head_dim, OR_PANEL, head_dim / OR_PANEL, WEIGHTS_F32};
    const rows_t at = {weights, weight_stride, out, out_stride, queries};
    multiply_lines(&values, n, &at, true);
    for (size_t i = 0; i < queries; i++) {
        for (uint32_t d = head_dim - head_dim % OR_PANEL; d < head_dim; d++) {
            float *cell = &out[i * out_stride + d];
            for (uint32_t p = 0; p < n; p++) {
                *cell =
                    fmaf(weights[i * weight_stride + p], v_block[(size_t)p * head_dim + d], *cell);
            }
        }
    }
}
