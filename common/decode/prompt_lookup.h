// prompt_lookup - guesses without a model: what followed when the text's last tokens occurred before
// (prompt lookup decoding, Saxena 2023; LLMA, Yang et al. 2023).
//
//     ... the cat sat on the mat . the cat ran . the cat ...
//         ~~~~~~~            most recent first:  ran .   then  sat on the mat
//
// The longest suffix that occurred before is used, up to OR_LOOKUP_SUFFIX_MAX tokens. The continuations of
// all its occurrences are merged into a tree, as far as nodes are left. Each is followed as far as its tokens
// may be guessed. The tree is a function of the text alone, so it suits only rules that do not care how a
// guess was made (coupled, greedy, naive).
#pragma once

#include <stdint.h>

#define OR_LOOKUP_SUFFIX_MAX 4u

typedef struct {
    const int32_t *text; // all of it, the last token included
    uint32_t count;
    const int32_t *map; // tokens it has below 0 are not guessed; NULL: all are
    uint32_t nodes_max, depth_max;
} or_lookup_t;

// Guess i has number i + 1; 0 is the text's last token.
typedef struct {
    int32_t token;
    uint32_t parent, depth;
} or_lookup_guess_t;

// Fill in the guesses, at most lookup->nodes_max, parents first and siblings with different tokens.
// Returns their number, 0 if the last token is new. Takes time in proportion to the text's length.
uint32_t or_prompt_lookup(const or_lookup_t *lookup, or_lookup_guess_t *guesses);
