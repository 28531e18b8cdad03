// Quantised kernels for AVX2. A vector of weights holds four neighbours in K of each of eight
// outputs; the four activations they meet are broadcast. Integer sums are exact in any order, so
// only the last step of a block, in float, has to follow kernels/ref.
#include "kernels/avx2/kernels_avx2_internal.h"

#include <immintrin.h>
#include <stdbool.h>

#include "kernels/canonical.h"

#define TILE_ROWS 4u // 8 integer sums and what they are made of; the float sums rest in memory
#define HALVES 2u    // vectors of outputs in a panel
#define GROUPS (OR_QUANT_BLOCK / 4)

// ---- activations ----

ALWAYS_INLINE uint32_t largest_lane(__m256i lanes)
{
    __m128i four = _mm_max_epu32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
    __m128i two = _mm_max_epu32(four, _mm_unpackhi_epi64(four, four));
    __m128i one = _mm_max_epu32(two, _mm_shuffle_epi32(two, 1));
    return (uint32_t)_mm_cvtsi128_si32(one);
}

ALWAYS_INLINE int32_t sum_of_lanes(__m256i lanes)
{
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
    __m128i two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
    __m128i one = _mm_add_epi32(two, _mm_shuffle_epi32(two, 1));
    return _mm_cvtsi128_si32(one);
}

static float largest_magnitude(const float *x)
{
    __m256i largest = _mm256_setzero_si256();
    for (uint32_t i = 0; i < OR_QUANT_BLOCK; i += WIDTH) {
        __m256i bits = _mm256_castps_si256(_mm256_loadu_ps(x + i));
        __m256i magnitudes = _mm256_and_si256(bits, _mm256_set1_epi32(0x7FFFFFFF));
        largest = _mm256_max_epu32(largest, magnitudes);
    }
    return float_of(largest_lane(largest));
}

// canonical_quantize in every lane. max and min return their second operand if either is a NaN.
ALWAYS_INLINE __m256i quantize_lanes(const float *x, __m256 inverse)
{
    __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(x), inverse);
    scaled = _mm256_max_ps(scaled, _mm256_set1_ps(-QUANT_MAX));
    scaled = _mm256_min_ps(scaled, _mm256_set1_ps(QUANT_MAX));
    return _mm256_cvtps_epi32(scaled);
}

void quantize_row_avx2(const float *x, uint32_t blocks, int8_t *quants, float *scales,
                       int32_t *sums)
{
    // Packing works within halves of a vector; this puts the fours back in order.
    const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    for (size_t b = 0; b < blocks; b++, x += OR_QUANT_BLOCK, quants += OR_QUANT_BLOCK) {
        float amax = largest_magnitude(x);
        __m256 inverse = _mm256_set1_ps(bits_of(amax) == 0 ? 0.0f : QUANT_MAX / amax);
        __m256i q0 = quantize_lanes(x, inverse);
        __m256i q1 = quantize_lanes(x + WIDTH, inverse);
        __m256i q2 = quantize_lanes(x + 2 * WIDTH, inverse);
        __m256i q3 = quantize_lanes(x + 3 * WIDTH, inverse);
        __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(q0, q1), _mm256_packs_epi32(q2, q3));
        _mm256_storeu_si256((__m256i *)quants, _mm256_permutevar8x32_epi32(bytes, in_order));
        scales[b] = amax / QUANT_MAX;
        sums[b] =
            sum_of_lanes(_mm256_add_epi32(_mm256_add_epi32(q0, q1), _mm256_add_epi32(q2, q3)));
    }
}

// ---- matmul ----
//
// A tile is `rows` x one panel. Its weights are read once; eight sums of independent chains, which
// integers let us break up as we like, keep the units busy even for a single row.

typedef struct {
    const void *data; // or_q8_panel_block_t, or or_q4_panel_block_t
    size_t stride;    // blocks from panel to panel
    uint32_t count;
    uint32_t blocks;
    bool nibbles; // Q4_0
} panels_t;

typedef struct {
    const or_q8_rows_t *x;
    float *y;
    size_t y_stride;
} rows_t;

ALWAYS_INLINE __m256i load_bytes(const void *at)
{
    return _mm256_loadu_si256((const __m256i *)at);
}

