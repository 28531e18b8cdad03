// string_cost - what string-level rejection (slrs) costs a drafter, guessed from the vocabularies
// alone, so that whoever is asked for it can refuse before anything is drafted.
//
// To say what its text may go on with, a drafter runs its model on every way to cut the beginnings
// of the target's tokens into tokens of its own. How many ways there are, by the number of tokens,
// is counted once for a pair; how many rows of the model they take then depends on how many tokens
// a distribution has, and is a polynomial. Plain data: copy it, any thread may read it.
#pragma once

#include "common/text/vocab/vocab.h"

#define OR_STRING_BYTES_MAX 448u  // of a token of the target; where one has more, slrs is refused
#define OR_STRING_ROWS_MAX 4096.0 // for one answer; where more are expected, slrs is refused

typedef struct {
    uint32_t widest;       // bytes of the target's longest token
    uint32_t draft_tokens; // of the drafter that print something
    // [k]: ways to cut the beginnings of longer tokens of the target into k tokens of the drafter.
    // [1] is infinite where counting was given up, as no real vocabulary needs so long.
    double ways[OR_STRING_BYTES_MAX + 1];
} or_string_cost_t;

// Count. Takes 0.3 s for 150,000 tokens, and never much over a second. OR_ERR_NO_MEMORY.
or_status_t or_string_cost_count(const or_vocab_t *draft, const or_vocab_t *target,
                                 or_string_cost_t *cost);

// Rows of the model that a question about all tokens is expected to take, with distributions of
// `distribution_entries` tokens.
double or_string_cost_rows(const or_string_cost_t *cost, uint32_t distribution_entries);

// May they be drafted? OR_ERR_UNSUPPORTED, with the figure and what to use instead, if that takes
// more rows than OR_STRING_ROWS_MAX, the target's tokens are too long, none prints anything, or
// counting was given up.
or_status_t or_string_cost_check(const or_string_cost_t *cost, uint32_t distribution_entries);
