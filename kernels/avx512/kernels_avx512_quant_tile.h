// kernels_avx512_quant_tile - the product of quantised weights and activations, compiled twice: with
// VNNI and without.
//
// A tile is up to 6 rows x two panels: 12 integer sums and as many chains of floats, all in registers.
// From chunk to chunk the chains go through y, with the same bits. Steps, of a block in
// a tile each, also fetch weights of a later chunk from memory, so that reading goes on while computing.
#pragma once

#include "kernels/avx512/kernels_avx512_quant_few.h"

#include <immintrin.h>
#include <string.h>

#define TILE_ROWS 6u
#define MANY_ROWS 64u   // more than a tree has
#define UNPACK_STEPS 4u // of one row: to unpack a panel takes as long
#define LINE 64u
#define CACHE_FOR_X (512u << 10) // bytes of activations that stay in the second-level cache

// Some rows, from the chunk's first block and for the chunk's panels on.
typedef struct {
    const or_q8_block_t *x;
    size_t x_stride;
    float *y[PAIR];
    size_t y_stride;
    uint32_t count;
    bool start; // the chains begin here
} quant_rows_t;

// Weights that are wanted soon: `lines` of each panel are fetched at every step, but for the first
// `wait` steps. What comes too early is gone from the first-level cache again.
typedef struct {
    const char *at[PAIR];
    uint32_t lines;
    uint32_t wait;
} quant_ahead_t;

ALWAYS_INLINE void fetch(quant_ahead_t *ahead)
{
    if (ahead->wait > 0) {
        ahead->wait--;
        return;
    }
    for (uint32_t i = 0; i < ahead->lines; i++) {
#pragma GCC unroll 2
        for (uint32_t p = 0; p < PAIR; p++) {
            _mm_prefetch(ahead->at[p], _MM_HINT_T0);
            ahead->at[p] += LINE;
        }
    }
}

// ---- a tile ----
//
// `rows`, `halves` and `minima` are constants wherever these are inlined.

// The integer sums of half `h` of block `b`, or of all of it.
ALWAYS_INLINE void sum_group(const quant_chunk_t *chunk, size_t stride, uint32_t b, uint32_t h,
                             const or_q8_block_t *x, size_t x_stride, uint32_t rows, bool halves,
                             bool minima, __m512i sums[TILE_ROWS][PAIR])
{
    const uint32_t groups = halves ? GROUPS / HALVES : GROUPS;
#pragma GCC unroll 8
    for (uint32_t r = 0; r < rows; r++) {
        const or_q8_block_t *block = x + r * x_stride;
        sums[r][0] = first_sums(halves ? block->half_biases[h] : block->bias, minima);
        sums[r][1] = sums[r][0];
    }
#pragma GCC unroll 8
    for (uint32_t g = h * groups; g < (h + 1) * groups; g++) {
        size_t at = b * stride + (size_t)g * LINE;
        factors_t w0 = prepare(_mm512_loadu_si512(chunk->bytes[0] + at), minima);
        factors_t w1 = prepare(_mm512_loadu_si512(chunk->bytes[1] + at), minima);
#pragma GCC unroll 8
        for (uint32_t r = 0; r < rows; r++) {
            __m512i four = broadcast_four(x[r * x_stride].quants + 4 * g);
            sums[r][0] = dot(sums[r][0], &w0, four);
            sums[r][1] = dot(sums[r][1], &w1, four);
        }
    }
}

// The steps that the chains take with these sums.
ALWAYS_INLINE void step_chains(const quant_chunk_t *chunk, uint32_t b, uint32_t h,
                               const or_q8_block_t *x, size_t x_stride, uint32_t rows, bool halves,
                               bool minima, __m512i sums[TILE_ROWS][PAIR],
                               __m512 chains[TILE_ROWS][PAIR])
{
#pragma GCC unroll 2
    for (uint32_t p = 0; p < PAIR; p++) {
        const __m512 w_scale = _mm512_load_ps(chunk->scales[b][h][p]);
#pragma GCC unroll 8
        for (uint32_t r = 0; r < rows; r++) {
            const or_q8_block_t *block = x + r * x_stride;
            __m512 scale = _mm512_mul_ps(w_scale, _mm512_set1_ps(block->scale));
            chains[r][p] = _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(sums[r][p]), chains[r][p]);
            if (minima) {
                float sum = halves ? block->scaled_half_sums[h] : block->scaled_sum;
                __m512 minimum = _mm512_load_ps(chunk->minima[b][h][p]);
                chains[r][p] = _mm512_fnmadd_ps(minimum, _mm512_set1_ps(sum), chains[r][p]);
            }
        }
    }
}

