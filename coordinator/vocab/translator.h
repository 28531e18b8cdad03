// translator - what stands between one session and one drafter with another vocabulary.
//
//     session    log in the target's ids ──follow──▶ shadow in the drafter's ──▶ Prefix
//     tree       DraftTree in the drafter's ids ──map, or by way of text──▶ a tree the verifier can judge
//     verdict    accepted nodes, next token ──▶ Prefix: the shadow's new tail, and what was judged
//
// Nothing outside the coordinator ever sees an id of another vocabulary than its own. One thread.
#pragma once

#include "common/decode/methods.h"
#include "coordinator/vocab/shadow.h"
#include "coordinator/vocab/vocabularies.h"

typedef struct or_translator or_translator_t;

// Borrows known; `nodes_max`: of a tree. OR_ERR_NO_MEMORY.
or_status_t or_translator_create(const or_known_vocab_t *known, or_vocab_method_t method,
                                 uint32_t nodes_max, or_translator_t **translator_p);
void or_translator_destroy(or_translator_t **translator_p);

// Fill in what the drafter is told of its session, in its ids: stop ids and biases that it has, the map or the
// vocabulary it needs. Lists are the translator's, until the next call. OR_ERR_NO_MEMORY.
or_status_t or_translator_open(or_translator_t *translator, const or_vocab_t *target,
                               or_open_session_t *open);

// The committed text as the drafter holds it, brought up to date. *changed as in or_shadow_follow.
or_status_t or_translator_follow(or_translator_t *translator, const or_token_log_t *log,
                                 uint32_t *changed);
const or_token_log_t *or_translator_log(const or_translator_t *translator);

// A tree in the target's ids, of at most nodes_max nodes and depth_max levels; arrays are the
// translator's or those of `from`. `log` is the session's. OR_ERR_INVALID: it is no tree of the
// drafter's tokens, or not of those it was to use; OR_ERR_NO_MEMORY.
or_status_t or_translator_tree(or_translator_t *translator, uint32_t rule,
                               const or_token_log_t *log, uint32_t nodes_max, uint32_t depth_max,
                               const or_draft_tree_t *from, or_draft_tree_t *to);

// Fill in what the drafter learns of its last tree: `accepted` nodes of it in a row from the root, as
// translated, then `next` of the target. Call it after the follow that took them in, whose *changed was
// `changed` and before which the shadow had `length` tokens.
void or_translator_judge(const or_translator_t *translator, uint32_t accepted, uint32_t next,
                         uint32_t length, uint32_t changed, or_prefix_t *prefix);
