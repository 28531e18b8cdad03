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
// own, and a node its ancestors.
//
// Eight blocks are a part (OR_ATTENTION_PART). Each query's sums run over the positions of a part in order, and
// then over the parts in order. So neither how rows are cut into tiles nor who sums which part changes a bit.
//
//     tiles >= threads   a thread takes a tile: scores of all parts, weights, values of part after part
//     tiles <  threads   threads take parts of tiles: all scores, then weights, then values, then their sums
#include <string.h>

#include "common/model/cpu/attention_tile.h"
#include "common/model/cpu/elementwise.h"

#define PART_BLOCKS (OR_ATTENTION_PART / OR_KV_BLOCK)

// The number of the blocks in pages that the row sees whole.
static uint32_t whole_blocks(const or_pass_row_t *row)
{
    return row->committed / OR_KV_BLOCK;
}

// The rows that have more than `block` blocks. Positions rise along prefix rows and no tree row is
// committed to fewer, so they are neighbours.
static or_span_t rows_beyond(const or_attention_tile_t *tile,
                             uint32_t (*blocks)(const or_pass_row_t *), uint32_t block)
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

// The first block that some row attends to. Rows whose window begins later give the positions before it the weight 0.
static uint32_t first_block(const or_attention_tile_t *tile)
{
    uint32_t first = UINT32_MAX;
    for (uint32_t r = 0; r < tile->row_count; r++) {
        first = or_min_u32(first, or_attention_first_seen(tile, &tile->rows[r]));
    }
    return first / OR_KV_BLOCK;
}

// ---- parts ----

// The parts of which a row sees something.
static or_span_t parts_of_row(const or_attention_tile_t *tile, const or_pass_row_t *row)
{
    return (or_span_t){or_attention_first_seen(tile, row) / OR_ATTENTION_PART,
                       row->position / OR_ATTENTION_PART + 1};
}

// The parts of which some row does.
static or_span_t parts_of_tile(const or_attention_tile_t *tile)
{
    or_span_t all = parts_of_row(tile, &tile->rows[0]);
    for (uint32_t r = 1; r < tile->row_count; r++) {
        or_span_t parts = parts_of_row(tile, &tile->rows[r]);
        all.begin = or_min_u32(all.begin, parts.begin);
        all.end = parts.end > all.end ? parts.end : all.end;
    }
    return all;
}

// The blocks of a part that the tile's rows may see.
static or_span_t blocks_of_part(const or_attention_tile_t *tile, uint32_t part)
{
    uint32_t begin = part * PART_BLOCKS;
    uint32_t first = first_block(tile);
    return (or_span_t){first > begin ? first : begin, begin + PART_BLOCKS};
}

// Of these blocks those that the row does not see together with others.
static or_span_t own_blocks(const or_pass_row_t *row, or_span_t blocks)
{
    uint32_t first = whole_blocks(row);
    return (or_span_t){first > blocks.begin ? first : blocks.begin,
                       or_min_u32(row->position / OR_KV_BLOCK + 1, blocks.end)};
}

// ---- scores ----

// Score all positions of a block for the queries of some rows.
static void score(const or_attention_tile_t *tile, or_span_t rows, uint32_t block,
                  const or_kv_block_t *keys)
{
    const uint32_t head_dim = tile->head_dim;
    size_t first = (size_t)rows.begin * tile->heads;
    tile->model->kernels->attention_scores(
        tile->home->queries + first * head_dim, head_dim, or_span_length(rows) * tile->heads, keys,
        head_dim, tile->model->numbers.attention_scale,
        tile->home->scores + first * tile->stride + (size_t)block * OR_KV_BLOCK, tile->stride);
}

static void score_part(const or_attention_tile_t *tile, uint32_t part)
{
    const size_t block_floats = (size_t)tile->head_dim * OR_KV_BLOCK;
    const or_span_t blocks = blocks_of_part(tile, part);
    for (uint32_t b = blocks.begin; b < blocks.end; b++) {
        or_span_t rows = rows_beyond(tile, or_attention_pages, b);
        if (rows.begin == rows.end) {
            break;
        }
        const or_kv_block_t keys = or_attention_page_keys(tile, b);
        score(tile, rows, b, &keys);
    }
    for (uint32_t r = 0; r < tile->row_count; r++) {
        const or_pass_row_t *row = &tile->rows[r];
        const or_span_t own = own_blocks(row, blocks);
        if (row->slot == OR_KV_NO_SLOT || own.begin >= own.end) {
            continue;
        }
        const float *keys = or_attention_own_keys(tile, row);
        for (uint32_t b = own.begin; b < own.end; b++) {
            const or_kv_block_t block = {.numbers = keys + (b - whole_blocks(row)) * block_floats};
            score(tile, (or_span_t){r, r + 1}, b, &block);
        }
    }
}

