// A cache's pool of pages, and of frames where some layers keep the last positions only: created, counted, destroyed.
#include <assert.h>
#include <stdlib.h>

#include "common/model/kv/kv_cache_internal.h"
#include "common/model/kv/kv_store.h"

// Find the places of all layers; `is_bounded` NULL: none is in frames. NULL if there is no memory.
static or_kv_place_t *find_places(const or_kv_shape_t *shape, const bool *is_bounded)
{
    or_kv_place_t *places = calloc((size_t)shape->layers + 1, sizeof *places);
    size_t before[2] = {0, 0}, slot_before = 0;
    for (uint32_t i = 0; places != NULL && i < shape->layers; i++) {
        const or_kv_heads_t heads = or_kv_heads_of(shape, i);
        const bool in_frame = is_bounded != NULL && is_bounded[i];
        places[i] = (or_kv_place_t){
            .in_frame = in_frame,
            .heads = heads,
            .before = before[in_frame],
            .slot_before = slot_before,
            .key_bytes = OR_KV_PAGE * or_kv_vector_bytes(shape->key_type, heads.head_dim),
            .value_bytes = OR_KV_PAGE * or_kv_vector_bytes(shape->value_type, heads.head_dim),
            .slot_key_bytes = or_kv_slot_vector_bytes(shape->key_type, heads.head_dim),
            .slot_value_bytes = or_kv_slot_vector_bytes(shape->value_type, heads.head_dim)};
        before[in_frame] += or_kv_page_bytes_of(shape, i);
        slot_before += heads.kv_heads * (places[i].slot_key_bytes + places[i].slot_value_bytes);
    }
    return places;
}

// `frames` is taken on success.
static or_status_t create(const or_kv_memory_t *memory, const or_kv_shape_t *shape,
                          or_kv_frames_t *frames, const bool *is_bounded, uint32_t pages_max,
                          or_kv_cache_t **cache_p)
{
    uint64_t page_bytes = or_kv_page_bytes(shape);
    uint64_t bytes;
    if (__builtin_mul_overflow(page_bytes, pages_max, &bytes) || bytes > SIZE_MAX / 2) {
        return or_fail(OR_ERR_NO_MEMORY,
                       "a KV cache of %u pages is too large; ask for a shorter context", pages_max);
    }
    if (frames != NULL) {
        page_bytes -= frames->frame_bytes;
        bytes = page_bytes * pages_max + frames->frame_bytes * frames->frames_max;
    }
    or_kv_cache_t *cache = calloc(1, sizeof *cache);
    if (cache == NULL) {
        goto no_cache;
    }
    *cache = (or_kv_cache_t){.shape = *shape,
                             .memory = memory,
                             .frames = frames,
                             .pages_max = pages_max,
                             .places = find_places(shape, is_bounded),
                             .page_bytes = page_bytes};
    if (cache->places == NULL) {
        goto no_places;
    }
    cache->holders = calloc((size_t)pages_max + 1, sizeof *cache->holders);
    if (cache->holders == NULL) {
        goto no_holders;
    }
    cache->free = malloc((size_t)pages_max * sizeof *cache->free + 1);
    if (cache->free == NULL) {
        goto no_free_list;
    }
    if (!memory->take_pages(cache)) {
        goto no_pages;
    }
    for (uint32_t i = 0; i < pages_max; i++) {
        cache->free[i] = pages_max - 1 - i; // page 0 is taken first
    }
    cache->free_count = pages_max;
    *cache_p = cache;
    return OR_OK;

no_pages:
    free(cache->free);
no_free_list:
    free(cache->holders);
no_holders:
    free(cache->places);
no_places:
    free(cache);
no_cache:
    return or_fail(OR_ERR_NO_MEMORY,
                   "no memory for a KV cache of %llu MiB; ask for a smaller one "
                   "(--kv-cache-size) or a shorter context (-c)",
                   (unsigned long long)(bytes >> 20));
}

or_status_t or_kv_cache_create_in(const or_kv_memory_t *memory, const or_kv_shape_t *shape,
                                  const or_kv_windows_t *windows, uint32_t pages_max,
                                  or_kv_cache_t **cache_p)
{
    or_kv_frames_t *frames = NULL;
    if (windows == NULL) {
        return create(memory, shape, NULL, NULL, pages_max, cache_p);
    }
    or_status_t status = or_kv_frames_create(shape, windows, pages_max, &frames);
    status = status != OR_OK
                 ? status
                 : create(memory, shape, frames, windows->is_bounded, pages_max, cache_p);
    if (status != OR_OK) {
        or_kv_frames_destroy(&frames);
    }
    return status;
}

or_status_t or_kv_cache_create(const or_kv_shape_t *shape, uint32_t pages_max,
                               or_kv_cache_t **cache_p)
{
    return or_kv_cache_create_in(&or_kv_memory_host, shape, NULL, pages_max, cache_p);
}

or_status_t or_kv_cache_create_bounded(const or_kv_shape_t *shape, const or_kv_windows_t *windows,
                                       uint32_t pages_max, or_kv_cache_t **cache_p)
{
    return or_kv_cache_create_in(&or_kv_memory_host, shape, windows, pages_max, cache_p);
}

void or_kv_cache_destroy(or_kv_cache_t **cache_p)
{
    or_kv_cache_t *cache = *cache_p;
    if (cache == NULL) {
        return;
    }
    assert(cache->first == NULL && cache->free_count == cache->pages_max);
    cache->memory->give_pages(cache);
    or_kv_frames_destroy(&cache->frames);
    free(cache->free);
    free(cache->holders);
    free(cache->places);
    free(cache);
    *cache_p = NULL;
}

uint32_t or_kv_cache_pages(const or_kv_cache_t *cache)
{
    return cache->pages_max;
}

uint32_t or_kv_cache_pages_free(const or_kv_cache_t *cache)
{
    const or_kv_frames_t *frames = cache->frames;
    return frames != NULL && frames->free_count < cache->free_count ? frames->free_count
                                                                    : cache->free_count;
}

uint32_t or_kv_cache_pages_unused(const or_kv_cache_t *cache)
{
    const or_kv_frames_t *frames = cache->frames;
    uint64_t share = frames != NULL && frames->frames_max > 0
                         ? (uint64_t)cache->pages_max * frames->free_count / frames->frames_max
                         : cache->free_count;
    return share < cache->free_count ? (uint32_t)share : cache->free_count;
}

uint64_t or_kv_cache_bytes(const or_kv_cache_t *cache)
{
    return cache->pages_max * (uint64_t)cache->page_bytes + or_kv_cache_window_bytes(cache);
}

uint64_t or_kv_cache_window_bytes(const or_kv_cache_t *cache)
{
    return cache->frames != NULL ? or_kv_cache_frames(cache) * (uint64_t)cache->frames->frame_bytes
                                 : 0;
}

uint32_t or_kv_cache_frames(const or_kv_cache_t *cache)
{
    return cache->frames != NULL ? cache->frames->frames_max : 0;
}

uint32_t or_kv_cache_pages_shared(const or_kv_cache_t *cache)
{
    uint32_t shared = 0;
    for (uint32_t page = 0; page < cache->pages_max; page++) {
        shared += cache->holders[page] > 1;
    }
    return shared;
}
