// distribution - a drafter's distribution reduced to a few integers (docs/design.md section 4; docs/algorithms.md
// section 3).
//
//     p          0.61 the   0.22 a   0.09 an   0.04 its   ...
//     reduced    the 42013  a 15152  an 6198   its 2173            weights of 1 / 65,536, K tokens at most
//
// Guesses are sampled from these integers, these integers travel, and the ratio rules verify with
// these integers: the same array, bit for bit. So cutting p short costs acceptance rate and never
// exactness. What is reduced is a sampler's or_distribution_t (sampler.h); the integers are an
// or_reduced_distribution_t. Pure functions: any thread.
#pragma once

#include "common/decode/sampling/sampler.h"

#define OR_DISTRIBUTION_TOTAL 65536u     // what the weights of a distribution add up to
#define OR_DISTRIBUTION_ENTRIES_MAX 256u // tokens in a distribution
#define OR_DISTRIBUTION_ENTRIES 32u      // the usual number

// Tokens ascend, each weight is at least 1, and the weights add up to OR_DISTRIBUTION_TOTAL.
typedef struct {
    const uint32_t *tokens;
    const uint32_t *weights;
    uint32_t count;
} or_reduced_distribution_t;

// The `entries` most likely tokens of `dist` (ties: lower id), their probabilities rounded to
// integers by largest remainder. Those that round to 0 are left out. Writes at most `entries` (1
// .. OR_DISTRIBUTION_ENTRIES_MAX) tokens and weights and returns how many: at least 1.
uint32_t or_distribution_reduce(const or_distribution_t *dist, uint32_t entries, uint32_t *tokens,
                                uint32_t *weights);

// Is a peer's distribution well formed? OR_ERR_INVALID says what is wrong.
or_status_t or_distribution_check(const or_reduced_distribution_t *dist, uint32_t vocab_size);

// The index of `token` in the distribution; dist->count if it is not there.
uint32_t or_distribution_find(const or_reduced_distribution_t *dist, uint32_t token);

// The rest of a distribution when tokens have been drawn from it without replacement. Sums are of
// integers and exact.
typedef struct {
    or_reduced_distribution_t dist; // borrowed
    double total;
    double weights[OR_DISTRIBUTION_ENTRIES_MAX]; // 0: drawn
} or_distribution_left_t;

void or_distribution_left_init(or_distribution_left_t *left, const or_reduced_distribution_t *dist);
// Take out the token at `index`.
void or_distribution_left_remove(or_distribution_left_t *left, uint32_t index);
