// The loops of lanes.c with AVX2: 4 doubles, 8 bands or 4 counters at a time, and the plain code
// for the rest. Built without FMA, because a fused operation rounds once where the plain code
// rounds twice.
#include <Random123/philox.h>
#include <immintrin.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "common/base/math/lanes_internal.h"
#include "common/base/math/math_inline.h"

double or_lanes_largest_avx2(const double *x, uint32_t count)
{
    __m256d most[4];
    double lanes[4];
    uint32_t i = 0;
    for (int k = 0; k < 4; k++) {
        most[k] = _mm256_set1_pd(-INFINITY);
    }
    for (; i + 16 <= count; i += 16) {
        for (uint32_t k = 0; k < 4; k++) { // max_pd returns its second operand if either is NaN
            most[k] = _mm256_max_pd(_mm256_loadu_pd(x + i + 4 * k), most[k]);
        }
    }
    most[0] = _mm256_max_pd(_mm256_max_pd(most[0], most[1]), _mm256_max_pd(most[2], most[3]));
    _mm256_storeu_pd(lanes, most[0]);
    double rest = or_lanes_plain.largest(x + i, count - i);
    double found = or_lanes_plain.largest(lanes, 4);
    return rest > found ? rest : found;
}

void or_lanes_widen_avx2(const float *x, uint32_t count, double *y)
{
    const __m256d none = _mm256_set1_pd(-INFINITY);
    const __m256d sign = _mm256_set1_pd(-0.0);
    const __m256d infinity = _mm256_set1_pd(INFINITY);
    uint32_t i = 0;
    for (; i + 4 <= count; i += 4) {
        __m256d wide = _mm256_cvtps_pd(_mm_loadu_ps(x + i));
        __m256d finite = _mm256_cmp_pd(_mm256_andnot_pd(sign, wide), infinity, _CMP_LT_OQ);
        _mm256_storeu_pd(y + i, _mm256_blendv_pd(none, wide, finite));
    }
    or_lanes_plain.widen(x + i, count - i, y + i);
}

uint32_t or_lanes_divide_avx2(double *x, uint32_t count, double divisor, int32_t *places)
{
    const __m256d none = _mm256_set1_pd(-INFINITY);
    const __m256d by = _mm256_set1_pd(divisor);
    const __m128i steps = _mm_setr_epi32(0, 1, 2, 3);
    uint32_t kept = 0;
    uint32_t i = 0;
    for (; i + 4 <= count; i += 4) {
        __m256d four = _mm256_loadu_pd(x + i);
        if (_mm256_movemask_pd(_mm256_cmp_pd(four, none, _CMP_GT_OQ)) == 0xF) {
            four = divisor == 1 ? four : _mm256_div_pd(four, by);
            _mm256_storeu_pd(x + kept, four);
            _mm_storeu_si128((__m128i *)(places + kept),
                             _mm_add_epi32(_mm_set1_epi32((int32_t)i), steps));
            kept += 4;
        } else {
            kept = or_lanes_divide_from(i, kept, x, i + 4, divisor, places);
        }
    }
    return or_lanes_divide_from(i, kept, x, count, divisor, places);
}

