// kernels_avx512_quant_block - a block of each type as vectors, from where a panel keeps its bits.
//
//     bytes_of_group(type, panel, b, g)   weights 4 g .. 4 g + 3 of 16 outputs: as quant_format_t's `minima` says,
//                                         the integers themselves or integer + 128
//     scales_of(type, panel, b, h)        of half h, or of the whole block where a type has no halves (h is 0)
//     minima_of(type, panel, b, h)        likewise, of the types that have them: what is subtracted
//
// `panel` is where a panel begins, `b` counts its blocks. `type` and `g` are constants wherever these are inlined.
// Shifts are of 16 bits; masks then drop what came over from the neighbour.
#pragma once

#include <immintrin.h>

#include "kernels/avx512/kernels_avx512_quant.h"

// ---- parts of a panel ----

ALWAYS_INLINE __m512i load_line(const uint8_t line[OR_PANEL][4])
{
    return _mm512_loadu_si512(line);
}

ALWAYS_INLINE __m512i nibbles_of(const uint8_t nibbles[4][OR_PANEL][4], uint32_t g)
{
    __m512i line = load_line(nibbles[g % 4]);
    return _mm512_and_si512(g < 4 ? line : _mm512_srli_epi16(line, 4), _mm512_set1_epi8(15));
}

// Pairs of bits, moved up to bits `to` and to + 1.
ALWAYS_INLINE __m512i pairs_of(const uint8_t pairs[2][OR_PANEL][4], uint32_t g, uint32_t to)
{
    __m512i line = load_line(pairs[g / 4]);
    uint32_t from = 2 * (g % 4);
    line = from < to ? _mm512_slli_epi16(line, to - from) : _mm512_srli_epi16(line, from - to);
    return _mm512_and_si512(line, _mm512_set1_epi8((char)(3u << to)));
}

// Single bits, moved to bit `to`.
ALWAYS_INLINE __m512i bits_of_line(const uint8_t bits[OR_PANEL][4], uint32_t g, uint32_t to)
{
    __m512i line = load_line(bits);
    line = g < to ? _mm512_slli_epi16(line, to - g) : _mm512_srli_epi16(line, g - to);
    return _mm512_and_si512(line, _mm512_set1_epi8((char)(1u << to)));
}

// Nibbles and a fifth bit above them.
ALWAYS_INLINE __m512i five_bits_of(const uint8_t nibbles[4][OR_PANEL][4],
                                   const uint8_t bits[OR_PANEL][4], uint32_t g)
{
    return _mm512_or_si512(nibbles_of(nibbles, g), bits_of_line(bits, g, 4));
}

// integer + 128, of what stands for integer + `excess`.
ALWAYS_INLINE __m512i with_excess_128(__m512i stored, int excess)
{
    return _mm512_add_epi8(stored, _mm512_set1_epi8((char)(128 - excess)));
}

ALWAYS_INLINE __m128i load_bytes(const void *bytes)
{
    return _mm_loadu_si128(bytes);
}

// A stored integer stands for an entry of a table: return that + 128.
ALWAYS_INLINE __m512i look_up(const int8_t values[16], __m512i stored)
{
    __m128i bytes = _mm_xor_si128(load_bytes(values), _mm_set1_epi8(-128));
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(bytes), stored);
}

// Pairs of bits and a third one above them.
ALWAYS_INLINE __m512i three_bits_of(const or_panel_q3_k_t *w, uint32_t at, uint32_t g)
{
    return _mm512_or_si512(pairs_of(w->pairs[at], g, 0), bits_of_line(w->bits[at], g, 2));
}

ALWAYS_INLINE __m512 widen(const uint16_t halves[OR_PANEL])
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)halves));
}

ALWAYS_INLINE __m512 widen_bfloats(const uint16_t bfloats[OR_PANEL])
{
    __m512i all = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)bfloats));
    return _mm512_castsi512_ps(_mm512_slli_epi32(all, 16));
}

ALWAYS_INLINE __m512 times_unsigned(const uint16_t halves[OR_PANEL], __m128i bytes)
{
    return _mm512_mul_ps(widen(halves), _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes)));
}

ALWAYS_INLINE __m512 times_signed(const uint16_t halves[OR_PANEL], __m128i bytes)
{
    return _mm512_mul_ps(widen(halves), _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)));
}

