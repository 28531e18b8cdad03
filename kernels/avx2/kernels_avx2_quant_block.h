// kernels_avx2_quant_block - a block of each type as vectors, from where a panel keeps its bits or a plain block its
// numbers.
//
//     word_of(type, panel, b, word, half)            weights 4 word .. 4 word + 3 of eight outputs: small unsigned numbers,
//                                                    or signed bytes where the type's shape says so
//     scales_of(type, panel, b, group, half)         of one of a block's groups (0 where a type has one)
//     negated_minima_of(type, panel, b, group, half) likewise, of the types that have them
//
// `panel` is where a panel begins, `b` counts its blocks, `half` the halves of its outputs; with PLAIN for a type
// `panel` is an array of plain blocks. `type`, `word` and `group` are constants wherever these are inlined.
// Shifts are of 16 bits; masks then drop what came over from the neighbour.
#pragma once

#include <immintrin.h>

#include "kernels/avx2/kernels_avx2_quant.h"

#define PLAIN OR_QUANT_TYPES

typedef uint8_t word_t[OR_PANEL][4];

// ---- integers ----

ALWAYS_INLINE __m256i load(const word_t word, uint32_t half)
{
    return _mm256_loadu_si256((const __m256i *)word[half * WIDTH]);
}

// Bits `from` and on of each byte, moved to `to`; the mask says how many.
ALWAYS_INLINE __m256i pick(__m256i bytes, uint32_t from, uint32_t to, int mask)
{
    __m256i moved = from >= to ? _mm256_srli_epi16(bytes, (int)(from - to))
                               : _mm256_slli_epi16(bytes, (int)(to - from));
    return _mm256_and_si256(moved, _mm256_set1_epi8((char)(mask << to)));
}

ALWAYS_INLINE __m256i nibbles_of(const word_t nibbles[4], uint32_t word, uint32_t half)
{
    return pick(load(nibbles[word % 4], half), word / 4 * 4, 0, 15);
}

ALWAYS_INLINE __m256i pairs_of(const word_t pairs[2], uint32_t word, uint32_t half, uint32_t to)
{
    return pick(load(pairs[word / 4], half), word % 4 * 2, to, 3);
}

ALWAYS_INLINE __m256i bit_of(const word_t bits, uint32_t word, uint32_t half, uint32_t to)
{
    return pick(load(bits, half), word, to, 1);
}

// Nibbles and a fifth bit above them.
ALWAYS_INLINE __m256i fives_of(const word_t nibbles[4], const word_t bits, uint32_t word,
                               uint32_t half)
{
    return _mm256_or_si256(nibbles_of(nibbles, word, half), bit_of(bits, word, half, 4));
}

ALWAYS_INLINE __m256i iq4_nibbles(__m256i nibbles)
{
    __m128i values = _mm_loadu_si128((const __m128i *)or_iq4_values);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), nibbles);
}

// Look up the values + `excess`, which are not negative.
ALWAYS_INLINE __m256i look_up(const int8_t values[16], int excess, __m256i stored)
{
    __m128i signed_values = _mm_loadu_si128((const __m128i *)values);
    __m128i all = _mm_add_epi8(signed_values, _mm_set1_epi8((char)excess));
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(all), stored);
}

// Pairs of bits and a third one above them.
ALWAYS_INLINE __m256i threes_of(const or_panel_q3_k_t *w, size_t at, uint32_t word, uint32_t half)
{
    __m256i third = bit_of(w->bits[at], word, half, 2);
    return _mm256_or_si256(pairs_of(w->pairs[at], word, half, 0), third);
}

// ---- scales ----

ALWAYS_INLINE __m256 widen(const uint16_t *halves, uint32_t half)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(halves + half * WIDTH)));
}

ALWAYS_INLINE __m256i widen_bytes(const uint8_t *bytes, uint32_t half)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(bytes + half * WIDTH)));
}

ALWAYS_INLINE __m256i widen_signed(const int8_t *bytes, uint32_t half)
{
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(bytes + half * WIDTH)));
}

ALWAYS_INLINE __m256 widen_bfloats(const uint16_t *bfloats, uint32_t half)
{
    __m128i eight = _mm_loadu_si128((const __m128i *)(bfloats + half * WIDTH));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(eight), 16));
}

// Half times integer.
ALWAYS_INLINE __m256 scale(__m256 halves, __m256i integers)
{
    return _mm256_mul_ps(halves, _mm256_cvtepi32_ps(integers));
}

ALWAYS_INLINE __m256 negate(__m256 x)
{
    return _mm256_xor_ps(x, _mm256_set1_ps(-0.0f));
}

