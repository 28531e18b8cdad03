#include "common/model/kv_cache.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/kv_cache_internal.h"

#define CACHE_LINE 64u

static uint32_t pages_for(uint32_t positions)
{
    return positions / OR_KV_PAGE + (positions % OR_KV_PAGE != 0);
}

or_status_t or_kv_cache_create(uint32_t layers, uint32_t kv_heads, uint32_t head_dim,
                               uint32_t pages_max, or_kv_cache_t **cache_p)
{
    size_t page_floats = (size_t)2 * OR_KV_PAGE;
    size_t bytes;
    if (__builtin_mul_overflow(page_floats, layers, &page_floats) ||
        __builtin_mul_overflow(page_floats, kv_heads, &page_floats) ||
        __builtin_mul_overflow(page_floats, head_dim, &page_floats) ||
        __builtin_mul_overflow(page_floats, pages_max * sizeof(float), &bytes) ||
        bytes > SIZE_MAX / 2) {
        return or_fail(OR_ERR_NO_MEMORY,
                       "a KV cache of %u pages is too large; ask for a shorter context", pages_max);
    }
    or_kv_cache_t *cache = calloc(1, sizeof *cache);
    if (cache == NULL) {
        goto no_cache;
    }
    *cache = (or_kv_cache_t){.layers = layers,
                             .kv_heads = kv_heads,
                             .head_dim = head_dim,
                             .pages_max = pages_max,
                             .page_floats = page_floats};
    cache->free = malloc((size_t)pages_max * sizeof *cache->free + 1);
    if (cache->free == NULL) {
        goto no_free_list;
    }
    // calloc leaves untouched pages to the system, so a long context costs memory only as far as it
    // is used.
    cache->allocation = calloc(1, bytes + CACHE_LINE);
    if (cache->allocation == NULL) {
        goto no_pages;
    }
    cache->pages =
        (float *)(((uintptr_t)cache->allocation + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    for (uint32_t i = 0; i < pages_max; i++) {
        cache->free[i] = pages_max - 1 - i; // page 0 is taken first
    }
    cache->free_count = pages_max;
    *cache_p = cache;
    return OR_OK;

no_pages:
    free(cache->free);
no_free_list:
    free(cache);
no_cache:
    return or_fail(OR_ERR_NO_MEMORY,
                   "no memory for a KV cache of %zu MiB; ask for a shorter context", bytes >> 20);
}

void or_kv_cache_destroy(or_kv_cache_t **cache_p)
{
    or_kv_cache_t *cache = *cache_p;
    if (cache == NULL) {
        return;
    }
    assert(cache->free_count == cache->pages_max);
    free(cache->allocation);
    free(cache->free);
    free(cache);
    *cache_p = NULL;
}

uint32_t or_kv_cache_pages_free(const or_kv_cache_t *cache)
{
    return cache->free_count;
}

or_status_t or_kv_sequence_open(or_kv_cache_t *cache, uint32_t positions_max, uint32_t slots_max,
                                or_kv_sequence_t **sequence_p)
{
    or_kv_sequence_t *sequence = calloc(1, sizeof *sequence);
    if (sequence == NULL) {
        goto no_sequence;
    }
    *sequence = (or_kv_sequence_t){
        .cache = cache, .positions_max = positions_max, .slots_max = slots_max, .epoch = 1};
    sequence->pages = malloc((size_t)pages_for(positions_max) * sizeof *sequence->pages + 1);
    if (sequence->pages == NULL) {
        goto no_pages;
    }
    sequence->slots = calloc((size_t)slots_max + 1, sizeof *sequence->slots);
    if (sequence->slots == NULL) {
        goto no_slots;
    }
    size_t slot_bytes = cache->page_floats / OR_KV_PAGE * sizeof(float);
    sequence->slot_floats = calloc((size_t)slots_max + 1, slot_bytes);
    if (sequence->slot_floats == NULL && slot_bytes > 0) {
        goto no_slot_floats;
    }
    *sequence_p = sequence;
    return OR_OK;

no_slot_floats:
    free(sequence->slots);
no_slots:
    free(sequence->pages);
no_pages:
    free(sequence);
no_sequence:
    return or_fail(OR_ERR_NO_MEMORY, "no memory for a sequence of %u positions and %u tree nodes",
                   positions_max, slots_max);
}

void or_kv_sequence_close(or_kv_sequence_t **sequence_p)
{
    or_kv_sequence_t *sequence = *sequence_p;
    if (sequence == NULL) {
        return;
    }
    or_kv_sequence_truncate(sequence, 0);
    free(sequence->slot_floats);
    free(sequence->slots);
    free(sequence->pages);
    free(sequence);
    *sequence_p = NULL;
}

uint32_t or_kv_sequence_length(const or_kv_sequence_t *sequence)
{
    return sequence->length;
}

void or_kv_sequence_truncate(or_kv_sequence_t *sequence, uint32_t length)
{
    if (length < sequence->length) {
        sequence->length = length;
    }
    or_kv_sequence_drop_slots(sequence);
    or_kv_sequence_trim(sequence);
}

void or_kv_sequence_drop_slots(or_kv_sequence_t *sequence)
{
    sequence->epoch++;
}

void or_kv_sequence_drop_slots_from(or_kv_sequence_t *sequence, uint32_t first)
{
    for (uint32_t i = first; i < sequence->slots_max; i++) {
        sequence->slots[i].epoch = 0;
    }
}

static bool is_path(const or_kv_sequence_t *sequence, const uint32_t *slots, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t parent = i == 0 ? OR_KV_NO_SLOT : slots[i - 1];
        if (!or_kv_slot_is_live(sequence, slots[i], sequence->epoch) ||
            sequence->slots[slots[i]].parent != parent) {
            return false;
        }
    }
    return true;
}

or_status_t or_kv_sequence_accept(or_kv_sequence_t *sequence, const uint32_t *slots, uint32_t count)
{
    if (count > sequence->positions_max - sequence->length) {
        return or_fail(OR_ERR_FULL, "%u positions and %u accepted nodes exceed the context of %u",
                       sequence->length, count, sequence->positions_max);
    }
    if (!is_path(sequence, slots, count)) {
        return or_fail(OR_ERR_INVALID, "the %u accepted slots are not a path of the tree", count);
    }
    or_status_t status = or_kv_sequence_reserve(sequence, sequence->length + count);
    if (status != OR_OK) {
        return status;
    }
    const or_kv_cache_t *cache = sequence->cache;
    for (uint32_t layer = 0; layer < cache->layers; layer++) {
        for (uint32_t head = 0; head < cache->kv_heads; head++) {
            for (uint32_t i = 0; i < count; i++) {
                or_kv_put_position(sequence, sequence->length + i, layer, head,
                                   or_kv_slot_keys(sequence, slots[i], layer, head),
                                   or_kv_slot_values(sequence, slots[i], layer, head));
            }
        }
    }
    sequence->length += count;
    or_kv_sequence_drop_slots(sequence);
    return OR_OK;
}

void or_kv_sequence_read(const or_kv_sequence_t *sequence, uint32_t position, float *keys,
                         float *values)
{
    const or_kv_cache_t *cache = sequence->cache;
    uint32_t page = position / OR_KV_PAGE;
    uint32_t lane = position % OR_KV_PAGE;
    for (uint32_t layer = 0; layer < cache->layers; layer++) {
        for (uint32_t head = 0; head < cache->kv_heads; head++) {
            const float *k = or_kv_page_keys(sequence, page, layer, head);
            const float *v = or_kv_page_values(sequence, page, layer, head);
            for (uint32_t d = 0; d < cache->head_dim; d++) {
                *keys++ = k[d * OR_KV_PAGE + lane];
                *values++ = v[lane * cache->head_dim + d];
            }
        }
    }
}

void or_kv_put_position(or_kv_sequence_t *sequence, uint32_t position, uint32_t layer,
                        uint32_t head, const float *key, const float *value)
{
    uint32_t head_dim = sequence->cache->head_dim;
    uint32_t page = position / OR_KV_PAGE;
    uint32_t lane = position % OR_KV_PAGE;
    float *k = or_kv_page_keys(sequence, page, layer, head);
    for (uint32_t d = 0; d < head_dim; d++) {
        k[d * OR_KV_PAGE + lane] = key[d];
    }
    memcpy(or_kv_page_values(sequence, page, layer, head) + (size_t)lane * head_dim, value,
           head_dim * sizeof *value);
}

void or_kv_put_slot(or_kv_sequence_t *sequence, uint32_t slot, uint32_t layer, uint32_t head,
                    const float *key, const float *value)
{
    uint32_t head_dim = sequence->cache->head_dim;
    memcpy(or_kv_slot_keys(sequence, slot, layer, head), key, head_dim * sizeof *key);
    memcpy(or_kv_slot_values(sequence, slot, layer, head), value, head_dim * sizeof *value);
}

or_status_t or_kv_sequence_reserve(or_kv_sequence_t *sequence, uint32_t positions)
{
    or_kv_cache_t *cache = sequence->cache;
    if (positions > sequence->positions_max) {
        return or_fail(OR_ERR_FULL, "%u positions exceed the context of %u", positions,
                       sequence->positions_max);
    }
    uint32_t pages = pages_for(positions);
    if (pages > sequence->page_count && pages - sequence->page_count > cache->free_count) {
        return or_fail(
            OR_ERR_FULL,
            "the KV cache is full: %u of its %u pages are free; end a session or give it "
            "more pages",
            cache->free_count, cache->pages_max);
    }
    while (sequence->page_count < pages) {
        sequence->pages[sequence->page_count++] = cache->free[--cache->free_count];
    }
    return OR_OK;
}

void or_kv_sequence_trim(or_kv_sequence_t *sequence)
{
    or_kv_cache_t *cache = sequence->cache;
    while (sequence->page_count > pages_for(sequence->length)) {
        cache->free[cache->free_count++] = sequence->pages[--sequence->page_count];
    }
}