ALWAYS_INLINE void multiply_tile(const quant_chunk_t *chunk, const quant_rows_t *at, uint32_t first,
                                 quant_ahead_t *ahead, uint32_t rows, bool halves, bool minima)
{
    const or_q8_block_t *x = at->x + first * at->x_stride;
    const size_t x_stride = at->x_stride;
    const size_t stride = chunk->bytes_stride;
    const uint32_t steps = halves ? HALVES : 1;
    __m512 chains[TILE_ROWS][PAIR];
#pragma GCC unroll 8
    for (uint32_t r = 0; r < rows; r++) {
#pragma GCC unroll 2
        for (uint32_t p = 0; p < PAIR; p++) {
            const float *y = at->y[p] + (first + r) * at->y_stride;
            chains[r][p] = at->start ? _mm512_setzero_ps() : _mm512_loadu_ps(y);
        }
    }
    for (uint32_t b = 0; b < chunk->blocks; b++, x++) {
        fetch(ahead);
#pragma GCC unroll 2
        for (uint32_t h = 0; h < steps; h++) {
            __m512i sums[TILE_ROWS][PAIR];
            sum_group(chunk, stride, b, h, x, x_stride, rows, halves, minima, sums);
            step_chains(chunk, b, h, x, x_stride, rows, halves, minima, sums, chains);
        }
    }
#pragma GCC unroll 8
    for (uint32_t r = 0; r < rows; r++) {
#pragma GCC unroll 2
        for (uint32_t p = 0; p < PAIR; p++) {
            _mm512_storeu_ps(at->y[p] + (first + r) * at->y_stride, chains[r][p]);
        }
    }
}

// ---- all rows over a chunk ----

ALWAYS_INLINE uint32_t tiles_of(uint32_t rows)
{
    return (rows + TILE_ROWS - 1) / TILE_ROWS;
}

// Tiles are as even as can be: of more rows than kernels_avx512_quant_few.h takes none has fewer than four.
ALWAYS_INLINE void multiply_chunk(const quant_chunk_t *chunk, const quant_rows_t *at,
                                  quant_ahead_t ahead, bool halves, bool minima)
{
    uint32_t m = 0;
    for (uint32_t tiles = tiles_of(at->count); tiles > 0; tiles--) {
        uint32_t rows = (at->count - m + tiles - 1) / tiles;
        switch (rows) {
        case 4:
            multiply_tile(chunk, at, m, &ahead, 4, halves, minima);
            break;
        case 5:
            multiply_tile(chunk, at, m, &ahead, 5, halves, minima);
            break;
        default:
            multiply_tile(chunk, at, m, &ahead, TILE_ROWS, halves, minima);
            break;
        }
        m += rows;
    }
}

static void multiply_plain(const quant_chunk_t *chunk, const quant_rows_t *at, quant_ahead_t ahead)
{
    multiply_chunk(chunk, at, ahead, false, false);
}

static void multiply_minima(const quant_chunk_t *chunk, const quant_rows_t *at, quant_ahead_t ahead)
{
    multiply_chunk(chunk, at, ahead, false, true);
}

static void multiply_halves(const quant_chunk_t *chunk, const quant_rows_t *at, quant_ahead_t ahead)
{
    multiply_chunk(chunk, at, ahead, true, false);
}

static void multiply_halves_minima(const quant_chunk_t *chunk, const quant_rows_t *at,
                                   quant_ahead_t ahead)
{
    multiply_chunk(chunk, at, ahead, true, true);
}

typedef void (*multiply_t)(const quant_chunk_t *, const quant_rows_t *, quant_ahead_t);

static multiply_t find_multiply(const quant_format_t *format)
{
    static const multiply_t all[2][2] = {{multiply_plain, multiply_minima},
                                         {multiply_halves, multiply_halves_minima}};
    return all[format->halves][format->minima];
}

// ---- all chunks ----

typedef struct {
    const quant_format_t *format;
    const char *panels;
    size_t panel_bytes;
    uint32_t count;
    uint32_t first, end; // blocks
    uint32_t unit_blocks;
    size_t unit_bytes;
    uint32_t walk_first, walk_end,
        walk_count; // as in or_quant_panels_t; of these alone where that has none
} quant_weights_t;

static quant_weights_t weights_of(const or_quant_panels_t *w)
{
    const bool goes_on = w->walk_count > 0;
    const uint32_t end = w->first + w->blocks;
    return (quant_weights_t){.format = &avx512_quant_formats[w->type],
                             .panels = w->panels,
                             .panel_bytes = w->panel_bytes,
                             .count = w->count,
                             .first = w->first,
                             .end = end,
                             .unit_blocks = or_quant_unit_blocks(w->type),
                             .unit_bytes = or_quant_unit_bytes(w->type),
                             .walk_first = goes_on ? w->walk_first : w->first,
                             .walk_end = goes_on ? w->walk_end : end,
                             .walk_count = goes_on ? w->walk_count : w->count};
}

