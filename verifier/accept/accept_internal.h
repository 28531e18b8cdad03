// accept_internal - what a rule is, one of two kinds.
//
//     choose    which token follows one node; the walk from node to node is shared (accept.c): a
//               token that a child carries is accepted and the walk goes on there
//     judge     a rule whose path depends on what lies deeper walks the tree itself
#pragma once

#include "verifier/accept/accept.h"

// The token after `node`, whose distribution is `q`.
typedef int32_t (*or_accept_choose_t)(const or_accept_job_t *job, uint32_t node,
                                      const or_distribution_t *q, or_noise_place_t place);
// As or_accept.
typedef or_status_t (*or_accept_judge_t)(const or_accept_job_t *job, or_acceptance_t *acceptance);

int32_t or_accept_coupled(const or_accept_job_t *job, uint32_t node, const or_distribution_t *q,
                          or_noise_place_t place);
int32_t or_accept_greedy(const or_accept_job_t *job, uint32_t node, const or_distribution_t *q,
                         or_noise_place_t place);
int32_t or_accept_sps(const or_accept_job_t *job, uint32_t node, const or_distribution_t *q,
                      or_noise_place_t place);
int32_t or_accept_kseq(const or_accept_job_t *job, uint32_t node, const or_distribution_t *q,
                       or_noise_place_t place);
int32_t or_accept_otm(const or_accept_job_t *job, uint32_t node, const or_distribution_t *q,
                      or_noise_place_t place);
int32_t or_accept_multi_round(const or_accept_job_t *job, uint32_t node, const or_distribution_t *q,
                              or_noise_place_t place);
int32_t or_accept_recursive(const or_accept_job_t *job, uint32_t node, const or_distribution_t *q,
                            or_noise_place_t place);
int32_t or_accept_lenient(const or_accept_job_t *job, uint32_t node, const or_distribution_t *q,
                          or_noise_place_t place);
or_status_t or_accept_block(const or_accept_job_t *job, or_acceptance_t *acceptance);
or_status_t or_accept_traversal(const or_accept_job_t *job, or_acceptance_t *acceptance);
or_status_t or_accept_typical(const or_accept_job_t *job, or_acceptance_t *acceptance);
or_status_t or_accept_slrs(const or_accept_job_t *job, or_acceptance_t *acceptance);

// ---- for rules that judge ----

bool or_accept_is_stop(const or_accept_job_t *job, int32_t token);
// The target's distribution at `node`; writes the path there behind the history.
or_status_t or_accept_distribution_at(const or_accept_job_t *job, uint32_t node,
                                      or_distribution_t *q);
// The path to `node` is accepted; `next` follows it.
void or_accept_take(const or_accept_job_t *job, uint32_t node, int32_t next,
                    or_acceptance_t *acceptance);
// The path to `node`, whose token is a stop id, is accepted, and the text ends with it.
void or_accept_take_stop(const or_accept_job_t *job, uint32_t node, or_acceptance_t *acceptance);

// ---- what the ratio rules share ----

// At a node: M = q, children x in the order they were drawn, S what each was drawn from.
typedef struct {
    const or_accept_job_t *job;
    uint32_t node;
    uint32_t child;      // x; 0: there are no more
    uint32_t tested;     // children before it
    uint32_t dist_index; // of its distribution
    double lenience;     // 1 for what is lossless
    or_distribution_left_t s;
} or_ratio_t;

// M = q, x = the first child.
void or_ratio_open(or_ratio_t *ratio, const or_accept_job_t *job, uint32_t node,
                   const or_distribution_t *q);
// u < lenience M(x) / S(x)?
bool or_ratio_accepts(or_ratio_t *ratio);
// M = N[[M - S]+]
void or_ratio_reject(or_ratio_t *ratio);
// S(x) = 0, S = N[S]
void or_ratio_take_out(or_ratio_t *ratio);
// The next child; S = its distribution, where that is another one.
void or_ratio_next(or_ratio_t *ratio);
int32_t or_ratio_token(const or_ratio_t *ratio); // x
// y ~ M
int32_t or_ratio_draw(const or_ratio_t *ratio);

// ---- i.i.d. children (kseq, otm) ----

// The children x of a node, K draws from p; p and q at the distribution's tokens.
typedef struct {
    const or_accept_job_t *job;
    uint32_t node;
    uint32_t children; // K
    or_reduced_distribution_t dist;
    double p[OR_DISTRIBUTION_ENTRIES_MAX], q[OR_DISTRIBUTION_ENTRIES_MAX];
    double q_total; // what q's weights were divided by
} or_iid_t;

// False if the node has no children: then y ~ q is to be drawn (or_iid_draw).
bool or_iid_open(or_iid_t *iid, const or_accept_job_t *job, uint32_t node,
                 const or_distribution_t *q);
// Where the child's token is in the distribution.
uint32_t or_iid_place(const or_iid_t *iid, uint32_t child);
// y ~ N[q - taken], taken[i] being of the distribution's token i.
int32_t or_iid_draw_rest(const or_iid_t *iid, const double *taken);
int32_t or_iid_draw(const or_iid_t *iid); // y ~ q
