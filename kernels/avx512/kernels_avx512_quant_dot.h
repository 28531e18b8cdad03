// kernels_avx512_quant_dot - what a product of bytes is, with VNNI or without, as the file is compiled.
//
//     factors_t                           a vector of weights, made ready
//     factors_t prepare(__m512i bytes, bool minima)                from the bytes of a chunk
//     __m512i dot(__m512i sums, const factors_t *w, __m512i four)  adds four products in each lane
//     __m512i first_sums(int32_t bias, bool minima)                what the sums of a group begin with
#pragma once

#include "kernels/avx512/kernels_avx512_quant.h"

#include <immintrin.h>

#ifdef __AVX512VNNI__

// One instruction multiplies unsigned bytes by signed ones and adds four products to a sum, exactly.
typedef __m512i factors_t;

ALWAYS_INLINE factors_t prepare(__m512i bytes, bool minima)
{
    (void)minima;
    return bytes;
}

ALWAYS_INLINE __m512i dot(__m512i sums, const factors_t *w, __m512i four)
{
    return _mm512_dpbusd_epi32(sums, *w, four);
}

// The bias takes off what 128 too much in each byte would add.
ALWAYS_INLINE __m512i first_sums(int32_t bias, bool minima)
{
    return minima ? _mm512_setzero_si512() : _mm512_set1_epi32(bias);
}

#else

// maddubs wants one factor without a sign and adds two products in 16 bits: |w|, up to 128, with the
// sign of w given to x. Two products, at most 2 * 128 * 127, fit.
typedef struct {
    __m512i size;
    __mmask64 negative;
    bool minima; // then nothing is negative
} factors_t;

ALWAYS_INLINE factors_t prepare(__m512i bytes, bool minima)
{
    if (minima) {
        return (factors_t){bytes, 0, true};
    }
    __m512i w = _mm512_xor_si512(bytes, _mm512_set1_epi8(-128));
    return (factors_t){_mm512_abs_epi8(w), _mm512_movepi8_mask(w), false};
}

ALWAYS_INLINE __m512i dot(__m512i sums, const factors_t *w, __m512i four)
{
    if (!w->minima) {
        four = _mm512_mask_sub_epi8(four, w->negative, _mm512_setzero_si512(), four);
    }
    __m512i pairs = _mm512_maddubs_epi16(w->size, four);
    return _mm512_add_epi32(sums, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}

// Nothing is too much: signs are respected.
ALWAYS_INLINE __m512i first_sums(int32_t bias, bool minima)
{
    (void)bias;
    (void)minima;
    return _mm512_setzero_si512();
}

#endif
