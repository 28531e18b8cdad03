// draft_check - may a peer's tree be judged? The coordinator asks before it forwards one, and the
// verifier before it believes the coordinator.
#pragma once

#include "common/decode/draws.h"
#include "proto/message.h"

// The message's nodes into `tree`, under `root`. OR_ERR_INVALID: malformed, or not what `rule` can
// judge (or_token_tree_set, or_draws_check); OR_ERR_FULL: over the tree's room. The tree holds only
// its root after a failure.
or_status_t or_draft_tree_check(const or_draft_tree_t *message, or_accept_rule_t rule, int32_t root,
                                uint32_t vocab_size, or_token_tree_t *tree);

// The draws of a message that passed; borrows its arrays.
or_draws_t or_draft_tree_draws(const or_draft_tree_t *message);
