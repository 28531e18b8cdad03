// Products of panels and a few rows of quantised activations, straight from the panels, for AVX2.
//
// A copy of a weight pays where many rows read it. Few rows take a block from memory through registers into the chains
// of its 16 outputs: its integers are prepared once for all rows. Panels are read one after the other, each from front
// to back, the order of addresses in which the processor's own prefetchers read ahead.
#include "kernels/avx2/kernels_avx2_quant_sums.h"

#define AHEAD 2048u // bytes
#define CACHE_LINE 64u

typedef struct {
    const or_q8_block_t *x;
    size_t x_stride;
    float *y;
    size_t y_stride;
} few_rows_t;

// Fetch as much as a block has, that far ahead of it.
ALWAYS_INLINE void fetch_ahead(const char *at, size_t bytes)
{
#pragma GCC unroll 9
    for (size_t i = 0; i < bytes; i += CACHE_LINE) {
        _mm_prefetch(at + AHEAD + i, _MM_HINT_T0);
    }
}

// The steps of block b in each row.
ALWAYS_INLINE void step_block(or_quant_t type, shape_t s, const void *panel, size_t b,
                              const or_q8_block_t *x, size_t x_stride, uint32_t rows,
                              __m256 chains[TILE_ROWS][VECTORS])
{
#pragma GCC unroll 2
    for (uint32_t half = 0; half < VECTORS; half += s.halves) {
#pragma GCC unroll 2
        for (uint32_t g = 0; g < s.groups; g++) {
            __m256i sums[TILE_ROWS][VECTORS];
            sum_group(type, s, panel, b, half, g, x, x_stride, rows, sums);
#pragma GCC unroll 4
            for (uint32_t r = 0; r < rows; r++) {
                step(type, s, panel, b, half, g, x + r * x_stride, sums[r], chains[r] + half);
            }
        }
    }
}

ALWAYS_INLINE void multiply_panel(or_quant_t type, shape_t s, size_t block_bytes, const char *panel,
                                  uint32_t first, uint32_t blocks, const few_rows_t *at,
                                  uint32_t rows)
{
    __m256 chains[TILE_ROWS][VECTORS];
#pragma GCC unroll 4
    for (uint32_t r = 0; r < rows; r++) {
        chains[r][0] = _mm256_setzero_ps();
        chains[r][1] = _mm256_setzero_ps();
    }
    for (size_t i = 0; i < blocks; i++) {
        size_t b = first + i;
        fetch_ahead(panel + b * block_bytes, block_bytes);
        step_block(type, s, panel, b, at->x + i, at->x_stride, rows, chains);
    }
#pragma GCC unroll 4
    for (uint32_t r = 0; r < rows; r++) {
        _mm256_storeu_ps(at->y + r * at->y_stride, chains[r][0]);
        _mm256_storeu_ps(at->y + r * at->y_stride + WIDTH, chains[r][1]);
    }
}

ALWAYS_INLINE void multiply_panels(or_quant_t type, shape_t s, size_t block_bytes,
                                   const or_quant_panels_t *w, few_rows_t at, uint32_t rows)
{
    for (uint32_t p = 0; p < w->count; p++) {
        const char *panel = (const char *)w->panels + p * w->panel_bytes;
        multiply_panel(type, s, block_bytes, panel, w->first, w->blocks, &at, rows);
        at.y += OR_PANEL;
    }
}

#define DEFINE_DIRECT(name, type, shape, block_bytes)                                              \
    static void direct_##name(const or_quant_panels_t *w, const or_q8_block_t *x, size_t x_stride, \
                              uint32_t rows, float *y, size_t y_stride)                            \
    {                                                                                              \
        const few_rows_t at = {x, x_stride, y, y_stride};                                          \
        switch (rows) {                                                                            \
        case 1:                                                                                    \
            multiply_panels(type, shape_##shape, block_bytes, w, at, 1);                           \
            break;                                                                                 \
        case 2:                                                                                    \
            multiply_panels(type, shape_##shape, block_bytes, w, at, 2);                           \
            break;                                                                                 \
        case 3:                                                                                    \
            multiply_panels(type, shape_##shape, block_bytes, w, at, 3);                           \
            break;                                                                                 \
        default:                                                                                   \
            multiply_panels(type, shape_##shape, block_bytes, w, at, TILE_ROWS);                   \
            break;                                                                                 \
        }                                                                                          \
    }

QUANT_TYPES(DEFINE_DIRECT)

#define DIRECT_OF_TYPE(name, type, shape, block_bytes) [type] = direct_##name,

const direct_avx2_t multiply_direct_avx2[OR_QUANT_TYPES] = {QUANT_TYPES(DIRECT_OF_TYPE)};
