// kernels_neon_quant - matmul_quants over the products that the including file is compiled for.
//
// A panel is unpacked a chunk at a time, which then stays in the first cache while all rows pass. A tile is
// a few rows by half a panel; its chains go on through y from chunk to chunk. Integer sums are exact in any
// order, so only the last step of a group, in float, has to follow kernels/ref.
#pragma once

#include <stdbool.h>

#include "kernels/neon/kernels_neon_products.h"
#include "kernels/neon/kernels_neon_unpack.h"

#define CHUNK_BLOCKS 8u // 6 KB
#define QUADS (OR_PANEL / WIDTH)
#define TILE_QUADS (QUADS / 2)
#define HALF_BLOCK (OR_QUANT_BLOCK / 2)

// The traits of a type, which are constants wherever this is inlined.
typedef struct {
    uint32_t groups; // of a block
    bool has_minima;
} shape_t;

typedef struct {
    const unpacked_t *w;
    uint32_t count;
    const or_q8_block_t *x; // the first row's first block of the chunk
    size_t x_stride;
    float *y; // of the panel
    size_t y_stride;
    bool goes_on; // the chains begin with what y holds
} chunk_t;

// Add the products of 16 weights, a group or half of one, to the sums.
ALWAYS_INLINE void sum_half(const unpacked_t *w, uint32_t half, uint32_t quad,
                            const or_q8_block_t *x, size_t x_stride, uint32_t rows,
                            sums_t sums[TILE_ROWS][TILE_QUADS])
{
    for (uint32_t k = half * HALF_BLOCK; k < (half + 1) * HALF_BLOCK; k += 8) {
        int8x8_t quants[TILE_ROWS];
#pragma GCC unroll 4
        for (uint32_t r = 0; r < rows; r++) {
            quants[r] = vld1_s8(&x[r * x_stride].quants[k]);
        }
#pragma GCC unroll 2
        for (uint32_t q = 0; q < TILE_QUADS; q++) {
            const int8x16_t weights[2] = {vld1q_s8(w->integers[k / 4][(quad + q) * WIDTH]),
                                          vld1q_s8(w->integers[k / 4 + 1][(quad + q) * WIDTH])};
#pragma GCC unroll 4
            for (uint32_t r = 0; r < rows; r++) {
                sums[r][q] = add_products(sums[r][q], weights, quants[r]);
            }
        }
    }
}

// Group `g`: a step of the chain, and one more for its minimum.
ALWAYS_INLINE void add_group(const unpacked_t *w, uint32_t g, uint32_t quad, const or_q8_block_t *x,
                             size_t x_stride, uint32_t rows, shape_t shape,
                             float32x4_t chains[TILE_ROWS][TILE_QUADS])
{
    sums_t sums[TILE_ROWS][TILE_QUADS];
#pragma GCC unroll 4
    for (uint32_t r = 0; r < rows; r++) {
        for (uint32_t q = 0; q < TILE_QUADS; q++) {
            sums[r][q] = no_sums();
        }
    }
    sum_half(w, g, quad, x, x_stride, rows, sums);
    if (shape.groups == 1) {
        sum_half(w, 1, quad, x, x_stride, rows, sums);
    }
#pragma GCC unroll 2
    for (uint32_t q = 0; q < TILE_QUADS; q++) {
        float32x4_t scales = vld1q_f32(&w->scales[g][(quad + q) * WIDTH]);
#pragma GCC unroll 4
        for (uint32_t r = 0; r < rows; r++) {
            const or_q8_block_t *block = &x[r * x_stride];
            float32x4_t sum = vcvtq_f32_s32(sum_each(sums[r][q]));
            float32x4_t scale = vmulq_n_f32(scales, block->scale);
            chains[r][q] = vfmaq_f32(chains[r][q], scale, sum);
            if (shape.has_minima) {
                float32x4_t addends = vld1q_f32(&w->addends[g][(quad + q) * WIDTH]);
                float scaled = shape.groups == 1 ? block->scaled_sum : block->scaled_half_sums[g];
                chains[r][q] = vfmaq_n_f32(chains[r][q], addends, scaled);
            }
        }
    }
}

