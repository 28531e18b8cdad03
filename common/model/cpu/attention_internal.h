// attention_internal - what a worker does at a time in attention, for attention*.c.
//
// A tile: some rows of one sequence that follow each other in a pass, prefix rows before tree rows, and one
// KV head with the query heads that share it. A *query* is one of those heads in one of those rows:
//
//     queries   row 0: head 0, head 1, ...   row 1: head 0, head 1, ...   ...
#pragma once

#include "common/model/model_internal.h"

typedef struct {
    const or_model_t *model;
    or_attention_scratch_t *scratch;
    const or_pass_row_t *rows;
    uint32_t row_count;
    uint32_t layer;
    uint32_t kv_head; // in the cache: 0 is this rank's first
    uint32_t heads;   // query heads of a row
    size_t stride;    // from a query's scores to the next's
} or_tile_t;

// A page's block of a tile's sequence as floats: in place, or decoded into scratch, where it stays until
// the next one.
const float *or_tile_page_keys(const or_tile_t *tile, uint32_t block);
const float *or_tile_page_values(const or_tile_t *tile, uint32_t block);

// Forget what another tile left.
void or_gathered_reset(or_gathered_t *gathered);
// The blocks of a tree row that pages do not hold whole, from `committed` / 32 on: [blocks][head_dim][32]
// and [blocks][32][head_dim]. Valid until the next row's.
const float *or_tile_gather_keys(const or_tile_t *tile, const or_pass_row_t *row);
const float *or_tile_gather_values(const or_tile_t *tile, const or_pass_row_t *row);
