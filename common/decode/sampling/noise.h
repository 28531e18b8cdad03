// noise - the Gumbel variates that drafter and verifier share (docs/design.md section 4).
//
// Coupled decoding draws the next token as argmax_x (log q(x) + G(x)), an exact sample of q (the
// Gumbel-max trick; Daliri et al. 2024, arXiv 2408.07978). G is a pure function of (seed, choice,
// place in the completion, token content). So a drafter that knows the seed can perturb its own
// guesses alike, and nothing about batch, tree or drafter can change the text.
//
//     counter = (byte offset of the token's first byte in the completion,     32 bits
//                zero-width tokens already emitted at that offset,            32 bits
//                the token's noise key, or_vocab_noise_keys)                  64 bits
//     key     = Philox key of (seed, choice index)
//
// Each (place, token) pair is met once along any path: every token either moves the offset or the
// zero-width count.
#pragma once

#include <stdint.h>

#include "common/base/math/rng.h"

// The place in the completion where a token begins.
typedef struct {
    uint32_t byte_offset;
    uint32_t zero_width;
} or_noise_place_t;

// The place after a token that prints `width` bytes.
static inline or_noise_place_t or_noise_advance(or_noise_place_t place, uint32_t width)
{
    if (width > 0) {
        return (or_noise_place_t){place.byte_offset + width, 0};
    }
    return (or_noise_place_t){place.byte_offset, place.zero_width + 1};
}

// The key that drafters of a coupled session receive. One key, one sample: n completions need n
// choices.
or_rng_key_t or_noise_key(uint64_t seed, uint32_t choice);

// The uniform U in (0, 1), of 53 bits.
double or_noise_uniform(or_rng_key_t key, or_noise_place_t place, uint64_t token_key);

// The variate G = -log(-log U).
double or_noise_gumbel(or_rng_key_t key, or_noise_place_t place, uint64_t token_key);

// The draw: the id that maximises scores[i] + G(ids[i]), lowest id on ties. scores are
// log-probabilities up to a constant; ids[i] index token_keys. count > 0. NaN scores never win.
// Most tokens are screened by U before a logarithm is taken.
int32_t or_noise_argmax(or_rng_key_t key, or_noise_place_t place, const int32_t *ids,
                        const double *scores, uint32_t count, const uint64_t *token_keys);

// The perturbed scores themselves, for a drafter's ranking: perturbed[i] = scores[i] + G(ids[i]),
// except that one more than `window` below the best may be -INFINITY instead. Returns the best;
// -INFINITY if every score is that or NaN.
double or_noise_perturb(or_rng_key_t key, or_noise_place_t place, const int32_t *ids,
                        const double *scores, uint32_t count, const uint64_t *token_keys,
                        double window, double *perturbed);