// or_exp, operation by operation, for |x| <= ORDINARY. Scaling by 2^k in one step is exact in that
// range too.
static inline __m256d exp_four(__m256d x)
{
    static const double series[EXP_TERMS] = {EXP_SERIES};
    const __m256d sign = _mm256_set1_pd(-0.0);
    __m256d turns = _mm256_mul_pd(x, _mm256_set1_pd(ONE_OVER_LN2));
    __m256d half = _mm256_or_pd(_mm256_and_pd(turns, sign), _mm256_set1_pd(0.5));
    __m128i k = _mm256_cvttpd_epi32(_mm256_add_pd(turns, half));
    __m256d whole = _mm256_cvtepi32_pd(k);
    __m256d high = _mm256_sub_pd(x, _mm256_mul_pd(whole, _mm256_set1_pd(LN2_HIGH)));
    __m256d low = _mm256_mul_pd(whole, _mm256_set1_pd(LN2_LOW));
    __m256d r = _mm256_sub_pd(high, low);
    __m256d sum = _mm256_set1_pd(series[EXP_TERMS - 1]);
#pragma GCC unroll 16
    for (int i = EXP_TERMS - 2; i >= 0; i--) {
        sum = _mm256_add_pd(_mm256_set1_pd(series[i]), _mm256_mul_pd(r, sum));
    }
    __m256d rest = _mm256_sub_pd(low, _mm256_mul_pd(_mm256_mul_pd(r, r), sum));
    __m256d y = _mm256_add_pd(_mm256_set1_pd(1), _mm256_sub_pd(high, rest));
    __m256i exponent = _mm256_cvtepi32_epi64(_mm_add_epi32(k, _mm_set1_epi32(1023)));
    return _mm256_mul_pd(y, _mm256_castsi256_pd(_mm256_slli_epi64(exponent, 52)));
}

static void exp_from(const double *x, uint32_t count, double origin, double *y)
{
    const __m256d sign = _mm256_set1_pd(-0.0);
    uint32_t i = 0;
    for (; i + 4 <= count; i += 4) {
        __m256d four = _mm256_sub_pd(_mm256_loadu_pd(x + i), _mm256_set1_pd(origin));
        __m256d ordinary =
            _mm256_cmp_pd(_mm256_andnot_pd(sign, four), _mm256_set1_pd(ORDINARY), _CMP_LE_OQ);
        if (_mm256_movemask_pd(ordinary) == 0xF) {
            _mm256_storeu_pd(y + i, exp_four(four));
        } else {
            or_lanes_plain.exp_from(x + i, 4, origin, y + i);
        }
    }
    or_lanes_plain.exp_from(x + i, count - i, origin, y + i);
}

void or_lanes_bands_avx2(const double *x, uint32_t count, double origin, double per_unit,
                         uint16_t last, uint16_t *bands)
{
    const __m256d from = _mm256_set1_pd(origin);
    const __m256d scale = _mm256_set1_pd(per_unit);
    const __m256d most = _mm256_set1_pd(last);
    uint32_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m128i four[2];
        for (uint32_t k = 0; k < 2; k++) { // min_pd returns its second operand if either is NaN
            __m256d down = _mm256_sub_pd(from, _mm256_loadu_pd(x + i + 4 * k));
            four[k] = _mm256_cvttpd_epi32(_mm256_min_pd(_mm256_mul_pd(down, scale), most));
        }
        _mm_storeu_si128((__m128i *)(bands + i), _mm_packus_epi32(four[0], four[1]));
    }
    or_lanes_plain.bands(x + i, count - i, origin, per_unit, last, bands + i);
}

uint32_t or_lanes_within_avx2(const uint16_t *x, uint32_t count, uint16_t first, uint16_t last,
                              uint32_t *list)
{
    const __m256i low = _mm256_set1_epi16((int16_t)first);
    const __m256i high = _mm256_set1_epi16((int16_t)last);
    uint32_t listed = 0;
    uint32_t i = 0;
    for (; i + 16 <= count; i += 16) {
        __m256i sixteen = _mm256_loadu_si256((const __m256i *)(x + i));
        __m256i clamped = _mm256_min_epu16(_mm256_max_epu16(sixteen, low), high);
        uint32_t hits = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi16(sixteen, clamped));
        for (hits &= 0x55555555u; hits != 0; hits &= hits - 1) { // two bits a band
            list[listed++] = i + (uint32_t)__builtin_ctz(hits) / 2;
        }
    }
    for (; i < count; i++) {
        if (x[i] >= first && x[i] <= last) {
            list[listed++] = i;
        }
    }
    return listed;
}

// Four counters. A word is the lower half of a lane; the upper half is ignored.
typedef struct {
    __m256i c[4];
} counters_t;

