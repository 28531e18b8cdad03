// vocab_trees - a drafter's tree, distributions and all, in the target's ids (docs/algorithms.md section 4).
//
//     tli      every token has an id: the map is applied, node by node, entry by entry
//     union    a token that the target lacks becomes an id beyond its vocabulary, one a token (size of
//              the target + the drafter's id): rejected for sure, yet part of the distribution it was drawn from.
//              Where the rule uses no distributions such nodes are left out, with all below them
//
// A distribution's entries are put in ascending order of their new ids; weights, order of draws and shape stay,
// so a ratio rule judges exactly what was drawn. One table look-up a node, O(K log K) a distribution. One thread.
#pragma once

#include "common/decode/methods.h"
#include "common/text/vocab/vocab_pair.h"
#include "proto/wire/message.h"

typedef struct or_vocab_trees or_vocab_trees_t;

// OR_ERR_NO_MEMORY.
or_status_t or_vocab_trees_create(or_vocab_trees_t **trees_p);
void or_vocab_trees_destroy(or_vocab_trees_t **trees_p);

// `from` in the target's ids; *to's arrays are the translator's, valid until the next call. `method` is
// OR_VOCAB_TLI, OR_VOCAB_UNION or OR_VOCAB_SAME.
// OR_ERR_INVALID: an id is not the drafter's, or (tli, same) has no counterpart; arrays disagree.
// OR_ERR_NO_MEMORY.
or_status_t or_vocab_map_tree(or_vocab_trees_t *trees, const or_vocab_pair_t *pair,
                              or_vocab_method_t method, uint32_t rule, const or_draft_tree_t *from,
                              or_draft_tree_t *to);
