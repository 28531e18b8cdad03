#include "common/model/cpu/products.h"

#include <assert.h>
#include <string.h>

#include "common/base/inline.h"

#define PAIR 2u // panels that kernels compute together

// A core's second-level cache has 1 to 2 MiB today. A tile of rows takes the first part of it, and the weights that
// meet all rows in turn take the second.
#define ROW_TILE_BYTES (768u << 10)
#define PANEL_TILE_BYTES (384u << 10)
#define ROW_TILE_UNIT 16u // a multiple of what kernels take together

// The most rows, their outputs and the depth of the tree of one sum of shards, which fill OR_SHARD_SUM_FLOATS.
#define SUM_ROWS 64u
#define SUM_OUTPUTS (PAIR * OR_PANEL)
#define SUM_PARTS 4u
_Static_assert(SUM_PARTS *SUM_ROWS *SUM_OUTPUTS == OR_SHARD_SUM_FLOATS, "scratch of a shard sum");
_Static_assert(OR_ROW_PANELS_MAX *OR_PANEL <= SUM_ROWS * SUM_OUTPUTS, "that of a row alone");

or_product_t or_product(const or_matrix_t *matrix, uint32_t begin, uint32_t end, float *y,
                        size_t y_stride)
{
    return (or_product_t){.matrix = matrix,
                          .panels = or_panels_of((or_span_t){begin, end}),
                          .inputs = matrix->inputs,
                          .y = y,
                          .y_stride = y_stride};
}

or_product_t or_product_here(const or_matrix_t *matrix, float *y, size_t y_stride)
{
    const or_span_t panels = matrix->panels;
    return or_product(matrix, panels.begin * OR_PANEL, panels.end * OR_PANEL, y, y_stride);
}

// Some rows of x; and the kernels.
typedef struct {
    const or_kernels_t *kernels;
    const or_activations_t *x;
    uint32_t first;
    uint32_t rows;
} rows_t;

// Panels and inputs of a matrix; and all of it that a thread takes in such pieces, one after the other, which tells
// kernels what to fetch ahead.
typedef struct {
    const or_matrix_t *matrix;
    or_span_t panels, inputs;
    or_span_t all_panels, all_inputs;
} piece_t;

// ---- one call of a kernel ----

static void multiply_quants(const rows_t *r, const piece_t *w, float *y, size_t y_stride)
{
    const or_matrix_t *m = w->matrix;
    or_span_t inputs = w->inputs;
    assert(m->inputs.begin % OR_QUANT_BLOCK == 0 && inputs.begin % OR_QUANT_BLOCK == 0 &&
           inputs.end % OR_QUANT_BLOCK == 0);
    uint32_t block = (inputs.begin - m->inputs.begin) / OR_QUANT_BLOCK;
    const or_quant_panels_t panels = {
        .type = m->quant,
        .panels = (const char *)m->memory + (w->panels.begin - m->panels.begin) * m->panel_bytes,
        .panel_bytes = m->panel_bytes,
        .count = or_span_length(w->panels),
        .first = m->first_block + block,
        .blocks = or_span_length(inputs) / OR_QUANT_BLOCK,
        .walk_first = m->first_block + (w->all_inputs.begin - m->inputs.begin) / OR_QUANT_BLOCK,
        .walk_end = m->first_block + (w->all_inputs.end - m->inputs.begin) / OR_QUANT_BLOCK,
        .walk_count = w->all_panels.end - w->panels.begin};
    const or_q8_block_t *x = r->x->blocks + r->first * r->x->blocks_stride + block;
    r->kernels->matmul_quants(&panels, x, r->x->blocks_stride, r->rows, y, y_stride);
}

static void multiply_floats(const rows_t *r, const piece_t *w, float *y, size_t y_stride)
{
    const or_matrix_t *m = w->matrix;
    or_span_t panels = w->panels;
    uint32_t input = w->inputs.begin - m->inputs.begin;
    size_t stride = m->panel_bytes / or_gguf_tensor_block(m->type).bytes; // in elements
    size_t at = (panels.begin - m->panels.begin) * stride + (size_t)input * OR_PANEL;
    const float *x = r->x->values + r->first * r->x->stride + input;
    uint32_t k = or_span_length(w->inputs);
    if (m->type == OR_TENSOR_F32) {
        r->kernels->matmul_f32((const float *)m->memory + at, stride, or_span_length(panels), k, x,
                               r->x->stride, r->rows, y, y_stride);
    } else if (m->type == OR_TENSOR_F16) {
        r->kernels->matmul_f16((const uint16_t *)m->memory + at, stride, or_span_length(panels), k,
                               x, r->x->stride, r->rows, y, y_stride);
    } else {
        r->kernels->matmul_bf16((const uint16_t *)m->memory + at, stride, or_span_length(panels), k,
                                x, r->x->stride, r->rows, y, y_stride);
    }
}

