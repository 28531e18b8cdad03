// Quantised kernels for any AArch64 processor.
#include "kernels/neon/kernels_neon_quant.h"

#include "kernels/canonical.h"

void matmul_quants_neon(const or_quant_panels_t *w, const or_q8_block_t *x, size_t x_stride,
                        uint32_t rows, float *y, size_t y_stride)
{
    multiply_panels(w, x, x_stride, rows, y, y_stride);
}

// ---- activations ----

static float largest_magnitude(const float *x)
{
    uint32x4_t largest = vdupq_n_u32(0);
    for (uint32_t i = 0; i < OR_QUANT_BLOCK; i += WIDTH) {
        uint32x4_t bits = vreinterpretq_u32_f32(vld1q_f32(x + i));
        largest = vmaxq_u32(largest, vandq_u32(bits, vdupq_n_u32(0x7FFFFFFF)));
    }
    return float_of(vmaxvq_u32(largest));
}

// canonical_quantize in every lane. NEON's own maximum would let a NaN through.
static inline int32x4_t quantize_lanes(const float *x, float inverse)
{
    const float32x4_t highest = vdupq_n_f32(QUANT_MAX);
    const float32x4_t lowest = vdupq_n_f32(-QUANT_MAX);
    float32x4_t scaled = vmulq_n_f32(vld1q_f32(x), inverse);
    scaled = vbslq_f32(vcgtq_f32(scaled, lowest), scaled, lowest);
    return vcvtnq_s32_f32(vminq_f32(scaled, highest));
}

static inline int16x8_t quantize_eight(const float *x, float inverse)
{
    int16x4_t low = vmovn_s32(quantize_lanes(x, inverse));
    return vmovn_high_s32(low, quantize_lanes(x + WIDTH, inverse));
}

// Half a block; the sum of its quants.
static inline int32_t quantize_half(const float *x, float inverse, int8_t *quants)
{
    int8x8_t low = vmovn_s16(quantize_eight(x, inverse));
    int8x16_t all = vmovn_high_s16(low, quantize_eight(x + 2 * WIDTH, inverse));
    vst1q_s8(quants, all);
    return vaddlvq_s8(all);
}

void quantize_row_neon(const float *x, uint32_t blocks, or_q8_block_t *out)
{
    for (uint32_t b = 0; b < blocks; b++, out++, x += OR_QUANT_BLOCK) {
        float amax = largest_magnitude(x);
        float inverse = bits_of(amax) == 0 ? 0.0f : QUANT_MAX / amax;
        out->scale = amax / QUANT_MAX;
        out->sum = 0;
        for (uint32_t h = 0; h < 2; h++) {
            size_t at = h * HALF_BLOCK;
            int32_t sum = quantize_half(x + at, inverse, out->quants + at);
            out->scaled_half_sums[h] = out->scale * (float)sum;
            out->half_biases[h] = -128 * sum;
            out->sum += sum;
        }
        out->scaled_sum = out->scale * (float)out->sum;
        out->bias = -128 * out->sum;
    }
}
