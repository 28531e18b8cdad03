// model_draws - the tokens that could be a row's next one, found where the row's logits are.
//
// A draw with noise, the most probable token, a drafter's list of children: each needs the few tokens whose scores
// come near the best one. A model on a device finds them there, and only they come to the host: some
// kilobytes a row instead of a vocabulary of floats.
//
//     distribution of a row      the  cat  dog  a  sat  ...            or_sampler_distribution, 128,256 tokens
//     contest           best score, perturbed: dog, 3.1       within a window of 2: from 1.1 on
//     contenders        cat  dog  sat                         the same distribution, and nothing else of it
//
// The same draw among the contenders has the same result. One thread, as for the model.
#pragma once

#include "common/decode/sampling/noise.h"
#include "common/decode/sampling/sampler.h"
#include "common/model/model.h"

#define OR_CONTESTS_MAX 64u // rows that are asked for at once

typedef struct {
    const or_sampling_t *sampling; // plain (or_sampling_is_plain); borrowed
    or_rng_key_t key;              // of the noise
    or_noise_place_t place;
    bool
        noisy; // scores are perturbed before they are compared; without noise they stand for themselves
    double window; // how far below the best score a contender may be: 0 leaves who draws or wins
} or_contest_t;

// Can this model find contenders? It can if it runs on a device, alone, and has its noise keys.
bool or_model_has_contenders(const or_model_t *model);

// The noise keys of the first `count` tokens (or_vocab_noise_keys), copied; the model's other rows, which are no
// tokens, take no part. To be told before the first contest; nothing where the model has no device. OR_ERR_IO.
or_status_t or_model_set_noise_keys(or_model_t *model, const uint64_t *keys, uint32_t count);

// The contenders of rows first .. first + count - 1 of the last pass, at most OR_CONTESTS_MAX. They are tokens of each row's
// distribution as or_sampler_distribution has it, in its order and with its scores: those within the window, and maybe some
// just below. dists[i].count is 0 where they are many, or hard to tell: then the row's logits have to be looked at.
// Distributions are valid until the next call. Only if or_model_has_contenders. OR_ERR_INVALID if out of the last pass's
// range; OR_ERR_IO.
or_status_t or_model_contenders(or_model_t *model, uint32_t first, uint32_t count,
                                const or_contest_t *contests, or_distribution_t *dists);

// Return how many rows' whole logits came from the device so far.
uint64_t or_model_whole_rows(const or_model_t *model);
