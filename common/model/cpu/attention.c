// Attention reduces over absolute positions in blocks of 32, wherever their K and V lie. A tile's rows
// meet each block of committed text together, so that it is read, or decoded, once for all of them:
//
//     positions    0 ... 31   32 ... 63   64 ... 95   then alone
//     prefix 62    together   scores together, values of 63 positions in its own time
//     prefix 63    together   together
//     prefix 64    together   together    as prefix 62 before
//     tree   65    together   together                gathered: page 64, slots (below)
//
// What follows those blocks is a row's own: of a prefix row's last page it sees the positions up to its
// own, and a node its ancestors. Each query's sums still run over positions in order, so how rows are
// cut into tiles changes no bit.
#include <string.h>

#include "common/base/inline.h"
#include "common/model/cpu/elementwise.h"
#include "common/model/kv/kv_store.h"
#include "common/model/model_internal.h"

// A tile: some rows of one sequence that follow each other in a pass, prefix rows before tree rows, and one
// KV head with the query heads that share it. A *query* is one of those heads in one of those rows:
//
//     queries   row 0: head 0, head 1, ...   row 1: head 0, head 1, ...   ...
typedef struct {
    const or_model_t *model;
    or_attention_scratch_t *scratch;
    const or_pass_row_t *rows;
    uint32_t row_count;
    uint32_t layer;
    uint32_t kv_head;   // in the cache: 0 is this rank's first
    uint32_t heads;     // query heads of a row
    uint32_t window;    // positions that a row attends to; 0: all
    const float *sinks; // of the query heads; NULL: there are none
    size_t stride;      // from a query's scores to the next's
} tile_t;

// ---- where K and V come from ----
//
// Whole blocks of committed text lie in pages; what a node sees after
// them is gathered, in position order:
//
//     positions   0 ...... 31 | 32 ..... 63 | 64 ... 70 | 71 72 73     committed 71, a node at position 73
//     read from   page          page          gathered: page 64-70, slots of the node's ancestors and its own
//
// A node sees its ancestors only, so no block without one is ever visited (DySpec, appendix C). What was
// gathered for the row before stays as far as both have the same ancestors: in depth-first order that is
// all but the last few (figures in docs/decisions.md).

// The two functions that put K, or V, into a gathered block.
typedef struct {
    void (*decode_page)(const tile_t *tile, uint32_t block, float *out);
    void (*put_slot)(const tile_t *tile, uint32_t slot, uint32_t lane, float *block);
} side_t;

static const or_kv_shape_t *shape_of(const tile_t *tile)
{
    return &tile->rows->sequence->cache->shape;
}

static size_t block_floats(const tile_t *tile)
{
    return (size_t)tile->model->shape.head_dim * OR_KV_BLOCK;
}

static void decode_page_keys(const tile_t *tile, uint32_t block, float *out)
{
    or_kv_decode_keys(tile->model->kernels, shape_of(tile)->key_type, tile->model->shape.head_dim,
                      or_kv_page_keys(tile->rows->sequence, block, tile->layer, tile->kv_head),
                      out);
}

static void decode_page_values(const tile_t *tile, uint32_t block, float *out)
{
    or_kv_decode_values(
        tile->model->kernels, shape_of(tile)->value_type, tile->model->shape.head_dim,
        or_kv_page_values(tile->rows->sequence, block, tile->layer, tile->kv_head), out);
}

static void put_slot_key(const tile_t *tile, uint32_t slot, uint32_t lane, float *block)
{
    uint32_t head_dim = tile->model->shape.head_dim;
    float *key = tile->scratch->slot_key;
    or_kv_decode_slot(tile->model->kernels, shape_of(tile)->key_type, head_dim,
                      or_kv_slot_keys(tile->rows->sequence, slot, tile->layer, tile->kv_head), key);
    for (size_t d = 0; d < head_dim; d++) {
        block[d * OR_KV_BLOCK + lane] = key[d];
    }
}

static void put_slot_value(const tile_t *tile, uint32_t slot, uint32_t lane, float *block)
{
    uint32_t head_dim = tile->model->shape.head_dim;
    or_kv_decode_slot(tile->model->kernels, shape_of(tile)->value_type, head_dim,
                      or_kv_slot_values(tile->rows->sequence, slot, tile->layer, tile->kv_head),
                      block + (size_t)lane * head_dim);
}

static const side_t key_side = {decode_page_keys, put_slot_key};
static const side_t value_side = {decode_page_values, put_slot_value};

static const float *gather(const tile_t *tile, or_gathered_t *gathered, const side_t *side,
                           const or_pass_row_t *row)
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

