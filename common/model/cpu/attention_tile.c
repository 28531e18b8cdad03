// Whole blocks of committed text lie in pages; what a node sees after
// them is gathered, in position order:
//
//     positions   0 ...... 31 | 32 ..... 63 | 64 ... 70 | 71 72 73     committed 71, a node at position 73
//     read from   page          page          gathered: page 64-70, slots of the node's ancestors and its own
//
// A node sees its ancestors only, so no block without one is ever visited (DySpec, appendix C). What was
// gathered for the row before stays as far as both have the same ancestors: in depth-first order that is
// all but the last few (figures in docs/decisions.md).
#include "common/model/cpu/attention_tile.h"

#include "common/model/kv/kv_store.h"

// The two functions that put K, or V, into a gathered block.
typedef struct {
    void (*decode_page)(const or_attention_tile_t *tile, uint32_t block, float *out);
    void (*put_slot)(const or_attention_tile_t *tile, uint32_t slot, uint32_t lane, float *block);
} side_t;

static const or_kv_shape_t *shape_of(const or_attention_tile_t *tile)
{
    return &tile->rows->sequence->cache->shape;
}

static size_t block_floats(const or_attention_tile_t *tile)
{
    return (size_t)tile->head_dim * OR_KV_BLOCK;
}

static void decode_page_keys(const or_attention_tile_t *tile, uint32_t block, float *out)
{
    or_kv_decode_keys(tile->model->kernels, shape_of(tile)->key_type, tile->head_dim,
                      or_kv_page_keys(tile->rows->sequence, block, tile->kv_layer, tile->kv_head),
                      out);
}

static void decode_page_values(const or_attention_tile_t *tile, uint32_t block, float *out)
{
    or_kv_decode_values(
        tile->model->kernels, shape_of(tile)->value_type, tile->head_dim,
        or_kv_page_values(tile->rows->sequence, block, tile->kv_layer, tile->kv_head), out);
}

static void put_slot_key(const or_attention_tile_t *tile, uint32_t slot, uint32_t lane,
                         float *block)
{
    uint32_t head_dim = tile->head_dim;
    float *key = tile->scratch->slot_key;
    or_kv_decode_slot(tile->model->kernels, shape_of(tile)->key_type, head_dim,
                      or_kv_slot_keys(tile->rows->sequence, slot, tile->kv_layer, tile->kv_head),
                      key);
    for (size_t d = 0; d < head_dim; d++) {
        block[d * OR_KV_BLOCK + lane] = key[d];
    }
}

static void put_slot_value(const or_attention_tile_t *tile, uint32_t slot, uint32_t lane,
                           float *block)
{
    uint32_t head_dim = tile->head_dim;
    or_kv_decode_slot(tile->model->kernels, shape_of(tile)->value_type, head_dim,
                      or_kv_slot_values(tile->rows->sequence, slot, tile->kv_layer, tile->kv_head),
                      block + (size_t)lane * head_dim);
}

static const side_t key_side = {decode_page_keys, put_slot_key};
static const side_t value_side = {decode_page_values, put_slot_value};

static const float *gather(const or_attention_tile_t *tile, or_gathered_t *gathered,
                           const side_t *side, const or_pass_row_t *row)
{
    uint32_t *chain = tile->scratch->chain;
    uint32_t count = or_pass_chain(row, chain);
    uint32_t lanes = row->committed % OR_KV_BLOCK; // of committed positions in the first block
    if (!gathered->has_page && lanes > 0) {
        side->decode_page(tile, row->committed / OR_KV_BLOCK, gathered->blocks);
    }
    gathered->has_page = true;
    uint32_t shared = 0;
    while (shared < count && shared < gathered->count && gathered->chain[shared] == chain[shared]) {
        shared++;
    }
    for (uint32_t i = shared; i < count; i++) {
        uint32_t place = lanes + i;
        float *block = gathered->blocks + place / OR_KV_BLOCK * block_floats(tile);
        side->put_slot(tile, chain[i], place % OR_KV_BLOCK, block);
        gathered->chain[i] = chain[i];
    }
    gathered->count = count;
    return gathered->blocks;
}

const float *or_attention_own_keys(const or_attention_tile_t *tile, const or_pass_row_t *row)
{
    return gather(tile, &tile->scratch->keys, &key_side, row);
}

