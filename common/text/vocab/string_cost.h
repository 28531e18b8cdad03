// string_cost - the cost of string-level rejection (slrs) to a drafter. It is estimated from the
// vocabularies alone, so that slrs can be refused before anything is drafted.
//
// To answer a question about its text, a drafter runs its model on every way to cut the
// beginnings of the target's tokens into its own tokens. The number of ways, by the number of
// tokens, is counted once for a pair. The rows of the model that they take then depend on the
// number of tokens in a distribution, and are a polynomial in it. Plain data: copy it, any
// thread may read it.
#pragma once

#include "common/text/vocab/vocab.h"

#define OR_STRING_BYTES_MAX 448u  // of a token of the target; where one has more, slrs is refused
#define OR_STRING_ROWS_MAX 4096.0 // for one answer; where more are expected, slrs is refused

typedef struct {
    uint32_t widest;       // bytes of the target's longest token
    uint32_t draft_tokens; // of the drafter that print something
    // [k]: the ways to cut the beginnings of longer tokens of the target into k tokens of
    // the drafter. [1] is infinite if counting was given up; no real vocabulary takes that
    // long.
    double ways[OR_STRING_BYTES_MAX + 1];
} or_string_cost_t;

// Count the ways. Takes 0.3 s for 150,000 tokens, and never much over a second.
// OR_ERR_NO_MEMORY.
or_status_t or_string_cost_count(const or_vocab_t *draft, const or_vocab_t *target,
                                 or_string_cost_t *cost);

// The rows of the model that a question about all tokens is expected to take, with distributions
// of `distribution_entries` tokens.
double or_string_cost_rows(const or_string_cost_t *cost, uint32_t distribution_entries);

// May this pair draft by strings? OR_ERR_UNSUPPORTED, with the figure and what to use instead,
// in four cases. More than OR_STRING_ROWS_MAX rows are expected, the target's tokens are too
// long, none of them prints anything, or counting was given up.
or_status_t or_string_cost_check(const or_string_cost_t *cost, uint32_t distribution_entries);