// ---- blocks ----

// Block `b` of a panel whose blocks stand alone, and super-block b / 8 of one whose blocks do not.
#define BLOCK(type_t) ((const type_t *)panel + b)
#define SUPER_BLOCK(type_t) ((const type_t *)panel + b / OR_SUPER_BLOCK)

ALWAYS_INLINE __m256i word_of(or_quant_t type, const void *panel, size_t b, uint32_t word,
                              uint32_t half)
{
    const size_t at = b % OR_SUPER_BLOCK;
    switch (type) {
    case OR_QUANT_Q8_0: // taking 128 off turns the highest bit
        return _mm256_xor_si256(load(BLOCK(or_panel_q8_0_t)->bytes[word], half),
                                _mm256_set1_epi8((char)0x80));
    case OR_QUANT_Q4_0:
        return nibbles_of(BLOCK(or_panel_q4_0_t)->nibbles, word, half);
    case OR_QUANT_IQ4_NL:
        return iq4_nibbles(nibbles_of(BLOCK(or_panel_q4_0_t)->nibbles, word, half));
    case OR_QUANT_Q5_0: {
        const or_panel_q5_0_t *w = BLOCK(or_panel_q5_0_t);
        return fives_of(w->nibbles, w->bits, word, half);
    }
    case OR_QUANT_Q4_1:
        return nibbles_of(BLOCK(or_panel_q4_1_t)->nibbles, word, half);
    case OR_QUANT_Q5_1: {
        const or_panel_q5_1_t *w = BLOCK(or_panel_q5_1_t);
        return fives_of(w->nibbles, w->bits, word, half);
    }
    case OR_QUANT_Q4_K:
        return nibbles_of(SUPER_BLOCK(or_panel_q4_k_t)->nibbles[at], word, half);
    case OR_QUANT_Q5_K: {
        const or_panel_q5_k_t *w = SUPER_BLOCK(or_panel_q5_k_t);
        return fives_of(w->nibbles[at], w->bits[at], word, half);
    }
    case OR_QUANT_Q2_K:
        return pairs_of(SUPER_BLOCK(or_panel_q2_k_t)->pairs[at], word, half, 0);
    case OR_QUANT_Q3_K:
        return threes_of(SUPER_BLOCK(or_panel_q3_k_t), at, word, half);
    case OR_QUANT_Q6_K: {
        const or_panel_q6_k_t *w = SUPER_BLOCK(or_panel_q6_k_t);
        __m256i high = pairs_of(w->pairs[at], word, half, 4);
        return _mm256_or_si256(nibbles_of(w->nibbles[at], word, half), high);
    }
    case OR_QUANT_IQ4_XS: {
        const or_panel_iq4_xs_t *w = SUPER_BLOCK(or_panel_iq4_xs_t);
        return iq4_nibbles(nibbles_of(w->nibbles[at], word, half));
    }
    case OR_QUANT_MXFP4: {
        const or_panel_q4_0_t *w = BLOCK(or_panel_q4_0_t);
        return look_up(or_mxfp4_values, 16, nibbles_of(w->nibbles, word, half));
    }
    case OR_QUANT_IQ3_S: {
        const or_panel_iq4_xs_t *w = SUPER_BLOCK(or_panel_iq4_xs_t);
        return look_up(or_iq3_s_values, 16, nibbles_of(w->nibbles[at], word, half));
    }
    case OR_QUANT_IQ3_XXS: {
        const or_panel_iq4_xs_t *w = SUPER_BLOCK(or_panel_iq4_xs_t);
        return look_up(or_iq3_xxs_values, 32, nibbles_of(w->nibbles[at], word, half));
    }
    case OR_QUANT_IQ2_S:
    case OR_QUANT_IQ2_XS:
    case OR_QUANT_IQ2_XXS: {
        const or_panel_q3_k_t *w = SUPER_BLOCK(or_panel_q3_k_t);
        return look_up(or_iq2_values, 64, threes_of(w, at, word, half));
    }
    default: // PLAIN
        return load(BLOCK(plain_block_t)->words[word], half);
    }
}

