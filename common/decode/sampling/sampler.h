// sampler - from logits to the distribution that decoding samples: bias, penalties, temperature, top-k,
// top-p, min-p, in that order.
//
// The distribution at a node depends on the path to it (penalties), so it is computed where it is needed, by
// one function used by verifier and drafter alike. Order, as in Hugging Face's and vLLM's pipelines
// (llama.cpp's default puts temperature last):
//
//     logits + bias -> repetition, presence, frequency penalties over the last `repeat_last_n` tokens of prompt + completion
//            -> / temperature -> top-k -> top-p (smallest set of mass >= p) -> min-p (p(x) >= min_p * max p)
//
// All of it in double with our own exp: the distribution is the same bits on every host that has the same
// logits. Ties rank by lower id. Temperature 0 keeps one token, the best after bias and penalties.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"

// The biases travel to the verifier and to every drafter of the text, which all keep them.
#define OR_BIASES_MAX 1024u

typedef struct {
    int32_t id;
    float bias; // added to the logit; -INFINITY bans
} or_logit_bias_t;

typedef struct {
    float temperature; // 0: greedy
    uint32_t top_k;    // 0: off
    float top_p;       // 1: off
    float min_p;       // 0: off
    // 1: off. Logits of seen tokens are divided (positive) or multiplied (negative) by it.
    float repeat_penalty;
    float presence_penalty;      // 0: off. Subtracted once from seen tokens
    float frequency_penalty;     // 0: off. Subtracted times the count
    int32_t repeat_last_n;       // window of the three penalties; 0: off, -1: everything
    const or_logit_bias_t *bias; // borrowed
    uint32_t bias_count;
} or_sampling_t;

// Everything off, temperature 0.8, repeat_last_n 64.
or_sampling_t or_sampling_default(void);
// OR_ERR_INVALID names the field and its range; there are at most OR_BIASES_MAX biases. vocab_size bounds their ids.
or_status_t or_sampling_check(const or_sampling_t *sampling, uint32_t vocab_size);

// Is it without biases and penalties, so that the distribution depends on the logits alone?
bool or_sampling_is_plain(const or_sampling_t *sampling);

// The tokens that survive the filters, and no others. Scores are log-probabilities up to one
// constant. Unless a filter sorted them (best first), ids ascend.
typedef struct {
    const int32_t *ids;
    const double *scores; // logit / temperature (temperature 0: the one score is 0)
    // Probabilities up to a constant, the best one's 1; NULL before or_sampler_weigh.
    const double *weights;
    uint32_t count; // >= 1
} or_distribution_t;

typedef struct or_sampler or_sampler_t;

// Scratch for one vocabulary size; one thread at a time. OR_ERR_NO_MEMORY.
or_status_t or_sampler_create(uint32_t vocab_size, or_sampler_t **sampler_p);
void or_sampler_destroy(or_sampler_t **sampler_p);

// The distribution for `logits` [vocab_size] after `history` (prompt + completion + path, oldest first; only
// the window is read). The result lives in the sampler until the next call. NaN logits count as
// -infinity; if nothing is finite, token 0 is kept.
or_distribution_t or_sampler_distribution(or_sampler_t *sampler, const or_sampling_t *sampling,
                                          const float *logits, const int32_t *history,
                                          uint32_t history_count);
// Fill in dist->weights of the last distribution, for callers that compare probabilities rather than rank
// scores.
void or_sampler_weigh(or_sampler_t *sampler, or_distribution_t *dist);