// y is where the first of the panels and rows goes.
static void multiply(const rows_t *r, const piece_t *w, float *y, size_t y_stride)
{
    if (w->matrix->quantised) {
        multiply_quants(r, w, y, y_stride);
    } else {
        multiply_floats(r, w, y, y_stride);
    }
}

// ---- some products ----

typedef struct {
    rows_t rows;            // of all products,
    const or_span_t *spans; // or, if not NULL, of each
    const or_product_t *products;
    uint32_t count;
} product_list_t;

// Return the rows of the i-th product.
static rows_t rows_of(const product_list_t *list, uint32_t i)
{
    rows_t rows = list->rows;
    if (list->spans != NULL) {
        rows.first = list->spans[i].begin;
        rows.rows = or_span_length(list->spans[i]);
    }
    return rows;
}

// Return how many items have so many panels, or fewer in the last one.
static uint32_t items_of(or_span_t panels, uint32_t item_panels)
{
    return (or_span_length(panels) + item_panels - 1) / item_panels;
}

static uint32_t pairs_of(const or_product_t *p)
{
    return items_of(p->panels, PAIR);
}

static uint64_t multiply_adds_of(or_span_t inputs, uint32_t panels, uint32_t rows)
{
    return (uint64_t)or_span_length(inputs) * panels * OR_PANEL * rows;
}

static uint32_t rows_of_a_tile(const or_product_t *p)
{
    size_t input_bytes =
        p->matrix->quantised ? sizeof(or_q8_block_t) / OR_QUANT_BLOCK : sizeof(float);
    uint32_t rows = (uint32_t)(ROW_TILE_BYTES / (or_span_length(p->inputs) * input_bytes));
    return rows < 2 * ROW_TILE_UNIT ? 2 * ROW_TILE_UNIT : rows / ROW_TILE_UNIT * ROW_TILE_UNIT;
}

static uint32_t panels_of_a_tile(const or_product_t *p)
{
    uint32_t panels = (uint32_t)(PANEL_TILE_BYTES / p->matrix->panel_bytes);
    return panels < PAIR ? PAIR : panels / PAIR * PAIR;
}

// A few panels meet all rows, tile by tile, before the next few do. Where one tile has all rows, the
// panels stay together: the longer a kernel's way through memory, the better it reads ahead.
static void run_tiles(const rows_t *all, const or_product_t *p, or_span_t panels)
{
    uint32_t row_tile = rows_of_a_tile(p);
    uint32_t panel_tile = all->rows > row_tile ? panels_of_a_tile(p) : or_span_length(panels);
    for (uint32_t panel = panels.begin; panel < panels.end; panel += panel_tile) {
        or_span_t some = {panel, or_min_u32(panel + panel_tile, panels.end)};
        const piece_t piece = {p->matrix, some, p->inputs, some, p->inputs};
        float *y = p->y + (size_t)(panel - p->matrix->panels.begin) * OR_PANEL;
        for (uint32_t row = 0; row < all->rows; row += row_tile) {
            rows_t tile = *all;
            tile.first += row;
            tile.rows = or_min_u32(row_tile, all->rows - row);
            multiply(&tile, &piece, y + row * p->y_stride, p->y_stride);
        }
    }
}

// Items are the pairs of all products, one product after the other.
static void run_pairs(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    (void)worker;
    const product_list_t *list = context;
    uint32_t first = 0;
    for (uint32_t i = 0; i < list->count && first < end; i++) {
        const or_product_t *p = &list->products[i];
        uint32_t after = first + pairs_of(p);
        uint32_t from = begin > first ? begin : first;
        uint32_t to = or_min_u32(end, after);
        if (from < to) {
            uint32_t to_panel = p->panels.begin + (to - first) * PAIR;
            const rows_t rows = rows_of(list, i);
            run_tiles(&rows, p,
                      (or_span_t){p->panels.begin + (from - first) * PAIR,
                                  or_min_u32(to_panel, p->panels.end)});
        }
        first = after;
    }
}

