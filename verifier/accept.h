// accept - the acceptance rules: from a tree and the target's logits to a path and the token after
// it (DESIGN.md section 6).
//
// A rule is one file, accept_<rule>.c, and one row of the table in accept.c. Every rule here is
// lossless for the drafting methods that common/decode/methods.h pairs it with. One thread.
#pragma once

#include "common/decode/methods.h"
#include "common/decode/noise.h"
#include "common/decode/sampler.h"
#include "common/decode/token_tree.h"

// The target's logits after `node` (0: the root). Valid until the next call.
typedef or_status_t (*or_node_logits_t)(void *context, uint32_t node, const float **logits);

typedef struct {
    const or_token_tree_t *tree;
    or_node_logits_t logits;
    void *logits_context;
    or_sampler_t *sampler; // scratch
    const or_sampling_t *sampling;
    // Committed tokens, the root last; room for the tree's depth + 1 more, which the rule uses.
    int32_t *history;
    uint32_t history_count;
    or_noise_place_t place; // where the next token begins
    or_rng_key_t noise_key;
    const uint64_t *token_keys; // per id, of the target's vocabulary
    const uint32_t *widths;
    const uint32_t *stop_ids;
    uint32_t stop_count;
} or_accept_job_t;

typedef struct {
    uint32_t accepted[OR_TREE_NODES_MAX]; // node numbers, each the child of the one before
    uint32_t accepted_count;
    int32_t next;
    bool stopped; // `next` is a stop id: nothing comes after it
} or_acceptance_t;

// Errors are those of job->logits, and OR_ERR_UNSUPPORTED for an unknown rule.
or_status_t or_accept(or_accept_rule_t rule, const or_accept_job_t *job,
                      or_acceptance_t *acceptance);
