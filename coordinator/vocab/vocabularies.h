// vocabularies - those of drafters that differ from the target's: each is asked for once, compared once,
// and known by its hash for as long as the coordinator runs.
//
//     Hello(hash) ──▶ find ── known: the drafter joins
//                       └── not: VocabRequest ──▶ Vocabulary ──▶ take (unpacks, compares) ──▶ it joins
//
// Comparing takes a fraction of a second at 128,000 tokens, in the coordinator's thread. One thread.
#pragma once

#include "common/text/vocab/string_cost.h"
#include "common/text/vocab/vocab_pair.h"
#include "proto/wire/message.h"

#define OR_VOCABULARIES_MAX 8u // at the same time; those that no drafter has any more make room

typedef struct {
    uint64_t hash; // with `size` the key: a padded vocabulary has the hash of the one that is not
    uint32_t size;
    or_vocab_t *vocab;
    or_vocab_pair_t *pair; // with the target's
    or_vocab_figures_t figures;
    uint64_t map_hash;             // of pair->to_target
    or_string_cost_t *string_cost; // NULL: never asked for
    uint32_t drafters;             // that have it, now connected: counted by the owner
} or_known_vocab_t;

typedef struct {
    const or_vocab_t *target;
    or_known_vocab_t *known[OR_VOCABULARIES_MAX]; // NULL: free
} or_vocabularies_t;

void or_vocabularies_init(or_vocabularies_t *all, const or_vocab_t *target); // borrows it
void or_vocabularies_fini(or_vocabularies_t *all);