static void run_list(or_workers_t *workers, product_list_t *list)
{
    uint64_t multiply_adds = 0;
    uint32_t pairs = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        const or_product_t *p = &list->products[i];
        pairs += pairs_of(p);
        multiply_adds += pairs_of(p) * multiply_adds_of(p->inputs, PAIR, rows_of(list, i).rows);
    }
    if (pairs > 0) {
        or_workers_run(workers, pairs, or_workers_grain(multiply_adds / pairs), run_pairs, list);
    }
}

void or_products_run(const or_kernels_t *kernels, or_workers_t *workers, const or_activations_t *x,
                     uint32_t first, uint32_t rows, const or_product_t *products, uint32_t count)
{
    product_list_t list = {.rows = {kernels, x, first, rows}, .products = products, .count = count};
    run_list(workers, &list);
}

void or_products_run_each(const or_kernels_t *kernels, or_workers_t *workers,
                          const or_activations_t *x, const or_product_t *products,
                          const or_span_t *rows, uint32_t count)
{
    product_list_t list = {
        .rows = {kernels, x, 0, 0}, .spans = rows, .products = products, .count = count};
    run_list(workers, &list);
}

// ---- a sum of shards ----

typedef struct {
    rows_t rows;
    float *scratch; // [workers][SUM_PARTS][rows of a tile][their outputs]
    const or_product_t *product;
    const or_span_t *shards;
    uint32_t count;
    uint32_t item_panels; // that a worker takes at least
} shard_sum_t;

// The sum of all shards in the fixed tree, at parts[0]. As in binary counting, a part is added to the
// one before as soon as both are of the same number of shards: so the few on the stack are enough.
//
//     shard    0    1      2         3           4 ...
//     stack    0    01     01 2      01 23 0123  0123 4
static void sum_tile(const shard_sum_t *sum, const rows_t *tile, piece_t piece, float *parts)
{
    const or_kernels_t *kernels = tile->kernels;
    uint32_t outputs = or_span_length(piece.panels) * OR_PANEL;
    uint32_t floats = tile->rows * outputs;
    uint32_t depth = 0;
    for (uint32_t s = 0; s < sum->count; s++) {
        float *part = parts + (size_t)depth++ * floats;
        if (or_span_length(sum->shards[s]) == 0) {
            memset(part, 0, floats * sizeof *part);
        } else {
            piece.inputs = sum->shards[s];
            multiply(tile, &piece, part, outputs);
        }
        for (uint32_t done = s + 1; done % 2 == 0; done /= 2) {
            depth--;
            kernels->add(parts + (size_t)(depth - 1) * floats, parts + (size_t)depth * floats,
                         floats);
        }
    }
}

// Return the panels that a kernel is given at once. A row alone reads weights from memory for itself, and is faster the
// longer it goes on at few places.
static uint32_t panels_together(const or_kernels_t *kernels, const or_matrix_t *matrix,
                                uint32_t rows)
{
    if (rows > 1) {
        return PAIR;
    }
    return matrix->quantised ? kernels->row_panels(matrix->quant) : 1;
}

// Return the panels of an item of `all`: those of a row alone, or fewer where workers would go without, but a pair at least.
static uint32_t panels_of_an_item(uint32_t together, uint32_t all, uint32_t workers)
{
    while (together > PAIR && all < together * workers) {
        together /= 2;
    }
    return together > PAIR ? together : PAIR;
}

