#include "common/base/math/math.h"

#include "common/base/math/math_inline.h"

// Sine and cosine are reduced and summed as the functions of math_inline.h are.

// pi / 2 in parts of 23 bits, so that multiples up to 2^30 are exact, and a remainder.
static const double half_pi[5] = {0x1.921fb4p+0, 0x1.4442dp-24, 0x1.84698p-48, 0x1.3198ap-69,
                                  0x1.701b839a25205p-92};
#define TWO_OVER_PI 0x1.45f306dc9c883p-1

double or_exp(double x)
{
    return inline_exp(x);
}

double or_ln(double x)
{
    return inline_ln(x);
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

double or_erfc(double x)
{
    return inline_erfc(x);
}
