// Activations to integers, for AVX2.
#include "kernels/avx2/kernels_avx2_internal.h"

#include <immintrin.h>

#include "kernels/canonical.h"

ALWAYS_INLINE uint32_t largest_lane(__m256i lanes)
{
    __m128i four = _mm_max_epu32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
    __m128i two = _mm_max_epu32(four, _mm_unpackhi_epi64(four, four));
    __m128i one = _mm_max_epu32(two, _mm_shuffle_epi32(two, 1));
    return (uint32_t)_mm_cvtsi128_si32(one);
}

ALWAYS_INLINE int32_t sum_of_lanes(__m256i lanes)
{
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
    __m128i two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
    __m128i one = _mm_add_epi32(two, _mm_shuffle_epi32(two, 1));
    return _mm_cvtsi128_si32(one);
}

static float largest_magnitude(const float *x)
{
    __m256i largest = _mm256_setzero_si256();
    for (uint32_t i = 0; i < OR_QUANT_BLOCK; i += WIDTH) {
        __m256i bits = _mm256_castps_si256(_mm256_loadu_ps(x + i));
        __m256i magnitudes = _mm256_and_si256(bits, _mm256_set1_epi32(0x7FFFFFFF));
        largest = _mm256_max_epu32(largest, magnitudes);
    }
    return float_of(largest_lane(largest));
}

// canonical_quantize in every lane. max and min return their second operand if either is a NaN.
ALWAYS_INLINE __m256i quantize_lanes(const float *x, __m256 inverse)
{
    __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(x), inverse);
    scaled = _mm256_max_ps(scaled, _mm256_set1_ps(-QUANT_MAX));
    scaled = _mm256_min_ps(scaled, _mm256_set1_ps(QUANT_MAX));
    return _mm256_cvtps_epi32(scaled);
}

ALWAYS_INLINE void store_sums(or_q8_block_t *out, int32_t first, int32_t second)
{
    int32_t sum = first + second;
    out->scaled_sum = out->scale * (float)sum;
    out->scaled_half_sums[0] = out->scale * (float)first;
    out->scaled_half_sums[1] = out->scale * (float)second;
    out->sum = sum;
    out->bias = -128 * sum;
    out->half_biases[0] = -128 * first;
    out->half_biases[1] = -128 * second;
}

void quantize_row_avx2(const float *x, uint32_t blocks, or_q8_block_t *out)
{
    // Packing works within halves of a vector; this puts the fours back in order.
    const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    for (uint32_t b = 0; b < blocks; b++, x += OR_QUANT_BLOCK, out++) {
        float amax = largest_magnitude(x);
        __m256 inverse = _mm256_set1_ps(bits_of(amax) == 0 ? 0.0f : QUANT_MAX / amax);
        __m256i q0 = quantize_lanes(x, inverse);
        __m256i q1 = quantize_lanes(x + WIDTH, inverse);
        __m256i q2 = quantize_lanes(x + 2 * WIDTH, inverse);
        __m256i q3 = quantize_lanes(x + 3 * WIDTH, inverse);
        __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(q0, q1), _mm256_packs_epi32(q2, q3));
        _mm256_storeu_si256((__m256i *)out->quants, _mm256_permutevar8x32_epi32(bytes, in_order));
        out->scale = amax / QUANT_MAX;
        store_sums(out, sum_of_lanes(_mm256_add_epi32(q0, q1)),
                   sum_of_lanes(_mm256_add_epi32(q2, q3)));
    }
}
