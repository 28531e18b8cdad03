// kernels_avx512_quant_few - the product of quantised weights and a few rows, compiled twice: with VNNI and without.
//
// Few rows compute for about as long as their weights take to be read, so nothing is worth a copy. A block goes from memory
// through registers into the chains of its 16 outputs, those of all rows. Panels are read one after the other, each from
// front to back. In this order of addresses the processor's own prefetchers read ahead. They do not where scales are read
// before the bytes in front of them, or where two panels are read by turns.
#pragma once

#include "kernels/avx512/kernels_avx512_quant_block.h"
#include "kernels/avx512/kernels_avx512_quant_dot.h"

#include <string.h>

#define FEW_ROWS 12u // at most: their chains and sums are in registers
#define FETCH_LINE 64u

// Bytes that are fetched ahead, into the second-level cache. A processor begins with loads some hundred instructions ahead.
// For a row alone of Q8_0 that is as far as memory wants it; all others need more.
#define NEAR_AHEAD 2048u
#define FAR_AHEAD 6144u

ALWAYS_INLINE void fetch_block(const char *at, size_t bytes)
{
#pragma GCC unroll 9
    for (size_t i = 0; i < bytes; i += FETCH_LINE) {
        _mm_prefetch(at + i, _MM_HINT_T1);
    }
}

ALWAYS_INLINE __m512i broadcast_four(const int8_t *x)
{
    int32_t four;
    memcpy(&four, x, sizeof four);
    return _mm512_set1_epi32(four);
}

// The rows' activations from the product's first block on, and where their outputs go.
typedef struct {
    const or_q8_block_t *x;
    size_t x_stride;
    float *y;
    size_t y_stride;
    uint32_t last; // row
} quant_few_t;

// Return which row is in place `r` of so many. Some numbers of rows have no function of their own: in that for one more the
// last row has two places, which compute and write the same.
ALWAYS_INLINE size_t row_in(const quant_few_t *few, uint32_t r, uint32_t places)
{
    return r + 1 < places ? r : few->last;
}

// One step of the chains, or two where there is a minimum, for group `h` of a block: one of its halves, or all of it. `at` is
// the block's place in the product.
ALWAYS_INLINE void step_of_group(or_quant_t type, bool halves, bool minima, const char *panel,
                                 uint32_t b, uint32_t h, const quant_few_t *few, uint32_t at,
                                 uint32_t rows, __m512 chains[FEW_ROWS])
{
    const uint32_t groups = halves ? GROUPS / HALVES : GROUPS;
    const or_q8_block_t *x = few->x + at;
    __m512i sums[FEW_ROWS];
#pragma GCC unroll 12
    for (uint32_t r = 0; r < rows; r++) {
        const or_q8_block_t *block = x + row_in(few, r, rows) * few->x_stride;
        sums[r] = first_sums(halves ? block->half_biases[h] : block->bias, minima);
    }
#pragma GCC unroll 8
    for (uint32_t g = h * groups; g < (h + 1) * groups; g++) {
        factors_t w = prepare(bytes_of_group(type, panel, b, g), minima);
#pragma GCC unroll 12
        for (uint32_t r = 0; r < rows; r++) {
            const or_q8_block_t *block = x + row_in(few, r, rows) * few->x_stride;
            sums[r] = dot(sums[r], &w, broadcast_four(block->quants + 4 * (size_t)g));
        }
    }
    const __m512 w_scale = scales_of(type, panel, b, h);
    const __m512 w_minimum = minima ? minima_of(type, panel, b, h) : _mm512_setzero_ps();
#pragma GCC unroll 12
    for (uint32_t r = 0; r < rows; r++) {
        const or_q8_block_t *block = x + row_in(few, r, rows) * few->x_stride;
        __m512 scale = _mm512_mul_ps(w_scale, _mm512_set1_ps(block->scale));
        chains[r] = _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(sums[r]), chains[r]);
        if (minima) {
            float sum = halves ? block->scaled_half_sums[h] : block->scaled_sum;
            chains[r] = _mm512_fnmadd_ps(w_minimum, _mm512_set1_ps(sum), chains[r]);
        }
    }
}

ALWAYS_INLINE void multiply_few_rows(or_quant_t type, size_t block_bytes, bool halves, bool minima,
                                     const or_quant_panels_t *w, const quant_few_t *few,
                                     uint32_t rows)
{
    const size_t ahead = rows == 1 && type == OR_QUANT_Q8_0 ? NEAR_AHEAD : FAR_AHEAD;
    for (uint32_t p = 0; p < w->count; p++) {
        const char *panel = (const char *)w->panels + p * w->panel_bytes;
        __m512 chains[FEW_ROWS];
#pragma GCC unroll 12
        for (uint32_t r = 0; r < rows; r++) {
            chains[r] = _mm512_setzero_ps();
        }
        for (uint32_t i = 0; i < w->blocks; i++) {
            const uint32_t b = w->first + i;
            fetch_block(panel + b * block_bytes + ahead, block_bytes);
            step_of_group(type, halves, minima, panel, b, 0, few, i, rows, chains);
            if (halves) {
                step_of_group(type, halves, minima, panel, b, 1, few, i, rows, chains);
            }
        }
        float *y = few->y + (size_t)p * OR_PANEL;
#pragma GCC unroll 12
        for (uint32_t r = 0; r < rows; r++) {
            _mm512_storeu_ps(y + row_in(few, r, rows) * few->y_stride, chains[r]);
        }
    }
}

ALWAYS_INLINE void multiply_few_of(or_quant_t type, size_t block_bytes, bool halves, bool minima,
                                   const or_quant_panels_t *w, const quant_few_t *few)
{
#define WITH_PLACES(rows) multiply_few_rows(type, block_bytes, halves, minima, w, few, rows)
    switch (few->last + 1) {
    case 1:
        WITH_PLACES(1);
        break;
    case 2:
        WITH_PLACES(2);
        break;
    case 3:
    case 4:
        WITH_PLACES(4);
        break;
    case 5:
    case 6:
        WITH_PLACES(6);
        break;
    case 7:
    case 8:
        WITH_PLACES(8);
        break;
    case 9:
    case 10:
        WITH_PLACES(10);
        break;
    default:
        WITH_PLACES(FEW_ROWS);
        break;
    }
#undef WITH_PLACES
}

#define FEW(name, type, block_bytes, halves, minima)                                               \
    static void few_##name(const or_quant_panels_t *w, const quant_few_t *few)                     \
    {                                                                                              \
        multiply_few_of(type, block_bytes, halves, minima, w, few);                                \
    }

QUANT_FORMATS(FEW)

#define FEW_OF_TYPE(name, type, block_bytes, halves, minima) [type] = few_##name,

static void (*const multiply_few[OR_QUANT_TYPES])(const or_quant_panels_t *,
                                                  const quant_few_t *) = {
    QUANT_FORMATS(FEW_OF_TYPE)};
