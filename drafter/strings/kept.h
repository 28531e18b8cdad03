// kept - what messages brought of targets' vocabularies, kept for the sessions that hold it: maps (VocabMap, method tli;
// docs/algorithms.md section 4) and whole vocabularies (Vocabulary, rule slrs).
//
//     to      0  17  -1  4  -1 ...     a map: for each id of ours the id over there, -1 if there is none
//
// Both are known by their hash, so one that is not what its sender says is never used. Some are kept: those of living
// sessions in any case, and else the ones used last. One thread.
#pragma once

#include "common/text/vocab/string_cost.h"
#include "common/text/vocab/token_trie.h"
#include "common/text/vocab/vocab_pair.h"
#include "proto/wire/message.h"

#define OR_MAPS_MAX 4u
#define OR_TARGETS_MAX 2u // some 20 MB each at 128,000 tokens

typedef struct {
    uint64_t hash;  // 0: this place is free
    uint32_t users; // number of sessions that hold it
    uint64_t used;  // when it was last taken or came, counted in calls
} or_kept_t;

typedef struct {
    or_kept_t kept;
    int32_t *to;     // owned; one entry for each of our tokens
    uint32_t common; // number of tokens that both have
} or_map_t;

typedef struct {
    or_map_t places[OR_MAPS_MAX];
    uint64_t calls;
} or_maps_t;

typedef struct {
    or_kept_t kept;
    or_vocab_t *vocab;
    or_vocab_pair_t *pair; // our vocabulary beside it
    or_token_trie_t *trie;
    or_string_cost_t cost; // the cost of drafting for it
} or_target_t;

typedef struct {
    or_target_t places[OR_TARGETS_MAX];
    uint64_t calls;
} or_targets_t;

// Free them all; no session may hold one any longer. A zeroed or_maps_t or or_targets_t is empty.
void or_maps_fini(or_maps_t *maps);
void or_targets_fini(or_targets_t *targets);

// Keep a peer's map of `vocab` into another vocabulary, trusting nothing in it; one that is here already stays.
// OR_ERR_MISMATCH if its hash is not the one it is sent under: it must be sent again. OR_ERR_INVALID (another
// vocabulary or size, an entry below -1); OR_ERR_FULL (sessions hold all places); OR_ERR_NO_MEMORY.
or_status_t or_maps_put(or_maps_t *maps, const or_vocab_t *vocab, const or_vocab_map_t *map);
// Keep a peer's vocabulary likewise, beside ours, which is borrowed. OR_ERR_MISMATCH; OR_ERR_FULL; errors of
// or_vocab_unpack.
or_status_t or_targets_put(or_targets_t *targets, const or_vocab_t *draft,
                           const or_vocabulary_t *vocabulary);

// Return the one with this hash, held until it is given back; NULL if it is not here.
or_map_t *or_maps_take(or_maps_t *maps, uint64_t hash);
or_target_t *or_targets_take(or_targets_t *targets, uint64_t hash);
// Give *map_p or *target_p back and set it to NULL; it may already be NULL.
void or_map_release(or_map_t **map_p);
void or_target_release(or_target_t **target_p);
