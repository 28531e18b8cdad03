// Pages and slots in this process's own memory.
#include <stdlib.h>
#include <string.h>

#include "common/model/kv/kv_cache_internal.h"
#include "common/model/kv/kv_store.h"

#define CACHE_LINE 64u

// ---- where a vector lies ----

static or_kv_vector_t position_key(const or_kv_sequence_t *sequence, uint32_t position,
                                   uint32_t layer, uint32_t head)
{
    const or_kv_shape_t *shape = &sequence->cache->shape;
    void *block = or_kv_page_keys(sequence, position / OR_KV_PAGE, layer, head);
    return or_kv_key_vector(shape->key_type, shape->head_dim, block, position % OR_KV_PAGE);
}

static or_kv_vector_t position_value(const or_kv_sequence_t *sequence, uint32_t position,
                                     uint32_t layer, uint32_t head)
{
    const or_kv_shape_t *shape = &sequence->cache->shape;
    void *block = or_kv_page_values(sequence, position / OR_KV_PAGE, layer, head);
    return or_kv_value_vector(shape->value_type, shape->head_dim, block, position % OR_KV_PAGE);
}

static or_kv_vector_t slot_key(const or_kv_sequence_t *sequence, uint32_t slot, uint32_t layer,
                               uint32_t head)
{
    const or_kv_shape_t *shape = &sequence->cache->shape;
    return or_kv_slot_vector(shape->key_type, shape->head_dim,
                             or_kv_slot_keys(sequence, slot, layer, head));
}

static or_kv_vector_t slot_value(const or_kv_sequence_t *sequence, uint32_t slot, uint32_t layer,
                                 uint32_t head)
{
    const or_kv_shape_t *shape = &sequence->cache->shape;
    return or_kv_slot_vector(shape->value_type, shape->head_dim,
                             or_kv_slot_values(sequence, slot, layer, head));
}

// ---- written by a pass ----

void or_kv_put_position(or_kv_sequence_t *sequence, uint32_t position, uint32_t layer,
                        uint32_t head, const float *key, const float *value)
{
    or_kv_vector_t to = position_key(sequence, position, layer, head);
    or_kv_vector_write(&to, key);
    to = position_value(sequence, position, layer, head);
    or_kv_vector_write(&to, value);
}

void or_kv_put_slot(or_kv_sequence_t *sequence, uint32_t slot, uint32_t layer, uint32_t head,
                    const float *key, const float *value)
{
    or_kv_vector_t to = slot_key(sequence, slot, layer, head);
    or_kv_vector_write(&to, key);
    to = slot_value(sequence, slot, layer, head);
    or_kv_vector_write(&to, value);
}

// ---- kv_memory.h ----

static bool take_pages(or_kv_cache_t *cache)
{
    // calloc leaves untouched pages to the system, so a long context costs memory only as far as it
    // is used.
    cache->allocation = calloc(1, cache->pages_max * cache->page_bytes + CACHE_LINE);
    cache->pages =
        (uint8_t *)(((uintptr_t)cache->allocation + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    return cache->allocation != NULL;
}

static void give_pages(or_kv_cache_t *cache)
{
    free(cache->allocation);
}

static bool take_slots(or_kv_sequence_t *sequence)
{
    size_t bytes = or_kv_slot_bytes(&sequence->cache->shape);
    sequence->slot_bytes = calloc((size_t)sequence->slots_max + 1, bytes);
    return sequence->slot_bytes != NULL || bytes == 0;
}

static void give_slots(or_kv_sequence_t *sequence)
{
    free(sequence->slot_bytes);
}

static void copy_page(or_kv_cache_t *cache, uint32_t from, uint32_t to)
{
    memcpy(cache->pages + to * cache->page_bytes, cache->pages + from * cache->page_bytes,
           cache->page_bytes);
}

static void move_slot(or_kv_sequence_t *sequence, uint32_t slot, uint32_t position, uint32_t layer,
                      uint32_t head)
{
    or_kv_vector_t from = slot_key(sequence, slot, layer, head);
    or_kv_vector_t to = position_key(sequence, position, layer, head);
    or_kv_vector_copy(&from, &to);
    from = slot_value(sequence, slot, layer, head);
    to = position_value(sequence, position, layer, head);
    or_kv_vector_copy(&from, &to);
}

static void move_slots(or_kv_sequence_t *sequence, const uint32_t *slots, uint32_t count)
{
    const or_kv_shape_t *shape = &sequence->cache->shape;
    for (uint32_t layer = 0; layer < shape->layers; layer++) {
        for (uint32_t head = 0; head < shape->kv_heads; head++) {
            for (uint32_t i = 0; i < count; i++) {
                move_slot(sequence, slots[i], sequence->length + i, layer, head);
            }
        }
    }
}

static uint8_t *block(const or_kv_cache_t *cache, uint32_t page, uint32_t index)
{
    return cache->pages + page * cache->page_bytes +
           index * (cache->key_bytes + cache->value_bytes);
}

const or_kv_memory_t or_kv_memory_host = {.take_pages = take_pages,
                                          .take_slots = take_slots,
                                          .give_pages = give_pages,
                                          .give_slots = give_slots,
                                          .copy_page = copy_page,
                                          .move_slots = move_slots,
                                          .block = block};
