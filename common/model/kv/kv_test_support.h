// kv_test_support - a cache without a model: passes that write numbers which say where they belong.
//
// The numbers are whole and each 32 of a vector begin with 127, so every type keeps them exactly. A
// copy that mixes up positions, heads, dimensions or scales shows.
#pragma once

#include "common/model/kv/kv_cache_internal.h"
#include "tests/support/test_support.h"

// Layers, heads and dimensions of all caches; the last Q8_0 block is short.
#define KV_LAYERS 2u
#define KV_HEADS 3u
#define KV_DIM 34u

// The cache types of the caches that are created next.
extern or_kv_type_t kv_test_key_type, kv_test_value_type;

or_kv_cache_t *kv_test_cache(uint32_t pages);
// The first layer has a window.
or_kv_cache_t *kv_test_bounded_cache(uint32_t pages, uint32_t window, uint32_t slack,
                                     uint32_t frames);
or_kv_sequence_t *kv_test_open(or_kv_cache_t *cache, uint32_t positions, uint32_t slots);

// A pass of one prefix row, as pass.c does it; false, and nothing changed, if no page is free.
bool kv_test_try_append(or_kv_sequence_t *sequence, uint32_t mark);
void kv_test_append(or_kv_sequence_t *sequence, uint32_t mark);
// A pass of one tree row.
void kv_test_put_node(or_kv_sequence_t *sequence, uint32_t slot, uint32_t parent, uint32_t mark);
// Position p holds what was appended or accepted with that mark.
void kv_test_assert_mark(const or_kv_sequence_t *sequence, uint32_t position, uint32_t mark);
// The same of the layers without a window only.
void kv_test_assert_unbounded_mark(const or_kv_sequence_t *sequence, uint32_t position,
                                   uint32_t mark);

// A second cache that repeats what the journal of the first says. Embed nothing before the journal.
#define KV_REPLICA_SEQUENCES 8u

typedef struct {
    or_kv_journal_t journal;
    or_kv_cache_t *cache;
    or_kv_sequence_t *sequences[KV_REPLICA_SEQUENCES]; // by number
    uint32_t positions_max;                            // of each
    uint32_t notes;
    or_kv_note_kind_t last;
} kv_test_replica_t;

// Its cache has the same pages and keeps floats. A note that does not succeed alike fails the test.
void kv_test_replica_start(kv_test_replica_t *replica, or_kv_cache_t *cache,
                           uint32_t positions_max);