ALWAYS_INLINE __m256i broadcast_four(const int8_t *x)
{
    int32_t four;
    memcpy(&four, x, sizeof four);
    return _mm256_set1_epi32(four);
}

ALWAYS_INLINE void clear_sums(__m256i sums[TILE_ROWS][HALVES], uint32_t rows)
{
#pragma GCC unroll 4
    for (uint32_t r = 0; r < rows; r++) {
        sums[r][0] = _mm256_setzero_si256();
        sums[r][1] = _mm256_setzero_si256();
    }
}

// The integer sums of a block, `rows` rows from block `at` of x on. maddubs wants one factor
// without a sign: |w|, up to 128, with the sign of w given to x. Two products, at most 2 * 128 *
// 127, fit in 16 bits; more might not.
ALWAYS_INLINE void sum_q8_block(const or_q8_panel_block_t *block, const or_q8_rows_t *x, size_t at,
                                uint32_t rows, __m256i sums[TILE_ROWS][HALVES])
{
    const __m256i ones = _mm256_set1_epi16(1);
    clear_sums(sums, rows);
#pragma GCC unroll 1
    for (uint32_t g = 0; g < GROUPS; g++) {
        __m256i w[HALVES] = {load_bytes(block->quants[g][0]), load_bytes(block->quants[g][WIDTH])};
        __m256i size[HALVES] = {_mm256_abs_epi8(w[0]), _mm256_abs_epi8(w[1])};
#pragma GCC unroll 4
        for (uint32_t r = 0; r < rows; r++) {
            size_t from = (at + r * x->blocks_stride) * OR_QUANT_BLOCK + (size_t)4 * g;
            __m256i factors = broadcast_four(x->quants + from);
#pragma GCC unroll 2
            for (uint32_t h = 0; h < HALVES; h++) {
                __m256i pairs = _mm256_maddubs_epi16(size[h], _mm256_sign_epi8(factors, w[h]));
                __m256i fours = _mm256_madd_epi16(pairs, ones);
                sums[r][h] = _mm256_add_epi32(sums[r][h], fours);
            }
        }
    }
}

// The same of Q4_0. All 16 products of a 16-bit lane, at most 15 * 127 each, fit in it. The 8 that
// each nibble is too large is taken off at the end, times the sum of x.
ALWAYS_INLINE void sum_q4_block(const or_q4_panel_block_t *block, const or_q8_rows_t *x, size_t at,
                                uint32_t rows, __m256i sums[TILE_ROWS][HALVES])
{
    const __m256i ones = _mm256_set1_epi16(1);
    const __m256i low_bits = _mm256_set1_epi8(15);
    clear_sums(sums, rows);
#pragma GCC unroll 1
    for (uint32_t g = 0; g < GROUPS / 2; g++) {
        __m256i low[HALVES], high[HALVES];
#pragma GCC unroll 2
        for (uint32_t h = 0; h < HALVES; h++) {
            __m256i nibbles = load_bytes(block->nibbles[g][h * WIDTH]);
            low[h] = _mm256_and_si256(nibbles, low_bits);
            high[h] = _mm256_and_si256(_mm256_srli_epi16(nibbles, 4), low_bits);
        }
#pragma GCC unroll 4
        for (uint32_t r = 0; r < rows; r++) {
            size_t from = (at + r * x->blocks_stride) * OR_QUANT_BLOCK + (size_t)4 * g;
            __m256i first = broadcast_four(x->quants + from);
            __m256i second = broadcast_four(x->quants + from + OR_QUANT_BLOCK / 2);
#pragma GCC unroll 2
            for (uint32_t h = 0; h < HALVES; h++) {
                __m256i pairs = _mm256_add_epi16(_mm256_maddubs_epi16(low[h], first),
                                                 _mm256_maddubs_epi16(high[h], second));
                sums[r][h] = _mm256_add_epi16(sums[r][h], pairs);
            }
        }
    }
#pragma GCC unroll 4
    for (uint32_t r = 0; r < rows; r++) {
        __m256i excess = _mm256_set1_epi32(8 * x->sums[at + r * x->blocks_stride]);
#pragma GCC unroll 2
        for (uint32_t h = 0; h < HALVES; h++) {
            sums[r][h] = _mm256_sub_epi32(_mm256_madd_epi16(sums[r][h], ones), excess);
        }
    }
}

