// session_strings - the part of a session that drafts strings (slrs): the chain that travels in the target's tokens,
// and questions about it (strings.h).
//
//     session->tree    the drafter's own chain, whose K and V the text may keep
//     chain            the same text as the target's tokens, with psi
#pragma once

#include "drafter/strings/kept.h"
#include "drafter/strings/strings.h"
#include "proto/wire/message.h"

typedef struct {
    or_target_t *target;   // held
    or_strings_t *strings; // NULL: the session drafts its own tokens
    or_token_tree_t *chain;
    // The last question. It is due while its round is that of the tree and it was not answered.
    uint64_t question_round;
    uint32_t question_node;
    uint32_t *question_tokens; // owned
    uint32_t question_count;
} or_dstrings_t;

// Open the part of a session with the rule slrs; other sessions get an empty one. OR_ERR_NOT_FOUND (the target's
// vocabulary is not here), OR_ERR_UNSUPPORTED (or_string_cost_check), OR_ERR_NO_MEMORY; call or_dstrings_close in any
// case.
or_status_t or_dstrings_open(or_dstrings_t *strings, const or_open_session_t *open,
                             const or_vocab_t *vocab, or_targets_t *targets);
void or_dstrings_close(or_dstrings_t *strings);

// Return the nodes of a session's builder and tree: those that strings need, or as many as travel.
uint32_t or_dstrings_nodes(const or_dstrings_t *strings, const or_open_session_t *open);

// Take the chain that was drawn, or none.
or_status_t or_dstrings_take_chain(or_dstrings_t *strings, bool drawn);

// Keep a question until it is answered. OR_ERR_NO_MEMORY.
or_status_t or_dstrings_ask(or_dstrings_t *strings, const or_psi_request_t *request);
