// gpu_slots - a device's memory for the slots of sequences: kept when a sequence closes, for the next one.
//
// To take memory from a device and to free it both stop its work. So what a sequence had is kept for the next that wants
// as much; or, where that was reserved at load, all of it is taken then, and no more ever.
//
//     reserve 4 x 1,024     kept  # # # #
//     open, open            kept  # #         taken without a word to the device
//     close                 kept  # # #
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct or_gpu or_gpu_t;

typedef struct {
    size_t bytes;  // of a part, for one sequence
    void **parts;  // [room]
    uint32_t kept; // of them, the others are in use
    uint32_t room;
    bool reserved;
} or_gpu_slots_t;

// Take parts of slots_max slots for `wanted` sequences, as far as half of the free memory goes, or this rank's part of it
// where so many `sharers` have this device, but for one at least; returns how many there are. Only these are given to
// sequences from now on. Before the first sequence opens, and after the cache's pages were taken.
uint32_t or_gpu_slots_reserve(or_gpu_t *gpu, uint32_t slots_max, uint32_t wanted, uint32_t sharers);
// Give back all but `count` of what was reserved, before the first sequence opens.
void or_gpu_slots_keep(or_gpu_t *gpu, uint32_t count);

// A part for slots_max slots, of any content; *at_p is NULL where no bytes are needed. False if there is no memory, or not
// so much in a part that is reserved, or all are in use.
bool or_gpu_slots_take(or_gpu_t *gpu, uint32_t slots_max, void **at_p);
void or_gpu_slots_give(or_gpu_t *gpu, uint32_t slots_max, void *at);

// Free what is kept.
void or_gpu_slots_free(or_gpu_t *gpu);
