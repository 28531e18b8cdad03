// The tables and functions that the sources of lanes share.
#pragma once

#include <math.h>

#include "common/base/math/lanes.h"

extern const or_lanes_t or_lanes_plain;

// These are defined only where OR_LANES_X86 is.
extern const or_lanes_t or_lanes_avx2;
extern const or_lanes_t or_lanes_avx512;

// The AVX-512 table uses these too: wider registers would not make them faster.
double or_lanes_largest_avx2(const double *x, uint32_t count);
void or_lanes_widen_avx2(const float *x, uint32_t count, double *y);
uint32_t or_lanes_divide_avx2(double *x, uint32_t count, double divisor, int32_t *places);
void or_lanes_bands_avx2(const double *x, uint32_t count, double origin, double per_unit,
                         uint16_t last, uint16_t *bands);
uint32_t or_lanes_within_avx2(const uint16_t *x, uint32_t count, uint16_t first, uint16_t last,
                              uint32_t *list);

// Continue `divide` at index `i`, after `kept` of the numbers before it were kept.
static inline uint32_t or_lanes_divide_from(uint32_t i, uint32_t kept, double *x, uint32_t count,
                                            double divisor, int32_t *places)
{
    for (; i < count; i++) {
        if (x[i] > -INFINITY) {
            places[kept] = (int32_t)i;
            x[kept] = x[i] / divisor;
            kept++;
        }
    }
    return kept;
}
