#include "common/base/math.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "common/base/math_internal.h"

// Every function reduces its argument to a small interval (Cody and Waite 1980: subtract multiples
// of a constant held in several parts, so that the products are exact) and sums a Taylor or arctanh
// series there, in Horner's order. The layout of the final additions, largest term last, is that of
// fdlibm.

// pi / 2 in parts of 23 bits, so that multiples up to 2^30 are exact, and a rest.
static const double half_pi[5] = {0x1.921fb4p+0, 0x1.4442dp-24, 0x1.84698p-48, 0x1.3198ap-69,
                                  0x1.701b839a25205p-92};
#define TWO_OVER_PI 0x1.45f306dc9c883p-1

static double from_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint64_t to_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

// 2^k for -1022 <= k <= 1023.
static double power_of_two(int k)
{
    return from_bits((uint64_t)(k + 1023) << 52);
}

static int nearest_int(double x)
{
    return (int)(x < 0 ? x - 0.5 : x + 0.5);
}

// coefficients[0] + x (coefficients[1] + x (...)).
static double polynomial(double x, const double *coefficients, int count)
{
    double sum = coefficients[count - 1];
    for (int i = count - 2; i >= 0; i--) {
        sum = coefficients[i] + x * sum;
    }
    return sum;
}

double or_exp(double x)
{
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
    double y = 1 + (high - (low - r * r * polynomial(r, exp_series, EXP_TERMS)));
    // In two steps: the result may be subnormal, where one rounding must do, and 2^1024 is no
    // double.
    return y * power_of_two(k / 2) * power_of_two(k - k / 2);
}

double or_ln(double x)
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
    uint64_t bits = to_bits(x);
    k += (int)(bits >> 52) - 1023;
    double m = from_bits((bits & UINT64_C(0x000fffffffffffff)) | UINT64_C(0x3ff0000000000000));
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

// a + b = *sum + *error, exactly (Knuth).
static void two_sum(double a, double b, double *sum, double *error)
{
    *sum = a + b;
    double b_part = *sum - a;
    *error = (a - (*sum - b_part)) + (b - b_part);
}

// x - n pi / 2 as high + low, for the nearest n, whose lowest two bits are returned.
static unsigned reduce_half_pi(double x, double *high, double *low)
{
    int n = nearest_int(x * TWO_OVER_PI);
    double rest = (x - n * half_pi[0]) - n * half_pi[1]; // exact
    double error3;
    double error4;
    two_sum(rest, -(n * half_pi[2]), &rest, &error3);
    two_sum(rest, -(n * half_pi[3]), &rest, &error4);
    two_sum(rest, error3 + (error4 - n * half_pi[4]), high, low);
    return (unsigned)n & 3;
}

// sin(x + tail) for |x| <= pi / 4 and a tail below an ulp of x.
static double sine_kernel(double x, double tail)
{
    static const double series[] = {
        -1.0 / 6,        1.0 / 120,          -1.0 / 5040,         1.0 / 362880,
        -1.0 / 39916800, 1.0 / 6227020800.0, -1.0 / 1307674368e3, 1.0 / 355687428096e3};
    double z = x * x;
    return x + (x * z * polynomial(z, series, 8) + tail * (1 - 0.5 * z));
}

static double cosine_kernel(double x, double tail)
{
    static const double series[] = {1.0 / 24,           -1.0 / 720,      1.0 / 40320,
                                    -1.0 / 3628800,     1.0 / 479001600, -1.0 / 87178291200.0,
                                    1.0 / 20922789888e3};
    double z = x * x;
    double w = 1 - 0.5 * z;
    return w + (((1 - w) - 0.5 * z) + (z * z * polynomial(z, series, 7) - x * tail));
}

void or_sin_cos(double x, double *sine, double *cosine)
{
    if (!isfinite(x)) {
        *sine = *cosine = NAN;
        return;
    }
    double high;
    double low;
    unsigned quadrant = reduce_half_pi(x, &high, &low);
    double s = sine_kernel(high, low);
    double c = cosine_kernel(high, low);
    switch (quadrant) {
    case 0:
        *sine = s;
        *cosine = c;
        break;
    case 1:
        *sine = c;
        *cosine = -s;
        break;
    case 2:
        *sine = -s;
        *cosine = -c;
        break;
    default:
        *sine = -c;
        *cosine = s;
        break;
    }
}

double or_pow(double base, double exponent)
{
    return or_exp(exponent * or_ln(base));
}
