// attention_tile - what attention takes together, and where its K and V come from.
//
// A tile is some rows of one sequence that follow each other in a pass, prefix rows before tree rows. It has
// one KV head and the query heads that share it. A *query* is one of those heads in one of those rows:
//
//     queries   row 0: head 0, head 1, ...   row 1: head 0, head 1, ...   ...
//
// Private to common/model.
#pragma once

#include "common/base/inline.h"
#include "common/model/model_internal.h"

typedef struct {
    const or_model_t *model;
    or_attention_scratch_t *scratch; // of this worker: what it decodes and gathers
    // Where the tile's queries, scores and sums lie: the same, or another's if workers share the tile.
    or_attention_scratch_t *home;
    const or_pass_row_t *rows;
    uint32_t first_row; // in the pass
    uint32_t row_count;
    uint32_t layer;
    uint32_t kv_layer; // whose K and V it attends to
    uint32_t kv_head;  // in the cache: 0 is this rank's first
    uint32_t head;     // the first query head, in the model
    uint32_t heads;    // query heads of a row
    uint32_t head_dim;
    uint32_t window;    // positions that a row attends to; 0: all
    const float *sinks; // of the query heads; NULL: there are none
    size_t stride;      // from a query's scores to the next's
    uint32_t pages;     // that some row reads (or_attention_pages_of)
} or_attention_tile_t;

// Forget what this worker decoded and gathered for another tile.
void or_attention_forget(or_attention_scratch_t *scratch);

// Return the number of blocks that a row reads in pages, the last one perhaps in part; and the most that one of some rows
// does.
uint32_t or_attention_pages(const or_pass_row_t *row);
uint32_t or_attention_pages_of(const or_pass_row_t *rows, or_span_t span);

// Return a block of the sequence's pages, K [head_dim][32] or V [32][head_dim]: where it lies, or decoded where many
// queries read Q8_0. It stays until the next call for the same side. The page that the tile reads after it is next.
or_kv_block_t or_attention_page_keys(const or_attention_tile_t *tile, uint32_t block);
or_kv_block_t or_attention_page_values(const or_attention_tile_t *tile, uint32_t block);

// Return as floats the blocks that a tree row sees from position row->committed / 32 * 32 on, likewise.
const float *or_attention_own_keys(const or_attention_tile_t *tile, const or_pass_row_t *row);
const float *or_attention_own_values(const or_attention_tile_t *tile, const or_pass_row_t *row);

// The first position that a row attends to.
static inline uint32_t or_attention_first_seen(const or_attention_tile_t *tile,
                                               const or_pass_row_t *row)
{
    uint32_t seen = row->position + 1;
    return tile->window > 0 && seen > tile->window ? seen - tile->window : 0;
}

// Return the stride of scores. It is an odd number of blocks: queries' scores of the same positions then lie in different sets of a cache.
static inline size_t or_attention_stride(uint32_t positions)
{
    uint32_t blocks = positions / OR_KV_BLOCK + 1;
    return (size_t)(blocks | 1) * OR_KV_BLOCK;
}

// Return the room for the scores of a tile, unless those of one row are more.
static inline size_t or_attention_tile_scores(size_t stride)
{
    size_t least = OR_TILE_QUERIES_LEAST * stride;
    return least > OR_TILE_SCORES ? least : OR_TILE_SCORES;
}