// ---- weights ----

// Make weights of a query's scores. A sink is one score more, behind those of the positions. It takes its part of the
// weights and has no value. There is room for it: a query's scores are whole blocks, at least one position longer than
// a text (or_attention_stride).
static void weigh(const or_attention_tile_t *tile, uint32_t r, uint32_t h)
{
    const uint32_t sinks = tile->sinks != NULL ? 1 : 0;
    const float softcap = tile->model->numbers.attention_softcap;
    uint32_t first = or_attention_first_seen(tile, &tile->rows[r]);
    uint32_t seen = tile->rows[r].position + 1 - first;
    float *scores = tile->home->scores + ((size_t)r * tile->heads + h) * tile->stride;
    memset(scores, 0, first * sizeof *scores);
    if (softcap > 0) {
        or_softcap(scores + first, seen, softcap);
    }
    if (sinks > 0) {
        scores[first + seen] = tile->sinks[h];
    }
    tile->model->kernels->softmax(scores + first, first, seen + sinks);
}

// ---- values ----

// Add the first n positions of a block, weighted, to the sums of some rows.
static void add_values(const or_attention_tile_t *tile, or_span_t rows, uint32_t block,
                       const or_kv_block_t *values, uint32_t n, float *sums)
{
    const uint32_t head_dim = tile->head_dim;
    size_t first = (size_t)rows.begin * tile->heads;
    tile->model->kernels->attention_values(
        tile->home->scores + first * tile->stride + (size_t)block * OR_KV_BLOCK, tile->stride,
        or_span_length(rows) * tile->heads, values, head_dim, n, sums + first * head_dim, head_dim);
}

// Add the values that one row alone sees of these blocks.
static void add_own_values(const or_attention_tile_t *tile, uint32_t r, or_span_t blocks,
                           float *sums)
{
    const or_pass_row_t *row = &tile->rows[r];
    const size_t block_floats = (size_t)tile->head_dim * OR_KV_BLOCK;
    const uint32_t seen = row->position + 1;
    const or_span_t own = own_blocks(row, blocks);
    if (own.begin >= own.end) {
        return;
    }
    if (row->slot == OR_KV_NO_SLOT) { // then it is the one block
        const or_kv_block_t page = or_attention_page_values(tile, own.begin);
        add_values(tile, (or_span_t){r, r + 1}, own.begin, &page, seen - own.begin * OR_KV_BLOCK,
                   sums);
        return;
    }
    const float *values = or_attention_own_values(tile, row);
    for (uint32_t b = own.begin; b < own.end; b++) {
        const or_kv_block_t block = {.numbers = values + (b - whole_blocks(row)) * block_floats};
        add_values(tile, (or_span_t){r, r + 1}, b, &block,
                   or_min_u32(OR_KV_BLOCK, seen - b * OR_KV_BLOCK), sums);
    }
}

// sums [query][head_dim] = what the queries' weighted values of one part add up to.
static void sum_part(const or_attention_tile_t *tile, uint32_t part, float *sums)
{
    const size_t queries = (size_t)tile->row_count * tile->heads;
    const or_span_t blocks = blocks_of_part(tile, part);
    memset(sums, 0, queries * tile->head_dim * sizeof *sums);
    for (uint32_t b = blocks.begin; b < blocks.end; b++) {
        or_span_t rows = rows_beyond(tile, whole_blocks, b);
        if (rows.begin == rows.end) {
            break;
        }
        const or_kv_block_t values = or_attention_page_values(tile, b);
        add_values(tile, rows, b, &values, OR_KV_BLOCK, sums);
    }
    for (uint32_t r = 0; r < tile->row_count; r++) {
        add_own_values(tile, r, blocks, sums);
    }
}

