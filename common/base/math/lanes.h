// lanes - the loops over a whole vocabulary, in plain C, with AVX2 and with AVX-512, bit for bit
// alike.
//
// Each loop is defined by its plain code. Vector code gives lanes to tokens and does to each what the
// plain code does, in the same order, so a distribution and a draw are the same bits on every processor.
// OUTRIDER_KERNELS=ref keeps to the plain loops and =avx2 to AVX2, as they do for kernels.
#pragma once

#include <stdint.h>

#include "common/base/math/rng.h"

typedef struct {
    const char *name;

    // The largest x; NaN counts as -INFINITY, and so does nothing at all.
    double (*largest)(const double *x, uint32_t count);
    // y[i] = x[i], or -INFINITY where that is not finite.
    void (*widen)(const float *x, uint32_t count, double *y);
    // Keep what is above -INFINITY, divided by `divisor`, in place; places[k] is where the k-th was.
    // Returns how many there are.
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
    // What or_philox_many does.
    void (*philox)(or_rng_key_t key, const uint32_t high[2], const uint64_t *low, uint32_t count,
                   uint64_t *bits);
    // List the counters whose first 64 bits begin with `ones` (at most 32) ones, ascending;
    // returns how many.
    uint32_t (*philox_ones)(or_rng_key_t key, const uint32_t high[2], const uint64_t *low,
                            uint32_t count, unsigned ones, uint32_t *list);
} or_lanes_t;

// Those that are used here, chosen at the first call. Never NULL; any thread.
const or_lanes_t *or_lanes(void);

// "ref" (always there), "avx2", "avx512"; NULL where this processor or this build has them not.
const or_lanes_t *or_lanes_find(const char *name);
