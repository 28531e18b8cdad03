// Products of panels and quantised activations, for AVX2.
//
// Rows pass a chunk of a panel's blocks a few at a time; y keeps their chains between chunks. Meanwhile the next chunk is
// fetched. Most types are multiplied straight from the panel, in long chunks: of rows and weights that are read at one
// stretch the processor's own prefetchers read ahead. Where decoding takes long, since an integer's bits lie apart or scales
// are many, many rows share a copy of a short chunk. Few rows have one chunk, all of the panel, and fetch from it.
// A row alone computes less than it waits for memory, which gives more to several streams than to one: it reads several
// panels at once, each stream through a part of the product in the order of addresses.
#include "kernels/avx2/kernels_avx2_quant_tile.h"

#define CHUNK 64u        // blocks
#define PLAIN_CHUNK 8u   // plain blocks
#define ROWS_MAX 64u     // that pass at once, so that the L2 cache holds them for the next panel
#define DIRECT_ROWS 8u   // that no copy pays for
#define PLAIN_FETCH 384u // bytes: what a panel's block has of such types, or a little less

// ---- tiles of plain blocks, by shape ----

#define DEFINE_PLAIN(name, ...)                                                                    \
    static void multiply_##name(tile_t *t, uint32_t rows)                                          \
    {                                                                                              \
        multiply_rows(PLAIN, shape_##name, PLAIN_FETCH, t, rows);                                  \
    }

QUANT_SHAPES(DEFINE_PLAIN)

#define PLAIN_OF_TYPE(name, type, shape, block_bytes) [type] = multiply_##shape,

static const multiply_tile_t multiply_plain[OR_QUANT_TYPES] = {QUANT_TYPES(PLAIN_OF_TYPE)};

#define IS_DEAR(name, type, shape, block_bytes) [type] = shape_##shape.is_dear,

static bool is_dear(or_quant_t type)
{
    const bool dear[OR_QUANT_TYPES] = {QUANT_TYPES(IS_DEAR)};
    return dear[type];
}

#define STREAMS(name, type, shape, block_bytes) [type] = shape_##shape.streams,

static uint32_t streams_of(or_quant_t type)
{
    const uint32_t streams[OR_QUANT_TYPES] = {QUANT_TYPES(STREAMS)};
    return streams[type];
}

uint32_t row_panels_avx2(or_quant_t type)
{
    const uint32_t streams = streams_of(type);
    return streams > 0 ? streams : 1;
}

// ---- all rows and panels ----

typedef struct {
    const or_quant_panels_t *in;
    uint32_t unit_blocks;
    size_t unit_bytes;
} panels_t;

typedef struct {
    const or_q8_block_t *x;
    size_t x_stride;
    uint32_t count;
    float *y;
    size_t y_stride;
} rows_t;

static uint32_t tiles_of(uint32_t rows)
{
    return (rows + TILE_ROWS - 1) / TILE_ROWS;
}

// Return the unit of a block of a panel.
static const char *unit_of(const panels_t *w, uint32_t panel, uint32_t block)
{
    const char *panels = w->in->panels;
    return panels + panel * w->in->panel_bytes + block / w->unit_blocks * w->unit_bytes;
}

// Return the unit behind the blocks before `block`; at the end it is the last panel's beginning, which does no harm.
static const char *next_unit(const panels_t *w, uint32_t panel, uint32_t block)
{
    const or_quant_panels_t *in = w->in;
    uint32_t end = in->first + in->blocks;
    if (block < end) {
        return unit_of(w, panel, block);
    }
    if (panel + 1 < in->count) {
        return unit_of(w, panel + 1, in->first);
    }
    if (end < in->walk_end) {
        return unit_of(w, 0, end);
    }
    return in->count < in->walk_count ? unit_of(w, in->count, in->walk_first)
                                      : unit_of(w, panel, in->first);
}

static void unpack_chunk(const panels_t *w, uint32_t panel, uint32_t begin, uint32_t blocks,
                         plain_block_t *chunk)
{
    unpack_avx2_t unpack = unpack_avx2[w->in->type];
    const char *unit = unit_of(w, panel, begin);
    uint32_t b = begin % w->unit_blocks;
    for (uint32_t i = 0; i < blocks; i++) {
        unpack(unit, b, &chunk[i]);
        b++;
        if (b == w->unit_blocks) {
            b = 0;
            unit += w->unit_bytes;
        }
    }
}

// All rows over one chunk, in tiles as even as can be: 5 rows are 3 and 2, not 4 and a lonely 1.
static void multiply_chunk(multiply_tile_t multiply, uint32_t rows, tile_t t)
{
    uint32_t m = 0;
    for (uint32_t tiles = tiles_of(rows); tiles > 0; tiles--) {
        uint32_t tile_rows = (rows - m + tiles - 1) / tiles;
        multiply(&t, tile_rows);
        t.x += tile_rows * t.x_stride;
        t.y += tile_rows * t.y_stride;
        m += tile_rows;
    }
}

// Return the blocks of a chunk from block `begin` on. Chunks end where units do.
static uint32_t chunk_blocks(uint32_t begin, uint32_t end, uint32_t most)
{
    uint32_t blocks = most - begin % most;
    return blocks < end - begin ? blocks : end - begin;
}

static void multiply_panel(const panels_t *w, uint32_t panel, const rows_t *rows)
{
    plain_block_t plain[PLAIN_CHUNK];
    const uint32_t first = w->in->first;
    const uint32_t end = first + w->in->blocks;
    const uint32_t tiles = tiles_of(rows->count);
    const bool copies = rows->count > DIRECT_ROWS && is_dear(w->in->type);
    for (uint32_t begin = first, blocks; begin < end; begin += blocks) {
        blocks = chunk_blocks(begin, end, copies ? PLAIN_CHUNK : CHUNK);
        tile_t tile = {.w = unit_of(w, panel, 0),
                       .first = begin,
                       .end = begin + blocks,
                       .x = rows->x + (begin - first),
                       .x_stride = rows->x_stride,
                       .y = rows->y + (size_t)panel * OR_PANEL,
                       .y_stride = rows->y_stride,
                       .begins = begin == first,
                       .ahead = next_unit(w, panel, begin + blocks),
                       .every = tiles,
                       .wait = tiles};
        if (copies) {
            unpack_chunk(w, panel, begin, blocks, plain);
            tile.w = plain;
            tile.first = 0;
            tile.end = blocks;
        }
        multiply_chunk(copies ? multiply_plain[w->in->type] : multiply_direct_avx2[w->in->type],
                       rows->count, tile);
    }
}

// A row alone. Panels are cut into as many equal parts as there are streams. Return how many panels were multiplied: the
// rest has fewer than there are streams.
static uint32_t multiply_in_streams(const panels_t *w, const rows_t *row)
{
    const or_quant_panels_t *in = w->in;
    const uint32_t streams = streams_of(in->type);
    const uint32_t part = streams > 0 ? in->count / streams : 0;
    for (uint32_t p = 0; p < part; p++) {
        streams_t some = {.first = in->first, .end = in->first + in->blocks, .x = row->x};
        for (uint32_t i = 0; i < streams; i++) {
            some.panels[i] = unit_of(w, p + i * part, 0);
            some.y[i] = row->y + (size_t)(p + i * part) * OR_PANEL;
        }
        multiply_streams_avx2[in->type](&some);
    }
    return part * streams;
}

// Rows of a single tile: each panel is one chunk.
static void multiply_few(const panels_t *w, const rows_t *rows)
{
    const or_quant_panels_t *in = w->in;
    const multiply_tile_t multiply = multiply_direct_avx2[in->type];
    const size_t first_bytes = in->first / w->unit_blocks * w->unit_bytes;
    uint32_t p = rows->count == 1 ? multiply_in_streams(w, rows) : 0;
    const char *panel = unit_of(w, p, 0);
    for (; p < in->count; p++, panel += in->panel_bytes) {
        tile_t tile = {.w = panel,
                       .first = in->first,
                       .end = in->first + in->blocks,
                       .x = rows->x,
                       .x_stride = rows->x_stride,
                       .y = rows->y + (size_t)p * OR_PANEL,
                       .y_stride = rows->y_stride,
                       .begins = true,
                       .ahead = panel + first_bytes + FEW_AHEAD,
                       .every = 1,
                       .wait = 1};
        multiply(&tile, rows->count);
    }
}

void matmul_quants_avx2(const or_quant_panels_t *w, const or_q8_block_t *x, size_t x_stride,
                        uint32_t rows, float *y, size_t y_stride)
{
    const panels_t panels = {w, or_quant_unit_blocks(w->type), or_quant_unit_bytes(w->type)};
    for (uint32_t m = 0; m < rows; m += ROWS_MAX) {
        uint32_t count = rows - m < ROWS_MAX ? rows - m : ROWS_MAX;
        const rows_t some = {x + m * x_stride, x_stride, count, y + m * y_stride, y_stride};
        if (count <= TILE_ROWS) {
            multiply_few(&panels, &some);
            continue;
        }
        for (uint32_t p = 0; p < w->count; p++) {
            multiply_panel(&panels, p, &some);
        }
    }
}
