// text_dist - tests whether the text of all processes together is a sample of the target's distribution. The
// first tokens of many seeds are counted and compared with the distribution of every text by a chi-square test.
#pragma once

#include "tests/simulation/cluster.h"

// A distribution of texts of TEXT_DIST_LENGTH tokens, under top-k of TEXT_DIST_CHOICES at
// temperature 1.
#define TEXT_DIST_CHOICES 3u
#define TEXT_DIST_LENGTH 3u
#define TEXT_DIST_CELLS (TEXT_DIST_CHOICES * TEXT_DIST_CHOICES * TEXT_DIST_CHOICES)

typedef struct {
    int32_t texts[TEXT_DIST_CELLS][TEXT_DIST_LENGTH];
    double probabilities[TEXT_DIST_CELLS];
} text_distribution_t;

// Compute the distribution by plain forward passes after the prompt.
text_distribution_t text_dist_of(const sim_model_t *model, const char *prompt);

// Generate with at least `seeds` seeds from 0 on, several at a time. The test fails unless guesses were accepted and
// the texts fit the distribution; `what` names the case. The caller sets the request's drafting; prompt, lengths,
// seeds and sampling are set here.
void text_dist_check(const text_distribution_t *dist, const sim_config_t *config,
                     const or_generate_request_t *drafting, const char *prompt, uint32_t seeds,
                     const char *what);
