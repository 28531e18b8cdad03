// The constants of or_exp, which vector code repeats operation by operation (lanes_avx2.c).
#pragma once

// ln 2 in two parts; multiples of the first up to 2^12 are exact.
#define LN2_HIGH 0x1.62e42fefa3p-1
#define LN2_LOW 0x1.3de6af278ece6p-42
#define ONE_OVER_LN2 0x1.71547652b82fep+0

#define EXP_OVERFLOW 709.782712893384   // above it the result is infinite
#define EXP_UNDERFLOW -745.133219101942 // below it, 0

#define ORDINARY 700.0 // no magnitude up to it makes a result that is not normal

// (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2
#define EXP_TERMS 12
#define EXP_SERIES                                                                                 \
    1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880,       \
        1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800