// Add a part's sums to those of the parts before it, for the `count` query heads from `h` on of row r, if the row sees
// any of it.
static void add_part(const or_attention_tile_t *tile, uint32_t part, const float *sums, uint32_t r,
                     uint32_t h, uint32_t count)
{
    const or_model_t *model = tile->model;
    const or_span_t seen = parts_of_row(tile, &tile->rows[r]);
    const uint32_t head_dim = tile->head_dim;
    const size_t place = (tile->head - model->share.heads.begin + h) * (size_t)head_dim;
    float *attended = model->head_sums + (tile->first_row + r) * model->head_sums_stride + place;
    sums += ((size_t)r * tile->heads + h) * head_dim;
    if (part == seen.begin) {
        memcpy(attended, sums, (size_t)count * head_dim * sizeof *attended);
    } else if (part > seen.begin && part < seen.end) {
        model->kernels->add(attended, sums, count * head_dim);
    }
}

// ---- tiles ----

typedef struct {
    or_model_t *model;
    uint32_t layer;
    uint32_t tile_count; // of each KV head
    size_t stride;
    or_span_t parts; // that some row of the pass sees something of
} attention_t;

// Items are (KV head, tile) pairs, so that tiles of one head follow each other: their pages are still near.
static or_attention_tile_t make_tile(const attention_t *attention, uint32_t item, uint32_t worker,
                                     uint32_t home)
{
    const or_model_t *model = attention->model;
    const or_share_t *share = &model->share;
    const or_layer_t *layer = &model->layers[attention->layer];
    const uint32_t group = layer->group;
    const or_span_t rows = model->tiles[item % attention->tile_count];
    const uint32_t kv_head = item / attention->tile_count;
    // A rank's first and last KV head may serve query heads of its neighbours too.
    uint32_t first = (layer->kv_heads.begin + kv_head) * group;
    uint32_t last = or_min_u32(first + group, share->heads.end);
    first = first > share->heads.begin ? first : share->heads.begin;
    const float *sinks = layer->sinks;
    or_attention_forget(&model->scratch[worker]);
    return (or_attention_tile_t){.model = model,
                                 .scratch = &model->scratch[worker],
                                 .home = &model->scratch[home],
                                 .rows = &model->rows[rows.begin],
                                 .first_row = rows.begin,
                                 .row_count = or_span_length(rows),
                                 .layer = attention->layer,
                                 .kv_layer = layer->kv_layer,
                                 .kv_head = kv_head,
                                 .head = first,
                                 .heads = last - first,
                                 .head_dim = layer->head_dim,
                                 .window = layer->window,
                                 .sinks = sinks != NULL ? sinks + first : NULL,
                                 .stride = attention->stride,
                                 .pages = or_attention_pages_of(model->rows, rows)};
}

static void take_queries(const or_attention_tile_t *tile)
{
    const or_model_t *model = tile->model;
    const size_t floats = (size_t)tile->heads * tile->head_dim;
    const size_t place = or_query_place(model, &model->layers[tile->layer], tile->head);
    for (size_t r = 0; r < tile->row_count; r++) {
        memcpy(tile->home->queries + r * floats,
               model->query + (tile->first_row + r) * model->query_stride + place,
               floats * sizeof(float));
    }
}

static void attend(const or_attention_tile_t *tile)
{
    const or_span_t parts = parts_of_tile(tile);
    take_queries(tile);
    for (uint32_t p = parts.begin; p < parts.end; p++) {
        score_part(tile, p);
    }
    for (uint32_t r = 0; r < tile->row_count; r++) {
        for (uint32_t h = 0; h < tile->heads; h++) {
            weigh(tile, r, h);
        }
    }
    for (uint32_t p = parts.begin; p < parts.end; p++) {
        sum_part(tile, p, tile->home->parts);
        for (uint32_t r = 0; r < tile->row_count; r++) {
            add_part(tile, p, tile->home->parts, r, 0, tile->heads);
        }
    }
}

static void attend_items(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    for (uint32_t i = begin; i < end; i++) {
        const or_attention_tile_t tile = make_tile(context, i, worker, worker);
        attend(&tile);
    }
}

// ---- tiles that threads share ----
//
// Each is one row of a KV head. There are fewer of them than threads, so each has a thread's memory for its scores.

static void score_items(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    const attention_t *attention = context;
    const uint32_t parts = or_span_length(attention->parts);
    for (uint32_t i = begin; i < end; i++) {
        const or_attention_tile_t tile = make_tile(attention, i / parts, worker, i / parts);
        score_part(&tile, attention->parts.begin + i % parts);
    }
}

