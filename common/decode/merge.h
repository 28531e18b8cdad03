// merge - the trees of several draft models, in one drafter or in several, as one (SpecInfer, Miao et
// al. 2024, section 3).
//
//     model 1   a ── b       model 2   a ── c        merged   ─┬─ a ─┬─ b
//               d                      e                       │     └─ c
//                                                              ├─ d
//                                                              ├─ (a)    if repetitions count
//                                                              └─ e
//
// Nodes with the same path become one. Each keeps the distribution it was drawn from, so siblings may have
// different distributions; they stay in order, those of the first model first. Where the rule counts
// repetitions a token that was drawn again stays as a leaf. One thread.
#pragma once

#include "common/decode/draws.h"
#include "common/decode/token_tree.h"

typedef struct or_merge or_merge_t;

typedef struct {
    const or_token_tree_t *tree;
    const or_draws_t *draws; // NULL: not drawn
} or_merge_part_t;

// Create a merger for up to `parts_max` trees that have up to `nodes_max` nodes together.
// OR_ERR_NO_MEMORY.
or_status_t or_merge_create(uint32_t parts_max, uint32_t nodes_max, or_merge_t **merge_p);
void or_merge_destroy(or_merge_t **merge_p);

// Merge the parts into `tree`, which is reset to its root before. Draws borrow the parts' distributions.
// Either all parts are drawn or none is. OR_ERR_FULL if there are more nodes than room, or more
// distributions than nodes.
or_status_t or_merge_trees(or_merge_t *merge, const or_merge_part_t *parts, uint32_t count,
                           bool repeats, or_token_tree_t *tree);
// The draws of the last tree, as or_builder_draws gives them.
const or_draws_t *or_merge_draws(const or_merge_t *merge);
// The node of a part that became `node`, the one with the children; 0 if none did.
uint32_t or_merge_origin(const or_merge_t *merge, uint32_t part, uint32_t node);
