// attention_body - attention's products, for tables that compute in vectors; a part of vector_body.h, which includes it.
// Private to kernels.
//
// Several queries against one block of keys or values: both are products, whose columns are positions in the one and
// dimensions in the other. Halves are widened on the way into registers. While a block is read, the next one is on its
// way to the cache: blocks lie anywhere, so that no processor foresees where.
#pragma once

#include "kernels/vector/product.h"

#ifdef WIDTH // without vectors this header is empty

// The product of `strips` strips with what a block holds.
ALWAYS_INLINE product_t product_of_block(const or_kv_block_t *block, uint32_t strips)
{
    const size_t next_bytes = strips > 0 ? block->next_bytes / strips : 0;
    return (product_t){.w = block->numbers,
                       .type = block->halves ? WEIGHTS_F16 : WEIGHTS_F32,
                       .apart = STRIP,
                       .next = block->next,
                       .next_bytes = next_bytes,
                       .next_apart = next_bytes};
}

static void attention_scores(const float *q, size_t q_stride, uint32_t queries,
                             const or_kv_block_t *keys, uint32_t head_dim, float scale,
                             float *scores, size_t score_stride)
{
    product_t product = product_of_block(keys, OR_KV_BLOCK / STRIP);
    product.step = OR_KV_BLOCK;
    product.k = head_dim;
    product.x = q;
    product.x_stride = q_stride;
    product.y = scores;
    product.y_stride = score_stride;
    multiply_product(&product, queries, OR_KV_BLOCK / STRIP);
    for (uint32_t i = 0; i < queries; i++, scores += score_stride) {
#pragma GCC unroll 8
        for (uint32_t p = 0; p < OR_KV_BLOCK; p += WIDTH) {
            store(scores + p, spread(scale) * load(scores + p));
        }
    }
}

// Numbers `at` and on of a block, of which only `left` may be there.
ALWAYS_INLINE vector_t get_of_block(const or_kv_block_t *block, size_t at, size_t left)
{
    if (!block->halves) {
        return get((const float *)block->numbers + at, left);
    }
    const uint16_t *halves = (const uint16_t *)block->numbers + at;
    if (left >= WIDTH) {
        return load_halves(halves);
    }
    float lanes[WIDTH] = {0};
    for (size_t i = 0; i < left; i++) {
        lanes[i] = canonical_widen(halves[i]);
    }
    return load(lanes);
}

// Dimensions `first` and on of one query, at most a vector of them.
static void add_last_values(const product_t *product, const or_kv_block_t *values, uint32_t query,
                            uint32_t first, uint32_t left)
{
    const float *weights = product->x + query * product->x_stride;
    float *y = product->y + query * product->y_stride + first;
    vector_t sum = get(y, left);
    for (uint32_t p = 0; p < product->k; p++) {
        const vector_t v = get_of_block(values, p * product->step + first, left);
        sum = fma_lanes(spread(weights[p]), v, sum);
    }
    put(y, left, sum);
}

static void attention_values(const float *weights, size_t weight_stride, uint32_t queries,
                             const or_kv_block_t *values, uint32_t head_dim, uint32_t n, float *out,
                             size_t out_stride)
{
    product_t product = product_of_block(values, head_dim / STRIP);
    product.step = head_dim;
    product.k = n;
    product.x = weights;
    product.x_stride = weight_stride;
    product.y = out;
    product.y_stride = out_stride;
    product.continues = true;
    multiply_product(&product, queries, head_dim / STRIP);
    for (uint32_t d = head_dim - head_dim % STRIP; d < head_dim; d += WIDTH) {
        for (uint32_t i = 0; i < queries; i++) {
            add_last_values(&product, values, i, d, head_dim - d);
        }
    }
}

#endif
