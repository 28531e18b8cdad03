// belief - how far a drafter trusts that the target agrees with its best perturbed scores (docs/algorithms.md section
// 1, coupled).
//
// The drafter sees s = log p + G and believes that the target draws x with probability softmax(s / tau). A small tau
// trusts the top score (a chain), a large one spreads (a bush). The value of tau is fitted online. Every verdict
// reveals the target's draw y at the nodes it visited, and of a fixed grid the tau with the best discounted
// log-likelihood of those y is used. One thread.
#pragma once

#include <stdint.h>

#define OR_BELIEF_GRID 12u

typedef struct {
    double log_likelihood[OR_BELIEF_GRID]; // discounted sums
} or_belief_t;

// Begin with the prior: tau near 0.6, worth a few observations.
void or_belief_init(or_belief_t *belief);
double or_belief_tau(const or_belief_t *belief);
// Learn from one draw of the target. `scores` are the drafter's top `count`, best first; `rank` is the draw's place
// among them, or count if it was not there.
void or_belief_learn(or_belief_t *belief, const double *scores, uint32_t count, uint32_t rank);