static void reset_gathered(or_gathered_t *gathered)
{
    gathered->has_page = false;
    gathered->count = 0;
}

static const float *gather_keys(const tile_t *tile, const or_pass_row_t *row)
{
    return gather(tile, &tile->scratch->keys, &key_side, row);
}

static const float *gather_values(const tile_t *tile, const or_pass_row_t *row)
{
    return gather(tile, &tile->scratch->values, &value_side, row);
}

static const float *page_keys(const tile_t *tile, uint32_t block)
{
    or_attention_scratch_t *scratch = tile->scratch;
    if (shape_of(tile)->key_type == OR_KV_F32) {
        return or_kv_page_keys(tile->rows->sequence, block, tile->layer, tile->kv_head);
    }
    if (scratch->decoded_keys_block != block) {
        decode_page_keys(tile, block, scratch->decoded_keys);
        scratch->decoded_keys_block = block;
    }
    return scratch->decoded_keys;
}

static const float *page_values(const tile_t *tile, uint32_t block)
{
    or_attention_scratch_t *scratch = tile->scratch;
    if (shape_of(tile)->value_type == OR_KV_F32) {
        return or_kv_page_values(tile->rows->sequence, block, tile->layer, tile->kv_head);
    }
    if (scratch->decoded_values_block != block) {
        decode_page_values(tile, block, scratch->decoded_values);
        scratch->decoded_values_block = block;
    }
    return scratch->decoded_values;
}

// ---- a tile ----

typedef struct {
    const or_model_t *model;
    uint32_t layer;
    uint32_t tile_count;
    size_t stride;
} attention_t;

// The number of blocks that a row reads in pages; it may read the last one in part.
static uint32_t paged_blocks(const or_pass_row_t *row)
{
    return row->slot == OR_KV_NO_SLOT ? row->position / OR_KV_BLOCK + 1
                                      : row->committed / OR_KV_BLOCK;
}

// The number of those blocks that the row sees whole.
static uint32_t whole_blocks(const or_pass_row_t *row)
{
    return row->committed / OR_KV_BLOCK;
}

// The rows that have more than `block` blocks. Positions rise along prefix rows and no tree row is
// committed to fewer, so they are neighbours.
static or_span_t rows_beyond(const tile_t *tile, uint32_t (*blocks)(const or_pass_row_t *),
                             uint32_t block)
{
    or_span_t span = {0, 0};
    while (span.begin < tile->row_count && blocks(&tile->rows[span.begin]) <= block) {
        span.begin++;
    }
    span.end = span.begin;
    while (span.end < tile->row_count && blocks(&tile->rows[span.end]) > block) {
        span.end++;
    }
    return span;
}

// The first position that a row attends to.
static uint32_t first_seen(const tile_t *tile, const or_pass_row_t *row)
{
    uint32_t seen = row->position + 1;
    return tile->window > 0 && seen > tile->window ? seen - tile->window : 0;
}

// The first block that some row attends to. Rows whose window begins later give the positions before it the weight 0.
static uint32_t first_block(const tile_t *tile)
{
    uint32_t first = UINT32_MAX;
    for (uint32_t r = 0; r < tile->row_count; r++) {
        first = or_min_u32(first, first_seen(tile, &tile->rows[r]));
    }
    return first / OR_KV_BLOCK;
}

// Score all positions of a block for the queries of some rows.
static void score(const tile_t *tile, or_span_t rows, uint32_t block, const float *keys)
{
    uint32_t head_dim = tile->model->shape.head_dim;
    size_t first = (size_t)rows.begin * tile->heads;
    tile->model->kernels->attention_scores(
        tile->scratch->queries + first * head_dim, head_dim, or_span_length(rows) * tile->heads,
        keys, head_dim, tile->model->numbers.attention_scale,
        tile->scratch->scores + first * tile->stride + (size_t)block * OR_KV_BLOCK, tile->stride);
}

// The first n positions of a block, weighted.
static void add_values(const tile_t *tile, or_span_t rows, uint32_t block, const float *values,
                       uint32_t n)
{
    uint32_t head_dim = tile->model->shape.head_dim;
    size_t first = (size_t)rows.begin * tile->heads;
    tile->model->kernels->attention_values(
        tile->scratch->scores + first * tile->stride + (size_t)block * OR_KV_BLOCK, tile->stride,
        or_span_length(rows) * tile->heads, values, head_dim, n,
        tile->scratch->sums + first * head_dim, head_dim);
}

