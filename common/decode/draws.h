// draws - how the nodes of a tree were drawn: from which distribution, and in which order.
//
//     tree         root ─┬─ 1 cat ─── 2 sat         dist_index   0 1 0        distributions[0]: the root's, distributions[1]: cat's
//                        └─ 3 dog                   order       0 0 1        cat was drawn first, then dog
//
// The ratio rules need it. Siblings come from one distribution (from one each where several models draft, for
// multi-round) and lie in the tree in the order they were drawn; `order` says so once more, which
// shows when one was lost on the way: the others would no longer be what they claim. Entry i belongs
// to node i + 1.
#pragma once

#include "common/decode/methods.h"
#include "common/decode/sampling/distribution.h"
#include "common/decode/token_tree.h"

typedef struct {
    const uint32_t *dist_index;
    const uint32_t *order; // among its siblings, from 0
    const or_reduced_distribution_t *dists;
    uint32_t dist_count;
} or_draws_t;

// May `rule` judge this tree by these draws? OR_ERR_INVALID: a distribution that is none, indices out of
// range, siblings of different distributions (but for multi-round) or out of order, a token its distribution does not
// have, repeated siblings where the rule's methods draw without replacement or that have children of their own,
// several siblings where the rule takes one. `tree` holds the nodes; dist_index and order have one
// entry a node.
or_status_t or_draws_check(const or_draws_t *draws, const or_token_tree_t *tree,
                           or_accept_rule_t rule, uint32_t vocab_size);

// Draws that own their arrays; grows as needed and keeps what it has. Starts zeroed.
typedef struct {
    or_draws_t draws; // what was stored last
    uint32_t *numbers;
    size_t number_room;
    or_reduced_distribution_t *dists;
    size_t dist_room;
} or_draws_store_t;

// Keep a copy of the draws of `count` nodes. OR_ERR_NO_MEMORY: what was stored before is gone.
or_status_t or_draws_store(or_draws_store_t *store, const or_draws_t *draws, uint32_t count);
// What it has room for.
size_t or_draws_store_bytes(const or_draws_store_t *store);
void or_draws_store_fini(or_draws_store_t *store);
