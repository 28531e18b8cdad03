// elementwise_inline - the formulas of a model's elements that hosts and devices share (inline.h), each in a fixed order.
#pragma once

#include "common/base/inline.h"
#include "common/base/math/math_inline.h"

#define GELU_CUBE 0.044715f
#define GELU_SCALE 0.7978845608f // sqrt(2 / pi)
#define ROOT_OF_HALF 0.70710678118654752

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