static void weigh_items(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    const attention_t *attention = context;
    const uint32_t group = attention->model->layers[attention->layer].group;
    for (uint32_t i = begin; i < end; i++) {
        const or_attention_tile_t tile = make_tile(attention, i / group, worker, i / group);
        if (i % group < tile.heads) {
            weigh(&tile, 0, i % group);
        }
    }
}

static float *place_of_part(const or_attention_tile_t *tile, uint32_t index)
{
    return tile->home->parts + (size_t)index * tile->heads * tile->head_dim;
}

static void sum_items(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    const attention_t *attention = context;
    const uint32_t parts = or_span_length(attention->parts);
    for (uint32_t i = begin; i < end; i++) {
        const or_attention_tile_t tile = make_tile(attention, i / parts, worker, i / parts);
        sum_part(&tile, attention->parts.begin + i % parts, place_of_part(&tile, i % parts));
    }
}

static void add_items(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    const attention_t *attention = context;
    const uint32_t group = attention->model->layers[attention->layer].group;
    const or_span_t parts = attention->parts;
    for (uint32_t i = begin; i < end; i++) {
        const or_attention_tile_t tile = make_tile(attention, i / group, worker, i / group);
        for (uint32_t p = parts.begin; p < parts.end && i % group < tile.heads; p++) {
            add_part(&tile, p, place_of_part(&tile, p - parts.begin), 0, i % group, 1);
        }
    }
}

static void share_tiles(attention_t *attention, uint32_t tiles)
{
    or_model_t *model = attention->model;
    const uint32_t group = model->layers[attention->layer].group;
    const uint32_t parts = or_span_length(attention->parts);
    const uint64_t head_dim = model->layers[attention->layer].head_dim;
    const uint32_t part_grain = or_workers_grain(OR_ATTENTION_PART * head_dim * group);
    for (uint32_t i = 0; i < tiles; i++) {
        const or_attention_tile_t tile = make_tile(attention, i, 0, i);
        take_queries(&tile);
    }
    or_workers_run(model->workers, tiles * parts, part_grain, score_items, attention);
    // An exponential is some 16 multiply-adds.
    or_workers_run(model->workers, tiles * group,
                   or_workers_grain(16ull * parts * OR_ATTENTION_PART), weigh_items, attention);
    or_workers_run(model->workers, tiles * parts, part_grain, sum_items, attention);
    or_workers_run(model->workers, tiles * group, or_workers_grain(parts * head_dim), add_items,
                   attention);
}

// ---- all of a pass ----

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

// A tile takes as many rows as its scores may be (or_attention_tile_scores), but leaves work for all threads.
static uint32_t choose_tile_rows(const or_model_t *model, const or_layer_t *layer, uint32_t rows,
                                 size_t stride)
{
    const uint32_t kv_heads = or_span_length(layer->kv_heads), group = layer->group;
    uint32_t threads = or_workers_count(model->workers);
    uint32_t shares = (threads + kv_heads - 1) / kv_heads;
    uint32_t rows_max = or_min_u32(or_attention_queries_max(model) / group,
                                   (uint32_t)(or_attention_tile_scores(stride) / (group * stride)));
    rows_max = or_min_u32(rows_max, (rows + shares - 1) / shares);
    return rows_max > 0 ? rows_max : 1;
}

// The parts of which some row of a pass sees something.
static or_span_t parts_of_pass(const or_model_t *model, uint32_t layer, uint32_t rows)
{
    const or_attention_tile_t all = {
        .rows = model->rows, .row_count = rows, .window = model->layers[layer].window};
    return parts_of_tile(&all);
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
    const or_layer_t *of = &model->layers[layer];
    const uint32_t kv_heads = or_span_length(of->kv_heads);
    if (kv_heads == 0) {
        return;
    }
    uint32_t positions = positions_of(model, rows);
    size_t stride = or_attention_stride(positions);
    uint32_t rows_max = choose_tile_rows(model, of, rows, stride);
    attention_t attention = {model, layer, cut_tiles(model, rows, rows_max), stride,
                             parts_of_pass(model, layer, rows)};
    uint32_t tiles = kv_heads * attention.tile_count;
    if (rows_max == 1 && tiles < or_workers_count(model->workers) &&
        or_span_length(attention.parts) > 1) {
        share_tiles(&attention, tiles);
        return;
    }
    uint64_t multiply_adds =
        2ull * positions * of->head_dim * of->group * or_min_u32(rows, rows_max);
    or_workers_run(model->workers, tiles, or_workers_grain(multiply_adds), attend_items,
                   &attention);
}
