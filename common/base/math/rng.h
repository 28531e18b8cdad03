// rng - counter-based randomness: Philox 4x32-10 (Salmon et al. 2011; Random123). No state, so no
// order to get wrong.
//
// A draw is a pure function of (key, counter). Two draws that must be independent differ in key or
// counter. The counters of one key are laid out by exactly one module: decode/noise for the target's
// draws, or_rng_draw for all others.
#pragma once

#include <stdint.h>

#include "common/base/inline.h"

typedef struct {
    uint64_t value;
} or_rng_key_t;

// The purpose of a private draw. The numbers are part of "same seed, same text": never renumber.
typedef enum {
    OR_RNG_DRAFT = 1,    // a drafter samples a child
    OR_RNG_ACCEPT = 2,   // an acceptance uniform
    OR_RNG_RESIDUAL = 3, // a draw from a residual distribution
    OR_RNG_TEST = 4,     // tests
    OR_RNG_NETWORK = 5,  // the simulated network
} or_rng_purpose_t;

// Map 128 counter bits to 128 random bits.
void or_philox(or_rng_key_t key, const uint32_t counter[4], uint32_t out[4]);

// The same for many counters that differ in their lower 64 bits only. bits[i] is the first 64
// bits (out[0] the lower half) of the counter {low[i], low[i] >> 32, high[0], high[1]}. It is
// several times as fast as one by one.
void or_philox_many(or_rng_key_t key, const uint32_t high[2], const uint64_t *low, uint32_t count,
                    uint64_t *bits);

// A key from a seed and a label number, e.g. (seed, choice index): independent for different pairs.
or_rng_key_t or_rng_key(uint64_t seed, uint64_t label);

// 64 random bits for the counter (purpose, round, node, draw). `purpose` takes 8 bits, `draw` 24.
uint64_t or_rng_draw(or_rng_key_t key, or_rng_purpose_t purpose, uint32_t round, uint32_t node,
                     uint32_t draw);

// Map 64 random bits to a uniform in the open interval (0, 1): (h >> 11 + 0.5) / 2^53. Its
// largest value would round to 1.
OR_INLINE double or_rng_uniform(uint64_t bits)
{
    double u = ((double)(int64_t)(bits >> 11) + 0.5) * 0x1p-53; // signed converts faster
    return u < 1 ? u : 0x1.fffffffffffffp-1;
}

// Return fresh entropy from the system, for a seed that the user did not choose.
uint64_t or_rng_system_seed(void);