const float *or_attention_own_values(const or_attention_tile_t *tile, const or_pass_row_t *row)
{
    return gather(tile, &tile->scratch->values, &value_side, row);
}

// ---- pages ----

uint32_t or_attention_pages(const or_pass_row_t *row)
{
    return row->slot == OR_KV_NO_SLOT ? row->position / OR_KV_BLOCK + 1
                                      : row->committed / OR_KV_BLOCK;
}

uint32_t or_attention_pages_of(const or_pass_row_t *rows, or_span_t span)
{
    uint32_t most = 0;
    for (uint32_t r = span.begin; r < span.end; r++) {
        uint32_t pages = or_attention_pages(&rows[r]);
        most = pages > most ? pages : most;
    }
    return most;
}

// The most queries of a tile that read Q8_0 as it lies. Kernels multiply a dozen at a time at most, and make floats of the
// block anew for each dozen; for more queries it is faster to decode it once (docs/benchmarks.md).
#define QUERIES_IN_PLACE 12u

// The differences between the two sides of a page.
typedef struct {
    or_kv_type_t type;
    const void *(*page)(const or_attention_tile_t *tile, uint32_t block);
    void (*decode)(const or_attention_tile_t *tile, uint32_t block, float *out);
    float *decoded; // where a block is decoded to, or its scales
    uint32_t *decoded_block;
} pages_t;

static const void *page_keys(const or_attention_tile_t *tile, uint32_t block)
{
    return or_kv_page_keys(tile->rows->sequence, block, tile->kv_layer, tile->kv_head);
}

static const void *page_values(const or_attention_tile_t *tile, uint32_t block)
{
    return or_kv_page_values(tile->rows->sequence, block, tile->kv_layer, tile->kv_head);
}

// A block of Q8_0: decoded, or as it lies and only its scales decoded.
static or_kv_block_t quants_of_page(const or_attention_tile_t *tile, const pages_t *pages,
                                    uint32_t block)
{
    const void *at = pages->page(tile, block);
    const bool in_place = tile->row_count * tile->heads <= QUERIES_IN_PLACE;
    if (*pages->decoded_block != block) {
        if (in_place) {
            or_kv_decode_scales(tile->model->kernels, tile->head_dim, at, pages->decoded);
        } else {
            pages->decode(tile, block, pages->decoded);
        }
        *pages->decoded_block = block;
    }
    return in_place ? or_kv_block_view(OR_KV_Q8_0, tile->head_dim, at, pages->decoded)
                    : or_kv_block_view(OR_KV_F32, tile->head_dim, pages->decoded, NULL);
}

static or_kv_block_t block_of_page(const or_attention_tile_t *tile, const pages_t *pages,
                                   uint32_t block)
{
    or_kv_block_t found =
        pages->type == OR_KV_Q8_0
            ? quants_of_page(tile, pages, block)
            : or_kv_block_view(pages->type, tile->head_dim, pages->page(tile, block), NULL);
    if (block + 1 < tile->pages) {
        found.next = pages->page(tile, block + 1);
        found.next_bytes = or_kv_vector_bytes(pages->type, tile->head_dim) * OR_KV_BLOCK;
    }
    return found;
}

or_kv_block_t or_attention_page_keys(const or_attention_tile_t *tile, uint32_t block)
{
    or_attention_scratch_t *scratch = tile->scratch;
    const pages_t pages = {shape_of(tile)->key_type, page_keys, decode_page_keys,
                           scratch->decoded_keys, &scratch->decoded_keys_block};
    return block_of_page(tile, &pages, block);
}

or_kv_block_t or_attention_page_values(const or_attention_tile_t *tile, uint32_t block)
{
    or_attention_scratch_t *scratch = tile->scratch;
    const pages_t pages = {shape_of(tile)->value_type, page_values, decode_page_values,
                           scratch->decoded_values, &scratch->decoded_values_block};
    return block_of_page(tile, &pages, block);
}

static void reset_gathered(or_gathered_t *gathered)
{
    gathered->has_page = false;
    gathered->count = 0;
}

void or_attention_forget(or_attention_scratch_t *scratch)
{
    scratch->decoded_keys_block = UINT32_MAX;
    scratch->decoded_values_block = UINT32_MAX;
    reset_gathered(&scratch->keys);
    reset_gathered(&scratch->values);
}
