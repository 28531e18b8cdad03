// tree_blocks - how many blocks of an ancestor mask hold anything (DySpec, appendix C).
//
//     creation order    x . . .        depth-first order   x . . .        a row is a node, a column one it may see:
//                       x x . .                            x x . .        itself and its ancestors
//                       x . x .                            . x x .
//                       x x . x                            . . x x
//
// A kernel that works on blocks of nodes skips the empty ones; in depth-first order ancestors lie
// close by and most are empty. The runtime here gathers a node's ancestors instead
// (common/model/attention.c) and visits no empty block in any order.
#pragma once

#include "common/decode/token_tree.h"

typedef struct {
    uint32_t visited; // blocks that are not empty
    uint32_t lower;   // blocks on and below the diagonal: what a causal mask would visit
} or_tree_blocks_t;

// Of the tree's nodes, the root not counted, in the order they have, in blocks of `size` (at least
// 1) nodes.
or_tree_blocks_t or_tree_blocks(const or_token_tree_t *tree, uint32_t size);
