// ceilings - what a core can do at most, as loops of nothing else: fused multiply-adds, integer dot
// products, loads. What a benchmark holds kernels against; timing is the caller's.
//
// One set for each table of kernels.h, in the instructions that table is made of. Independent chains
// live in registers, as many as it takes to keep the multipliers busy. `sum` is what a loop came to,
// written so that no compiler can leave the loop away.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    const char *name; // of the table
    // A multiplication and an addition are two operations.
    uint32_t flops_a_round;
    void (*multiply_add)(uint32_t rounds, float *sum);
    // Products of bytes, each added to something: two operations.
    uint32_t ops_a_round;
    void (*dot)(uint32_t rounds, int32_t *sum);
    // The same products as canonical arithmetic has them, which is the canonical roof of a type of weights. Of each of a block's
    // groups, 1 or 2 (quants.h), the sum is made a float, and added to a chain times a product of two scales. Where a group
    // has a minimum, that is a second step.
    uint32_t ops_a_block_round;
    void (*blocks)(uint32_t groups, bool minima, uint32_t rounds, float *sum);
    // Read `lines` cache lines of 64 bytes, aligned so; a multiple of 4.
    void (*read)(const void *data, size_t lines, uint64_t *sum);
} or_ceilings_t;

// Return the ceilings of a table by its name; NULL if this build has none for that name. They may be run only where
// that table may.
const or_ceilings_t *or_ceilings_find(const char *name);
