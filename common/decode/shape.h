// shape - how wide a draft tree is at each level.
//
//     4x2x1     rsd-c, mcsd: the root has 4 children, each of them 2, each of those 1: 4 + 8 + 8 = 20 nodes
//     4x3       rsd-s, kseq, multi: 4 sequences, 3 tokens long: 12 nodes; 4 alone: as long as the depth allows
//
// It is known before anything is drawn: which nodes a tree has never depends on what they are
// (docs/algorithms.md section 3). Pure functions: any thread.
#pragma once

#include "common/decode/methods.h"
#include "common/decode/token_tree.h"

#define OR_SHAPE_LEVELS_MAX 32u

typedef struct {
    uint32_t count; // 0: none
    uint32_t widths[OR_SHAPE_LEVELS_MAX];
} or_shape_t;

// Read a text as "4x2x1". OR_ERR_INVALID says what a shape looks like.
or_status_t or_shape_parse(const char *text, or_shape_t *shape);
// Take a peer's array. OR_ERR_INVALID: it has too many levels.
or_status_t or_shape_set(const uint32_t *widths, uint32_t count, or_shape_t *shape);

// Check that the method can grow it. OR_ERR_INVALID: a method without shapes, a width of 0, over
// OR_TREE_NODES_MAX nodes. The second form names parameters as `name` has them, the first as options.
or_status_t or_shape_check(const or_shape_t *shape, or_draft_method_t method, uint32_t depth);
or_status_t or_shape_check_as(or_naming_t name, const or_shape_t *shape, or_draft_method_t method,
                              uint32_t depth);

// The nodes and levels of a checked shape. `depth` bounds a beam of unstated length.
uint32_t or_shape_nodes(const or_shape_t *shape, or_draft_method_t method, uint32_t depth);
uint32_t or_shape_levels(const or_shape_t *shape, or_draft_method_t method, uint32_t depth);

// The shape that a method grows within `nodes` and `depth` (both at least 1) where no shape was asked for.
or_shape_t or_shape_usual(or_draft_method_t method, uint32_t nodes, uint32_t depth);