static inline counters_t philox_four(or_rng_key_t key, const uint32_t high[2], const uint64_t *low)
{
    const __m256i m0 = _mm256_set1_epi64x(PHILOX_M4x32_0);
    const __m256i m1 = _mm256_set1_epi64x(PHILOX_M4x32_1);
    uint32_t k0 = (uint32_t)key.value;
    uint32_t k1 = (uint32_t)(key.value >> 32);
    __m256i c0 = _mm256_loadu_si256((const __m256i *)low);
    __m256i c1 = _mm256_srli_epi64(c0, 32);
    __m256i c2 = _mm256_set1_epi64x(high[0]);
    __m256i c3 = _mm256_set1_epi64x(high[1]);
#pragma GCC unroll 10
    for (int round = 0; round < 10; round++) {
        __m256i p0 = _mm256_mul_epu32(c0, m0);
        __m256i p1 = _mm256_mul_epu32(c2, m1);
        c1 = _mm256_xor_si256(c1, _mm256_set1_epi64x(k0));
        c3 = _mm256_xor_si256(c3, _mm256_set1_epi64x(k1));
        c0 = _mm256_xor_si256(_mm256_srli_epi64(p1, 32), c1);
        c2 = _mm256_xor_si256(_mm256_srli_epi64(p0, 32), c3);
        c1 = p1;
        c3 = p0;
        k0 += PHILOX_W32_0;
        k1 += PHILOX_W32_1;
    }
    return (counters_t){{c0, c1, c2, c3}};
}

static void philox(or_rng_key_t key, const uint32_t high[2], const uint64_t *low, uint32_t count,
                   uint64_t *bits)
{
    uint32_t i = 0;
    for (; i + 4 <= count; i += 4) {
        counters_t four = philox_four(key, high, low + i);
        __m256i joined = _mm256_blend_epi32(four.c[0], _mm256_slli_epi64(four.c[1], 32), 0xAA);
        _mm256_storeu_si256((__m256i *)(bits + i), joined);
    }
    if (i < count) {
        uint64_t last_low[4] = {0};
        uint64_t last_bits[4];
        memcpy(last_low, low + i, (count - i) * sizeof *low);
        philox(key, high, last_low, 4, last_bits);
        memcpy(bits + i, last_bits, (count - i) * sizeof *bits);
    }
}

// Bit i is set if counter i begins with the wanted number of ones.
static inline uint32_t ones_of_four(or_rng_key_t key, const uint32_t high[2], const uint64_t *low,
                                    __m256i wanted)
{
    __m256i first_half = _mm256_and_si256(philox_four(key, high, low).c[1], wanted);
    return (uint32_t)_mm256_movemask_pd(
        _mm256_castsi256_pd(_mm256_cmpeq_epi64(first_half, wanted)));
}

static uint32_t philox_ones(or_rng_key_t key, const uint32_t high[2], const uint64_t *low,
                            uint32_t count, unsigned ones, uint32_t *list)
{
    const __m256i wanted = _mm256_set1_epi64x((long long)(~(UINT64_MAX >> ones) >> 32));
    uint32_t listed = 0;
    uint64_t last_low[4] = {0};
    memcpy(last_low, low + (count & ~3u), (count & 3u) * sizeof *low);
    for (uint32_t i = 0; i < count; i += 4) {
        bool whole = i + 4 <= count;
        uint32_t hits = ones_of_four(key, high, whole ? low + i : last_low, wanted);
        for (hits &= whole ? 0xFu : 0xFu >> (i + 4 - count); hits != 0; hits &= hits - 1) {
            list[listed++] = i + (uint32_t)__builtin_ctz(hits);
        }
    }
    return listed;
}

const or_lanes_t or_lanes_avx2 = {
    "avx2",     or_lanes_largest_avx2, or_lanes_widen_avx2,  or_lanes_divide_avx2,
    exp_from,   or_lanes_bands_avx2,   or_lanes_within_avx2, philox,
    philox_ones};