static void score_rows(const tile_t *tile)
{
    size_t block_floats = (size_t)tile->model->shape.head_dim * OR_KV_BLOCK;
    for (uint32_t b = first_block(tile);; b++) {
        or_span_t rows = rows_beyond(tile, paged_blocks, b);
        if (rows.begin == rows.end) {
            break;
        }
        score(tile, rows, b, page_keys(tile, b));
    }
    for (uint32_t r = 0; r < tile->row_count; r++) {
        const or_pass_row_t *row = &tile->rows[r];
        if (row->slot != OR_KV_NO_SLOT) {
            const float *keys = gather_keys(tile, row);
            for (uint32_t b = whole_blocks(row); b <= row->position / OR_KV_BLOCK; b++) {
                score(tile, (or_span_t){r, r + 1}, b, keys);
                keys += block_floats;
            }
        }
    }
}

// A sink is one score more, behind those of the positions. It takes its part of the weights and has no value. There is room
// for it: a query's scores are whole blocks, at least one position longer than a text (score_stride).
static void weigh(const tile_t *tile)
{
    const uint32_t sinks = tile->sinks != NULL ? 1 : 0;
    const float softcap = tile->model->numbers.attention_softcap;
    for (uint32_t r = 0; r < tile->row_count; r++) {
        uint32_t first = first_seen(tile, &tile->rows[r]);
        uint32_t seen = tile->rows[r].position + 1 - first;
        for (uint32_t h = 0; h < tile->heads; h++) {
            size_t query = (size_t)r * tile->heads + h;
            float *scores = tile->scratch->scores + query * tile->stride;
            memset(scores, 0, first * sizeof *scores);
            if (softcap > 0) {
                or_softcap(scores + first, seen, softcap);
            }
            if (sinks > 0) {
                scores[first + seen] = tile->sinks[h];
            }
            tile->model->kernels->softmax(scores + first, seen + sinks);
        }
    }
}

// Add the values that one row alone sees after its whole blocks.
static void add_own_values(const tile_t *tile, uint32_t r)
{
    const or_pass_row_t *row = &tile->rows[r];
    size_t block_floats = (size_t)tile->model->shape.head_dim * OR_KV_BLOCK;
    uint32_t seen = row->position + 1;
    uint32_t b = whole_blocks(row);
    if (b * OR_KV_BLOCK == seen) {
        return;
    }
    const float *values =
        row->slot == OR_KV_NO_SLOT ? page_values(tile, b) : gather_values(tile, row);
    for (; b * OR_KV_BLOCK < seen; b++) {
        add_values(tile, (or_span_t){r, r + 1}, b, values,
                   or_min_u32(OR_KV_BLOCK, seen - b * OR_KV_BLOCK));
        values += block_floats;
    }
}

static void sum_rows(const tile_t *tile)
{
    size_t queries = (size_t)tile->row_count * tile->heads;
    memset(tile->scratch->sums, 0,
           queries * tile->model->shape.head_dim * sizeof *tile->scratch->sums);
    for (uint32_t b = first_block(tile);; b++) {
        or_span_t rows = rows_beyond(tile, whole_blocks, b);
        if (rows.begin == rows.end) {
            break;
        }
        add_values(tile, rows, b, page_values(tile, b), OR_KV_BLOCK);
    }
    for (uint32_t r = 0; r < tile->row_count; r++) {
        add_own_values(tile, r);
    }
}

// The rows' query heads from `head` on become the tile's, its sums what they attended to.
static void attend(const tile_t *tile, uint32_t first_row, uint32_t head)
{
    const or_model_t *model = tile->model;
    const or_matrix_t *matrix = &model->layers[tile->layer].query;
    uint32_t head_dim = model->shape.head_dim;
    size_t floats = (size_t)tile->heads * head_dim;
    size_t query_place = or_matrix_place(matrix, head * head_dim);
    size_t attended_place = (size_t)(head - model->share.heads.begin) * head_dim;
    for (size_t r = 0; r < tile->row_count; r++) {
        memcpy(tile->scratch->queries + r * floats,
               model->query + (first_row + r) * model->query_stride + query_place,
               floats * sizeof(float));
    }
    score_rows(tile);
    weigh(tile);
    sum_rows(tile);
    for (size_t r = 0; r < tile->row_count; r++) {
        memcpy(model->attended.values + (first_row + r) * model->attended.stride + attended_place,
               tile->scratch->sums + r * floats, floats * sizeof(float));
    }
}

static void forget(or_attention_scratch_t *scratch)
{
    scratch->decoded_keys_block = UINT32_MAX;
    scratch->decoded_values_block = UINT32_MAX;
    reset_gathered(&scratch->keys);
    reset_gathered(&scratch->values);
}

