// Attention of several queries with one block of keys or values: both are products, whose columns
// are positions in the one and dimensions in the other.
#include "kernels/avx512/kernels_avx512_tile.h"

void attention_scores_avx512(const float *q, size_t q_stride, uint32_t queries,
                             const float *k_block, uint32_t head_dim, float scale, float *scores,
                             size_t score_stride)
{
    const product_t product = {.w = k_block,
                               .type = WEIGHTS_NEAR,
                               .step = OR_KV_BLOCK,
                               .apart = WIDTH,
                               .k = head_dim,
                               .x = q,
                               .x_stride = q_stride,
                               .y = scores,
                               .y_stride = score_stride};
    multiply_avx512(&product, queries, OR_KV_BLOCK / WIDTH);
    __m512 factor = _mm512_set1_ps(scale);
    for (uint32_t i = 0; i < queries; i++, scores += score_stride) {
        _mm512_storeu_ps(scores, _mm512_mul_ps(factor, _mm512_loadu_ps(scores)));
        _mm512_storeu_ps(scores + WIDTH, _mm512_mul_ps(factor, _mm512_loadu_ps(scores + WIDTH)));
    }
}

// The last dimensions, fewer than a vector, one query after the other.
static void add_last_values(const product_t *product, uint32_t queries, uint32_t first,
                            uint32_t head_dim)
{
    __mmask16 mask = first_lanes(head_dim - first);
    for (uint32_t i = 0; i < queries; i++) {
        float *y = product->y + i * product->y_stride + first;
        __m512 sum = _mm512_maskz_loadu_ps(mask, y);
        for (uint32_t p = 0; p < product->k; p++) {
            __m512 weight = _mm512_set1_ps(product->x[i * product->x_stride + p]);
            const float *values = (const float *)product->w + p * product->step + first;
            sum = _mm512_fmadd_ps(weight, _mm512_maskz_loadu_ps(mask, values), sum);
        }
        _mm512_mask_storeu_ps(y, mask, sum);
    }
}

void attention_values_avx512(const float *weights, size_t weight_stride, uint32_t queries,
                             const float *v_block, uint32_t head_dim, uint32_t n, float *out,
                             size_t out_stride)
{
    const product_t product = {.w = v_block,
                               .type = WEIGHTS_NEAR,
                               .step = head_dim,
                               .apart = WIDTH,
                               .k = n,
                               .x = weights,
                               .x_stride = weight_stride,
                               .y = out,
                               .y_stride = out_stride,
                               .continues = true};
    uint32_t whole = head_dim - head_dim % WIDTH;
    multiply_avx512(&product, queries, whole / WIDTH);
    if (whole < head_dim) {
        add_last_values(&product, queries, whole, head_dim);
    }
}
