// Products of panels and quantised activations, for AVX2.
//
// The blocks of a panel are unpacked a chunk at a time, once, and stay in the L1 cache while all rows pass,
// a few at a time; y keeps their chains between chunks. Meanwhile the next chunk is fetched. A row
// alone unpacks nothing (kernels_avx2_quant_alone.c).
#include "kernels/avx2/kernels_avx2_quant_sums.h"

#define CHUNK 8u     // blocks
#define ROWS_MAX 64u // that pass at once, so that the L2 cache holds them for the next panel
#define CACHE_LINE 64u

typedef struct {
    const plain_block_t *w;
    uint32_t blocks;
    const or_q8_block_t *x;
    size_t x_stride;
    float *y;
    size_t y_stride;
    bool begins;       // so do chains
    const char *ahead; // what to fetch: `lines` at each block
    uint32_t lines;
} tile_t;

// ---- one tile ----

ALWAYS_INLINE void fetch(const char *at, uint32_t lines)
{
    for (uint32_t i = 0; i < lines; i++) {
        _mm_prefetch(at + (size_t)i * CACHE_LINE, _MM_HINT_T0);
    }
}

// The panel's outputs from half `half` on that a tile is wide, in `rows` rows.
ALWAYS_INLINE void multiply_tile(shape_t s, const tile_t *t, uint32_t half, uint32_t rows)
{
    __m256 chains[TILE_ROWS][VECTORS];
    float *y = t->y + half * WIDTH;
#pragma GCC unroll 4
    for (uint32_t r = 0; r < rows; r++) {
#pragma GCC unroll 2
        for (uint32_t v = 0; v < VECTORS; v++) {
            bool empty = t->begins || v >= s.halves;
            chains[r][v] =
                empty ? _mm256_setzero_ps() : _mm256_loadu_ps(y + r * t->y_stride + v * WIDTH);
        }
    }
    for (size_t b = 0; b < t->blocks; b++) {
        fetch(t->ahead + b * t->lines * CACHE_LINE, t->lines);
#pragma GCC unroll 2
        for (uint32_t g = 0; g < s.groups; g++) {
            __m256i sums[TILE_ROWS][VECTORS];
            sum_group(PLAIN, s, t->w, b, half, g, t->x + b, t->x_stride, rows, sums);
#pragma GCC unroll 4
            for (uint32_t r = 0; r < rows; r++) {
                const or_q8_block_t *x = t->x + r * t->x_stride + b;
                step(PLAIN, s, t->w, b, half, g, x, sums[r], chains[r]);
            }
        }
    }
#pragma GCC unroll 4
    for (uint32_t r = 0; r < rows; r++) {
#pragma GCC unroll 2
        for (uint32_t v = 0; v < VECTORS; v++) {
            if (v < s.halves) {
                _mm256_storeu_ps(y + r * t->y_stride + v * WIDTH, chains[r][v]);
            }
        }
    }
}

ALWAYS_INLINE void multiply_rows(shape_t s, const tile_t *t, uint32_t rows)
{
#pragma GCC unroll 1
    for (uint32_t half = 0; half < VECTORS; half += s.halves) {
        multiply_tile(s, t, half, rows);
    }
}

// ---- by shape ----

#define DEFINE_TILE(name, ...)                                                                     \
    static void multiply_##name(const tile_t *t, uint32_t rows)                                    \
    {                                                                                              \
        const shape_t shape = shape_##name;                                                        \
        switch (rows) {                                                                            \
        case 1:                                                                                    \
            multiply_rows(shape, t, 1);                                                            \
            break;                                                                                 \
        case 2:                                                                                    \
            multiply_rows(shape, t, 2);                                                            \
            break;                                                                                 \
        case 3:                                                                                    \
            multiply_rows(shape, t, 3);                                                            \
            break;                                                                                 \
        default:                                                                                   \
            multiply_rows(shape, t, TILE_ROWS);                                                    \
            break;                                                                                 \
        }                                                                                          \
    }

QUANT_SHAPES(DEFINE_TILE)

typedef void (*multiply_t)(const tile_t *t, uint32_t rows);

#define TILE_OF_TYPE(name, type, shape, block_bytes) [type] = multiply_##shape,

static const multiply_t multipliers[OR_QUANT_TYPES] = {QUANT_TYPES(TILE_OF_TYPE)};

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

// Cache lines of the next chunk for each of a chunk's blocks in each tile.
static uint32_t lines_each(const panels_t *w, uint32_t blocks, uint32_t tiles)
{
    size_t bytes = w->unit_bytes / w->unit_blocks * CHUNK;
    size_t steps = (size_t)blocks * tiles * CACHE_LINE;
    return (uint32_t)((bytes + steps - 1) / steps);
}

// All rows over one chunk, in tiles as even as can be: 5 rows are 3 and 2, not 4 and a lonely 1.
static void multiply_chunk(const panels_t *w, uint32_t rows, tile_t t)
{
    uint32_t tiles = (rows + TILE_ROWS - 1) / TILE_ROWS;
    t.lines = lines_each(w, t.blocks, tiles);
    for (uint32_t m = 0; tiles > 0; tiles--) {
        uint32_t tile_rows = (rows - m + tiles - 1) / tiles;
        multipliers[w->in->type](&t, tile_rows);
        t.x += tile_rows * t.x_stride;
        t.y += tile_rows * t.y_stride;
        t.ahead += (size_t)t.blocks * t.lines * CACHE_LINE;
        m += tile_rows;
    }
}

// Chunks end where units do.
static void multiply_panel(const panels_t *w, uint32_t panel, const rows_t *rows)
{
    plain_block_t chunk[CHUNK];
    const uint32_t first = w->in->first;
    const uint32_t end = first + w->in->blocks;
    for (uint32_t begin = first, blocks; begin < end; begin += blocks) {
        blocks = CHUNK - begin % CHUNK;
        blocks = blocks < end - begin ? blocks : end - begin;
        unpack_chunk(w, panel, begin, blocks, chunk);
        const tile_t tile = {.w = chunk,
                             .blocks = blocks,
                             .x = rows->x + (begin - first),
                             .x_stride = rows->x_stride,
                             .y = rows->y + (size_t)panel * OR_PANEL,
                             .y_stride = rows->y_stride,
                             .begins = begin == first,
                             .ahead = next_unit(w, panel, begin + blocks)};
        multiply_chunk(w, rows->count, tile);
    }
}

void matmul_quants_avx2(const or_quant_panels_t *w, const or_q8_block_t *x, size_t x_stride,
                        uint32_t rows, float *y, size_t y_stride)
{
    if (rows <= TILE_ROWS) {
        multiply_direct_avx2[w->type](w, x, x_stride, rows, y, y_stride);
        return;
    }
    const panels_t panels = {w, or_quant_unit_blocks(w->type), or_quant_unit_bytes(w->type)};
    for (uint32_t m = 0; m < rows; m += ROWS_MAX) {
        uint32_t count = rows - m < ROWS_MAX ? rows - m : ROWS_MAX;
        const rows_t some = {x + m * x_stride, x_stride, count, y + m * y_stride, y_stride};
        for (uint32_t p = 0; p < w->count; p++) {
            multiply_panel(&panels, p, &some);
        }
    }
}
