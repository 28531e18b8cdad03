// shards - how every model is cut into S = 8 logical pieces, whatever the number of ranks
// (docs/design.md section 7).
//
//     shard s owns units floor(s U / 8) .. floor((s + 1) U / 8) - 1        (U units: query heads, FFN blocks of 32, vocabulary rows)
//     rank r of R owns shards r 8/R .. (r + 1) 8/R - 1                     (R = 1, 2, 4, 8: an aligned subtree)
//     partial sums:  ((0+1)+(2+3)) + ((4+5)+(6+7)), an empty shard contributes +0
//
// Because the cut and the tree never depend on R, 1, 2, 4 and 8 ranks give the same bits. Stages
// (ranks.h) cut between layers, where the bits are the same whatever follows.
#pragma once

#include <stdint.h>

#include "common/base/status.h"

#define OR_SHARDS 8u
#define OR_SHARD_FFN_UNIT 32u

typedef struct {
    uint32_t begin;
    uint32_t end; // exclusive; begin == end for an empty shard
} or_span_t;

static inline uint32_t or_span_length(or_span_t span)
{
    return span.end - span.begin;
}

static inline or_span_t or_shard_span(uint32_t shard, uint32_t units)
{
    return (or_span_t){(uint32_t)((uint64_t)shard * units / OR_SHARDS),
                       (uint32_t)((uint64_t)(shard + 1) * units / OR_SHARDS)};
}

// Return the units of one or more shards.
static inline or_span_t or_shards_units(or_span_t shards, uint32_t units)
{
    return (or_span_t){or_shard_span(shards.begin, units).begin,
                       or_shard_span(shards.end - 1, units).end};
}

// Return the inputs of a shard of a matrix whose `inputs` inputs come in `units` units of unit_size, the last one
// perhaps short.
static inline or_span_t or_shard_inputs(uint32_t shard, uint32_t units, uint32_t unit_size,
                                        uint32_t inputs)
{
    or_span_t span = or_shard_span(shard, units);
    uint32_t end = span.end * unit_size;
    return (or_span_t){span.begin * unit_size, end < inputs ? end : inputs};
}

// Find the shards of one rank. OR_ERR_UNSUPPORTED for sizes other than 1, 2, 4, 8 (the sentence names them, and --pp
// for other counts).
or_status_t or_shards_of_rank(int rank, int size, or_span_t *shards);

// Find the layers of one stage: floor(stage L / stages) .. floor((stage + 1) L / stages) - 1, at least one.
// OR_ERR_INVALID if there are more stages than layers.
or_status_t or_layers_of_stage(int stage, int stages, uint32_t layers, or_span_t *span);
