// accept_internal - an acceptance rule is a row that its file exports. It is one of two kinds.
//
//     choose    decides which token follows one node. The walk from node to node is shared (accept.c): if a child carries
//               the token, it is accepted and the walk goes on there
//     judge     walks the tree itself, because its path depends on what lies deeper
#pragma once

#include "verifier/accept/accept.h"

// A rule. One of the two functions is NULL.
typedef struct {
    or_accept_rule_t rule;
    // Return the token after `node`, where the target's distribution is `q`.
    int32_t (*choose)(const or_accept_job_t *job, uint32_t node, const or_distribution_t *q,
                      or_noise_place_t place);
    // Do what or_accept does.
    or_status_t (*judge)(const or_accept_job_t *job, or_acceptance_t *acceptance);
} or_accept_row_t;

extern const or_accept_row_t or_accept_coupled, or_accept_naive, or_accept_greedy, or_accept_sps,
    or_accept_kseq, or_accept_otm, or_accept_multi_round, or_accept_recursive, or_accept_lenient,
    or_accept_block, or_accept_traversal, or_accept_typical, or_accept_slrs;

// ---- for rules that judge ----

bool or_accept_is_stop(const or_accept_job_t *job, int32_t token);
// Ask for the target's distribution at `node`. Writes the path there behind the history.
or_status_t or_accept_distribution_at(const or_accept_job_t *job, uint32_t node,
                                      or_distribution_t *q);
// Accept the path to `node`, which `next` follows.
void or_accept_take(const or_accept_job_t *job, uint32_t node, int32_t next,
                    or_acceptance_t *acceptance);
// Accept the path to `node`, whose token is a stop id: the text ends with it.
void or_accept_take_stop(const or_accept_job_t *job, uint32_t node, or_acceptance_t *acceptance);

// ---- rules for i.i.d. children (accept_iid.c) ----

// The K children of a node were drawn from p. Both p and q are known at the tokens of p's reduced distribution.
typedef struct {
    const or_accept_job_t *job;
    uint32_t node;
    uint32_t children; // K
    or_reduced_distribution_t dist;
    double p[OR_DISTRIBUTION_ENTRIES_MAX], q[OR_DISTRIBUTION_ENTRIES_MAX];
    double q_total; // the sum that q's weights were divided by
} or_iid_t;

// Return false if the node has no children; then draw y ~ q (or_iid_draw).
bool or_iid_open(or_iid_t *iid, const or_accept_job_t *job, uint32_t node,
                 const or_distribution_t *q);
// Return the index of the child's token in the distribution.
uint32_t or_iid_place(const or_iid_t *iid, uint32_t child);
// Draw y ~ N[q - taken]; taken[i] belongs to token i of the distribution.
int32_t or_iid_draw_rest(const or_iid_t *iid, const double *taken);
// Draw y ~ q.
int32_t or_iid_draw(const or_iid_t *iid);
