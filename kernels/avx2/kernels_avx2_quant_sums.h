// kernels_avx2_quant_sums - the sums of a group and the steps of a chain with them, for a few rows at once.
//
// Integer sums are exact in any order, so only the steps, in float, have to follow kernels/ref. The weights come from
// plain blocks or from a panel, whichever `type` says (kernels_avx2_quant_block.h).
#pragma once

#include "kernels/avx2/kernels_avx2_quant_block.h"

ALWAYS_INLINE __m256i broadcast_word(const or_q8_block_t *x, uint32_t word)
{
    int32_t four;
    __builtin_memcpy(&four, x->quants + (size_t)4 * word, sizeof four);
    return _mm256_set1_epi32(four);
}

// Return x, and keep the compiler from moving its computation. Without this GCC computes the products of all words
// first, and adds them when it has run out of registers.
ALWAYS_INLINE __m256i now(__m256i x)
{
    __asm__("" : "+x"(x));
    return x;
}

// The products of four weights and activations, added up in pairs: of signed bytes, those without their signs (128 where
// that is -128) with activations that take them over. Two products of 128 and 127 still fit.
ALWAYS_INLINE __m256i multiply_words(shape_t s, __m256i word, __m256i four)
{
    return s.has_signs ? _mm256_maddubs_epi16(_mm256_abs_epi8(word), _mm256_sign_epi8(four, word))
                       : _mm256_maddubs_epi16(word, four);
}

// The products of `span` words, from `word` on, of block b with x in each row, added up in pairs: 16-bit sums that
// still fit.
ALWAYS_INLINE void sum_pairs(or_quant_t type, shape_t s, const void *w, size_t b, uint32_t word,
                             const or_q8_block_t *x, size_t x_stride, uint32_t rows,
                             __m256i sums[TILE_ROWS][VECTORS])
{
#pragma GCC unroll 8
    for (uint32_t i = word; i < word + s.span; i++) {
        __m256i words[VECTORS] = {word_of(type, w, b, i, 0), word_of(type, w, b, i, 1)};
#pragma GCC unroll 4
        for (uint32_t r = 0; r < rows; r++) {
            __m256i four = broadcast_word(x + r * x_stride, i);
#pragma GCC unroll 2
            for (uint32_t v = 0; v < VECTORS; v++) {
                __m256i products = multiply_words(s, words[v], four);
                sums[r][v] = i == word ? products : now(_mm256_add_epi16(sums[r][v], products));
            }
        }
    }
}

// Sum the products of a group with the stored integers.
ALWAYS_INLINE void sum_group(or_quant_t type, shape_t s, const void *w, size_t b, uint32_t group,
                             const or_q8_block_t *x, size_t x_stride, uint32_t rows,
                             __m256i sums[TILE_ROWS][VECTORS])
{
    const __m256i ones = _mm256_set1_epi16(1);
    uint32_t words = WORDS / s.groups;
#pragma GCC unroll 8
    for (uint32_t word = 0; word < words; word += s.span) {
        __m256i pairs[TILE_ROWS][VECTORS];
        sum_pairs(type, s, w, b, group * words + word, x, x_stride, rows, pairs);
#pragma GCC unroll 4
        for (uint32_t r = 0; r < rows; r++) {
#pragma GCC unroll 2
            for (uint32_t v = 0; v < VECTORS; v++) {
                __m256i sum = _mm256_madd_epi16(pairs[r][v], ones);
                sums[r][v] = word == 0 ? sum : now(_mm256_add_epi32(sums[r][v], sum));
            }
        }
    }
}

// The steps of a chain that a group makes, in one row.
ALWAYS_INLINE void step(or_quant_t type, shape_t s, const void *w, size_t b, uint32_t group,
                        const or_q8_block_t *x, const __m256i sums[VECTORS], __m256 chains[VECTORS])
{
    bool whole = s.groups == 1;
    __m256 x_scale = _mm256_broadcast_ss(&x->scale);
    __m256 scaled = _mm256_broadcast_ss(whole ? &x->scaled_sum : &x->scaled_half_sums[group]);
    __m256i bias = _mm256_set1_epi32(whole ? x->bias : x->half_biases[group]);
#pragma GCC unroll 2
    for (uint32_t v = 0; v < VECTORS; v++) {
        __m256i sum = sums[v];
        if (s.bias != NO_BIAS) {
            sum = _mm256_add_epi32(sum, _mm256_srai_epi32(bias, (int)s.bias));
        }
        __m256 scales = _mm256_mul_ps(scales_of(type, w, b, group, v), x_scale);
        chains[v] = _mm256_fmadd_ps(scales, _mm256_cvtepi32_ps(sum), chains[v]);
        if (s.minima) {
            __m256 negated = negated_minima_of(type, w, b, group, v);
            chains[v] = _mm256_fmadd_ps(negated, scaled, chains[v]);
        }
    }
}
