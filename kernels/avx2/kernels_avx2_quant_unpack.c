// Panels of all quantised types to plain blocks. The parts of a panel's unit are drawn in quants.h; a
// vector holds a word, four neighbours in K, of each of eight outputs.
#include "kernels/avx2/kernels_avx2_quant.h"

#include <immintrin.h>

#define HALVES 2u // vectors of a word in a panel

typedef uint8_t word_t[OR_PANEL][4];

// ---- integers ----

ALWAYS_INLINE __m256i load(const word_t word, uint32_t half)
{
    return _mm256_loadu_si256((const __m256i *)word[half * WIDTH]);
}

ALWAYS_INLINE void store(word_t word, uint32_t half, __m256i bytes)
{
    _mm256_store_si256((__m256i *)word[half * WIDTH], bytes);
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

// Integers of `count` bits: nibbles, or pairs, and what lies above them.
ALWAYS_INLINE void unpack_integers(uint32_t count, const word_t *low, const word_t *high,
                                   plain_block_t *out)
{
#pragma GCC unroll 8
    for (uint32_t word = 0; word < WORDS; word++) {
#pragma GCC unroll 2
        for (uint32_t h = 0; h < HALVES; h++) {
            __m256i bytes = count >= 4 ? nibbles_of(low, word, h) : pairs_of(low, word, h, 0);
            if (count == 6) {
                bytes = _mm256_or_si256(bytes, pairs_of(high, word, h, 4));
            } else if (count % 2 == 1) {
                bytes = _mm256_or_si256(bytes, bit_of(*high, word, h, count - 1));
            }
            store(out->planes[0][word], h, bytes);
        }
    }
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

// Half times integer.
ALWAYS_INLINE __m256 scale(__m256 halves, __m256i integers)
{
    return _mm256_mul_ps(halves, _mm256_cvtepi32_ps(integers));
}

ALWAYS_INLINE __m256 negate(__m256 x)
{
    return _mm256_xor_ps(x, _mm256_set1_ps(-0.0f));
}

ALWAYS_INLINE void widen_panel(const uint16_t halves[OR_PANEL], float out[OR_PANEL])
{
    _mm256_store_ps(out, widen(halves, 0));
    _mm256_store_ps(out + WIDTH, widen(halves, 1));
}

// Unpack the scales of Q4_K and Q5_K: one group a block, with bytes for scale and minimum.
ALWAYS_INLINE void scale_block(const uint16_t *scales, const uint16_t *minima,
                               const uint8_t *block_scales, const uint8_t *block_minima,
                               plain_block_t *out)
{
#pragma GCC unroll 2
    for (uint32_t h = 0; h < HALVES; h++) {
        __m256 scaled = scale(widen(scales, h), widen_bytes(block_scales, h));
        __m256 minimum = scale(widen(minima, h), widen_bytes(block_minima, h));
        _mm256_store_ps(out->scales[0] + h * WIDTH, scaled);
        _mm256_store_ps(out->negated_minima[0] + h * WIDTH, negate(minimum));
    }
}

// Unpack the scales of Q3_K and Q6_K: two groups with a signed byte each.
ALWAYS_INLINE void scale_groups(const uint16_t *scales, const int8_t groups[2][OR_PANEL],
                                plain_block_t *out)
{
#pragma GCC unroll 2
    for (uint32_t h = 0; h < HALVES; h++) {
        __m256 halves = widen(scales, h);
        _mm256_store_ps(out->scales[0] + h * WIDTH, scale(halves, widen_signed(groups[0], h)));
        _mm256_store_ps(out->scales[1] + h * WIDTH, scale(halves, widen_signed(groups[1], h)));
    }
}

// ---- by type ----

// A byte through both tables of its nibble's halves.
static void unpack_q8_0(const void *unit, uint32_t b, plain_block_t *out)
{
    (void)b;
    const or_panel_q8_0_t *w = unit;
#pragma GCC unroll 8
    for (uint32_t word = 0; word < WORDS; word++) {
#pragma GCC unroll 2
        for (uint32_t h = 0; h < HALVES; h++) {
            __m256i bytes = load(w->bytes[word], h);
            store(out->planes[0][word], h, pick(bytes, 0, 0, 15));
            store(out->planes[1][word], h, pick(bytes, 4, 0, 15));
        }
    }
    widen_panel(w->scales, out->scales[0]);
}

static void unpack_q4_0(const void *unit, uint32_t b, plain_block_t *out)
{
    (void)b;
    const or_panel_q4_0_t *w = unit;
    unpack_integers(4, w->nibbles, NULL, out);
    widen_panel(w->scales, out->scales[0]);
}

// The values + 128 are bytes, looked up a nibble of them at a time.
static void unpack_iq4_nl(const void *unit, uint32_t b, plain_block_t *out)
{
    (void)b;
    const or_panel_q4_0_t *w = unit;
    __m128i signed_values = _mm_loadu_si128((const __m128i *)or_iq4_values);
    __m256i values =
        _mm256_broadcastsi128_si256(_mm_xor_si128(signed_values, _mm_set1_epi8((char)0x80)));
    __m256i low = pick(values, 0, 0, 15);
    __m256i high = pick(values, 4, 0, 15);
#pragma GCC unroll 8
    for (uint32_t word = 0; word < WORDS; word++) {
#pragma GCC unroll 2
        for (uint32_t h = 0; h < HALVES; h++) {
            __m256i nibbles = nibbles_of(w->nibbles, word, h);
            store(out->planes[0][word], h, _mm256_shuffle_epi8(low, nibbles));
            store(out->planes[1][word], h, _mm256_shuffle_epi8(high, nibbles));
        }
    }
    widen_panel(w->scales, out->scales[0]);
}

static void unpack_q5_0(const void *unit, uint32_t b, plain_block_t *out)
{
    (void)b;
    const or_panel_q5_0_t *w = unit;
    unpack_integers(5, w->nibbles, &w->bits, out);
    widen_panel(w->scales, out->scales[0]);
}

static void unpack_q4_1(const void *unit, uint32_t b, plain_block_t *out)
{
    (void)b;
    const or_panel_q4_1_t *w = unit;
    unpack_integers(4, w->nibbles, NULL, out);
    widen_panel(w->scales, out->scales[0]);
    widen_panel(w->minima, out->negated_minima[0]);
}

static void unpack_q5_1(const void *unit, uint32_t b, plain_block_t *out)
{
    (void)b;
    const or_panel_q5_1_t *w = unit;
    unpack_integers(5, w->nibbles, &w->bits, out);
    widen_panel(w->scales, out->scales[0]);
    widen_panel(w->minima, out->negated_minima[0]);
}

static void unpack_q4_k(const void *unit, uint32_t b, plain_block_t *out)
{
    const or_panel_q4_k_t *w = unit;
    unpack_integers(4, w->nibbles[b], NULL, out);
    scale_block(w->scales, w->minima, w->block_scales[b], w->block_minima[b], out);
}

static void unpack_q5_k(const void *unit, uint32_t b, plain_block_t *out)
{
    const or_panel_q5_k_t *w = unit;
    unpack_integers(5, w->nibbles[b], &w->bits[b], out);
    scale_block(w->scales, w->minima, w->block_scales[b], w->block_minima[b], out);
}

static void unpack_q2_k(const void *unit, uint32_t b, plain_block_t *out)
{
    const or_panel_q2_k_t *w = unit;
    unpack_integers(2, w->pairs[b], NULL, out);
#pragma GCC unroll 2
    for (uint32_t g = 0; g < 2; g++) {
#pragma GCC unroll 2
        for (uint32_t h = 0; h < HALVES; h++) {
            __m256i bytes = widen_bytes(w->groups[2 * b + g], h);
            __m256 scaled =
                scale(widen(w->scales, h), _mm256_and_si256(bytes, _mm256_set1_epi32(15)));
            __m256 minimum = scale(widen(w->minima, h), _mm256_srli_epi32(bytes, 4));
            _mm256_store_ps(out->scales[g] + h * WIDTH, scaled);
            _mm256_store_ps(out->negated_minima[g] + h * WIDTH, negate(minimum));
        }
    }
}

static void unpack_q3_k(const void *unit, uint32_t b, plain_block_t *out)
{
    const or_panel_q3_k_t *w = unit;
    unpack_integers(3, w->pairs[b], &w->bits[b], out);
    scale_groups(w->scales, w->groups + 2 * (size_t)b, out);
}

static void unpack_q6_k(const void *unit, uint32_t b, plain_block_t *out)
{
    const or_panel_q6_k_t *w = unit;
    unpack_integers(6, w->nibbles[b], w->pairs[b], out);
    scale_groups(w->scales, w->groups + 2 * (size_t)b, out);
}

const unpack_avx2_t unpack_avx2[OR_QUANT_TYPES] = {
    [OR_QUANT_Q8_0] = unpack_q8_0, [OR_QUANT_Q4_0] = unpack_q4_0, [OR_QUANT_IQ4_NL] = unpack_iq4_nl,
    [OR_QUANT_Q5_0] = unpack_q5_0, [OR_QUANT_Q4_1] = unpack_q4_1, [OR_QUANT_Q5_1] = unpack_q5_1,
    [OR_QUANT_Q4_K] = unpack_q4_k, [OR_QUANT_Q5_K] = unpack_q5_k, [OR_QUANT_Q2_K] = unpack_q2_k,
    [OR_QUANT_Q3_K] = unpack_q3_k, [OR_QUANT_Q6_K] = unpack_q6_k};
