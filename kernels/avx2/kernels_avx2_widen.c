// K and V kept as halves or Q8_0, as floats: eight at a time, and what is left over as in kernels/ref.
#include "kernels/avx2/kernels_avx2_internal.h"

#include <immintrin.h>

#include "kernels/canonical.h"

ALWAYS_INLINE __m256 load_halves(const uint16_t *x)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)x));
}

ALWAYS_INLINE __m256 load_quants(const int8_t *x)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)x)));
}

void widen_f16_avx2(const uint16_t *x, size_t n, float *y)
{
    size_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH) {
        _mm256_storeu_ps(y + i, load_halves(x + i));
    }
    for (; i < n; i++) {
        y[i] = canonical_widen(x[i]);
    }
}

void widen_q8_0_avx2(const uint16_t *scales, const int8_t *quants, uint32_t n, float *y)
{
    uint32_t d = 0;
    for (; d + OR_QUANT_BLOCK <= n; d += OR_QUANT_BLOCK) {
        __m256 scale = _mm256_set1_ps(canonical_widen(scales[d / OR_QUANT_BLOCK]));
#pragma GCC unroll 4
        for (uint32_t j = 0; j < OR_QUANT_BLOCK; j += WIDTH) {
            _mm256_storeu_ps(y + d + j, _mm256_mul_ps(scale, load_quants(quants + d + j)));
        }
    }
    for (; d < n; d++) {
        y[d] = canonical_widen(scales[d / OR_QUANT_BLOCK]) * (float)quants[d];
    }
}

// Dimensions begin .. end - 1, whose scales are the same.
ALWAYS_INLINE void widen_keys(const uint16_t *scales, const int8_t *quants, size_t begin,
                              size_t end, float *y)
{
    __m256 scale[OR_KV_BLOCK / WIDTH];
#pragma GCC unroll 4
    for (size_t j = 0; j < OR_KV_BLOCK / WIDTH; j++) {
        scale[j] = load_halves(scales + j * WIDTH);
    }
    for (size_t at = begin * OR_KV_BLOCK; at < end * OR_KV_BLOCK; at += OR_KV_BLOCK) {
#pragma GCC unroll 4
        for (size_t j = 0; j < OR_KV_BLOCK / WIDTH; j++) {
            __m256 numbers = load_quants(quants + at + j * WIDTH);
            _mm256_storeu_ps(y + at + j * WIDTH, _mm256_mul_ps(scale[j], numbers));
        }
    }
}

void widen_q8_0_keys_avx2(const uint16_t *scales, const int8_t *quants, uint32_t head_dim, float *y)
{
    for (size_t d = 0; d < head_dim; d += OR_QUANT_BLOCK) {
        size_t end = d + OR_QUANT_BLOCK < head_dim ? d + OR_QUANT_BLOCK : head_dim;
        widen_keys(scales + d / OR_QUANT_BLOCK * OR_KV_BLOCK, quants, d, end, y);
    }
}
