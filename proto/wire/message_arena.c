#include "proto/wire/message_arena.h"

#include <stdint.h>
#include <stdlib.h>

#define BLOCK_BYTES 2048u // most messages need one

struct or_message_block {
    or_message_block_t *next;
    size_t used, capacity;
    max_align_t data[];
};

void or_message_arena_init(or_message_arena_t *arena, size_t budget)
{
    arena->blocks = NULL;
    arena->budget = budget;
    arena->system_refused = false;
}

static or_message_block_t *take_block(or_message_arena_t *arena, size_t capacity)
{
    size_t bytes = sizeof(or_message_block_t) + capacity;
    if (bytes > arena->budget) {
        return NULL;
    }
    or_message_block_t *block = malloc(bytes);
    if (block == NULL) {
        arena->system_refused = true;
        return NULL;
    }
    arena->budget -= bytes;
    block->used = 0;
    block->capacity = capacity;
    return block;
}

// A large piece gets a block of its own behind the first, whose room stays in use.
static void *take_large(or_message_arena_t *arena, size_t bytes)
{
    or_message_block_t *block = take_block(arena, bytes);
    if (block == NULL) {
        return NULL;
    }
    block->used = bytes;
    or_message_block_t **place = arena->blocks != NULL ? &arena->blocks->next : &arena->blocks;
    block->next = *place;
    *place = block;
    return block->data;
}

static void *take_small(or_message_arena_t *arena, size_t bytes)
{
    or_message_block_t *first = arena->blocks;
    if (first == NULL || first->capacity - first->used < bytes) {
        first = take_block(arena, BLOCK_BYTES);
        if (first == NULL) {
            return NULL;
        }
        first->next = arena->blocks;
        arena->blocks = first;
    }
    void *piece = (char *)first->data + first->used;
    first->used += bytes;
    return piece;
}

void *or_message_arena_take(or_message_arena_t *arena, size_t count, size_t bytes)
{
    const size_t unit = _Alignof(max_align_t);
    if (bytes != 0 && count > (SIZE_MAX / 2) / bytes) {
        return NULL;
    }
    size_t rounded = (count * bytes + unit - 1) / unit * unit;
    return rounded > BLOCK_BYTES / 4 ? take_large(arena, rounded) : take_small(arena, rounded);
}

void or_message_blocks_free(or_message_block_t *blocks)
{
    while (blocks != NULL) {
        or_message_block_t *next = blocks->next;
        free(blocks);
        blocks = next;
    }
}
