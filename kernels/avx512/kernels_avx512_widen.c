// K and V kept as halves or Q8_0, as floats.
#include "kernels/avx512/kernels_avx512_internal.h"

#include "kernels/canonical.h"

ALWAYS_INLINE __m512 load_halves(const uint16_t *x, __mmask16 mask)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, x));
}

ALWAYS_INLINE __m512 load_quants(const int8_t *x, __mmask16 mask)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(mask, x)));
}

void widen_f16_avx512(const uint16_t *x, size_t n, float *y)
{
    for (size_t i = 0; i < n; i += WIDTH) {
        __mmask16 mask = first_lanes(n - i);
        _mm512_mask_storeu_ps(y + i, mask, load_halves(x + i, mask));
    }
}

void widen_q8_0_avx512(const uint16_t *scales, const int8_t *quants, uint32_t n, float *y)
{
    for (size_t d = 0; d < n; d += WIDTH) {
        __mmask16 mask = first_lanes(n - d);
        __m512 scale = _mm512_set1_ps(canonical_widen(scales[d / OR_QUANT_BLOCK]));
        _mm512_mask_storeu_ps(y + d, mask, _mm512_mul_ps(scale, load_quants(quants + d, mask)));
    }
}

void widen_q8_0_keys_avx512(const uint16_t *scales, const int8_t *quants, uint32_t head_dim,
                            float *y)
{
    const __mmask16 all = first_lanes(WIDTH);
    for (size_t d = 0; d < head_dim; d++) {
        const uint16_t *scale = scales + d / OR_QUANT_BLOCK * OR_KV_BLOCK;
        for (size_t p = 0; p < OR_KV_BLOCK; p += WIDTH) {
            size_t at = d * OR_KV_BLOCK + p;
            __m512 numbers = load_quants(quants + at, all);
            _mm512_storeu_ps(y + at, _mm512_mul_ps(load_halves(scale + p, all), numbers));
        }
    }
}
