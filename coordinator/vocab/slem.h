// slem - a tree of a drafter's tokens becomes a trie of the target's, by way of the text (Timor et al.
// 2025, string-level exact match).
//
//     drafter's tree    " won" ─┬─ "der" ── "ful"        paths as text, tokenised for the target:
//                               └─ "'t"
//     trie              " wonder" ── "ful"               " won" | " wonder" | " wonder" "ful" | " won" "'t"
//                       " won" ── "'t"
//
// A path is tokenised together with the last bytes of what is committed, and what follows the place
// where that ends counts. Where no token ends there (tokenizers are not injective) the path's text is
// tokenised by itself. Guesses are only ever accepted if they are the target's own choice, so whatever
// this makes of a text costs acceptance and never exactness. So a path whose text is more than a tree
// may cost is left out, whatever its tokens are. One thread.
#pragma once

#include "common/decode/token_tree.h"
#include "common/text/vocab/vocab_pair.h"

// Bytes that a tree's paths may take to the tokenizer, each with the committed text before it. A chain of
// 256 tokens of 4 bytes takes half of it, and a drafter's own tokens of 1,024 bytes could take 2,000 times
// as much. The hub's thread tokenises so many in 10 to 20 ms.
#define OR_SLEM_BYTES_MAX ((size_t)256 << 10)

typedef struct or_slem or_slem_t;

// Borrows pair. OR_ERR_NO_MEMORY.
or_status_t or_slem_create(const or_vocab_pair_t *pair, or_slem_t **slem_p);
void or_slem_destroy(or_slem_t **slem_p);

// `committed`: the target's tokens, the root last. `draft`: the tree in the drafter's tokens; ids in
// range. `tree` is reset to the root and gets at most nodes_max nodes of at most depth_max levels, in
// depth-first order. Likelier paths (earlier nodes of `draft`) come first where there is no room for all.
// Every id in it is the target's. A drafter's special token ends a path; the target's token of the same
// content follows, if it has one. OR_ERR_NO_MEMORY.
or_status_t or_slem_translate(or_slem_t *slem, const int32_t *committed, uint32_t count,
                              const or_token_tree_t *draft, uint32_t nodes_max, uint32_t depth_max,
                              or_token_tree_t *tree);
