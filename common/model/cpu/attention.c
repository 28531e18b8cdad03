#include "common/model/cpu/attention_internal.h"

#include <math.h>
#include <string.h>

#include "common/base/inline.h"

// Attention reduces over absolute positions in blocks of 32, wherever their K and V lie. A tile's rows
// meet each block of committed text together, so that it is read, or decoded, once for all of them:
//
//     positions    0 ... 31   32 ... 63   64 ... 95   then alone
//     prefix 62    together   scores together, values of 63 positions in its own time
//     prefix 63    together   together
//     prefix 64    together   together    as prefix 62 before
//     tree   65    together   together                gathered: page 64, slots (attention_gather.c)
//
// What follows those blocks is a row's own: of a prefix row's last page it sees the positions up to its
// own, and a node its ancestors. Each query's sums still run over positions in order, so how rows are
// cut into tiles changes no bit.

typedef struct {
    const or_model_t *model;
    uint32_t layer;
    uint32_t tile_count;
    size_t stride;
} attention_t;

// Blocks that a row reads in pages, the last perhaps in part.
static uint32_t paged_blocks(const or_pass_row_t *row)
{
    return row->slot == OR_KV_NO_SLOT ? row->position / OR_KV_BLOCK + 1
                                      : row->committed / OR_KV_BLOCK;
}

// Those of them that it sees whole.
static uint32_t whole_blocks(const or_pass_row_t *row)
{
    return row->committed / OR_KV_BLOCK;
}

// The rows that have more than `block` blocks. Positions rise along prefix rows and no tree row is
// committed to fewer, so they are neighbours.
static or_span_t rows_beyond(const or_tile_t *tile, uint32_t (*blocks)(const or_pass_row_t *),
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

// Of the queries of some rows, all positions of a block.
static void score(const or_tile_t *tile, or_span_t rows, uint32_t block, const float *keys)
{
    uint32_t head_dim = tile->model->shape.head_dim;
    size_t first = (size_t)rows.begin * tile->heads;
    tile->model->kernels->attention_scores(
        tile->scratch->queries + first * head_dim, head_dim, (rows.end - rows.begin) * tile->heads,
        keys, head_dim, 1.0f / sqrtf((float)head_dim),
        tile->scratch->scores + first * tile->stride + (size_t)block * OR_KV_BLOCK, tile->stride);
}

// The first n positions of a block, weighted.
static void add_values(const or_tile_t *tile, or_span_t rows, uint32_t block, const float *values,
                       uint32_t n)
{
    uint32_t head_dim = tile->model->shape.head_dim;
    size_t first = (size_t)rows.begin * tile->heads;
    tile->model->kernels->attention_values(
        tile->scratch->scores + first * tile->stride + (size_t)block * OR_KV_BLOCK, tile->stride,
        (rows.end - rows.begin) * tile->heads, values, head_dim, n,
        tile->scratch->sums + first * head_dim, head_dim);
}

static void score_rows(const or_tile_t *tile)
{
    size_t block_floats = (size_t)tile->model->shape.head_dim * OR_KV_BLOCK;
    for (uint32_t b = 0;; b++) {
        or_span_t rows = rows_beyond(tile, paged_blocks, b);
        if (rows.begin == rows.end) {
            break;
        }
        score(tile, rows, b, or_tile_page_keys(tile, b));
    }
    for (uint32_t r = 0; r < tile->row_count; r++) {
        const or_pass_row_t *row = &tile->rows[r];
        if (row->slot != OR_KV_NO_SLOT) {
            const float *keys = or_tile_gather_keys(tile, row);
            for (uint32_t b = whole_blocks(row); b <= row->position / OR_KV_BLOCK; b++) {
                score(tile, (or_span_t){r, r + 1}, b, keys);
                keys += block_floats;
            }
        }
    }
}

static void weigh(const or_tile_t *tile)
{
    for (uint32_t r = 0; r < tile->row_count; r++) {
        for (uint32_t h = 0; h < tile->heads; h++) {
            size_t query = (size_t)r * tile->heads + h;
            tile->model->kernels->softmax(tile->scratch->scores + query * tile->stride,
                                          tile->rows[r].position + 1);
        }
    }
}

// What a row alone sees after its whole blocks.
static void add_own_values(const or_tile_t *tile, uint32_t r)
{
    const or_pass_row_t *row = &tile->rows[r];
    size_t block_floats = (size_t)tile->model->shape.head_dim * OR_KV_BLOCK;
    uint32_t seen = row->position + 1;
    uint32_t b = whole_blocks(row);
    if (b * OR_KV_BLOCK == seen) {
        return;
    }
    const float *values = row->slot == OR_KV_NO_SLOT ? or_tile_page_values(tile, b)
                                                     : or_tile_gather_values(tile, row);
    for (; b * OR_KV_BLOCK < seen; b++) {
        add_values(tile, (or_span_t){r, r + 1}, b, values,
                   or_min_u32(OR_KV_BLOCK, seen - b * OR_KV_BLOCK));
        values += block_floats;
    }
}

static void sum_rows(const or_tile_t *tile)
{
    size_t queries = (size_t)tile->row_count * tile->heads;
    memset(tile->scratch->sums, 0,
           queries * tile->model->shape.head_dim * sizeof *tile->scratch->sums);
    for (uint32_t b = 0;; b++) {
        or_span_t rows = rows_beyond(tile, whole_blocks, b);
        if (rows.begin == rows.end) {
            break;
        }
        add_values(tile, rows, b, or_tile_page_values(tile, b), OR_KV_BLOCK);
    }
    for (uint32_t r = 0; r < tile->row_count; r++) {
        add_own_values(tile, r);
    }
}

// The rows' query heads from `head` on become the tile's, its sums what they attended to.
static void attend(const or_tile_t *tile, uint32_t first_row, uint32_t head)
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
    or_gathered_reset(&scratch->keys);
    or_gathered_reset(&scratch->values);
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
        const or_tile_t tile = {.model = model,
                                .scratch = &model->scratch[worker],
                                .rows = &model->rows[rows.begin],
                                .row_count = rows.end - rows.begin,
                                .layer = attention->layer,
                                .kv_head = kv_head,
                                .heads = last - first,
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

// As many rows a tile as its scores have room for, but work for all threads.
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
    uint32_t kv_heads = model->share.kv_heads.end - model->share.kv_heads.begin;
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
