// chooser - every random choice of drafting and acceptance, behind one small interface.
//
// A rule never draws a number itself: it asks for a coin with an exact probability, for one of some
// weights, or for the target's own token. So the very functions that run in drafter and verifier can
// be run by a test that takes every choice in turn and adds up their probabilities (tests/exactness).
//
// Probabilities travel as numerator and denominator, weights as they are: nobody divides before the
// chooser does, and whoever needs the exact value has it. One thread.
#pragma once

#include "common/base/math/rng.h"
#include "common/decode/sampling/noise.h"
#include "common/decode/sampling/sampler.h"

// The identity of a choice. No two choices of a round share one.
typedef struct {
    or_rng_purpose_t purpose;
    uint32_t node; // of the tree, or a drafter's number for it
    uint32_t draw; // at that node; below 2^24
} or_choice_t;

typedef struct or_chooser or_chooser_t;
struct or_chooser {
    // True with probability numerator / denominator: never if numerator <= 0, always if it is not
    // below the denominator. denominator > 0.
    bool (*bernoulli)(or_chooser_t *chooser, or_choice_t at, double numerator, double denominator);
    // Index i with probability weights[i] / sum. Weights are not negative; one is positive.
    uint32_t (*draw)(or_chooser_t *chooser, or_choice_t at, const double *weights, uint32_t count);
    // A number in (0, 1).
    double (*uniform)(or_chooser_t *chooser, or_choice_t at);
    // The target's own token at a place of the text.
    int32_t (*token)(or_chooser_t *chooser, const or_distribution_t *dist, or_noise_place_t place);
};

// The chooser of processes: counters under a key (or_rng_draw), and the target's token by noise.
typedef struct {
    or_chooser_t chooser; // first
    or_rng_key_t key;
    uint32_t round;
    or_rng_key_t noise_key;
    const uint64_t *token_keys; // per id; NULL where `token` is never asked
} or_keyed_chooser_t;

or_keyed_chooser_t or_keyed_chooser(or_rng_key_t key, uint64_t round, or_rng_key_t noise_key,
                                    const uint64_t *token_keys);
