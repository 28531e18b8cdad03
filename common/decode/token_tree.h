// token_tree - a drafter's guesses at the next tokens, as a tree.
//
//     ... the ─┬─ cat ── sat      tokens  = the cat sat dog
//              └─ dog             parents =  0   0   1   0
//
// Node 0 is the last committed token and its own parent; otherwise parents[i] < i. That one rule
// makes a tree two flat arrays on the wire and impossible to build with a cycle. The root never
// travels: a tree of n nodes has ids 1..n. Siblings may carry the same token only where the
// drafting method draws with replacement (`duplicates`). Not locked: one thread owns a tree at a
// time. Never grows after create.
#pragma once

#include <stdint.h>

#include "common/base/status.h"

#define OR_TREE_NODES_MAX 1024u

typedef struct or_token_tree or_token_tree_t;

// A tree holding only its root, with room for nodes_max more. The caller owns *tree_p, set only on
// OR_OK. OR_ERR_INVALID if nodes_max exceeds OR_TREE_NODES_MAX; OR_ERR_NO_MEMORY.
or_status_t or_token_tree_create(uint32_t nodes_max, or_token_tree_t **tree_p);
// Free *tree_p and set it to NULL; *tree_p may already be NULL.
void or_token_tree_destroy(or_token_tree_t **tree_p);

// Forget all nodes and start again from another root.
void or_token_tree_reset(or_token_tree_t *tree, int32_t root_token);

// Add a child. *node_p (may be NULL) is its index. OR_ERR_FULL; OR_ERR_INVALID if parent is not a
// node.
or_status_t or_token_tree_add(or_token_tree_t *tree, uint32_t parent, int32_t token,
                              uint32_t *node_p);

// Replace the nodes by a peer's arrays, trusting nothing in them. back[i] is (i + 1) - parent of
// node i + 1, at least 1. OR_ERR_INVALID if a distance is 0 or reaches past the root, or if a
// token is not in [0, vocab_size). The same if siblings repeat a token while `duplicates` is
// false. OR_ERR_FULL if count is over the tree's room. The tree holds only its root after a
// failure.
or_status_t or_token_tree_set(or_token_tree_t *tree, int32_t root_token, const int32_t *tokens,
                              const uint32_t *back, uint32_t count, uint32_t vocab_size,
                              bool duplicates);

// Nodes without the root.
uint32_t or_token_tree_count(const or_token_tree_t *tree);
// Arrays of count + 1 entries, index 0 the root. Valid until the tree changes.
const int32_t *or_token_tree_tokens(const or_token_tree_t *tree);
const uint32_t *or_token_tree_parents(const or_token_tree_t *tree);
const uint32_t *or_token_tree_depths(const or_token_tree_t *tree); // root 0

// The wire form: nodes 1..count as tokens and back-distances, into arrays of `count` entries.
void or_token_tree_to_wire(const or_token_tree_t *tree, int32_t *tokens, uint32_t *back);

// The child of `node` that carries `token`; 0 if there is none. (First in order where siblings
// repeat a token.)
uint32_t or_token_tree_find_child(const or_token_tree_t *tree, uint32_t node, int32_t token);

// Children in the order they were added: or_token_tree_first_child, then or_token_tree_next_sibling;
// 0 after the last.
uint32_t or_token_tree_first_child(const or_token_tree_t *tree, uint32_t node);
uint32_t or_token_tree_next_sibling(const or_token_tree_t *tree, uint32_t node);

// Renumber nodes in depth-first order, children in the order they were added, and write old index
// -> new index into `renumbered` (count + 1 entries, may be NULL). The ancestor mask becomes nearly
// block-triangular.
void or_token_tree_depth_first(or_token_tree_t *tree, uint32_t *renumbered);
