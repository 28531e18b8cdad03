// noise_inline - the functions of noise.c that a device has as well: a Gumbel variate, and its bounds that need
// no logarithm.
//
// With U the uniform and n the exponent of 1 - U, 2^-n <= 1 - U < 2^(1-n):
//
//     -log U >= 1 - U                                so    G <= n log 2
//     -log U <= (1 - U) / U <= 2 (1 - U)             so    G >= (n - 2) log 2        where n >= 2, that is U >= 1/2
//     U >= 2^-54                                     so    G >= -3.63                everywhere
#pragma once

#include "common/base/math/math_inline.h"

#define NOISE_LN_2 0.6931471805599453
#define NOISE_SLACK 1e-9 // far more than the rounding of a Gumbel variate and of its bounds
#define NOISE_LEAST (-3.63)

OR_INLINE double inline_gumbel(double uniform)
{
    return -inline_ln(-inline_ln(uniform));
}

// No Gumbel variate is above it if 1 - U >= 2^-ones.
OR_INLINE double inline_gumbel_bound(int ones)
{
    return ones * NOISE_LN_2 + NOISE_SLACK;
}

// Compute n without a logarithm.
OR_INLINE int inline_gumbel_exponent(double uniform)
{
    return 1023 - (int)(bits_of_double(1 - uniform) >> 52);
}

OR_INLINE double inline_gumbel_above(double uniform)
{
    return inline_gumbel_bound(inline_gumbel_exponent(uniform));
}

OR_INLINE double inline_gumbel_below(double uniform)
{
    int exponent = inline_gumbel_exponent(uniform);
    return exponent < 2 ? NOISE_LEAST : (exponent - 2) * NOISE_LN_2 - NOISE_SLACK;
}
