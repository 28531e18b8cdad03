// kv_memory - who keeps the numbers of pages and slots: this process (kv_memory_host.c), or a device
// (gpu_kv.c).
//
// kv_cache.c and kv_pages.c decide which page and which slot hold what; what that means for bytes is
// said here. Both kinds lay them out alike (kv_cache_internal.h), with the same numbers in them. Apart from
// the two that take memory nothing here fails: a device that does is told of by the next pass.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/model/kv/kv_cache.h"

typedef struct {
    void *owner; // for the functions below

    // Zeroed room for the cache's pages_max pages, into cache->allocation and ->pages, and room for a sequence's slots_max
    // slots, which nobody reads before they are written, into sequence->slot_bytes. False if there is no memory.
    bool (*take_pages)(or_kv_cache_t *cache);
    bool (*take_slots)(or_kv_sequence_t *sequence);
    void (*give_pages)(or_kv_cache_t *cache);
    void (*give_slots)(or_kv_sequence_t *sequence);

    void (*copy_page)(or_kv_cache_t *cache, uint32_t from, uint32_t to);
    // K and V of these slots become positions length, length + 1, ..., whose pages are taken.
    void (*move_slots)(or_kv_sequence_t *sequence, const uint32_t *slots, uint32_t count);
    // The K block and V block number `index` of a page, which are of layer index / kv_heads, where this
    // process can read them; until the next call.
    uint8_t *(*block)(const or_kv_cache_t *cache, uint32_t page, uint32_t index);
} or_kv_memory_t;

extern const or_kv_memory_t or_kv_memory_host;
