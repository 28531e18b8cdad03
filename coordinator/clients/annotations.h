// annotations - what a client may want to know of each token of a completion besides the token itself. These are
// its origin, the end of the text after it, and how probable it was.
//
//     tokens     the   cat   sat    .
//     origins     0     1     1     0      an accepted guess, or the target's own
//     ends        3     7    11    12      bytes of the completion, what is still held back counted
//     logprobs   -.2   -.9   -.1  -.0      by the target's logits; each with the best N
//
// Kept for a whole text, so that a delta that is repeated, or asked for by a client that was away, has them as the first
// one had. Of tokens whose verdict brought no logprobs, and of those that an earlier coordinator committed, no logprobs are
// known: a delta that has such a token has none. (Nor is it known where the latter came from: they count as the
// target's own.) One thread.
#pragma once

#include "proto/wire/message.h"

typedef struct {
    bool details;   // origins and ends are kept
    uint32_t asked; // 0: no logprobs are kept; N + 1: the best N of each token, too
    uint32_t count, capacity;
    uint8_t *origins; // owned, as all that follow; `capacity` entries
    uint64_t *ends;
    or_token_logprob_t *logprobs; // of one that is not known the logprob is NaN
    uint32_t *top_tokens;         // N for each token, where the logprobs point
    float *top_logprobs;
} or_annotations_t;

// Begin with no token. With details false and `logprobs` 0 nothing is kept, and what follows costs nothing.
void or_annotations_init(or_annotations_t *annotations, bool details, uint32_t logprobs);
void or_annotations_fini(or_annotations_t *annotations);

// One more token. `logprob` (copied) as or_annotations_check lets it pass; NULL if it is not known. OR_ERR_NO_MEMORY.
or_status_t or_annotations_add(or_annotations_t *annotations, bool guessed, uint64_t end,
                               const or_token_logprob_t *logprob);
// The text is over and has so many bytes. Either a stop string cut it in the middle of what was held back, or
// the last token's bytes came with its end.
void or_annotations_finish(or_annotations_t *annotations, uint64_t text_bytes);

// The bytes of memory that they take.
size_t or_annotations_bytes(const or_annotations_t *annotations);

// Put the annotations of these tokens into a delta, which borrows them until the next token.
void or_annotations_put(const or_annotations_t *annotations, uint32_t offset, uint32_t count,
                        or_generate_delta_t *delta);

// Are a verdict's logprobs what was asked for? They are of these tokens, the accepted ones and the next, or there are none.
// OR_ERR_MISMATCH says what is wrong.
or_status_t or_annotations_check(uint32_t asked, const or_verdict_t *verdict,
                                 const uint32_t *tree_tokens, uint32_t vocab_size);
