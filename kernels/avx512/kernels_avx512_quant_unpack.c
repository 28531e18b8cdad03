// Each type of weights unpacked to the bytes, scales and minima of a chunk.
#include "kernels/avx512/kernels_avx512_quant.h"

#include <immintrin.h>

// ---- vectors of integers, from where a type keeps their bits ----
//
// Shifts are of 16 bits; masks then drop what came over from the neighbour.

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

ALWAYS_INLINE void put(quant_chunk_t *chunk, uint32_t p, uint32_t b, uint32_t g, __m512i bytes)
{
    _mm512_store_si512(chunk->unpacked[p][b][g], bytes);
}

// Leave nibbles in the panel, where they are multiplied.
ALWAYS_INLINE void leave(quant_chunk_t *chunk, uint32_t p, const void *bytes, size_t stride)
{
    chunk->bytes[p] = bytes;
    chunk->bytes_stride = stride;
}

// ---- scales ----

ALWAYS_INLINE __m512 widen(const uint16_t halves[OR_PANEL])
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)halves));
}

ALWAYS_INLINE __m512 times_unsigned(__m512 scales, __m128i bytes)
{
    return _mm512_mul_ps(scales, _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes)));
}

ALWAYS_INLINE __m512 times_signed(__m512 scales, __m128i bytes)
{
    return _mm512_mul_ps(scales, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)));
}

ALWAYS_INLINE __m128i load_bytes(const void *bytes)
{
    return _mm_loadu_si128(bytes);
}

ALWAYS_INLINE __m512 negative(__m512 x)
{
    return _mm512_xor_ps(x, _mm512_set1_ps(-0.0f));
}

// ---- types whose blocks stand alone ----

// Its bytes are ready where they lie, but half of the lines there cross two of the cache.
static void unpack_q8_0(const void *panel, uint32_t first, uint32_t p, quant_chunk_t *chunk)
{
    const or_panel_q8_0_t *w = (const or_panel_q8_0_t *)panel + first;
    if (!chunk->many_rows) {
        leave(chunk, p, w->bytes, sizeof *w);
    }
    for (uint32_t b = 0; b < chunk->blocks; b++) {
        if (chunk->many_rows) {
#pragma GCC unroll 8
            for (uint32_t g = 0; g < GROUPS; g++) {
                put(chunk, p, b, g, load_line(w[b].bytes[g]));
            }
        }
        _mm512_store_ps(chunk->scales[b][0][p], widen(w[b].scales));
    }
}

// A nibble stands for an entry of a table, in every quarter of `values`: integer + 128.
ALWAYS_INLINE void unpack_table(const void *panel, uint32_t first, uint32_t p, __m512i values,
                                quant_chunk_t *chunk)
{
    const or_panel_q4_0_t *w = (const or_panel_q4_0_t *)panel + first;
    if (chunk->packed) {
        leave(chunk, p, w->nibbles, sizeof *w);
    }
    for (uint32_t b = 0; b < chunk->blocks; b++) {
        if (!chunk->packed) {
#pragma GCC unroll 8
            for (uint32_t g = 0; g < GROUPS; g++) {
                __m512i bytes = _mm512_shuffle_epi8(values, nibbles_of(w[b].nibbles, g));
                put(chunk, p, b, g, bytes);
            }
        }
        _mm512_store_ps(chunk->scales[b][0][p], widen(w[b].scales));
    }
}

