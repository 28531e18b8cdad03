// quant_fit - the scale, and perhaps the minimum, with which integers come nearest to some weights.
//
//     weight = scale * integer - minimum          least sum of w * squared error over a group
//
// Each weight has an importance `w`, above 0: 1 everywhere where all count alike.
//
// The best scale is not the one that reaches the largest weight: a little clipping buys finer steps.
// So a few reaches are tried; for each, the integers are rounded, and for those integers the best
// scale and minimum follow in closed form (linear regression). A group has 16 or 32 weights. Only
// sums, products and quotients, all in a fixed order: the same bits everywhere. Private to kernels.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define OR_FIT_MAX 32u // weights of a group

// The integers that a weight may have, as floats.
typedef struct {
    float lowest, highest;
    const int8_t *values; // 16 of them, ascending; NULL: all from lowest to highest
} or_fit_grid_t;

// Find the grid's integers nearest to (x + minimum) / scale; nearest to 0 where the scale is 0.
void or_fit_round(const or_fit_grid_t *grid, const float *x, uint32_t n, float scale, float minimum,
                  float *integers);
// Return the sum of w * squared error.
float or_fit_error(const float *x, const float *w, uint32_t n, const float *integers, float scale,
                   float minimum);

// Return the best scale without a minimum, of either sign.
float or_fit_scale(const or_fit_grid_t *grid, const float *x, const float *w, uint32_t n);
// Find the best scale (not negative) and minimum, for a grid that begins with 0. With `only_down` the minimum is not
// negative.
void or_fit_both(const or_fit_grid_t *grid, const float *x, const float *w, uint32_t n,
                 bool only_down, float *scale, float *minimum);
