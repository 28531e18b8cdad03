// canonical - the pieces of canonical arithmetic that every table shares, private to kernels/.
//
// Scalar and inline: kernels/ref is made of them, the vector tables use them for what does not fill
// a vector and repeat the same operations lane-wise for what does. "Maximum" is `a > b ? a : b`
// with the newer value as a, which is what x86's max does. So a NaN never replaces a maximum, and
// of two zeros the older stays.
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifndef CANONICAL // kernels/cuda: for the device, too
#define CANONICAL static inline
#endif

// Adding it to a float below 2^22 rounds that to the nearest (even) integer, and leaves the integer
// in the low bits of the sum.
#define ROUND_MAGIC 0x1.8p23f
#define ROUND_MAGIC_BITS 0x4B400000u

#define QUANT_MAX 127.0f // the largest quant of an activation

#define LANES 16u // the lanes of a lane sum, whatever the width of a vector

// exp(x) = 2^n * exp(r), n = round(x / ln 2), r = x - n ln 2 in [-ln 2 / 2, ln 2 / 2]. The constant
// ln 2 is split in two, the high part short. The polynomial is that of Cephes' expf (S. Moshier,
// 1992). Arguments are clamped to where the result is infinite or zero anyway.
#define EXP_HIGHEST 89.0f
#define EXP_LOWEST -104.0f
#define EXP_LOG2E 0x1.715476p0f
#define EXP_LN2_HIGH 0x1.63p-1f
#define EXP_LN2_LOW -0x1.bd0106p-13f
#define EXP_C6 1.9875691500e-4f
#define EXP_C5 1.3981999507e-3f
#define EXP_C4 8.3334519073e-3f
#define EXP_C3 4.1665795894e-2f
#define EXP_C2 1.6666665459e-1f
#define EXP_C1 5.0000001201e-1f

CANONICAL uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

CANONICAL float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// Within 0.9 ulp. 2^n is applied as two factors, each a normal number, so that the only rounding is
// the last one, denormals included. The exponents are taken in unsigned arithmetic with 256 added,
// which makes them harmless for a NaN.
CANONICAL float canonical_exp(float x)
{
    x = EXP_HIGHEST < x ? EXP_HIGHEST : x;
    x = EXP_LOWEST > x ? EXP_LOWEST : x;
    float shifted = fmaf(x, EXP_LOG2E, ROUND_MAGIC);
    float n = shifted - ROUND_MAGIC;
    float r = fmaf(n, -EXP_LN2_HIGH, x);
    r = fmaf(n, -EXP_LN2_LOW, r);
    float y = fmaf(EXP_C6, r, EXP_C5);
    y = fmaf(y, r, EXP_C4);
    y = fmaf(y, r, EXP_C3);
    y = fmaf(y, r, EXP_C2);
    y = fmaf(y, r, EXP_C1);
    y = fmaf(y, r, 1.0f);
    y = fmaf(y, r, 1.0f);
    uint32_t exponent = bits_of(shifted) - ROUND_MAGIC_BITS + 256;
    uint32_t half = exponent >> 1;
    return y * float_of((half - 1) << 23) * float_of((exponent - half - 1) << 23);
}

CANONICAL float canonical_max(float newer, float older)
{
    return newer > older ? newer : older;
}

CANONICAL float canonical_swiglu(float gate, float up)
{
    return gate / (1.0f + canonical_exp(-gate)) * up;
}

CANONICAL float canonical_rms_factor(float sum_of_squares, uint32_t n, float eps)
{
    return 1.0f / sqrtf(sum_of_squares / (float)n + eps);
}

CANONICAL void canonical_rotate(float *first, float *second, float cosine, float sine)
{
    float a = *first;
    float b = *second;
    *first = fmaf(a, cosine, -(b * sine));
    *second = fmaf(a, sine, b * cosine);
}

// The fixed trees over the lanes: (j, j+8), (j, j+4), (j, j+2), (j, j+1). They use up `lanes`.
CANONICAL float canonical_lane_sum(float lanes[LANES])
{
    for (uint32_t width = LANES / 2; width > 0; width /= 2) {
        for (uint32_t j = 0; j < width; j++) {
            lanes[j] += lanes[j + width];
        }
    }
    return lanes[0];
}

CANONICAL float canonical_lane_max(float lanes[LANES])
{
    for (uint32_t width = LANES / 2; width > 0; width /= 2) {
        for (uint32_t j = 0; j < width; j++) {
            lanes[j] = canonical_max(lanes[j + width], lanes[j]);
        }
    }
    return lanes[0];
}

// Exact. A half without its sign, moved into place, is a float 2^112 too small, also where the half
// is denormal. Signalling NaNs become quiet, as the processors' own conversions do.
CANONICAL float canonical_widen(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t magnitude = half & 0x7FFFu;
    if (magnitude > 0x7C00u) {
        return float_of(sign | 0x7FC00000u | magnitude << 13);
    }
    if (magnitude == 0x7C00u) {
        return float_of(sign | 0x7F800000u);
    }
    return float_of(sign | bits_of(float_of(magnitude << 13) * 0x1p112f));
}

// To the nearest half, ties to even; from halfway between the largest and 2^16 on it is infinity.
CANONICAL uint16_t canonical_narrow(float value)
{
    uint32_t bits = bits_of(value);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    uint32_t magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) { // NaN: quiet, with what fits of its payload
        return (uint16_t)(sign | 0x7E00u | (magnitude >> 13 & 0x3FFu));
    }
    if (magnitude >= 0x47800000u) { // 2^16 and above, infinity
        return (uint16_t)(sign | 0x7C00u);
    }
    if (magnitude < 0x38800000u) { // below 2^-14: adding 0.5 rounds as a denormal, in the low bits
        return (uint16_t)(sign | (bits_of(float_of(magnitude) + 0.5f) - 0x3F000000u));
    }
    // Just under half of the last kept bit, or half if that is odd; a carry may run up to infinity.
    uint32_t odd = magnitude >> 13 & 1u;
    return (uint16_t)(sign | ((magnitude - 0x38000000u + 0xFFFu + odd) >> 13));
}

// Exact: a bfloat16 is the upper half of a float.
CANONICAL float canonical_widen_bf16(uint16_t bfloat)
{
    return float_of((uint32_t)bfloat << 16);
}

// To the nearest bfloat16, ties to even; a carry may run up to infinity.
CANONICAL uint16_t canonical_narrow_bf16(float value)
{
    uint32_t bits = bits_of(value);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) { // NaN: quiet
        return (uint16_t)(bits >> 16 | 0x40u);
    }
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

// A NaN (zero times infinity, or of a NaN) loses against the lower bound.
CANONICAL int8_t canonical_quantize(float x, float inverse_scale)
{
    float scaled = canonical_max(x * inverse_scale, -QUANT_MAX);
    scaled = scaled < QUANT_MAX ? scaled : QUANT_MAX;
    return (int8_t)(int32_t)(bits_of(scaled + ROUND_MAGIC) - ROUND_MAGIC_BITS);
}
