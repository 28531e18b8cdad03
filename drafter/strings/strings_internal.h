// strings_internal - matching text with the target's tokens, and the state that the chain leaves for questions about
// it.
#pragma once

#include "drafter/build/builder_internal.h"
#include "drafter/strings/strings.h"

// A probability as a whole number of 2^-112. Sums are exact, so they are the same bits in whatever
// order and batches the paths of a question come. Products of up to seven distributions are exact too.
typedef unsigned __int128 or_string_mass_t;
#define OR_STRING_WHOLE ((or_string_mass_t)1 << 112)

// The state of a text that is matched with the target's tokens.
typedef struct {
    or_trie_state_t state;
    int32_t token;        // the longest token so far, or OR_TOKEN_NONE
    uint32_t token_bytes; // bytes of that token; 0 if it prints nothing
    bool over;            // no longer one is possible
} or_match_t;

// One token of the chain.
typedef struct {
    uint32_t drawn; // number of the drafter's tokens before the position; guess `drawn` is the last
    uint32_t from,
        end;      // bytes of the text that were drawn before and belong to it or to later positions
    int32_t mark; // the drafter's token behind them that prints nothing, or OR_TOKEN_NONE
    int32_t token; // OR_TOKEN_NONE: outside
} or_string_position_t;

// A path of the drafter's tokens that leaves open which token of the target it begins with.
typedef struct {
    uint32_t parent; // an expanded guess
    int32_t token;
    uint32_t guess; // 0: not run yet
    uint32_t position;
    or_string_mass_t mass;
    or_match_t match;
} or_string_path_t;

struct or_strings {
    const or_vocab_t *draft;       // borrowed
    const int32_t *to_target;      // borrowed
    const or_token_trie_t *target; // borrowed
    uint32_t target_size;
    uint32_t depth_max; // most positions
    uint32_t drawn_max; // most tokens of the drafter in them

    // The chain: guesses 1 .. drawn of the builder.
    or_string_position_t *positions; // [depth_max]
    double *psi;                     // [depth_max] by position, of its token
    uint32_t count;
    uint32_t drawn;
    char *text; // the text that they print

    // The sum that is being made.
    bool asking; // the sum is for `wanted` after one position; else for each position's own token
    const uint32_t *wanted;  // ascending
    uint32_t wanted_count;   // 0: all
    uint32_t *wanted_before; // [entries + 1] how many wanted tokens have a lower entry
    uint32_t used;           // guesses
    uint32_t rows;           // guesses that have been run
    or_string_path_t *paths; // a stack of open paths
    uint32_t path_count;
    uint32_t path_room;
    or_string_mass_t *chain_sums; // [depth_max] of the positions' tokens
    or_string_mass_t *sums;       // [target_size] zero between questions
    or_string_mass_t outside;
    uint32_t *tokens; // [target_size] the tokens with a sum
    uint32_t token_count;
    double *answer; // [target_size] their sums in order
};

// Match a further token of the drafter, until the match is over.
void or_match_token(const or_strings_t *strings, or_match_t *match, int32_t token);
// Return the match of the text that was drawn before the position.
or_match_t or_match_position(const or_strings_t *strings, const or_string_position_t *position);

// Compute psi of the whole chain. The builder has its job.
or_status_t or_strings_sum_chain(or_strings_t *strings, or_builder_t *builder);
