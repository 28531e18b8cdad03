// message_arena - the memory of one message: a chain of blocks with a budget, given back all at once.
//
// All that a decoded message points to lives in it. So a message is one thing to free, and a hostile frame is stopped when
// it has cost as much as its size allows. Memory is counted as it is taken from the system; nothing is given back singly.
// One thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct or_message_block or_message_block_t;

typedef struct {
    or_message_block_t *blocks; // owned
    size_t budget;              // bytes that may still be taken
    bool system_refused;        // the system had no memory although the budget allowed it
} or_message_arena_t;

// An empty arena that will take at most `budget` bytes.
void or_message_arena_init(or_message_arena_t *arena, size_t budget);

// Memory for `count` items of `bytes` each, aligned for anything, not cleared. NULL when the budget
// or the system has no more.
void *or_message_arena_take(or_message_arena_t *arena, size_t count, size_t bytes);

// Free all blocks. NULL is allowed.
void or_message_blocks_free(or_message_block_t *blocks);
