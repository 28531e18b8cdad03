// pretokenize - the first half of byte-level BPE: a text is cut into pieces, and no token
// crosses a cut.
//
//     rule (by name)   steps, applied one after the other      "I'll say 1234"
//     "starcoder"      1. single digits                         I'll say · 1 · 2 · 3 · 4
//                      2. contractions, words, rest, space      I · 'll ·  say ·   · 1 · 2 · 3 · 4
//
// A step is a regular expression. It is matched repeatedly inside each piece of the step before.
// Its matches and the text between them are its pieces. It sees nothing outside the piece, not
// even with a lookahead. Stretches that are not UTF-8 are pieces of their own, which no step
// sees. So well-formed text is cut as in training, and any bytes survive.
//
// A compiled pretokenizer is immutable: any thread. The state of a call is in or_pretokenize's
// own frame.
#pragma once

#include "common/base/status.h"

typedef struct {
    const char *pattern;
    bool in_threes; // a match is cut again into threes of characters, counted from its end
} or_split_t;

enum { OR_SPLITS_MAX = 7 };

// The meaning of a value of tokenizer.ggml.pre.
typedef struct {
    const or_split_t *splits; // ended by a pattern of NULL, at most OR_SPLITS_MAX
    bool ignores_merges;      // a piece that is a token is that token, whatever the merges say
    bool adds_bos;            // where the file does not say
} or_pre_rule_t;

// The rule of this name, or NULL. Static.
const or_pre_rule_t *or_pre_rule_find(const char *name, size_t length);
// Rule i of the table, in no particular order, with its name; NULL after the last.
const or_pre_rule_t *or_pre_rule_at(size_t i, const char **name);

typedef struct or_pretokenizer or_pretokenizer_t;

// Compile the rule (borrowed: static). OR_ERR_NO_MEMORY; OR_ERR_UNSUPPORTED if the PCRE2 library
// cannot take a pattern (a build without Unicode).
or_status_t or_pretokenizer_create(const or_pre_rule_t *rule, or_pretokenizer_t **pretokenizer_p);
void or_pretokenizer_destroy(or_pretokenizer_t **pretokenizer_p);

// A callback that takes text[start] to text[end - 1], start < end. Any result other than OR_OK
// ends the call.
typedef or_status_t (*or_piece_fn_t)(void *context, size_t start, size_t end);

// Cut the text and pass on every piece, in order and without gaps. Time O(length). Returns
// OR_ERR_NO_MEMORY or what `take` returned.
or_status_t or_pretokenize(const or_pretokenizer_t *pretokenizer, const char *text, size_t length,
                           or_piece_fn_t take, void *context);

// Find how far the pieces of a text that may go on are settled.
//
//     "I am wond"    *settled = 4: whatever follows, " am" ends there
//                    *open = 9: and no piece ends between there and here
//
// Up to *settled pieces stay as they are, and the rest is cut as if it were a text of its own. A
// piece is settled when a match ends it that did not look at the end of the text. PCRE2's hard
// partial matching tells. OR_ERR_NO_MEMORY.
or_status_t or_pretokenize_settled(const or_pretokenizer_t *pretokenizer, const char *text,
                                   size_t length, size_t *settled, size_t *open);
