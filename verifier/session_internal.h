// session_internal - what session.c (terms, prefix, trees), rows.c (rows in a pass), contests.c (contests of these
// rows) and judge.c (verdicts) share.
#pragma once

#include "verifier/accept/accept_device.h"
#include "verifier/pass/head.h"
#include "verifier/session.h"

struct or_judge {
    or_model_t *model;
    const or_vocab_t *vocab;
    uint32_t nodes_max;
    or_sampler_t *sampler;
    or_residual_t *residual;
    or_traversal_t *traversal;
    or_head_t *head;
    or_gpu_rejection_t *rejection; // NULL: the model's logits are not on one device
    int64_t device_ns;             // time spent with it
    uint32_t *slots;               // [nodes_max]
    or_acceptance_t acceptance;
    or_vsession_t *session; // the session that is being judged
    uint32_t first_row;     // of its tree
    uint32_t
        row_count; // rows of its tree in the last pass; 0: the judgement goes on after another one
    uint32_t top;  // or_head_top
    const or_clock_t *clock;
};

// Number the rows of the queued tree: row_of, tree_rows, tree_depth.
void or_vsession_number_rows(or_vsession_t *session, uint32_t vocab_size);

// Return the key of the session's draws.
or_rng_key_t or_vsession_noise_key(const or_vsession_t *session);
