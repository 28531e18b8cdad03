// accept - the acceptance rules: from a tree and the target's distributions to a path and the token after it
// (docs/design.md section 6; docs/algorithms.md section 1).
//
// A rule is a row that its file exports, and one entry of the table in accept.c. (Traversal's file also has the row of
// block, and coupled's that of naive, under a key that no drafter has. accept_ratio.c has sps, lenient, multi-round and
// recursive.) Every rule is lossless for the drafting methods that common/decode/methods.h pairs it with, but for those it
// calls lossy. A tree may guess tokens that the target does not have, with ids beyond its vocabulary and nothing after
// them: q is 0 there, and no rule takes one. All chance comes through job->chooser, so that tests/exactness can enumerate
// it. One thread.
#pragma once

#include "common/decode/chooser.h"
#include "common/decode/draws.h"
#include "common/decode/methods.h"
#include "common/decode/sampling/noise.h"
#include "common/decode/token_tree.h"
#include "verifier/accept/residual.h"

// Get the target's distribution after `node` (0: the root) when `history` ends with that node's token. It has weights if
// the rule uses distributions (or_accept_rule_uses_distributions), is lossy or is slrs. It is valid until the next call.
// No rule asks after a node whose token is none of the target's.
typedef or_status_t (*or_target_distribution_t)(void *context, uint32_t node,
                                                const int32_t *history, uint32_t history_count,
                                                or_distribution_t *dist);

// Scratch of block and traversal: what is left of the distributions along a path.
typedef struct or_traversal or_traversal_t;

// Create scratch for paths of up to depth_max nodes. OR_ERR_NO_MEMORY.
or_status_t or_traversal_create(uint32_t depth_max, or_traversal_t **traversal_p);
void or_traversal_destroy(or_traversal_t **traversal_p);

// For slrs: get the probabilities psi(t | node) that the drafter's text begins with t, psi[i] for q->ids[i]. OR_ERR_AGAIN:
// they are not here yet; the caller goes on with or_accept_resume when they are.
typedef or_status_t (*or_string_distribution_t)(void *context, uint32_t node,
                                                const or_distribution_t *q, const double **psi);

typedef struct {
    const or_token_tree_t *tree;
    const or_draws_t
        *draws; // checked (or_draws_check); NULL if the rule does not use distributions
    or_target_distribution_t dist;
    void *dist_context;
    const double *psi; // slrs: psi(node | its parent), entry i for node i + 1; else NULL
    or_string_distribution_t string_dist; // slrs: asked only after a rejection
    void *string_context;
    or_chooser_t *chooser;
    or_residual_t *residual; // scratch; NULL if the rule neither uses distributions nor is slrs
    or_traversal_t
        *traversal; // scratch as deep as the tree; NULL for other rules than block and traversal
    // The parameters of the lossy rules (proto/wire/message.h, or_open_session_t).
    double lenience, typical_epsilon, typical_delta;
    // The committed tokens, the root last. It has room for the tree's depth + 1 more, which the rule uses.
    int32_t *history;
    uint32_t history_count;
    or_noise_place_t place; // place in the text where the next token begins
    const uint32_t *widths; // by id of the target's vocabulary
    const uint32_t *stop_ids;
    uint32_t stop_count;
} or_accept_job_t;

typedef struct {
    // Node numbers, each the child of the one before. Of repeated siblings it is always the first.
    uint32_t accepted[OR_TREE_NODES_MAX];
    uint32_t accepted_count;
    int32_t next;
    bool stopped; // `next` is a stop id, and nothing comes after it
} or_acceptance_t;

// Judge the tree. Errors are those of job->dist and job->string_dist, and OR_ERR_UNSUPPORTED for an unknown rule.
or_status_t or_accept(or_accept_rule_t rule, const or_accept_job_t *job,
                      or_acceptance_t *acceptance);

// Go on with slrs after OR_ERR_AGAIN. `node` is where string_dist was asked: the path there stays accepted and the guess
// after it rejected. Of the target only the distribution at `node` is asked for.
or_status_t or_accept_resume(const or_accept_job_t *job, uint32_t node,
                             or_acceptance_t *acceptance);
