// K and V kept as halves or Q8_0, as floats: four or eight at a time, and what is left over as in
// kernels/ref.
#include "kernels/neon/kernels_neon_internal.h"

#include <arm_neon.h>

#include "kernels/canonical.h"

ALWAYS_INLINE float32x4_t load_halves(const uint16_t *x)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(x)));
}

void widen_f16_neon(const uint16_t *x, size_t n, float *y)
{
    size_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH) {
        vst1q_f32(y + i, load_halves(x + i));
    }
    for (; i < n; i++) {
        y[i] = canonical_widen(x[i]);
    }
}

// y[0 .. 7] = scales * quants, four scales for the first half and four for the second.
ALWAYS_INLINE void widen_eight(float32x4_t low_scales, float32x4_t high_scales,
                               const int8_t *quants, float *y)
{
    int16x8_t numbers = vmovl_s8(vld1_s8(quants));
    float32x4_t low = vcvtq_f32_s32(vmovl_s16(vget_low_s16(numbers)));
    float32x4_t high = vcvtq_f32_s32(vmovl_high_s16(numbers));
    vst1q_f32(y, vmulq_f32(low_scales, low));
    vst1q_f32(y + WIDTH, vmulq_f32(high_scales, high));
}

void widen_q8_0_neon(const uint16_t *scales, const int8_t *quants, uint32_t n, float *y)
{
    uint32_t d = 0;
    for (; d + OR_QUANT_BLOCK <= n; d += OR_QUANT_BLOCK) {
        float32x4_t scale = vdupq_n_f32(canonical_widen(scales[d / OR_QUANT_BLOCK]));
        for (uint32_t j = 0; j < OR_QUANT_BLOCK; j += 2 * WIDTH) {
            widen_eight(scale, scale, quants + d + j, y + d + j);
        }
    }
    for (; d < n; d++) {
        y[d] = canonical_widen(scales[d / OR_QUANT_BLOCK]) * (float)quants[d];
    }
}

void widen_q8_0_keys_neon(const uint16_t *scales, const int8_t *quants, uint32_t head_dim, float *y)
{
    for (size_t d = 0; d < head_dim; d++) {
        const uint16_t *scale = scales + d / OR_QUANT_BLOCK * OR_KV_BLOCK;
        for (size_t p = 0; p < OR_KV_BLOCK; p += 2 * WIDTH) {
            size_t at = d * OR_KV_BLOCK + p;
            widen_eight(load_halves(scale + p), load_halves(scale + p + WIDTH), quants + at,
                        y + at);
        }
    }
}