// Rows `m` and on of panel `p`. `rows` is a constant wherever this is inlined.
ALWAYS_INLINE void multiply_tile(const panels_t *w, uint32_t p, const rows_t *rows_at, uint32_t m,
                                 uint32_t rows)
{
    const or_q8_rows_t *x = rows_at->x;
    float *y = rows_at->y + m * rows_at->y_stride + (size_t)p * OR_PANEL;
    __m256 chains[TILE_ROWS][HALVES];
#pragma GCC unroll 4
    for (uint32_t r = 0; r < rows; r++) {
        chains[r][0] = _mm256_setzero_ps();
        chains[r][1] = _mm256_setzero_ps();
    }
    for (size_t b = 0; b < w->blocks; b++) {
        size_t at = m * x->blocks_stride + b;
        const uint16_t *scales;
        __m256i sums[TILE_ROWS][HALVES];
        if (w->nibbles) {
            const or_q4_panel_block_t *block =
                (const or_q4_panel_block_t *)w->data + p * w->stride + b;
            sum_q4_block(block, x, at, rows, sums);
            scales = block->scales;
        } else {
            const or_q8_panel_block_t *block =
                (const or_q8_panel_block_t *)w->data + p * w->stride + b;
            sum_q8_block(block, x, at, rows, sums);
            scales = block->scales;
        }
#pragma GCC unroll 2
        for (uint32_t h = 0; h < HALVES; h++) {
            __m256 w_scale =
                _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(scales + h * WIDTH)));
#pragma GCC unroll 4
            for (uint32_t r = 0; r < rows; r++) {
                __m256 x_scale = _mm256_broadcast_ss(x->scales + at + r * x->blocks_stride);
                chains[r][h] = _mm256_fmadd_ps(_mm256_mul_ps(w_scale, x_scale),
                                               _mm256_cvtepi32_ps(sums[r][h]), chains[r][h]);
            }
        }
    }
#pragma GCC unroll 4
    for (uint32_t r = 0; r < rows; r++) {
        _mm256_storeu_ps(y + r * rows_at->y_stride, chains[r][0]);
        _mm256_storeu_ps(y + r * rows_at->y_stride + WIDTH, chains[r][1]);
    }
}

// Panel by panel, all rows in tiles as even as can be: 5 rows are 3 and 2, not 4 and a lonely 1.
ALWAYS_INLINE void multiply(const panels_t *w, const rows_t *at, uint32_t rows)
{
    for (uint32_t p = 0; p < w->count; p++) {
        uint32_t tiles = (rows + TILE_ROWS - 1) / TILE_ROWS;
        for (uint32_t m = 0; tiles > 0; tiles--) {
            uint32_t tile_rows = (rows - m + tiles - 1) / tiles;
            switch (tile_rows) {
            case 1:
                multiply_tile(w, p, at, m, 1);
                break;
            case 2:
                multiply_tile(w, p, at, m, 2);
                break;
            case 3:
                multiply_tile(w, p, at, m, 3);
                break;
            default:
                multiply_tile(w, p, at, m, TILE_ROWS);
                break;
            }
            m += tile_rows;
        }
    }
}

void matmul_q8_0_avx2(const void *panels, size_t panel_blocks, uint32_t panel_count,
                      uint32_t blocks, const or_q8_rows_t *x, uint32_t rows, float *y,
                      size_t y_stride)
{
    const panels_t w = {panels, panel_blocks, panel_count, blocks, false};
    const rows_t at = {x, y, y_stride};
    multiply(&w, &at, rows);
}

void matmul_q4_0_avx2(const void *panels, size_t panel_blocks, uint32_t panel_count,
                      uint32_t blocks, const or_q8_rows_t *x, uint32_t rows, float *y,
                      size_t y_stride)
{
    const panels_t w = {panels, panel_blocks, panel_count, blocks, true};
    const rows_t at = {x, y, y_stride};
    multiply(&w, &at, rows);
}
