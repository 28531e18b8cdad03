// math_inline - the bodies of or_exp and or_ln (math.h).
//
// Both reduce their argument to a small interval, then sum a Taylor or arctanh series there in
// Horner's order. The reduction is that of Cody and Waite (1980): it subtracts multiples of a
// constant held in several parts, so that the products are exact. The layout of the final additions,
// largest term last, is that of fdlibm.
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "common/base/inline.h"

// ---- the constants of or_exp, which vector code repeats operation by operation (lanes_avx2.c) ----

// ln 2 in two parts. Multiples of the first part up to 2^12 are exact.
#define LN2_HIGH 0x1.62e42fefa3p-1
#define LN2_LOW 0x1.3de6af278ece6p-42
#define ONE_OVER_LN2 0x1.71547652b82fep+0

#define EXP_OVERFLOW 709.782712893384   // above it the result is infinite
#define EXP_UNDERFLOW -745.133219101942 // below it, 0

#define ORDINARY 700.0 // up to this magnitude every result is a normal number

// (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2
#define EXP_TERMS 12
#define EXP_SERIES                                                                                 \
    1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880,       \
        1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800

// ---- functions ----

OR_INLINE double double_of_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

OR_INLINE uint64_t bits_of_double(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

// 2^k for -1022 <= k <= 1023.
OR_INLINE double power_of_two(int k)
{
    return double_of_bits((uint64_t)(k + 1023) << 52);
}

OR_INLINE int nearest_int(double x)
{
    return (int)(x < 0 ? x - 0.5 : x + 0.5);
}

// coefficients[0] + x (coefficients[1] + x (...)).
OR_INLINE double polynomial(double x, const double *coefficients, int count)
{
    double sum = coefficients[count - 1];
    for (int i = count - 2; i >= 0; i--) {
        sum = coefficients[i] + x * sum;
    }
    return sum;
}

OR_INLINE double inline_exp(double x)
{
    static const double series[EXP_TERMS] = {EXP_SERIES};
    if (isnan(x)) {
        return x;
    }
    if (x > EXP_OVERFLOW) {
        return INFINITY;
    }
    if (x < EXP_UNDERFLOW) {
        return 0;
    }
    int k = nearest_int(x * ONE_OVER_LN2);
    double high = x - k * LN2_HIGH;
    double low = k * LN2_LOW;
    double r = high - low;
    double y = 1 + (high - (low - r * r * polynomial(r, series, EXP_TERMS)));
    // Scale in two steps: the result may be subnormal, where one rounding must do, and
    // 2^1024 is no double.
    return y * power_of_two(k / 2) * power_of_two(k - k / 2);
}

OR_INLINE double inline_ln(double x)
{
    // ln((1 + s) / (1 - s)) / s - 2 in powers of s^2
    static const double series[] = {2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11, 2.0 / 13,
                                    2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21, 2.0 / 23};
    if (isnan(x) || x < 0) {
        return NAN;
    }
    if (x == 0) {
        return -INFINITY;
    }
    if (isinf(x)) {
        return x;
    }
    int k = 0;
    if (x < 0x1p-1022) {
        x *= 0x1p54;
        k = -54;
    }
    uint64_t bits = bits_of_double(x);
    k += (int)(bits >> 52) - 1023;
    double m = double_of_bits((bits & UINT64_C(0x000fffffffffffff)) | UINT64_C(0x3ff0000000000000));
    if (m > 0x1.6a09e667f3bcdp+0) { // sqrt 2
        m *= 0.5;
        k++;
    }
    // x = 2^k (1 + f); s = f / (2 + f) makes 1 + f = (1 + s) / (1 - s).
    double f = m - 1;
    double s = f / (2 + f);
    double rest = s * s * polynomial(s * s, series, 11);
    double half_square = 0.5 * f * f;
    return k * LN2_HIGH - ((half_square - (s * (half_square + rest) + k * LN2_LOW)) - f);
}

// erfc(z) = t exp(-z^2 + p(t)) with t = 2 / (2 + z), for z >= 0 (Press et al., "Numerical Recipes", section 6.2.2). The
// polynomial is our own: a fit of ln(erfc(z) exp(z^2) / t) at 400 Chebyshev nodes of t, for z up to 26.
OR_INLINE double inline_erfc(double x)
{
    static const double fit[] = {
        -1.26551222504,   1.00000604377,   0.374843187729, 0.0856881426696, -0.108859864816,
        0.00970518327281, -0.822256964518, 2.54431105421,  -6.1502220617,   11.3865499812,
        -14.063462577,    11.1723850405,   -5.53903232744, 1.57211907915,   -0.196261692107};
    double z = fabs(x);
    double t = 2 / (2 + z);
    double tail = t * inline_exp(polynomial(t, fit, 15) - z * z);
    return x < 0 ? 2 - tail : tail;
}
