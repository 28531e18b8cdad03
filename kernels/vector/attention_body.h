// attention_body - attention's products, for tables that compute in vectors; a part of vector_body.h, which includes it.
// Private to kernels.
//
// Several queries against one block of keys or values: both are products, whose columns are positions in the one and
// dimensions in the other. Halves are widened, and bytes scaled, on the way into registers. While a block is read, the next
// one is on its way to the cache: blocks lie anywhere, so that no processor foresees where.
#pragma once

#include "kernels/vector/product.h"

#ifdef WIDTH // without vectors this header is empty

// The product of `strips` strips with what a block holds: weights of type `quants` where it is bytes.
ALWAYS_INLINE product_t product_of_block(const or_kv_block_t *block, weights_t quants,
                                         uint32_t strips)
{
    const weights_t types[] = {
        [OR_KV_F32] = WEIGHTS_F32, [OR_KV_F16] = WEIGHTS_F16, [OR_KV_Q8_0] = quants};
    const size_t next_bytes = strips > 0 ? block->next_bytes / strips : 0;
    return (product_t){.w = block->numbers,
                       .type = types[block->type],
                       .apart = STRIP,
                       .scales = block->scales,
                       .next = block->next,
                       .next_bytes = next_bytes,
                       .next_apart = next_bytes};
}

static void attention_scores(const float *q, size_t q_stride, uint32_t queries,
                             const or_kv_block_t *keys, uint32_t head_dim, float scale,
                             float *scores, size_t score_stride)
{
    product_t product = product_of_block(keys, WEIGHTS_Q8_KEYS, OR_KV_BLOCK / STRIP);
    product.step = OR_KV_BLOCK;
    product.scale_step = OR_KV_BLOCK;
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

// `left` numbers of V, from `at` on, that do not fill a vector.
static vector_t get_few_values(const product_t *product, size_t at, size_t left)
{
    float lanes[WIDTH] = {0};
    for (size_t i = 0; i < left; i++) {
        lanes[i] = product->type == WEIGHTS_F16
                       ? canonical_widen(((const uint16_t *)product->w)[at + i])
                       : (float)((const int8_t *)product->w)[at + i];
    }
    return load(lanes);
}

// Dimensions `first` and on of position p, of which only `left` may be there. They share a scale, if they have one.
static vector_t get_last_values(const product_t *product, size_t p, uint32_t first, uint32_t left)
{
    const weights_t type = product->type;
    const size_t at = p * product->step + first;
    if (type == WEIGHTS_F32) {
        return get((const float *)product->w + at, left);
    }
    const vector_t values =
        left < WIDTH ? get_few_values(product, at, left)
                     : load_unscaled(type, (const char *)product->w + at * bytes_of_weight(type));
    if (type == WEIGHTS_F16) {
        return values;
    }
    return spread(product->scales[p * product->scale_step + first / OR_QUANT_BLOCK]) * values;
}

// Dimensions `first` and on of one query, at most a vector of them.
static void add_last_values(const product_t *product, uint32_t query, uint32_t first, uint32_t left)
{
    const float *weights = product->x + query * product->x_stride;
    float *y = product->y + query * product->y_stride + first;
    vector_t sum = get(y, left);
    for (uint32_t p = 0; p < product->k; p++) {
        sum = fma_lanes(spread(weights[p]), get_last_values(product, p, first, left), sum);
    }
    put(y, left, sum);
}

static void attention_values(const float *weights, size_t weight_stride, uint32_t queries,
                             const or_kv_block_t *values, uint32_t head_dim, uint32_t n, float *out,
                             size_t out_stride)
{
    product_t product = product_of_block(values, WEIGHTS_Q8_VALUES, head_dim / STRIP);
    product.step = head_dim;
    product.scale_step = or_kv_scales(head_dim);
    product.k = n;
    product.x = weights;
    product.x_stride = weight_stride;
    product.y = out;
    product.y_stride = out_stride;
    product.continues = true;
    multiply_product(&product, queries, head_dim / STRIP);
    for (uint32_t d = head_dim - head_dim % STRIP; d < head_dim; d += WIDTH) {
        for (uint32_t i = 0; i < queries; i++) {
            add_last_values(&product, i, d, head_dim - d);
        }
    }
}

#endif
