// accept_internal - what a rule is: which token follows one node of the tree. The walk from node to
// node is shared (accept.c): a token that a child carries is accepted and the walk goes on there.
#pragma once

#include "verifier/accept.h"

// The token after `node`, whose law is `q`.
typedef int32_t (*or_accept_choose_t)(const or_accept_job_t *job, uint32_t node, const or_law_t *q,
                                      or_noise_place_t place);

int32_t or_accept_coupled(const or_accept_job_t *job, uint32_t node, const or_law_t *q,
                          or_noise_place_t place);
int32_t or_accept_greedy(const or_accept_job_t *job, uint32_t node, const or_law_t *q,
                         or_noise_place_t place);
int32_t or_accept_sps(const or_accept_job_t *job, uint32_t node, const or_law_t *q,
                      or_noise_place_t place);
int32_t or_accept_multi_round(const or_accept_job_t *job, uint32_t node, const or_law_t *q,
                              or_noise_place_t place);
int32_t or_accept_recursive(const or_accept_job_t *job, uint32_t node, const or_law_t *q,
                            or_noise_place_t place);

// What the ratio rules share. At a node: M = q, children x in the order they were drawn, S what each
// was drawn from.
typedef struct {
    const or_accept_job_t *job;
    uint32_t node;
    uint32_t child;  // x; 0: there are no more
    uint32_t tested; // children before it
    or_law_left_t s;
} or_ratio_t;

// M = q, x = the first child.
void or_ratio_open(or_ratio_t *ratio, const or_accept_job_t *job, uint32_t node, const or_law_t *q);
// u < M(x) / S(x)?
bool or_ratio_accepts(or_ratio_t *ratio);
// M = N[[M - S]+]
void or_ratio_reject(or_ratio_t *ratio);
// S(x) = 0, S = N[S]
void or_ratio_take_out(or_ratio_t *ratio);
void or_ratio_next(or_ratio_t *ratio);
int32_t or_ratio_token(const or_ratio_t *ratio); // x
// y ~ M
int32_t or_ratio_draw(const or_ratio_t *ratio);