ALWAYS_INLINE __m256 scales_of(or_quant_t type, const void *panel, size_t b, uint32_t group,
                               uint32_t half)
{
    const size_t at = b % OR_SUPER_BLOCK;
    switch (type) {
    case OR_QUANT_Q8_0:
        return widen(BLOCK(or_panel_q8_0_t)->scales, half);
    case OR_QUANT_Q4_0:
    case OR_QUANT_IQ4_NL:
        return widen(BLOCK(or_panel_q4_0_t)->scales, half);
    case OR_QUANT_Q5_0:
        return widen(BLOCK(or_panel_q5_0_t)->scales, half);
    case OR_QUANT_Q4_1:
        return widen(BLOCK(or_panel_q4_1_t)->scales, half);
    case OR_QUANT_Q5_1:
        return widen(BLOCK(or_panel_q5_1_t)->scales, half);
    case OR_QUANT_Q4_K: {
        const or_panel_q4_k_t *w = SUPER_BLOCK(or_panel_q4_k_t);
        return scale(widen(w->scales, half), widen_bytes(w->block_scales[at], half));
    }
    case OR_QUANT_Q5_K: {
        const or_panel_q5_k_t *w = SUPER_BLOCK(or_panel_q5_k_t);
        return scale(widen(w->scales, half), widen_bytes(w->block_scales[at], half));
    }
    case OR_QUANT_Q2_K: {
        const or_panel_q2_k_t *w = SUPER_BLOCK(or_panel_q2_k_t);
        __m256i both = widen_bytes(w->groups[2 * at + group], half);
        return scale(widen(w->scales, half), _mm256_and_si256(both, _mm256_set1_epi32(15)));
    }
    case OR_QUANT_Q3_K: {
        const or_panel_q3_k_t *w = SUPER_BLOCK(or_panel_q3_k_t);
        return scale(widen(w->scales, half), widen_signed(w->groups[2 * at + group], half));
    }
    case OR_QUANT_Q6_K: {
        const or_panel_q6_k_t *w = SUPER_BLOCK(or_panel_q6_k_t);
        return scale(widen(w->scales, half), widen_signed(w->groups[2 * at + group], half));
    }
    case OR_QUANT_IQ4_XS:
    case OR_QUANT_IQ3_S:
    case OR_QUANT_IQ3_XXS: {
        const or_panel_iq4_xs_t *w = SUPER_BLOCK(or_panel_iq4_xs_t);
        __m256 whole = scale(widen(w->scales, half), widen_signed(w->block_scales[at], half));
        return type == OR_QUANT_IQ3_XXS ? _mm256_mul_ps(whole, _mm256_set1_ps(OR_IQ3_XXS_PART))
                                        : whole;
    }
    case OR_QUANT_MXFP4:
        return widen_bfloats(BLOCK(or_panel_q4_0_t)->scales, half);
    case OR_QUANT_IQ2_S:
    case OR_QUANT_IQ2_XS:
    case OR_QUANT_IQ2_XXS: {
        const or_panel_q3_k_t *w = SUPER_BLOCK(or_panel_q3_k_t);
        __m256i eighths = widen_signed(w->groups[2 * at + group], half);
        return _mm256_mul_ps(scale(widen(w->scales, half), eighths), _mm256_set1_ps(OR_IQ2_PART));
    }
    default: // PLAIN
        return _mm256_load_ps(BLOCK(plain_block_t)->scales[group] + half * WIDTH);
    }
}

ALWAYS_INLINE __m256 negated_minima_of(or_quant_t type, const void *panel, size_t b, uint32_t group,
                                       uint32_t half)
{
    const size_t at = b % OR_SUPER_BLOCK;
    switch (type) {
    case OR_QUANT_Q4_1:
        return widen(BLOCK(or_panel_q4_1_t)->minima, half);
    case OR_QUANT_Q5_1:
        return widen(BLOCK(or_panel_q5_1_t)->minima, half);
    case OR_QUANT_Q4_K: {
        const or_panel_q4_k_t *w = SUPER_BLOCK(or_panel_q4_k_t);
        return negate(scale(widen(w->minima, half), widen_bytes(w->block_minima[at], half)));
    }
    case OR_QUANT_Q5_K: {
        const or_panel_q5_k_t *w = SUPER_BLOCK(or_panel_q5_k_t);
        return negate(scale(widen(w->minima, half), widen_bytes(w->block_minima[at], half)));
    }
    case OR_QUANT_Q2_K: {
        const or_panel_q2_k_t *w = SUPER_BLOCK(or_panel_q2_k_t);
        __m256i both = widen_bytes(w->groups[2 * at + group], half);
        return negate(scale(widen(w->minima, half), _mm256_srli_epi32(both, 4)));
    }
    default: // PLAIN, the only one left that has minima
        return _mm256_load_ps(BLOCK(plain_block_t)->negated_minima[group] + half * WIDTH);
    }
}

#undef BLOCK
#undef SUPER_BLOCK