ALWAYS_INLINE __m512 negative(__m512 x)
{
    return _mm512_xor_ps(x, _mm512_set1_ps(-0.0f));
}

// ---- blocks ----

// Block `b` of a panel whose blocks stand alone, and super-block b / 8 of one whose blocks do not.
#define BLOCK(type_t) ((const type_t *)panel + b)
#define SUPER_BLOCK(type_t) ((const type_t *)panel + b / OR_SUPER_BLOCK)

ALWAYS_INLINE __m512i bytes_of_group(or_quant_t type, const void *panel, uint32_t b, uint32_t g)
{
    const uint32_t at = b % OR_SUPER_BLOCK;
    switch (type) {
    case OR_QUANT_Q8_0:
        return load_line(BLOCK(or_panel_q8_0_t)->bytes[g]);
    case OR_QUANT_Q4_0:
        return with_excess_128(nibbles_of(BLOCK(or_panel_q4_0_t)->nibbles, g), 8);
    case OR_QUANT_IQ4_NL:
        return look_up(or_iq4_values, nibbles_of(BLOCK(or_panel_q4_0_t)->nibbles, g));
    case OR_QUANT_Q5_0: {
        const or_panel_q5_0_t *w = BLOCK(or_panel_q5_0_t);
        return with_excess_128(five_bits_of(w->nibbles, w->bits, g), 16);
    }
    case OR_QUANT_Q4_1:
        return nibbles_of(BLOCK(or_panel_q4_1_t)->nibbles, g);
    case OR_QUANT_Q5_1: {
        const or_panel_q5_1_t *w = BLOCK(or_panel_q5_1_t);
        return five_bits_of(w->nibbles, w->bits, g);
    }
    case OR_QUANT_Q4_K:
        return nibbles_of(SUPER_BLOCK(or_panel_q4_k_t)->nibbles[at], g);
    case OR_QUANT_Q5_K: {
        const or_panel_q5_k_t *w = SUPER_BLOCK(or_panel_q5_k_t);
        return five_bits_of(w->nibbles[at], w->bits[at], g);
    }
    case OR_QUANT_Q2_K:
        return pairs_of(SUPER_BLOCK(or_panel_q2_k_t)->pairs[at], g, 0);
    case OR_QUANT_Q3_K: {
        const or_panel_q3_k_t *w = SUPER_BLOCK(or_panel_q3_k_t);
        return with_excess_128(three_bits_of(w, at, g), 4);
    }
    case OR_QUANT_IQ4_XS:
        return look_up(or_iq4_values, nibbles_of(SUPER_BLOCK(or_panel_iq4_xs_t)->nibbles[at], g));
    case OR_QUANT_MXFP4:
        return look_up(or_mxfp4_values, nibbles_of(BLOCK(or_panel_q4_0_t)->nibbles, g));
    case OR_QUANT_IQ3_S:
        return look_up(or_iq3_s_values, nibbles_of(SUPER_BLOCK(or_panel_iq4_xs_t)->nibbles[at], g));
    case OR_QUANT_IQ3_XXS:
        return look_up(or_iq3_xxs_values,
                       nibbles_of(SUPER_BLOCK(or_panel_iq4_xs_t)->nibbles[at], g));
    case OR_QUANT_IQ2_S:
    case OR_QUANT_IQ2_XS:
    case OR_QUANT_IQ2_XXS:
        return look_up(or_iq2_values, three_bits_of(SUPER_BLOCK(or_panel_q3_k_t), at, g));
    default: {
        const or_panel_q6_k_t *w = SUPER_BLOCK(or_panel_q6_k_t);
        __m512i low = nibbles_of(w->nibbles[at], g);
        return with_excess_128(_mm512_or_si512(low, pairs_of(w->pairs[at], g, 4)), 32);
    }
    }
}

