// toy - a pair of models of 3 to 5 tokens whose distributions are small rationals, different after every
// text, and a drafter that drafts with the real builder.
//
//     q(text)   integer weights from 0 to 7
//     p(text)   sixteenths, sent as multiples of 4,096: exact in a distribution of 16 bits
//
// So nothing in a rule's arithmetic rounds, and what is enumerated is exact.
#pragma once

#include "common/decode/sampling/distribution.h"
#include "common/text/vocab/vocab_pair.h"
#include "drafter/build/builder.h"
#include "proto/wire/message.h"

#define TOY_VOCAB_MAX 5u
#define TOY_LENGTH_MAX 64u // of a text

typedef struct {
    uint64_t seed;
    uint32_t vocab_size;
    bool same; // q is p
    // The same distributions are used after every text: weights [vocab_size], the drafter's
    // adding up to OR_DISTRIBUTION_TOTAL. NULL: they differ.
    const double *fixed_target;
    const uint32_t *fixed_draft;
    // The vocabularies differ: the target's first vocab_size tokens and the drafter's first draft_size have
    // distributions. A text consists of the tokens of whichever model is asked. The drafter gives tokens that
    // both have 0, 4, 8 or 16 of its sixteenths, so that a reduced distribution has no more digits. NULL: they
    // are the same.
    const or_vocab_pair_t *pair;
    uint32_t draft_size;
    bool restricted; // tli: the drafter guesses only what both have
    int32_t root;    // the token before the text, in either's ids
} toy_t;

// Compute the weights [vocab_size] of the target's distribution after a text.
void toy_target(const toy_t *toy, const int32_t *text, uint32_t length, double *weights);
// Compute the drafter's distribution in arrays of vocab_size entries. Returns how many tokens it
// has.
uint32_t toy_draft(const toy_t *toy, const int32_t *text, uint32_t length, uint32_t *tokens,
                   uint32_t *weights);

// Compute what tli leaves of the drafter's distribution. If nothing is left, it is the first
// token that both have, as in the builder.
uint32_t toy_restricted(const toy_t *toy, const int32_t *text, uint32_t length, uint32_t *tokens,
                        uint32_t *weights);
// The number of tokens that may have a share of the drafter's distribution.
uint32_t toy_draft_size(const toy_t *toy);

typedef struct {
    or_draft_method_t method;
    or_accept_rule_t rule;
    or_shape_t shape;
    uint32_t nodes, depth;
    bool calibrated; // dyspec: by measured acceptance, of which there is none yet
    float threshold; // dyspec-t
} toy_plan_t;

// A drafter of toys. One at a time.
typedef struct toy_drafter toy_drafter_t;
toy_drafter_t *toy_drafter_create(void);
void toy_drafter_destroy(toy_drafter_t **drafter_p);
// Draw a tree after the empty text (below the toy's root token) into `tree`. The draws are borrowed until
// the next call; NULL if the best guesses are taken.
const or_draws_t *toy_drafter_draft(toy_drafter_t *drafter, const toy_t *toy,
                                    const toy_plan_t *plan, or_chooser_t *chooser,
                                    or_token_tree_t *tree);

// For slrs: draw a chain of the target's tokens (drafter/strings/strings.h) of the plan's depth into
// `tree`. Returns the psi of its nodes, which is borrowed until the next call, as the chooser is.
const double *toy_drafter_draft_strings(toy_drafter_t *drafter, const toy_t *toy,
                                        const toy_plan_t *plan, or_chooser_t *chooser,
                                        or_token_tree_t *tree);
// Ask for the psi after a node of that chain, of tokens that ascend.
void toy_drafter_ask(toy_drafter_t *drafter, uint32_t node, const int32_t *ids, uint32_t count,
                     double *psi);
