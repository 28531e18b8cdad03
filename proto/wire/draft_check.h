// draft_check - may a peer's tree be judged? The coordinator asks before it forwards one, and the
// verifier before it believes the coordinator.
#pragma once

#include "common/decode/draws.h"
#include "proto/wire/message.h"

// The most that or_open_session_t.outside_ids may be.
#define OR_OUTSIDE_IDS_MAX (1U << 20)

// The message's nodes into `tree`, under `root`. vocab_size counts outside ids, too. OR_ERR_INVALID:
// malformed, or not what `rule` can judge (or_token_tree_set, or_draws_check; slrs: a chain with a
// probability a node); OR_ERR_FULL: over the tree's room. The tree holds only its root after a
// failure.
or_status_t or_draft_tree_check(const or_draft_tree_t *message, or_accept_rule_t rule, int32_t root,
                                uint32_t vocab_size, or_token_tree_t *tree);

// Of a message that passed, where ids from vocab_size on are tokens that the target does not have: it
// never takes one, so nothing follows one, and only they may have a psi of 0. OR_ERR_INVALID.
or_status_t or_draft_outside_check(const or_draft_tree_t *message, const or_token_tree_t *tree,
                                   uint32_t vocab_size);

// The draws of a message that passed; borrows its arrays.
or_draws_t or_draft_tree_draws(const or_draft_tree_t *message);
