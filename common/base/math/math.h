// math - our own exp, log, sin, cos and pow, so that every host and C library gives the same
// bits.
//
// Plain double arithmetic in a fixed order (built with -ffp-contract=off). The error is under 2
// ulp over the ranges used here. Special values: exp(-inf) = 0, log(0) = -inf, and NaN gives
// NaN.
#pragma once

double or_exp(double x);
double or_ln(double x);                                  // natural logarithm; x < 0 gives NaN
void or_sin_cos(double x, double *sine, double *cosine); // |x| <= 2^30
double or_pow(double base,
              double exponent); // base > 0; or_exp(exponent * or_ln(base)), about 1e-14 relative
// The complementary error function, within 2e-10 of itself. It is what a normal distribution has beyond x sqrt(2) of its
// deviations, on both sides. erfc(inf) = 0, erfc(-inf) = 2, NaN gives NaN.
double or_erfc(double x);
