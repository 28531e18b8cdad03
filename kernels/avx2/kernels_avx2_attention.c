// Attention of several queries with one block of keys or values: both are products, whose columns
// are positions in the one and dimensions in the other.
#include "kernels/avx2/kernels_avx2_tile.h"

void attention_scores_avx2(const float *q, size_t q_stride, uint32_t queries, const float *k_block,
                           uint32_t head_dim, float scale, float *scores, size_t score_stride)
{
    const product_t product = {.w = k_block,
                               .type = WEIGHTS_NEAR,
                               .step = OR_KV_BLOCK,
                               .apart = STRIP,
                               .k = head_dim,
                               .x = q,
                               .x_stride = q_stride,
                               .y = scores,
                               .y_stride = score_stride};
    multiply_avx2(&product, queries, OR_KV_BLOCK / STRIP);
    __m256 factor = _mm256_set1_ps(scale);
    for (uint32_t i = 0; i < queries; i++, scores += score_stride) {
        for (uint32_t p = 0; p < OR_KV_BLOCK; p += WIDTH) {
            _mm256_storeu_ps(scores + p, _mm256_mul_ps(factor, _mm256_loadu_ps(scores + p)));
        }
    }
}

// Up to eight dimensions of one query.
static void add_some_values(const product_t *product, uint32_t query, uint32_t first, uint32_t dims)
{
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)dims), lanes);
    const float *weights = product->x + query * product->x_stride;
    float *y = product->y + query * product->y_stride + first;
    __m256 sum = _mm256_maskload_ps(y, mask);
    for (uint32_t p = 0; p < product->k; p++) {
        const float *values = (const float *)product->w + p * product->step + first;
        __m256 weight = _mm256_broadcast_ss(weights + p);
        sum = _mm256_fmadd_ps(weight, _mm256_maskload_ps(values, mask), sum);
    }
    _mm256_maskstore_ps(y, mask, sum);
}

void attention_values_avx2(const float *weights, size_t weight_stride, uint32_t queries,
                           const float *v_block, uint32_t head_dim, uint32_t n, float *out,
                           size_t out_stride)
{
    const product_t product = {.w = v_block,
                               .type = WEIGHTS_NEAR,
                               .step = head_dim,
                               .apart = STRIP,
                               .k = n,
                               .x = weights,
                               .x_stride = weight_stride,
                               .y = out,
                               .y_stride = out_stride,
                               .continues = true};
    multiply_avx2(&product, queries, head_dim / STRIP);
    for (uint32_t d = head_dim - head_dim % STRIP; d < head_dim; d += WIDTH) {
        for (uint32_t i = 0; i < queries; i++) {
            add_some_values(&product, i, d, head_dim - d < WIDTH ? head_dim - d : WIDTH);
        }
    }
}
