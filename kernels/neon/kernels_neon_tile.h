// kernels_neon_tile - the one loop that matmul and attention are, for the float kernels of NEON.
//
// Weights are lines: line i holds what all outputs multiply x[i] with. Outputs are taken 16 at a time, a
// column, four vectors of chains for each row:
//
//                              line_step    column_step      y begins
//     matmul         w[n][i]      16        panel_stride     as zeros
//     scores         k[i][p]      32            16           as zeros
//     values         v[i][d]   head_dim         16           as it is
#pragma once

#include <arm_neon.h>
#include <stdbool.h>

#include "kernels/neon/kernels_neon_internal.h"

#define TILE_ROWS 6u    // 24 chains, 4 weights, 1 x: 29 of the 32 registers
#define TILE_COLUMNS 2u // for a single row: an fma takes four cycles and two can start in each
#define TILE_LINES 256u // lines that stay in the first cache while all rows pass
#define COLUMN_VECTORS (OR_PANEL / WIDTH)

typedef enum { WEIGHTS_F32, WEIGHTS_F16, WEIGHTS_BF16 } weights_t;

typedef struct {
    const void *data; // float, IEEE half or bfloat16
    size_t line_step; // elements from line to line
    size_t column_step;
    uint32_t columns;
    weights_t type;
} lines_t;

typedef struct {
    const float *x;
    size_t x_stride;
    float *y;
    size_t y_stride;
    uint32_t count;
} rows_t;

ALWAYS_INLINE float32x4_t load_weights(const lines_t *w, size_t at)
{
    if (w->type == WEIGHTS_F32) {
        return vld1q_f32((const float *)w->data + at);
    }
    uint16x4_t narrow = vld1_u16((const uint16_t *)w->data + at);
    if (w->type == WEIGHTS_F16) {
        return vcvt_f32_f16(vreinterpret_f16_u16(narrow));
    }
    return vreinterpretq_f32_u32(vshll_n_u16(narrow, 16));
}

// Lines `begin` .. `end` - 1 in `rows` rows from `m` on, `columns` columns from `c` on. `goes_on`: the
// chains begin with what y holds. `rows` and `columns` are constants wherever this is inlined.
ALWAYS_INLINE void multiply_tile(const lines_t *w, uint32_t c, uint32_t columns, size_t begin,
                                 size_t end, const rows_t *at, uint32_t m, uint32_t rows,
                                 bool goes_on)
{
    const float *x = at->x + m * at->x_stride;
    float *y = at->y + m * at->y_stride + (size_t)c * OR_PANEL;
    uint32_t vectors = columns * COLUMN_VECTORS;
    float32x4_t chains[TILE_ROWS][TILE_COLUMNS * COLUMN_VECTORS];
#pragma GCC unroll 6
    for (uint32_t r = 0; r < rows; r++) {
#pragma GCC unroll 8
        for (uint32_t v = 0; v < vectors; v++) {
            const float *cell = &y[r * at->y_stride + v * WIDTH];
            chains[r][v] = goes_on ? vld1q_f32(cell) : vdupq_n_f32(0.0f);
        }
    }
    for (size_t i = begin; i < end; i++) {
        size_t line = i * w->line_step + c * w->column_step;
#pragma GCC unroll 8
        for (uint32_t v = 0; v < vectors; v++) {
            size_t column = v / COLUMN_VECTORS * w->column_step;
            float32x4_t weights = load_weights(w, line + column + v % COLUMN_VECTORS * WIDTH);
#pragma GCC unroll 6
            for (uint32_t r = 0; r < rows; r++) {
                chains[r][v] = vfmaq_n_f32(chains[r][v], weights, x[r * at->x_stride + i]);
            }
        }
    }
#pragma GCC unroll 6
    for (uint32_t r = 0; r < rows; r++) {
#pragma GCC unroll 8
        for (uint32_t v = 0; v < vectors; v++) {
            vst1q_f32(&y[r * at->y_stride + v * WIDTH], chains[r][v]);
        }
    }
}

// One column and all rows, in tiles as even as can be: 7 rows are 4 and 3, not 6 and a lonely 1.
ALWAYS_INLINE void multiply_column(const lines_t *w, uint32_t c, size_t begin, size_t end,
                                   const rows_t *at, bool goes_on)
{
    uint32_t tiles = (at->count + TILE_ROWS - 1) / TILE_ROWS;
    for (uint32_t m = 0; tiles > 0; tiles--) {
        uint32_t rows = (at->count - m + tiles - 1) / tiles;
        switch (rows) {
        case 1:
            multiply_tile(w, c, 1, begin, end, at, m, 1, goes_on);
            break;
        case 2:
            multiply_tile(w, c, 1, begin, end, at, m, 2, goes_on);
            break;
        case 3:
            multiply_tile(w, c, 1, begin, end, at, m, 3, goes_on);
            break;
        case 4:
            multiply_tile(w, c, 1, begin, end, at, m, 4, goes_on);
            break;
        case 5:
            multiply_tile(w, c, 1, begin, end, at, m, 5, goes_on);
            break;
        default:
            multiply_tile(w, c, 1, begin, end, at, m, TILE_ROWS, goes_on);
            break;
        }
        m += rows;
    }
}

// All columns of lines 0 .. n-1. w->type is a constant wherever this is inlined.
ALWAYS_INLINE void multiply_lines(const lines_t *w, size_t n, const rows_t *at, bool goes_on)
{
    uint32_t c = 0;
    for (; at->count == 1 && c + TILE_COLUMNS <= w->columns; c += TILE_COLUMNS) {
        multiply_tile(w, c, TILE_COLUMNS, 0, n, at, 0, 1, goes_on);
    }
    for (; c < w->columns; c++) {
        for (size_t begin = 0; begin < n; begin += TILE_LINES) {
            size_t end = begin + TILE_LINES < n ? begin + TILE_LINES : n;
            multiply_column(w, c, begin, end, at, goes_on || begin > 0);
        }
    }
}
