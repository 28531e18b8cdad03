// draft_check - checks of a peer's tree before it is judged. The coordinator makes them before it forwards a tree, and the
// verifier does not take its word for it. Not locked: the caller's thread owns message and tree.
#pragma once

#include "common/decode/draws.h"
#include "proto/wire/message.h"

// Largest or_open_session_t.outside_ids.
#define OR_OUTSIDE_IDS_MAX (1U << 20)

// Put the message's nodes into `tree`, under `root`. vocab_size counts outside ids, too. OR_ERR_INVALID: it is malformed, or
// `rule` cannot judge it (or_token_tree_set, or_draws_check; slrs needs a chain with a probability for each node).
// OR_ERR_FULL: the tree has no room for it. After a failure the tree holds only its root.
or_status_t or_draft_tree_check(const or_draft_tree_t *message, or_accept_rule_t rule, int32_t root,
                                uint32_t vocab_size, or_token_tree_t *tree);

// Check a message that passed, in which ids from vocab_size on are tokens that the target does not have. The target never takes
// one, so nothing may follow one, and no other node may have a psi of 0. OR_ERR_INVALID.
or_status_t or_draft_outside_check(const or_draft_tree_t *message, const or_token_tree_t *tree,
                                   uint32_t vocab_size);

// Return the draws of a message that passed. They borrow its arrays.
or_draws_t or_draft_tree_draws(const or_draft_tree_t *message);