static void unpack_q4_0(const void *panel, uint32_t first, uint32_t p, quant_chunk_t *chunk)
{
    const __m128i values = _mm_setr_epi8(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
    const __m128i bytes = _mm_xor_si128(values, _mm_set1_epi8(-128));
    unpack_table(panel, first, p, _mm512_broadcast_i32x4(bytes), chunk);
}

static void unpack_iq4_nl(const void *panel, uint32_t first, uint32_t p, quant_chunk_t *chunk)
{
    const __m128i bytes = _mm_xor_si128(load_bytes(or_iq4_values), _mm_set1_epi8(-128));
    unpack_table(panel, first, p, _mm512_broadcast_i32x4(bytes), chunk);
}

static void unpack_q5_0(const void *panel, uint32_t first, uint32_t p, quant_chunk_t *chunk)
{
    const or_panel_q5_0_t *w = (const or_panel_q5_0_t *)panel + first;
    for (uint32_t b = 0; b < chunk->blocks; b++) {
#pragma GCC unroll 8
        for (uint32_t g = 0; g < GROUPS; g++) {
            __m512i bytes =
                _mm512_or_si512(nibbles_of(w[b].nibbles, g), bits_of_line(w[b].bits, g, 4));
            bytes = _mm512_add_epi8(bytes, _mm512_set1_epi8(128 - 16));
            put(chunk, p, b, g, bytes);
        }
        _mm512_store_ps(chunk->scales[b][0][p], widen(w[b].scales));
    }
}

static void unpack_q4_1(const void *panel, uint32_t first, uint32_t p, quant_chunk_t *chunk)
{
    const or_panel_q4_1_t *w = (const or_panel_q4_1_t *)panel + first;
    if (chunk->packed) {
        leave(chunk, p, w->nibbles, sizeof *w);
    }
    for (uint32_t b = 0; b < chunk->blocks; b++) {
        if (!chunk->packed) {
#pragma GCC unroll 8
            for (uint32_t g = 0; g < GROUPS; g++) {
                put(chunk, p, b, g, nibbles_of(w[b].nibbles, g));
            }
        }
        _mm512_store_ps(chunk->scales[b][0][p], widen(w[b].scales));
        _mm512_store_ps(chunk->minima[b][0][p], negative(widen(w[b].minima)));
    }
}

static void unpack_q5_1(const void *panel, uint32_t first, uint32_t p, quant_chunk_t *chunk)
{
    const or_panel_q5_1_t *w = (const or_panel_q5_1_t *)panel + first;
    for (uint32_t b = 0; b < chunk->blocks; b++) {
#pragma GCC unroll 8
        for (uint32_t g = 0; g < GROUPS; g++) {
            __m512i bytes =
                _mm512_or_si512(nibbles_of(w[b].nibbles, g), bits_of_line(w[b].bits, g, 4));
            put(chunk, p, b, g, bytes);
        }
        _mm512_store_ps(chunk->scales[b][0][p], widen(w[b].scales));
        _mm512_store_ps(chunk->minima[b][0][p], negative(widen(w[b].minima)));
    }
}

// ---- types of super-blocks ----

static void unpack_q4_k(const void *panel, uint32_t first, uint32_t p, quant_chunk_t *chunk)
{
    const or_panel_q4_k_t *w = (const or_panel_q4_k_t *)panel + first / OR_SUPER_BLOCK;
    const __m512 scales = widen(w->scales);
    const __m512 minima = widen(w->minima);
    if (chunk->packed) {
        leave(chunk, p, w->nibbles[first % OR_SUPER_BLOCK], sizeof w->nibbles[0]);
    }
    for (uint32_t b = 0, at = first % OR_SUPER_BLOCK; b < chunk->blocks; b++, at++) {
        if (!chunk->packed) {
#pragma GCC unroll 8
            for (uint32_t g = 0; g < GROUPS; g++) {
                put(chunk, p, b, g, nibbles_of(w->nibbles[at], g));
            }
        }
        __m512 block_scales = times_unsigned(scales, load_bytes(w->block_scales[at]));
        __m512 block_minima = times_unsigned(minima, load_bytes(w->block_minima[at]));
        _mm512_store_ps(chunk->scales[b][0][p], block_scales);
        _mm512_store_ps(chunk->minima[b][0][p], block_minima);
    }
}

static void unpack_q5_k(const void *panel, uint32_t first, uint32_t p, quant_chunk_t *chunk)
{
    const or_panel_q5_k_t *w = (const or_panel_q5_k_t *)panel + first / OR_SUPER_BLOCK;
    const __m512 scales = widen(w->scales);
    const __m512 minima = widen(w->minima);
    for (uint32_t b = 0, at = first % OR_SUPER_BLOCK; b < chunk->blocks; b++, at++) {
#pragma GCC unroll 8
        for (uint32_t g = 0; g < GROUPS; g++) {
            __m512i bytes =
                _mm512_or_si512(nibbles_of(w->nibbles[at], g), bits_of_line(w->bits[at], g, 4));
            put(chunk, p, b, g, bytes);
        }
        __m512 block_scales = times_unsigned(scales, load_bytes(w->block_scales[at]));
        __m512 block_minima = times_unsigned(minima, load_bytes(w->block_minima[at]));
        _mm512_store_ps(chunk->scales[b][0][p], block_scales);
        _mm512_store_ps(chunk->minima[b][0][p], block_minima);
    }
}

static void unpack_q2_k(const void *panel, uint32_t first, uint32_t p, quant_chunk_t *chunk)
{
    const or_panel_q2_k_t *w = (const or_panel_q2_k_t *)panel + first / OR_SUPER_BLOCK;
    const __m512 scales = widen(w->scales);
    const __m512 minima = widen(w->minima);
    const __m128i low_bits = _mm_set1_epi8(15);
    for (uint32_t b = 0, at = first % OR_SUPER_BLOCK; b < chunk->blocks; b++, at++) {
#pragma GCC unroll 8
        for (uint32_t g = 0; g < GROUPS; g++) {
            put(chunk, p, b, g, pairs_of(w->pairs[at], g, 0));
        }
#pragma GCC unroll 2
        for (uint32_t h = 0; h < HALVES; h++) {
            __m128i both = load_bytes(w->groups[HALVES * at + h]);
            __m128i low = _mm_and_si128(both, low_bits);
            __m128i high = _mm_and_si128(_mm_srli_epi16(both, 4), low_bits);
            _mm512_store_ps(chunk->scales[b][h][p], times_unsigned(scales, low));
            _mm512_store_ps(chunk->minima[b][h][p], times_unsigned(minima, high));
        }
    }
}

static void unpack_q3_k(const void *panel, uint32_t first, uint32_t p, quant_chunk_t *chunk)
{
    const or_panel_q3_k_t *w = (const or_panel_q3_k_t *)panel + first / OR_SUPER_BLOCK;
    const __m512 scales = widen(w->scales);
    for (uint32_t b = 0, at = first % OR_SUPER_BLOCK; b < chunk->blocks; b++, at++) {
#pragma GCC unroll 8
        for (uint32_t g = 0; g < GROUPS; g++) {
            __m512i bytes =
                _mm512_or_si512(pairs_of(w->pairs[at], g, 0), bits_of_line(w->bits[at], g, 2));
            bytes = _mm512_add_epi8(bytes, _mm512_set1_epi8(128 - 4));
            put(chunk, p, b, g, bytes);
        }
#pragma GCC unroll 2
        for (uint32_t h = 0; h < HALVES; h++) {
            __m128i group = load_bytes(w->groups[HALVES * at + h]);
            _mm512_store_ps(chunk->scales[b][h][p], times_signed(scales, group));
        }
    }
}

static void unpack_q6_k(const void *panel, uint32_t first, uint32_t p, quant_chunk_t *chunk)
{
    const or_panel_q6_k_t *w = (const or_panel_q6_k_t *)panel + first / OR_SUPER_BLOCK;
    const __m512 scales = widen(w->scales);
    for (uint32_t b = 0, at = first % OR_SUPER_BLOCK; b < chunk->blocks; b++, at++) {
#pragma GCC unroll 8
        for (uint32_t g = 0; g < GROUPS; g++) {
            __m512i bytes =
                _mm512_or_si512(nibbles_of(w->nibbles[at], g), pairs_of(w->pairs[at], g, 4));
            bytes = _mm512_add_epi8(bytes, _mm512_set1_epi8(128 - 32));
            put(chunk, p, b, g, bytes);
        }
#pragma GCC unroll 2
        for (uint32_t h = 0; h < HALVES; h++) {
            __m128i group = load_bytes(w->groups[HALVES * at + h]);
            _mm512_store_ps(chunk->scales[b][h][p], times_signed(scales, group));
        }
    }
}

// Halves, minima, nibbles.
const quant_format_t avx512_quant_formats[OR_QUANT_TYPES] = {
    [OR_QUANT_Q8_0] = {unpack_q8_0, false, false, false},
    [OR_QUANT_Q4_0] = {unpack_q4_0, false, false, true},
    [OR_QUANT_IQ4_NL] = {unpack_iq4_nl, false, false, false},
    [OR_QUANT_Q5_0] = {unpack_q5_0, false, false, false},
    [OR_QUANT_Q4_1] = {unpack_q4_1, false, true, true},
    [OR_QUANT_Q5_1] = {unpack_q5_1, false, true, false},
    [OR_QUANT_Q4_K] = {unpack_q4_k, false, true, true},
    [OR_QUANT_Q5_K] = {unpack_q5_k, false, true, false},
    [OR_QUANT_Q2_K] = {unpack_q2_k, true, true, false},
    [OR_QUANT_Q3_K] = {unpack_q3_k, true, false, false},
    [OR_QUANT_Q6_K] = {unpack_q6_k, true, false, false},
};
