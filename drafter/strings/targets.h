// targets - the vocabularies of targets that slrs sessions draft for, as Vocabulary messages
// brought them.
//
// A vocabulary is known by its content, so one that is not what its sender says is never used. OR_TARGETS_MAX are
// kept: those of living sessions in any case, and else the ones used last. One thread.
#pragma once

#include "common/text/vocab/string_cost.h"
#include "common/text/vocab/token_trie.h"
#include "common/text/vocab/vocab_pair.h"
#include "proto/wire/message.h"

#define OR_TARGETS_MAX 2u // some 20 MB each at 128,000 tokens

typedef struct {
    uint64_t hash; // 0: this place is free
    or_vocab_t *vocab;
    or_vocab_pair_t *pair; // our vocabulary beside it
    or_token_trie_t *trie;
    or_string_cost_t cost; // the cost of drafting for it
    uint32_t users;        // number of sessions that hold it
    uint64_t used;         // when it was last taken or came, counted in calls
} or_target_t;

typedef struct {
    or_target_t places[OR_TARGETS_MAX];
    uint64_t calls;
} or_targets_t;

// Free the vocabularies; no session may hold one any longer. A zeroed or_targets_t is empty.
void or_targets_fini(or_targets_t *targets);

// Keep a peer's vocabulary, trusting nothing in it, beside ours, which is borrowed; one that is
// here already stays. OR_ERR_MISMATCH if it is not the one it is sent as; OR_ERR_FULL (sessions
// hold all places); errors of or_vocab_unpack.
or_status_t or_targets_put(or_targets_t *targets, const or_vocab_t *draft,
                           const or_vocabulary_t *vocabulary);

// Return the vocabulary with this hash, held until it is given back; NULL if it is not here.
or_target_t *or_targets_take(or_targets_t *targets, uint64_t hash);
// Give *target_p back and set it to NULL; *target_p may already be NULL.
void or_target_release(or_target_t **target_p);