static void sum_items(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    const shard_sum_t *sum = context;
    const or_product_t *p = sum->product;
    const or_span_t all = {p->panels.begin + begin * sum->item_panels,
                           or_min_u32(p->panels.begin + end * sum->item_panels, p->panels.end)};
    const or_span_t inputs = {sum->shards[0].begin, sum->shards[sum->count - 1].end};
    float *parts = sum->scratch + (size_t)worker * OR_SHARD_SUM_FLOATS;
    const uint32_t together = panels_together(sum->rows.kernels, p->matrix, sum->rows.rows);
    for (uint32_t row = 0; row < sum->rows.rows; row += SUM_ROWS) {
        rows_t tile = sum->rows;
        tile.first += row;
        tile.rows = or_min_u32(SUM_ROWS, sum->rows.rows - row);
        for (uint32_t first = all.begin; first < all.end; first += together) {
            or_span_t panels = {first, or_min_u32(first + together, all.end)};
            size_t bytes = (size_t)or_span_length(panels) * OR_PANEL * sizeof *parts;
            float *y = p->y + (size_t)(first - p->matrix->panels.begin) * OR_PANEL;
            const piece_t piece = {
                .matrix = p->matrix, .panels = panels, .all_panels = all, .all_inputs = inputs};
            sum_tile(sum, &tile, piece, parts);
            for (uint32_t i = 0; i < tile.rows; i++) {
                memcpy(y + (row + i) * p->y_stride, (char *)parts + i * bytes, bytes);
            }
        }
    }
}

void or_shard_sum_run(const or_kernels_t *kernels, or_workers_t *workers, float *scratch,
                      const or_activations_t *x, uint32_t rows, const or_product_t *product,
                      const or_span_t *shards, uint32_t count)
{
    shard_sum_t sum = {.rows = {kernels, x, 0, rows},
                       .scratch = scratch,
                       .product = product,
                       .shards = shards,
                       .count = count};
    sum.item_panels = panels_of_an_item(panels_together(kernels, product->matrix, rows),
                                        or_span_length(product->panels), or_workers_count(workers));
    or_workers_run(workers, items_of(product->panels, sum.item_panels),
                   or_workers_grain(multiply_adds_of(product->inputs, sum.item_panels, rows)),
                   sum_items, &sum);
}

// ---- a sum of parts, each of which is cut into shards ----

typedef struct {
    const or_kernels_t *kernels;
    float *scratch; // [workers][OR_PART_SUM_FLOATS]
    const or_part_product_t *parts;
    uint32_t count, shards, rows;
    uint32_t group; // panels that are added up together
    float *y;
    size_t y_stride;
} part_sum_t;

// Some groups of panels, for which a worker has sums of each shard: [group][shard][row][outputs of the group].
typedef struct {
    const part_sum_t *sum;
    or_span_t panels;
    float *sums;
    float *product; // [rows][outputs of a group]
} part_tile_t;

static float *sums_of_shard(const part_tile_t *tile, uint32_t group, uint32_t shard)
{
    const part_sum_t *sum = tile->sum;
    return tile->sums + (size_t)(group * sum->shards + shard) * sum->rows * sum->group * OR_PANEL;
}

static or_span_t panels_of_group(const part_tile_t *tile, uint32_t group)
{
    uint32_t first = tile->panels.begin + group * tile->sum->group;
    return (or_span_t){first, or_min_u32(first + tile->sum->group, tile->panels.end)};
}

static uint32_t groups_of_tile(const part_tile_t *tile)
{
    return items_of(tile->panels, tile->sum->group);
}

// Add the product of some panels of a group to its sums.
static void add_shard(const part_tile_t *tile, const or_part_product_t *part, uint32_t group,
                      or_span_t panels, uint32_t shard)
{
    const or_kernels_t *kernels = tile->sum->kernels;
    const or_span_t all = panels_of_group(tile, group);
    const uint32_t stride = or_span_length(all) * OR_PANEL;
    const uint32_t outputs = or_span_length(panels) * OR_PANEL;
    const rows_t rows = {kernels, part->x, part->first, part->count};
    const piece_t piece = {
        .matrix = &part->matrix,
        .panels = panels,
        .inputs = part->shards[shard],
        .all_panels = tile->panels,
        .all_inputs = {part->shards[0].begin, part->shards[tile->sum->shards - 1].end}};
    float *sums = sums_of_shard(tile, group, shard) + (panels.begin - all.begin) * OR_PANEL;
    multiply(&rows, &piece, tile->product, outputs);
    for (uint32_t i = 0; i < part->count; i++) {
        uint32_t row = part->rows != NULL ? part->rows[i] : i;
        kernels->add(sums + (size_t)row * stride, tile->product + (size_t)i * outputs, outputs);
    }
}

