// guesses - what a drafter has sent of a text's future: trees that stand on the committed tokens, on tokens
// that were committed since, or on one another, joined into one. It is the pool of a session that drafts ahead.
//
//     committed  a b c│d e            a tree on "a b c" that begins d ─ e ─ f is still good for f
//                     └──▶ e ─ f      and one on "a b c d e f", sent before f was known, goes under that f
//
// A place is named by length and prefix hash, as trees on the wire name theirs (proto/wire/message.h). So a drafter
// may be behind or ahead of us, and what it sends is used for whatever of it is still possible. Only for rules that
// ask nothing of a guess (coupled, greedy, naive under guesses that are not drawn): those may use any tree. Others
// take whole trees for exactly the text they were drawn for (trees.c).
//
// Bounded: the oldest guesses that lead nowhere go first; what does not fit is dropped. One thread; nothing is
// allocated after create.
#pragma once

#include "common/decode/token_tree.h"
#include "proto/session/token_log.h"
#include "proto/wire/message.h"

typedef struct or_guesses or_guesses_t;

// Room for `nodes_max` guesses. OR_ERR_NO_MEMORY.
or_status_t or_guesses_create(uint32_t nodes_max, or_guesses_t **guesses_p);
void or_guesses_destroy(or_guesses_t **guesses_p);

// Nothing is guessed of this text.
void or_guesses_clear(or_guesses_t *guesses, const or_token_log_t *log);

// The text has grown to `log`, which begins with what it was: guesses that it does not follow are dropped. Returns how
// many are left.
uint32_t or_guesses_follow(or_guesses_t *guesses, const or_token_log_t *log);

typedef enum {
    OR_GUESSES_TAKEN, // some of them are news and still possible
    OR_GUESSES_KNOWN, // nothing new
    OR_GUESSES_PAST,  // the text has gone another way
    OR_GUESSES_ALIEN, // it stands on nothing that was ever here: a lost message, or another text
} or_guesses_fate_t;
// `message` is well formed and its ids are checked (proto/session/draft_check.h). *news: guesses added.
or_guesses_fate_t or_guesses_add(or_guesses_t *guesses, const or_draft_tree_t *message,
                                 uint32_t *news);

// Guesses that were looked at, beside those that were sought, to find others: what a peer's trees cost.
uint64_t or_guesses_looks(const or_guesses_t *guesses);

// Guesses that stand on the text as it is.
uint32_t or_guesses_count(const or_guesses_t *guesses);
// The first `nodes_max` of them to have come, no deeper than `depth_max`, as a tree: its parents came before a
// guess, so every prefix of the order is a tree. Returns how many.
uint32_t or_guesses_take(const or_guesses_t *guesses, uint32_t nodes_max, uint32_t depth_max,
                         or_token_tree_t *tree);