// Rows `m` and on, vectors of outputs `quad` and on. `rows` is a constant wherever this is inlined.
ALWAYS_INLINE void multiply_tile(const chunk_t *chunk, uint32_t quad, uint32_t m, uint32_t rows,
                                 shape_t shape)
{
    const or_q8_block_t *x = chunk->x + m * chunk->x_stride;
    float *y = chunk->y + m * chunk->y_stride + (size_t)quad * WIDTH;
    float32x4_t chains[TILE_ROWS][TILE_QUADS];
#pragma GCC unroll 4
    for (uint32_t r = 0; r < rows; r++) {
#pragma GCC unroll 2
        for (uint32_t q = 0; q < TILE_QUADS; q++) {
            const float *cell = &y[r * chunk->y_stride + q * WIDTH];
            chains[r][q] = chunk->goes_on ? vld1q_f32(cell) : vdupq_n_f32(0.0f);
        }
    }
    for (uint32_t b = 0; b < chunk->count; b++) {
        for (uint32_t g = 0; g < shape.groups; g++) {
            add_group(&chunk->w[b], g, quad, x + b, chunk->x_stride, rows, shape, chains);
        }
    }
#pragma GCC unroll 4
    for (uint32_t r = 0; r < rows; r++) {
#pragma GCC unroll 2
        for (uint32_t q = 0; q < TILE_QUADS; q++) {
            vst1q_f32(&y[r * chunk->y_stride + q * WIDTH], chains[r][q]);
        }
    }
}

// All rows, in tiles as even as can be: 5 rows are 3 and 2, not 4 and a lonely 1.
ALWAYS_INLINE void multiply_chunk(const chunk_t *chunk, uint32_t rows, shape_t shape)
{
    for (uint32_t quad = 0; quad < QUADS; quad += TILE_QUADS) {
        uint32_t tiles = (rows + TILE_ROWS - 1) / TILE_ROWS;
        for (uint32_t m = 0; tiles > 0; tiles--) {
            uint32_t tile_rows = (rows - m + tiles - 1) / tiles;
            switch (tile_rows) {
            case 1:
                multiply_tile(chunk, quad, m, 1, shape);
                break;
            case 2:
                multiply_tile(chunk, quad, m, 2, shape);
                break;
            case 3:
                multiply_tile(chunk, quad, m, 3, shape);
                break;
            default:
                multiply_tile(chunk, quad, m, TILE_ROWS, shape);
                break;
            }
            m += tile_rows;
        }
    }
}

static void multiply_typed(or_quant_t type, const chunk_t *chunk, uint32_t rows)
{
    switch (type) {
    case OR_QUANT_Q4_1:
    case OR_QUANT_Q5_1:
    case OR_QUANT_Q4_K:
    case OR_QUANT_Q5_K:
        multiply_chunk(chunk, rows, (shape_t){1, true});
        break;
    case OR_QUANT_Q2_K:
        multiply_chunk(chunk, rows, (shape_t){2, true});
        break;
    case OR_QUANT_Q3_K:
    case OR_QUANT_Q6_K:
    case OR_QUANT_IQ2_S:
    case OR_QUANT_IQ2_XS:
    case OR_QUANT_IQ2_XXS:
        multiply_chunk(chunk, rows, (shape_t){2, false});
        break;
    default:
        multiply_chunk(chunk, rows, (shape_t){1, false});
        break;
    }
}

static void multiply_panels(const or_quant_panels_t *w, const or_q8_block_t *x, size_t x_stride,
                            uint32_t rows, float *y, size_t y_stride)
{
    unpacked_t unpacked[CHUNK_BLOCKS];
    for (uint32_t p = 0; p < w->count; p++) {
        const uint8_t *panel = (const uint8_t *)w->panels + p * w->panel_bytes;
        for (uint32_t b = 0; b < w->blocks; b += CHUNK_BLOCKS) {
            uint32_t count = w->blocks - b < CHUNK_BLOCKS ? w->blocks - b : CHUNK_BLOCKS;
            const chunk_t chunk = {unpacked, count, x + b, x_stride, y + (size_t)p * OR_PANEL,
                                   y_stride, b > 0};
            unpack_neon(w->type, panel, w->first + b, count, unpacked);
            multiply_typed(w->type, &chunk, rows);
        }
    }
}
