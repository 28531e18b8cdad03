// text_law - is what all processes together write a sample of the target's law? The first tokens of many
// seeds, counted, against the law of every text, by a chi-square test.
#pragma once

#include "tests/simulation/cluster.h"

// Of `model` under top-k of TEXT_LAW_CHOICES at temperature 1: texts of TEXT_LAW_LENGTH tokens.
#define TEXT_LAW_CHOICES 3u
#define TEXT_LAW_LENGTH 3u
#define TEXT_LAW_CELLS (TEXT_LAW_CHOICES * TEXT_LAW_CHOICES * TEXT_LAW_CHOICES)

typedef struct {
    int32_t texts[TEXT_LAW_CELLS][TEXT_LAW_LENGTH];
    double probabilities[TEXT_LAW_CELLS];
} text_law_t;

// By plain forward passes after the prompt.
text_law_t text_law_of(const sim_model_t *model, const char *prompt);

// Generate with the seeds from 0 on, at least `seeds` of them, several at a time, and fail the test
// unless guesses were accepted and the texts fit the law; `what` names the case. The request's drafting is the caller's;
// prompt, lengths, seeds and sampling are set here.
void text_law_check(const text_law_t *law, const sim_config_t *config,
                    const or_generate_request_t *drafting, const char *prompt, uint32_t seeds,
                    const char *what);
