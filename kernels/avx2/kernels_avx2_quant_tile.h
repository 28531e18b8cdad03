// kernels_avx2_quant_tile - the product of some blocks of a panel, or of plain blocks, and a few rows.
#pragma once

#include "kernels/avx2/kernels_avx2_quant_sums.h"

#define CACHE_LINE 64u

// Fetch as much as a block has.
ALWAYS_INLINE void fetch(const char *at, size_t bytes)
{
#pragma GCC unroll 9
    for (size_t i = 0; i < bytes; i += CACHE_LINE) {
        _mm_prefetch(at + i, _MM_HINT_T0);
    }
}

// The chains of all outputs and rows over the tile's blocks.
ALWAYS_INLINE void multiply_tile(or_quant_t type, shape_t s, size_t block_bytes, tile_t *t,
                                 uint32_t rows)
{
    __m256 chains[TILE_ROWS][VECTORS];
#pragma GCC unroll 4
    for (uint32_t r = 0; r < rows; r++) {
#pragma GCC unroll 2
        for (uint32_t v = 0; v < VECTORS; v++) {
            const float *y = t->y + r * t->y_stride + v * WIDTH;
            chains[r][v] = t->begins ? _mm256_setzero_ps() : _mm256_loadu_ps(y);
        }
    }
    const or_q8_block_t *x = t->x;
    const char *ahead = t->ahead;
    uint32_t wait = t->wait;
    for (size_t b = t->first; b < t->end; b++, x++) {
        wait--;
        if (wait == 0) {
            wait = t->every;
            fetch(ahead, block_bytes);
            ahead += block_bytes;
        }
#pragma GCC unroll 2
        for (uint32_t g = 0; g < s.groups; g++) {
            __m256i sums[TILE_ROWS][VECTORS];
            sum_group(type, s, t->w, b, g, x, t->x_stride, rows, sums);
#pragma GCC unroll 4
            for (uint32_t r = 0; r < rows; r++) {
                step(type, s, t->w, b, g, x + r * t->x_stride, sums[r], chains[r]);
            }
        }
    }
    t->ahead = ahead;
    t->wait = wait;
#pragma GCC unroll 4
    for (uint32_t r = 0; r < rows; r++) {
#pragma GCC unroll 2
        for (uint32_t v = 0; v < VECTORS; v++) {
            _mm256_storeu_ps(t->y + r * t->y_stride + v * WIDTH, chains[r][v]);
        }
    }
}

// The same for a number of rows that is known when it runs.
ALWAYS_INLINE void multiply_rows(or_quant_t type, shape_t s, size_t block_bytes, tile_t *t,
                                 uint32_t rows)
{
    switch (rows) {
    case 1:
        multiply_tile(type, s, block_bytes, t, 1);
        break;
    case 2:
        multiply_tile(type, s, block_bytes, t, 2);
        break;
    case 3:
        multiply_tile(type, s, block_bytes, t, 3);
        break;
    default:
        multiply_tile(type, s, block_bytes, t, TILE_ROWS);
        break;
    }
}

// The chains of a row alone over some blocks of the shape's number of panels, a block of each in turn.
ALWAYS_INLINE void multiply_streams(or_quant_t type, shape_t s, size_t block_bytes,
                                    const streams_t *row)
{
    __m256 chains[OR_ROW_PANELS_MAX][VECTORS];
#pragma GCC unroll 4
    for (uint32_t i = 0; i < s.streams; i++) {
        chains[i][0] = chains[i][1] = _mm256_setzero_ps();
    }
    const or_q8_block_t *x = row->x;
    for (size_t b = row->first; b < row->end; b++, x++) {
#pragma GCC unroll 4
        for (uint32_t i = 0; i < s.streams; i++) {
            if (s.ahead > 0) {
                fetch(row->panels[i] + b * block_bytes + s.ahead, block_bytes);
            }
#pragma GCC unroll 2
            for (uint32_t g = 0; g < s.groups; g++) {
                __m256i sums[TILE_ROWS][VECTORS];
                sum_group(type, s, row->panels[i], b, g, x, 0, 1, sums);
                step(type, s, row->panels[i], b, g, x, sums[0], chains[i]);
            }
        }
    }
#pragma GCC unroll 4
    for (uint32_t i = 0; i < s.streams; i++) {
        _mm256_storeu_ps(row->y[i], chains[i][0]);
        _mm256_storeu_ps(row->y[i] + WIDTH, chains[i][1]);
    }
}
