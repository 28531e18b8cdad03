// vocab_pair - a draft model's vocabulary beside the target's: which tokens are the same, by content.
//
//     drafter                target              to_target    to_draft
//     0  <|endoftext|>       2  </s>             2            -1  0  ...       both are "eos"
//     262 " the"             263 " the"          263          262
//     300 " th"              -                   -1                            never drafted (tli)
//     -                      4000 "Ġwonder"                   -1               reaches the drafter as text
//
// Two tokens are the same when their noise keys are (vocab.h): the same bytes and kind or role. What
// both have is the intersection I of "lossless decoding across vocabularies" (Timor et al. 2025,
// token-level intersection). Immutable after create: any thread.
#pragma once

#include "common/text/vocab/vocab.h"

typedef struct {
    const or_vocab_t *draft, *target; // borrowed
    int32_t *to_target;               // [size of draft] the target's id, OR_TOKEN_NONE
    int32_t *to_draft;                // [size of target]
    uint32_t shared;                  // tokens in both
    // Both are the same by content (or_vocab_hash): ids are equal, but one may have more
    // padding.
    bool same;
    // Every token of either that is not unused or special is in both. Then text is translated
    // token by token, whatever the ids, and nothing is re-tokenised. `same` implies it.
    bool bijective;
} or_vocab_pair_t;

// Borrows both until destroy. OR_ERR_NO_MEMORY.
or_status_t or_vocab_pair_create(const or_vocab_t *draft, const or_vocab_t *target,
                                 or_vocab_pair_t **pair_p);
void or_vocab_pair_destroy(or_vocab_pair_t **pair_p);

// The figures of a text under a pair.
typedef struct {
    uint32_t draft_tokens, target_tokens; // of the text
    double shared_of_target; // share of the target's vocabulary (unused tokens left out) in both
    double shared_of_text;   // share of the text's target tokens that are in both
    double shared_of_bytes;  // the same, each token weighted by its bytes
    bool draft_injective;    // decode(encode(text)) is the text
    bool target_injective;
} or_vocab_figures_t;

// Measure a pair on a text. OR_ERR_NO_MEMORY.
or_status_t or_vocab_pair_measure(const or_vocab_pair_t *pair, const char *text, size_t length,
                                  or_vocab_figures_t *figures);

// A page of English, code and other scripts, for users who give no text of their own.
extern const char or_vocab_sample_text[];
