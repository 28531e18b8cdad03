// strings - a drafter's text as tokens of the target, and the probability psi of each: the
// drafter's part of string-level rejection sampling (slrs; Timor et al. 2025, arXiv 2502.05202,
// algorithm 3 with its look-ahead rule; docs/algorithms.md section 4).
//
//     target has      a  ab  abc  b  c  d
//     drafter draws   ab | c | d | ...              after "ab" an "abc" is still possible: one more is drawn
//     the chain       abc        | d ...            psi(abc) = p(abc) + p(ab) p(c | ab) + p(a) p(bc | a) + ...
//
// A text begins with the longest token of the target that it begins with; text is drawn until no
// longer one is possible. The probability that t is that token, over all that the drafter could
// draw from where the position begins, is psi(t). It is a sum over all its paths, run through the
// model in batches. What is drawn already beyond the token before is given.
//
// A drafter's token that prints nothing is the target's same one, or ends what was matched before
// it. Where the text begins with no token of the target it is *outside*: the chain ends there with
// the id or_vocab_size of the target, which the target never takes.
//
// Distributions are integers, and so is what is added up. So a token's psi is the same, bit for bit, with
// the chain and in every answer, whatever else was asked for and in whatever batches. One thread.
#pragma once

#include "common/decode/token_tree.h"
#include "common/text/vocab/token_trie.h"
#include "drafter/build/builder.h"

typedef struct or_strings or_strings_t;

// Return the nodes that a builder needs for chains of `depth` tokens of the target: those of the drafter's own chain,
// and paths beside it. The target's longest token has 1 .. OR_STRING_BYTES_MAX bytes (or_string_cost_check).
uint32_t or_strings_nodes(const or_token_trie_t *target, uint32_t depth);

// Create the state for chains of up to `depth` tokens; borrows all. `to_target` is the target's id of each of the
// drafter's tokens, OR_TOKEN_NONE if it has none; it is read for tokens that print nothing. OR_ERR_NO_MEMORY.
or_status_t or_strings_create(const or_vocab_t *draft, const int32_t *to_target,
                              const or_token_trie_t *target, uint32_t depth,
                              or_strings_t **strings_p);
void or_strings_destroy(or_strings_t **strings_p);

// Write the chain that or_builder_build drew last (with job->strings): tokens of the target, and the probability of
// each after the ones before it. OR_ERR_FULL if the tree is too small.
or_status_t or_strings_fill(const or_strings_t *strings, or_token_tree_t *tree);
const double *or_strings_psi(const or_strings_t *strings); // [nodes of that tree]

// Tokens that may follow a node, ascending, and their probabilities, all above 0.
typedef struct {
    const uint32_t *tokens;
    const double *psi;
    uint32_t count;
    double outside; // the probability that none follows; counted only if all tokens are asked for
} or_strings_distribution_t;

// Ask which of these tokens (ascending; none: any) the drafter's text may go on with after `node` of the
// chain. Builder and job are those of the chain; its sequence holds every committed token, and where
// `cold` its slots are forgotten. The distribution is valid until the next question. OR_ERR_INVALID: not a
// node with a guess after it, or no such tokens; OR_ERR_UNSUPPORTED: it takes the model too long
// (or_builder_build says so too); errors of the model.
or_status_t or_strings_ask(or_strings_t *strings, or_builder_t *builder, const or_build_job_t *job,
                           bool cold, uint32_t node, const uint32_t *tokens, uint32_t count,
                           or_strings_distribution_t *dist);
