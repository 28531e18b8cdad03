// text_dist - is what all processes together write a sample of the target's distribution? The first tokens of many
// seeds, counted, against the distribution of every text, by a chi-square test.
#pragma once

#include "tests/simulation/cluster.h"

// Of `model` under top-k of TEXT_DIST_CHOICES at temperature 1: texts of TEXT_DIST_LENGTH tokens.
#define TEXT_DIST_CHOICES 3u
#define TEXT_DIST_LENGTH 3u
#define TEXT_DIST_CELLS (TEXT_DIST_CHOICES * TEXT_DIST_CHOICES * TEXT_DIST_CHOICES)

typedef struct {
    int32_t texts[TEXT_DIST_CELLS][TEXT_DIST_LENGTH];
    double probabilities[TEXT_DIST_CELLS];
} text_distribution_t;

// By plain forward passes after the prompt.
text_distribution_t text_dist_of(const sim_model_t *model, const char *prompt);

// Generate with the seeds from 0 on, at least `seeds` of them, several at a time, and fail the test
// unless guesses were accepted and the texts fit the distribution; `what` names the case. The request's drafting is the caller's;
// prompt, lengths, seeds and sampling are set here.
void text_dist_check(const text_distribution_t *dist, const sim_config_t *config,
                     const or_generate_request_t *drafting, const char *prompt, uint32_t seeds,
                     const char *what);
