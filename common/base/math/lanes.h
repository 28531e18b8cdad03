// lanes - the loops over a whole vocabulary, in plain C, with AVX2 and with AVX-512, bit for bit
// alike.
//
// Each loop is defined by its plain code. Vector code gives each token a lane and applies the plain
// code's operations in the same order. So a distribution and a draw have the same bits on every
// processor. OUTRIDER_KERNELS=ref keeps to the plain loops and =avx2 to AVX2, as they do for kernels.
#pragma once

#include <stdint.h>

#include "common/base/math/rng.h"

typedef struct {
    const char *name;

    // The largest x. NaN counts as -INFINITY, which is also the result for an empty list.
    double (*largest)(const double *x, uint32_t count);
    // y[i] = x[i], or -INFINITY where that is not finite.
    void (*widen)(const float *x, uint32_t count, double *y);
    // Keep the numbers above -INFINITY, divided by `divisor`, in place; places[k] is the old
    // index of the k-th. Returns how many there are.
    uint32_t (*divide)(double *x, uint32_t count, double divisor, int32_t *places);
    // y[i] = or_exp(x[i] - origin).
    void (*exp_from)(const double *x, uint32_t count, double origin, double *y);
    // bands[i] = (origin - x[i]) * per_unit, rounded down, at most `last`; NaN gives `last` too.
    // No x is above the origin.
    void (*bands)(const double *x, uint32_t count, double origin, double per_unit, uint16_t last,
                  uint16_t *bands);
    // List the i with first <= x[i] <= last, ascending; returns how many.
    uint32_t (*within)(const uint16_t *x, uint32_t count, uint16_t first, uint16_t last,
                       uint32_t *list);
    // The loop of or_philox_many.
    void (*philox)(or_rng_key_t key, const uint32_t high[2], const uint64_t *low, uint32_t count,
                   uint64_t *bits);
    // List the counters whose first 64 bits begin with `ones` (at most 32) ones, ascending;
    // returns how many.
    uint32_t (*philox_ones)(or_rng_key_t key, const uint32_t high[2], const uint64_t *low,
                            uint32_t count, unsigned ones, uint32_t *list);
} or_lanes_t;

// The loops that this process uses, chosen at the first call. Never NULL; any thread.
const or_lanes_t *or_lanes(void);

// The loops by name: "ref" (always there), "avx2", "avx512". NULL if this processor or this
// build lacks them.
const or_lanes_t *or_lanes_find(const char *name);