ALWAYS_INLINE __m512 scales_of(or_quant_t type, const void *panel, uint32_t b, uint32_t h)
{
    const uint32_t at = b % OR_SUPER_BLOCK;
    switch (type) {
    case OR_QUANT_Q8_0:
        return widen(BLOCK(or_panel_q8_0_t)->scales);
    case OR_QUANT_Q4_0:
    case OR_QUANT_IQ4_NL:
        return widen(BLOCK(or_panel_q4_0_t)->scales);
    case OR_QUANT_Q5_0:
        return widen(BLOCK(or_panel_q5_0_t)->scales);
    case OR_QUANT_Q4_1:
        return widen(BLOCK(or_panel_q4_1_t)->scales);
    case OR_QUANT_Q5_1:
        return widen(BLOCK(or_panel_q5_1_t)->scales);
    case OR_QUANT_Q4_K: {
        const or_panel_q4_k_t *w = SUPER_BLOCK(or_panel_q4_k_t);
        return times_unsigned(w->scales, load_bytes(w->block_scales[at]));
    }
    case OR_QUANT_Q5_K: {
        const or_panel_q5_k_t *w = SUPER_BLOCK(or_panel_q5_k_t);
        return times_unsigned(w->scales, load_bytes(w->block_scales[at]));
    }
    case OR_QUANT_Q2_K: {
        const or_panel_q2_k_t *w = SUPER_BLOCK(or_panel_q2_k_t);
        __m128i both = load_bytes(w->groups[HALVES * at + h]);
        return times_unsigned(w->scales, _mm_and_si128(both, _mm_set1_epi8(15)));
    }
    case OR_QUANT_Q3_K: {
        const or_panel_q3_k_t *w = SUPER_BLOCK(or_panel_q3_k_t);
        return times_signed(w->scales, load_bytes(w->groups[HALVES * at + h]));
    }
    case OR_QUANT_IQ4_XS:
    case OR_QUANT_IQ3_S:
    case OR_QUANT_IQ3_XXS: {
        const or_panel_iq4_xs_t *w = SUPER_BLOCK(or_panel_iq4_xs_t);
        __m512 whole = times_signed(w->scales, load_bytes(w->block_scales[at]));
        return type == OR_QUANT_IQ3_XXS ? _mm512_mul_ps(whole, _mm512_set1_ps(OR_IQ3_XXS_PART))
                                        : whole;
    }
    case OR_QUANT_MXFP4:
        return widen_bfloats(BLOCK(or_panel_q4_0_t)->scales);
    case OR_QUANT_IQ2_S:
    case OR_QUANT_IQ2_XS:
    case OR_QUANT_IQ2_XXS: {
        const or_panel_q3_k_t *w = SUPER_BLOCK(or_panel_q3_k_t);
        __m512 eighths = times_signed(w->scales, load_bytes(w->groups[HALVES * at + h]));
        return _mm512_mul_ps(eighths, _mm512_set1_ps(OR_IQ2_PART));
    }
    default: {
        const or_panel_q6_k_t *w = SUPER_BLOCK(or_panel_q6_k_t);
        return times_signed(w->scales, load_bytes(w->groups[HALVES * at + h]));
    }
    }
}

ALWAYS_INLINE __m512 minima_of(or_quant_t type, const void *panel, uint32_t b, uint32_t h)
{
    const uint32_t at = b % OR_SUPER_BLOCK;
    switch (type) {
    case OR_QUANT_Q4_1:
        return negative(widen(BLOCK(or_panel_q4_1_t)->minima));
    case OR_QUANT_Q5_1:
        return negative(widen(BLOCK(or_panel_q5_1_t)->minima));
    case OR_QUANT_Q4_K: {
        const or_panel_q4_k_t *w = SUPER_BLOCK(or_panel_q4_k_t);
        return times_unsigned(w->minima, load_bytes(w->block_minima[at]));
    }
    case OR_QUANT_Q5_K: {
        const or_panel_q5_k_t *w = SUPER_BLOCK(or_panel_q5_k_t);
        return times_unsigned(w->minima, load_bytes(w->block_minima[at]));
    }
    default: { // Q2_K, the only one left that has minima
        const or_panel_q2_k_t *w = SUPER_BLOCK(or_panel_q2_k_t);
        __m128i high = _mm_srli_epi16(load_bytes(w->groups[HALVES * at + h]), 4);
        return times_unsigned(w->minima, _mm_and_si128(high, _mm_set1_epi8(15)));
    }
    }
}

#undef BLOCK
#undef SUPER_BLOCK
