// AVX-512F versions of the loops of lanes.c that are bound by arithmetic rather than memory: 8
// doubles or counters at a time, and the plain code for the rest. The other loops are those of
// lanes_avx2.c. -mavx512f implies FMA, and -ffp-contract=off keeps the compiler from it: each
// product is rounded, as in the plain code.
#include <Random123/philox.h>
#include <immintrin.h>

#include "common/base/math/lanes_internal.h"
#include "common/base/math/math_inline.h"

// Tables of logic operations on three inputs.
#define XOR_OF_THREE 0x96 // a ^ b ^ c
#define AND_THEN_OR 0xEA  // (a & b) | c

static inline __m512d copy_sign(__m512d of, double magnitude)
{
    return _mm512_castsi512_pd(_mm512_ternarylogic_epi64(
        _mm512_castpd_si512(of), _mm512_castpd_si512(_mm512_set1_pd(-0.0)),
        _mm512_castpd_si512(_mm512_set1_pd(magnitude)), AND_THEN_OR));
}

// or_exp, operation by operation, for |x| <= ORDINARY. Scaling by 2^k in one step is exact in that
// range too.
static inline __m512d exp_eight(__m512d x)
{
    static const double series[EXP_TERMS] = {EXP_SERIES};
    __m512d turns = _mm512_mul_pd(x, _mm512_set1_pd(ONE_OVER_LN2));
    __m256i k = _mm512_cvttpd_epi32(_mm512_add_pd(turns, copy_sign(turns, 0.5)));
    __m512d whole = _mm512_cvtepi32_pd(k);
    __m512d high = _mm512_sub_pd(x, _mm512_mul_pd(whole, _mm512_set1_pd(LN2_HIGH)));
    __m512d low = _mm512_mul_pd(whole, _mm512_set1_pd(LN2_LOW));
    __m512d r = _mm512_sub_pd(high, low);
    __m512d sum = _mm512_set1_pd(series[EXP_TERMS - 1]);
#pragma GCC unroll 16
    for (int i = EXP_TERMS - 2; i >= 0; i--) {
        sum = _mm512_add_pd(_mm512_set1_pd(series[i]), _mm512_mul_pd(r, sum));
    }
    __m512d rest = _mm512_sub_pd(low, _mm512_mul_pd(_mm512_mul_pd(r, r), sum));
    __m512d y = _mm512_add_pd(_mm512_set1_pd(1), _mm512_sub_pd(high, rest));
    __m512i exponent = _mm512_cvtepi32_epi64(_mm256_add_epi32(k, _mm256_set1_epi32(1023)));
    return _mm512_mul_pd(y, _mm512_castsi512_pd(_mm512_slli_epi64(exponent, 52)));
}

static void exp_from(const double *x, uint32_t count, double origin, double *y)
{
    uint32_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m512d eight = _mm512_sub_pd(_mm512_loadu_pd(x + i), _mm512_set1_pd(origin));
        if (_mm512_cmp_pd_mask(_mm512_abs_pd(eight), _mm512_set1_pd(ORDINARY), _CMP_LE_OQ) ==
            0xFF) {
            _mm512_storeu_pd(y + i, exp_eight(eight));
        } else {
            or_lanes_plain.exp_from(x + i, 8, origin, y + i);
        }
    }
    or_lanes_plain.exp_from(x + i, count - i, origin, y + i);
}

// Eight counters. A word is the lower half of a lane; the upper half is ignored.
typedef struct {
    __m512i c0;
    __m512i c1;
} words_t;

// The first two words of Philox 4x32-10.
static inline words_t philox_eight(or_rng_key_t key, const uint32_t high[2], __m512i low)
{
    const __m512i m0 = _mm512_set1_epi64(PHILOX_M4x32_0);
    const __m512i m1 = _mm512_set1_epi64(PHILOX_M4x32_1);
    uint32_t k0 = (uint32_t)key.value;
    uint32_t k1 = (uint32_t)(key.value >> 32);
    __m512i c0 = low;
    __m512i c1 = _mm512_srli_epi64(low, 32);
    __m512i c2 = _mm512_set1_epi64(high[0]);
    __m512i c3 = _mm512_set1_epi64(high[1]);
#pragma GCC unroll 10
    for (int round = 0; round < 10; round++) {
        __m512i p0 = _mm512_mul_epu32(c0, m0);
        __m512i p1 = _mm512_mul_epu32(c2, m1);
        c0 = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p1, 32), c1, _mm512_set1_epi64(k0),
                                       XOR_OF_THREE);
        c2 = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p0, 32), c3, _mm512_set1_epi64(k1),
                                       XOR_OF_THREE);
        c1 = p1;
        c3 = p0;
        k0 += PHILOX_W32_0;
        k1 += PHILOX_W32_1;
    }
    return (words_t){c0, c1};
}

// A mask of the first `count` lanes, or of all eight.
static inline __mmask8 lanes_of(uint32_t count)
{
    return count >= 8 ? 0xFF : (__mmask8)((1u << count) - 1);
}

static void philox(or_rng_key_t key, const uint32_t high[2], const uint64_t *low, uint32_t count,
                   uint64_t *bits)
{
    for (uint32_t i = 0; i < count; i += 8) {
        __mmask8 here = lanes_of(count - i);
        words_t words = philox_eight(key, high, _mm512_maskz_loadu_epi64(here, low + i));
        __m512i joined = _mm512_mask_blend_epi32(0xAAAA, words.c0, _mm512_slli_epi64(words.c1, 32));
        _mm512_mask_storeu_epi64(bits + i, here, joined);
    }
}

static uint32_t philox_ones(or_rng_key_t key, const uint32_t high[2], const uint64_t *low,
                            uint32_t count, unsigned ones, uint32_t *list)
{
    const __m512i wanted = _mm512_set1_epi64((long long)(~(UINT64_MAX >> ones) >> 32));
    uint32_t listed = 0;
    for (uint32_t i = 0; i < count; i += 8) {
        __mmask8 here = lanes_of(count - i);
        words_t words = philox_eight(key, high, _mm512_maskz_loadu_epi64(here, low + i));
        __m512i first = _mm512_and_si512(words.c1, wanted);
        uint32_t hits = _mm512_mask_cmpeq_epi64_mask(here, first, wanted);
        for (; hits != 0; hits &= hits - 1) {
            list[listed++] = i + (uint32_t)__builtin_ctz(hits);
        }
    }
    return listed;
}

const or_lanes_t or_lanes_avx512 = {
    "avx512",   or_lanes_largest_avx2, or_lanes_widen_avx2,  or_lanes_divide_avx2,
    exp_from,   or_lanes_bands_avx2,   or_lanes_within_avx2, philox,
    philox_ones};
