// synthetic - pairs of models of 1,000 tokens that agree as often as asked, and the tokens per target
// call that a method and a rule make of them.
//
// The model is that of docs/algorithms.md's oracle. A text is in one of some hundred contexts, which follow
// each other by a hash. The target's q is Zipf's distribution with an exponent from 1 to 3.5, shuffled. The
// draft's log p is log q plus noise, whose strength gives the mean of sum min(p, q) that was asked for. Trees
// come from the real builder, verdicts from the real rules under the choosers of processes. Distributions have
// 256 entries of 16 bits.
#pragma once

#include "common/decode/shape.h"

typedef struct synthetic synthetic_t;

synthetic_t *synthetic_create(uint64_t seed, double acceptance);
void synthetic_destroy(synthetic_t **synthetic_p);

// The drafting of a round, and the rule that judges it.
typedef struct {
    or_draft_method_t method;
    or_accept_rule_t rule;
    bool calibrated;
    uint32_t nodes;
    or_shape_t shape; // for methods that have one
} synthetic_plan_t;

// Return the mean number of tokens a call over `rounds`, after a third as many rounds in which
// the drafter learns.
double synthetic_tokens(synthetic_t *synthetic, const synthetic_plan_t *plan, uint32_t rounds);