// Items are (KV head, tile) pairs, so that tiles of one head follow each other: their pages are still near.
static void attend_items(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    const attention_t *attention = context;
    const or_model_t *model = attention->model;
    const or_share_t *share = &model->share;
    uint32_t group = model->shape.heads / model->shape.kv_heads;
    for (uint32_t i = begin; i < end; i++) {
        const or_span_t rows = model->tiles[i % attention->tile_count];
        uint32_t kv_head = i / attention->tile_count;
        // A rank's first and last KV head may serve query heads of its neighbours too.
        uint32_t first = (share->kv_heads.begin + kv_head) * group;
        uint32_t last = or_min_u32(first + group, share->heads.end);
        first = first > share->heads.begin ? first : share->heads.begin;
        const float *sinks = model->layers[attention->layer].sinks;
        const tile_t tile = {.model = model,
                             .scratch = &model->scratch[worker],
                             .rows = &model->rows[rows.begin],
                             .row_count = or_span_length(rows),
                             .layer = attention->layer,
                             .kv_head = kv_head,
                             .heads = last - first,
                             .window = model->layers[attention->layer].window,
                             .sinks = sinks != NULL ? sinks + first : NULL,
                             .stride = attention->stride};
        forget(tile.scratch);
        attend(&tile, rows.begin, first);
    }
}

// An odd number of blocks: queries' scores of the same positions then lie in different sets of a cache.
static size_t score_stride(uint32_t positions)
{
    uint32_t blocks = positions / OR_KV_BLOCK + 1;
    return (size_t)(blocks | 1) * OR_KV_BLOCK;
}

size_t or_attention_scores_max(const or_model_t *model)
{
    size_t group = model->shape.heads / model->shape.kv_heads;
    size_t row = group * score_stride(model->context);
    size_t most = or_attention_queries_max(model) * score_stride(model->context);
    size_t usual = most < OR_TILE_SCORES ? most : OR_TILE_SCORES;
    return row > usual ? row : usual;
}

uint32_t or_attention_queries_max(const or_model_t *model)
{
    uint32_t group = model->shape.heads / model->shape.kv_heads;
    return group > OR_TILE_QUERIES ? group : OR_TILE_QUERIES;
}

static bool may_share_tile(const or_pass_row_t *row, const or_pass_row_t *next)
{
    bool prefix_after_tree = row->slot != OR_KV_NO_SLOT && next->slot == OR_KV_NO_SLOT;
    return row->sequence == next->sequence && !prefix_after_tree;
}

// Cut the rows into tiles of at most rows_max; returns how many.
static uint32_t cut_tiles(or_model_t *model, uint32_t rows, uint32_t rows_max)
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < rows; r++) {
        or_span_t *tile = count > 0 ? &model->tiles[count - 1] : NULL;
        if (tile != NULL && tile->end - tile->begin < rows_max &&
            may_share_tile(&model->rows[r - 1], &model->rows[r])) {
            tile->end++;
        } else {
            model->tiles[count++] = (or_span_t){r, r + 1};
        }
    }
    return count;
}

// A tile takes as many rows as its scores have room for, but leaves work for all threads.
static uint32_t choose_tile_rows(const or_model_t *model, uint32_t rows, uint32_t kv_heads,
                                 size_t stride)
{
    uint32_t group = model->shape.heads / model->shape.kv_heads;
    uint32_t threads = or_workers_count(model->workers);
    uint32_t shares = (threads + kv_heads - 1) / kv_heads;
    uint32_t rows_max = or_min_u32(or_attention_queries_max(model) / group,
                                   (uint32_t)(or_attention_scores_max(model) / (group * stride)));
    rows_max = or_min_u32(rows_max, (rows + shares - 1) / shares);
    return rows_max > 0 ? rows_max : 1;
}

static uint32_t positions_of(const or_model_t *model, uint32_t rows)
{
    uint32_t last = 0;
    for (uint32_t r = 0; r < rows; r++) {
        last = model->rows[r].position > last ? model->rows[r].position : last;
    }
    return last + 1;
}

void or_attention_run(or_model_t *model, uint32_t layer, uint32_t rows)
{
    uint32_t kv_heads = or_span_length(model->share.kv_heads);
    uint32_t group = model->shape.heads / model->shape.kv_heads;
    if (kv_heads == 0) {
        return;
    }
    uint32_t positions = positions_of(model, rows);
    size_t stride = score_stride(positions);
    uint32_t rows_max = choose_tile_rows(model, rows, kv_heads, stride);
    attention_t attention = {model, layer, cut_tiles(model, rows, rows_max), stride};
    uint64_t multiply_adds =
        2ull * positions * model->shape.head_dim * group * or_min_u32(rows, rows_max);
    or_workers_run(model->workers, kv_heads * attention.tile_count, or_workers_grain(multiply_adds),
                   attend_items, &attention);
}
