// kv_cache_internal - where K and V lie, for the forward pass.
//
//     page:   [layer][kv head] { K [head_dim][32], V [32][head_dim] }
//     slots:  [layer][kv head][slot] { K [head_dim], V [head_dim] }
//
// A slot holds a node while its epoch is the sequence's: forgetting all slots is one increment. A
// pass plans first (pages reserved, slots taken, `pending` counts its prefix rows), runs, and only
// then lets the sequence grow.
#pragma once

#include "common/model/kv_cache.h"

typedef struct {
    uint32_t parent; // OR_KV_NO_SLOT: child of the last committed position
    uint32_t depth;  // 0 for such a child; position = length + depth
    uint64_t epoch;  // 0: never used
} or_kv_slot_t;

struct or_kv_cache {
    uint32_t layers;
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t pages_max;
    size_t page_floats;
    void *allocation; // owns the memory of `pages`
    float *pages;     // aligned to a cache line
    uint32_t *free;   // stack of free page numbers
    uint32_t free_count;
};

struct or_kv_sequence {
    or_kv_cache_t *cache;
    uint32_t positions_max;
    uint32_t slots_max;
    uint32_t length;
    uint32_t pending; // prefix rows of the pass being planned or run
    uint32_t page_count;
    uint32_t *pages; // page numbers, [ceil(positions_max / 32)]
    uint64_t epoch;
    or_kv_slot_t *slots; // [slots_max]
    float *slot_floats;
};

static inline float *or_kv_page_keys(const or_kv_sequence_t *sequence, uint32_t page,
                                     uint32_t layer, uint32_t head)
{
    const or_kv_cache_t *cache = sequence->cache;
    size_t block = ((size_t)layer * cache->kv_heads + head) * 2 * OR_KV_PAGE * cache->head_dim;
    return cache->pages + sequence->pages[page] * cache->page_floats + block;
}

static inline float *or_kv_page_values(const or_kv_sequence_t *sequence, uint32_t page,
                                       uint32_t layer, uint32_t head)
{
    return or_kv_page_keys(sequence, page, layer, head) +
           (size_t)OR_KV_PAGE * sequence->cache->head_dim;
}

static inline float *or_kv_slot_keys(const or_kv_sequence_t *sequence, uint32_t slot,
                                     uint32_t layer, uint32_t head)
{
    const or_kv_cache_t *cache = sequence->cache;
    size_t index = ((size_t)layer * cache->kv_heads + head) * sequence->slots_max + slot;
    return sequence->slot_floats + index * 2 * cache->head_dim;
}

static inline float *or_kv_slot_values(const or_kv_sequence_t *sequence, uint32_t slot,
                                       uint32_t layer, uint32_t head)
{
    return or_kv_slot_keys(sequence, slot, layer, head) + sequence->cache->head_dim;
}

static inline bool or_kv_slot_is_live(const or_kv_sequence_t *sequence, uint32_t slot,
                                      uint64_t epoch)
{
    return slot < sequence->slots_max && sequence->slots[slot].epoch == epoch;
}

// Write one head's K and V of a position (whose page is reserved) or of a slot.
void or_kv_put_position(or_kv_sequence_t *sequence, uint32_t position, uint32_t layer,
                        uint32_t head, const float *key, const float *value);
void or_kv_put_slot(or_kv_sequence_t *sequence, uint32_t slot, uint32_t layer, uint32_t head,
                    const float *key, const float *value);

// Pages for positions 0 .. positions - 1. OR_ERR_FULL if positions or pages run out (nothing
// taken).
or_status_t or_kv_sequence_reserve(or_kv_sequence_t *sequence, uint32_t positions);
// Give back pages that hold no committed position.
void or_kv_sequence_trim(or_kv_sequence_t *sequence);