// An odd last panel is its own partner: both halves of the pair compute and write the same.
ALWAYS_INLINE uint32_t partner_of(uint32_t panel, uint32_t count)
{
    return panel + 1 < count ? panel + 1 : panel;
}

// A chunk: blocks from `block` on of a pair of panels.
typedef struct {
    uint32_t panel, block;
} quant_place_t;

// Return where the chunk after this one begins.
static quant_place_t next_chunk(const quant_weights_t *w, quant_place_t chunk)
{
    uint32_t next = (chunk.block / OR_SUPER_BLOCK + 1) * OR_SUPER_BLOCK;
    return next < w->walk_end ? (quant_place_t){chunk.panel, next}
                              : (quant_place_t){chunk.panel + PAIR, w->walk_first};
}

// Return what to prefetch during `steps` steps over a chunk: the chunk after the next, as computing one alone may
// take less time than memory does.
static quant_ahead_t find_ahead(const quant_weights_t *w, quant_place_t chunk, uint32_t steps)
{
    quant_place_t next = next_chunk(w, next_chunk(w, chunk));
    if (next.panel >= w->walk_count) {
        return (quant_ahead_t){.wait = steps};
    }
    size_t unit = next.block / w->unit_blocks * w->unit_bytes;
    uint32_t lines = (uint32_t)(OR_SUPER_BLOCK / w->unit_blocks * w->unit_bytes / LINE);
    uint32_t lines_a_step = (lines + steps - 1) / steps;
    uint32_t partner = partner_of(next.panel, w->walk_count);
    return (quant_ahead_t){.at = {w->panels + next.panel * w->panel_bytes + unit,
                                  w->panels + partner * w->panel_bytes + unit},
                           .lines = lines_a_step,
                           .wait = steps - (lines + lines_a_step - 1) / lines_a_step};
}

// Two panels, chunk by chunk. `at` is of their y, and of x from the first block on.
static void multiply_pair(const quant_weights_t *w, uint32_t panel, quant_rows_t at)
{
    const uint32_t pair[PAIR] = {panel, partner_of(panel, w->count)};
    quant_chunk_t chunk;
    chunk.many_rows = at.count > MANY_ROWS;
    const multiply_t multiply = find_multiply(w->format);
    chunk.bytes_stride = sizeof(quant_bytes_t);
    for (uint32_t b = w->first; b < w->end; b += chunk.blocks) {
        uint32_t left = w->end - b;
        chunk.blocks = OR_SUPER_BLOCK - b % OR_SUPER_BLOCK;
        chunk.blocks = chunk.blocks < left ? chunk.blocks : left;
        uint32_t steps = PAIR * UNPACK_STEPS + tiles_of(at.count) * chunk.blocks;
        quant_ahead_t ahead = find_ahead(w, (quant_place_t){panel, b}, steps);
        for (uint32_t p = 0; p < PAIR; p++) {
            for (uint32_t i = 0; i < UNPACK_STEPS; i++) {
                fetch(&ahead);
            }
            chunk.bytes[p] = &chunk.unpacked[p][0][0][0][0];
            w->format->unpack(w->panels + pair[p] * w->panel_bytes, b, p, &chunk);
        }
        at.start = b == w->first;
        multiply(&chunk, &at, ahead);
        at.x += chunk.blocks;
    }
}

// Rows in turns as even as can be, of as many as the cache holds the activations of. Weights are read
// from memory once for each turn, so a tree's rows are never parted.
ALWAYS_INLINE void multiply_quants(const or_quant_panels_t *panels, const or_q8_block_t *x,
                                   size_t x_stride, uint32_t rows, float *y, size_t y_stride)
{
    if (rows <= FEW_ROWS) {
        const quant_few_t few = {x, x_stride, y, y_stride, rows - 1};
        multiply_few[panels->type](panels, &few);
        return;
    }
    const quant_weights_t w = weights_of(panels);
    uint32_t rows_max = (uint32_t)(CACHE_FOR_X / (panels->blocks * sizeof *x));
    rows_max = rows_max < MANY_ROWS ? MANY_ROWS : rows_max;
    uint32_t m = 0;
    for (uint32_t turns = (rows + rows_max - 1) / rows_max; turns > 0; turns--) {
        uint32_t count = (rows - m + turns - 1) / turns;
        float *y_rows = y + m * y_stride;
        quant_rows_t at = {
            .x = x + m * x_stride, .x_stride = x_stride, .y_stride = y_stride, .count = count};
        for (uint32_t p = 0; p < w.count; p += PAIR) {
            at.y[0] = y_rows + (size_t)p * OR_PANEL;
            at.y[1] = y_rows + (size_t)partner_of(p, w.count) * OR_PANEL;
            multiply_pair(&w, p, at);
        }
        m += count;
    }
}