// A part's panels come one after the other, as they lie in memory.
static void add_part(const part_tile_t *tile, const or_part_product_t *part)
{
    const uint32_t group = tile->sum->group;
    const uint32_t together =
        or_min_u32(panels_together(tile->sum->kernels, &part->matrix, part->count), group);
    assert(group % together == 0);
    for (uint32_t first = tile->panels.begin; first < tile->panels.end; first += together) {
        const or_span_t panels = {first, or_min_u32(first + together, tile->panels.end)};
        for (uint32_t s = 0; s < tile->sum->shards; s++) {
            if (or_span_length(part->shards[s]) > 0) {
                add_shard(tile, part, (first - tile->panels.begin) / group, panels, s);
            }
        }
    }
}

static void finish_group(const part_tile_t *tile, uint32_t group)
{
    const part_sum_t *sum = tile->sum;
    const or_span_t panels = panels_of_group(tile, group);
    const uint32_t outputs = or_span_length(panels) * OR_PANEL;
    for (uint32_t step = 1; step < sum->shards; step *= 2) {
        for (uint32_t s = 0; s < sum->shards; s += 2 * step) {
            sum->kernels->add(sums_of_shard(tile, group, s), sums_of_shard(tile, group, s + step),
                              sum->rows * outputs);
        }
    }
    const float *sums = sums_of_shard(tile, group, 0);
    for (uint32_t row = 0; row < sum->rows; row++) {
        memcpy(sum->y + row * sum->y_stride + (size_t)panels.begin * OR_PANEL,
               sums + (size_t)row * outputs, outputs * sizeof *sums);
    }
}

static void sum_parts(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    const part_sum_t *sum = context;
    float *scratch = sum->scratch + (size_t)worker * OR_PART_SUM_FLOATS;
    const uint32_t product_floats = OR_PART_SUM_ROWS * SUM_OUTPUTS;
    const uint32_t group_floats = sum->shards * sum->rows * sum->group * OR_PANEL;
    const uint32_t groups = (OR_PART_SUM_FLOATS - product_floats) / group_floats; // at a time
    const uint32_t panels = sum->parts[0].matrix.panels.end;
    for (uint32_t group = begin; group < end; group += groups) {
        const uint32_t behind = or_min_u32(group + groups, end) * sum->group;
        const part_tile_t tile = {.sum = sum,
                                  .panels = {group * sum->group, or_min_u32(behind, panels)},
                                  .sums = scratch + product_floats,
                                  .product = scratch};
        memset(tile.sums, 0, (size_t)groups_of_tile(&tile) * group_floats * sizeof *tile.sums);
        for (uint32_t i = 0; i < sum->count; i++) {
            add_part(&tile, &sum->parts[i]);
        }
        for (uint32_t i = 0; i < groups_of_tile(&tile); i++) {
            finish_group(&tile, i);
        }
    }
}

// Where a row alone meets a part, it is read like its sums of shards, as long as all rows' outputs find room. `fewest`: the
// rows of the part that has fewest.
static uint32_t panels_of_a_group(const part_sum_t *sum, uint32_t fewest, uint32_t panels,
                                  uint32_t workers)
{
    const uint32_t most = OR_PART_SUM_ROWS / sum->rows * PAIR;
    const uint32_t together = panels_together(sum->kernels, &sum->parts[0].matrix, fewest);
    return panels_of_an_item(or_min_u32(together, most), panels, workers);
}

void or_part_sum_run(const or_kernels_t *kernels, or_workers_t *workers, float *scratch,
                     const or_part_product_t *parts, uint32_t count, uint32_t shards, uint32_t rows,
                     float *y, size_t y_stride)
{
    part_sum_t sum = {.kernels = kernels,
                      .scratch = scratch,
                      .parts = parts,
                      .count = count,
                      .shards = shards,
                      .rows = rows,
                      .y = y,
                      .y_stride = y_stride};
    assert(rows <= OR_PART_SUM_ROWS && shards <= OR_SHARDS);
    uint64_t panel_multiply_adds = 0;
    uint32_t fewest = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++) {
        panel_multiply_adds += multiply_adds_of(parts[i].matrix.inputs, 1, parts[i].count);
        fewest = or_min_u32(fewest, parts[i].count);
    }
    const or_span_t panels = parts[0].matrix.panels;
    sum.group = panels_of_a_group(&sum, fewest, or_span_length(panels), or_workers_count(workers));
    or_workers_run(workers, items_of(panels, sum.group),
                   or_workers_grain(panel_multiply_adds * sum.group), sum_parts, &sum);
}
