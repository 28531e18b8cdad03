// step_tree - trees of guesses for timing. Internal to this folder.
#pragma once

#include "common/decode/token_tree.h"

#define OR_STEP_TREE_MAX 1024u // nodes

// Grow a tree of `count` nodes best first, as a drafter does: each time the likeliest child that is not there yet. Then
// put it in the order in which trees travel. Not for several threads at once.
void or_step_tree_grow(or_token_tree_t *tree, uint32_t count);
