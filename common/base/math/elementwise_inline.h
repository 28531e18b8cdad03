// elementwise_inline - the formulas of a model's elements that hosts and devices share (inline.h), each in a fixed order.
#pragma once

#include "common/base/inline.h"
#include "common/base/math/math_inline.h"

#define GELU_CUBE 0.044715f
#define GELU_SCALE 0.7978845608f // sqrt(2 / pi)
#define ROOT_OF_HALF 0.70710678118654752
#define CLAMP 7.0f
#define CLAMPED_STEEPNESS 1.702f

// GELU as Hendrycks and Gimpel (2016) come near to it is x * sigmoid(z) with z = x times this: 2 sqrt(2 / pi) (1 + 0.044715 x^2).
OR_INLINE float inline_gelu_steepness(float x)
{
    return 2 * GELU_SCALE * (1 + GELU_CUBE * x * x);
}

// x times the part of a normal distribution that lies below x.
OR_INLINE float inline_gelu_exact(float x)
{
    return (float)(0.5 * (double)x * inline_erfc(-ROOT_OF_HALF * (double)x));
}

// 1 / (1 + exp(-x))
OR_INLINE float inline_sigmoid(double x)
{
    double grown = inline_exp(-fabs(x)); // never too large for a double
    return (float)((x < 0 ? grown : 1) / (1 + grown));
}

// x sigmoid(1.702 x) * (up + 1), with x cut to at most 7 and `up` to -7 .. 7, is swiglu of these two: with z = 1.702 x it is
// z * sigmoid(z) * (up + 1) / 1.702. NaN stays.
OR_INLINE float inline_clamped_gate(float x)
{
    return CLAMPED_STEEPNESS * (x > CLAMP ? CLAMP : x);
}

OR_INLINE float inline_clamped_up(float up)
{
    float factor = up > CLAMP ? CLAMP : up < -CLAMP ? -CLAMP : up;
    return (factor + 1) / CLAMPED_STEEPNESS;
}

// The greater of x and 0; NaN stays.
OR_INLINE float inline_relu(float x)
{
    return x < 0 ? 0 : x;
}

// cap * tanh(x / cap)
OR_INLINE float inline_softcap(float x, float cap)
{
    double grown = inline_exp(-2 * fabs((double)x / (double)cap));
    double capped = (double)cap * ((1 - grown) / (1 + grown));
    return (float)(x < 0 ? -capped : capped);
}
