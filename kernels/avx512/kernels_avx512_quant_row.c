// Activations become quants: canonical_quantize in every lane, a block of 32 at a time.
#include "kernels/avx512/kernels_avx512_internal.h"

#include <immintrin.h>

#include "kernels/canonical.h"

#define BIAS (-128) // of unsigned bytes of weights, integer + 128

// Compared as bits, a NaN is the largest of all.
ALWAYS_INLINE float largest_magnitude(__m512 low, __m512 high)
{
    const __m512i without_sign = _mm512_set1_epi32(0x7FFFFFFF);
    __m512i a = _mm512_and_si512(_mm512_castps_si512(low), without_sign);
    __m512i b = _mm512_and_si512(_mm512_castps_si512(high), without_sign);
    return float_of(_mm512_reduce_max_epu32(_mm512_max_epu32(a, b)));
}

// max and min return their second operand if either is a NaN.
ALWAYS_INLINE __m512i quantize_lanes(__m512 x, __m512 inverse)
{
    __m512 scaled = _mm512_mul_ps(x, inverse);
    scaled = _mm512_max_ps(scaled, _mm512_set1_ps(-QUANT_MAX));
    scaled = _mm512_min_ps(scaled, _mm512_set1_ps(QUANT_MAX));
    return _mm512_cvtps_epi32(scaled);
}

void quantize_row_avx512(const float *x, uint32_t blocks, or_q8_block_t *out)
{
    for (size_t b = 0; b < blocks; b++, x += OR_QUANT_BLOCK, out++) {
        __m512 low = _mm512_loadu_ps(x);
        __m512 high = _mm512_loadu_ps(x + WIDTH);
        float amax = largest_magnitude(low, high);
        __m512 inverse = _mm512_set1_ps(bits_of(amax) == 0 ? 0.0f : QUANT_MAX / amax);
        __m512i low_quants = quantize_lanes(low, inverse);
        __m512i high_quants = quantize_lanes(high, inverse);
        _mm_storeu_si128((__m128i *)out->quants, _mm512_cvtepi32_epi8(low_quants));
        _mm_storeu_si128((__m128i *)(out->quants + WIDTH), _mm512_cvtepi32_epi8(high_quants));
        int32_t low_sum = _mm512_reduce_add_epi32(low_quants);
        int32_t high_sum = _mm512_reduce_add_epi32(high_quants);
        float scale = amax / QUANT_MAX;
        out->scale = scale;
        out->scaled_sum = scale * (float)(low_sum + high_sum);
        out->scaled_half_sums[0] = scale * (float)low_sum;
        out->scaled_half_sums[1] = scale * (float)high_sum;
        out->sum = low_sum + high_sum;
        out->bias = BIAS * out->sum;
        out->half_biases[0] = BIAS * low_sum;
        out->half_biases[1] = BIAS * high_sum;
    }
}
