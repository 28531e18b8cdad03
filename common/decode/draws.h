// draws - how the nodes of a tree were drawn: from which distribution, and in which order.
//
//     tree         root ─┬─ 1 cat ─── 2 sat         dist_index   0 1 0        dists[0]: the root's, dists[1]: cat's
//                        └─ 3 dog                   order       0 0 1        cat was drawn first, then dog
//
// The ratio rules need the draws. Siblings come from one distribution; under multi-round, where several models
// draft, each may come from its own. Siblings lie in the tree in the order they were drawn. `order` repeats that
// order, so that a sibling lost on the way is noticed. Entry i belongs to node i + 1. Not locked: one thread owns draws.
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

// May `rule` judge this tree by these draws? `tree` holds the nodes; dist_index and order have one entry a node.
// OR_ERR_INVALID if a distribution is malformed, an index is out of range, or a token is not in its distribution.
// The same goes for siblings of different distributions (except under multi-round) or out of order. Repeated
// siblings are invalid if the rule's methods draw without replacement, or if they have children. So are several
// siblings if the rule takes one.
or_status_t or_draws_check(const or_draws_t *draws, const or_token_tree_t *tree,
                           or_accept_rule_t rule, uint32_t vocab_size);

// Draws that own their arrays. The store grows as needed and keeps its room. Starts zeroed.
typedef struct {
    or_draws_t draws; // what was stored last
    uint32_t *numbers;
    size_t number_room;
    or_reduced_distribution_t *dists;
    size_t dist_room;
} or_draws_store_t;

// Keep a copy of the draws of `count` nodes. On OR_ERR_NO_MEMORY the former contents are lost.
or_status_t or_draws_store(or_draws_store_t *store, const or_draws_t *draws, uint32_t count);
// The bytes that the store has room for.
size_t or_draws_store_bytes(const or_draws_store_t *store);
void or_draws_store_fini(or_draws_store_t *store);
