// chi_square - Pearson's test over several multinomial samples at once, cells pooled to an
// expectation of 5 or more.
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    double statistic;
    uint32_t degrees;
} chi_square_t;

// Add one sample: the observed counts and the expected ones (of equal sums) of `count` cells.
void chi_square_add(chi_square_t *test, const uint32_t *observed, const double *expected,
                    uint32_t count);

// Do the samples fit? The false alarm rate is one in a million.
bool chi_square_fits(const chi_square_t *test);
