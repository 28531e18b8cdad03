// session_internal - what session.c (terms, prefix, trees) and judge.c (passes and verdicts) share.
#pragma once

#include "verifier/session.h"

// Nodes are depth first: the likely path is a run of neighbours, so compute a few at once
#define LOGIT_ROWS 8u

struct or_judge {
    or_model_t *model;
    const or_vocab_t *vocab;
    uint32_t nodes_max;
    or_sampler_t *sampler;
    or_residual_t *residual;
    or_traversal_t *traversal;
    or_model_row_t *rows; // nodes_max + 1, and at least the model's
    uint32_t *row_of;     // [nodes_max + 1] the row of the pass that is this node's
    uint32_t *slots;
    or_acceptance_t acceptance;
    or_vsession_t *session; // being judged
    float *logits;          // [LOGIT_ROWS][vocab]
    uint32_t logits_first, logits_count, logits_total;
    const or_clock_t *clock;
    int64_t model_ns; // spent in the model during this judgement
};
