// Products of panels and quantised activations, for AVX2.
//
// The blocks of a panel are unpacked a chunk at a time, once, and stay in the L1 cache while all rows pass,
// a few at a time; y keeps their chains between chunks. Meanwhile the next chunk is fetched. Integer sums
// are exact in any order, so only the steps of a chain, in float, have to follow kernels/ref.
#include "kernels/avx2/kernels_avx2_quant.h"

#include <immintrin.h>
#include <stdbool.h>

#define VECTORS 2u   // of outputs in a panel; of weights in a tile
#define CHUNK 8u     // blocks
#define ROWS_MAX 64u // that pass at once, so that the L2 cache holds them for the next panel
#define CACHE_LINE 64u

#define TILE_ROWS 4u // as many as there are registers for

#define NO_BIAS 99u

// The traits of a type that a tile has to know. All of them are constants where a tile is inlined.
typedef struct {
    uint32_t planes; // of weights
    uint32_t halves; // of a panel's outputs; VECTORS are both together
    uint32_t groups;
    uint32_t span; // words whose sums of pairs fit 16 bits
    uint32_t bias; // what an integer was made larger by to be stored, as 128 >> bias
    bool minima;
} shape_t;

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

ALWAYS_INLINE __m256i broadcast_word(const or_q8_block_t *x, uint32_t word)
{
    int32_t four;
    __builtin_memcpy(&four, x->quants + (size_t)4 * word, sizeof four);
    return _mm256_set1_epi32(four);
}

ALWAYS_INLINE __m256i load_word(const plain_block_t *w, uint32_t plane, uint32_t word,
                                uint32_t half)
{
    return _mm256_load_si256((const __m256i *)w->planes[plane][word][half * WIDTH]);
}

// Return x, and keep the compiler from moving its computation. Without this GCC computes the products of all words
// first, and adds them when it has run out of registers.
ALWAYS_INLINE __m256i now(__m256i x)
{
    __asm__("" : "+x"(x));
    return x;
}

// The products of `span` words, from `word` on, added up in pairs: 16-bit sums that still fit.
ALWAYS_INLINE void sum_pairs(shape_t s, const tile_t *t, size_t b, uint32_t half, uint32_t word,
                             uint32_t rows, __m256i sums[TILE_ROWS][VECTORS])
{
#pragma GCC unroll 8
    for (uint32_t i = word; i < word + s.span; i++) {
        __m256i w[VECTORS] = {load_word(t->w + b, 0, i, half),
                              s.planes == 2 ? load_word(t->w + b, 1, i, half)
                                            : load_word(t->w + b, 0, i, half + 1)};
#pragma GCC unroll 4
        for (uint32_t r = 0; r < rows; r++) {
            __m256i x = broadcast_word(t->x + r * t->x_stride + b, i);
#pragma GCC unroll 2
            for (uint32_t v = 0; v < VECTORS; v++) {
                __m256i products = _mm256_maddubs_epi16(w[v], x);
                sums[r][v] = i == word ? products : now(_mm256_add_epi16(sums[r][v], products));
            }
        }
    }
}

// Sum the products of a group with the stored integers, in as many sums as there are halves.
ALWAYS_INLINE void sum_group(shape_t s, const tile_t *t, size_t b, uint32_t half, uint32_t group,
                             uint32_t rows, __m256i sums[TILE_ROWS][VECTORS])
{
    const __m256i ones = _mm256_set1_epi16(1);
    const __m256i sixteens = _mm256_set1_epi16(16);
    uint32_t words = WORDS / s.groups;
#pragma GCC unroll 4
    for (uint32_t word = 0; word < words; word += s.span) {
        __m256i pairs[TILE_ROWS][VECTORS];
        sum_pairs(s, t, b, half, group * words + word, rows, pairs);
#pragma GCC unroll 4
        for (uint32_t r = 0; r < rows; r++) {
            if (s.planes == 2) {
                sums[r][0] = _mm256_add_epi32(_mm256_madd_epi16(pairs[r][0], ones),
                                              _mm256_madd_epi16(pairs[r][1], sixteens));
                continue;
            }
#pragma GCC unroll 2
            for (uint32_t v = 0; v < VECTORS; v++) {
                __m256i sum = _mm256_madd_epi16(pairs[r][v], ones);
                sums[r][v] = word == 0 ? sum : now(_mm256_add_epi32(sums[r][v], sum));
            }
        }
    }
}

// The steps of a chain that a group makes, in one row.
ALWAYS_INLINE void step(shape_t s, const plain_block_t *w, uint32_t half, uint32_t group,
                        const or_q8_block_t *x, const __m256i sums[VECTORS], __m256 chains[VECTORS])
{
    bool whole = s.groups == 1;
    __m256 scale = _mm256_broadcast_ss(&x->scale);
    __m256 scaled = _mm256_broadcast_ss(whole ? &x->scaled_sum : &x->scaled_half_sums[group]);
    __m256i bias = _mm256_set1_epi32(whole ? x->bias : x->half_biases[group]);
#pragma GCC unroll 2
    for (uint32_t v = 0; v < VECTORS; v++) {
        if (v >= s.halves) {
            continue;
        }
        uint32_t lane = (half + v) * WIDTH;
        __m256i sum = sums[v];
        if (s.bias != NO_BIAS) {
            sum = _mm256_add_epi32(sum, _mm256_srai_epi32(bias, (int)s.bias));
        }
        __m256 scales = _mm256_mul_ps(_mm256_load_ps(w->scales[group] + lane), scale);
        chains[v] = _mm256_fmadd_ps(scales, _mm256_cvtepi32_ps(sum), chains[v]);
        if (s.minima) {
            __m256 negated = _mm256_load_ps(w->negated_minima[group] + lane);
            chains[v] = _mm256_fmadd_ps(negated, scaled, chains[v]);
        }
    }
}

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
            sum_group(s, t, b, half, g, rows, sums);
#pragma GCC unroll 4
            for (uint32_t r = 0; r < rows; r++) {
                step(s, t->w + b, half, g, t->x + r * t->x_stride + b, sums[r], chains[r]);
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
    static void name(const tile_t *t, uint32_t rows)                                               \
    {                                                                                              \
        const shape_t shape = {__VA_ARGS__};                                                       \
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

DEFINE_TILE(multiply_bytes, .planes = 2, .halves = 1, .groups = 1, .span = 8, .bias = 0)
DEFINE_TILE(multiply_q4_0, .planes = 1, .halves = 2, .groups = 1, .span = 8, .bias = 4)
DEFINE_TILE(multiply_q5_0, .planes = 1, .halves = 2, .groups = 1, .span = 4, .bias = 3)
DEFINE_TILE(multiply_fours, .planes = 1, .halves = 2, .groups = 1, .span = 8, .bias = NO_BIAS,
            .minima = true)
DEFINE_TILE(multiply_fives, .planes = 1, .halves = 2, .groups = 1, .span = 4, .bias = NO_BIAS,
            .minima = true)
DEFINE_TILE(multiply_q2_k, .planes = 1, .halves = 2, .groups = 2, .span = 4, .bias = NO_BIAS,
            .minima = true)
DEFINE_TILE(multiply_q3_k, .planes = 1, .halves = 2, .groups = 2, .span = 4, .bias = 5)
DEFINE_TILE(multiply_q6_k, .planes = 1, .halves = 2, .groups = 2, .span = 2, .bias = 2)

typedef void (*multiply_t)(const tile_t *t, uint32_t rows);

static const multiply_t multipliers[OR_QUANT_TYPES] = {
    [OR_QUANT_Q8_0] = multiply_bytes, [OR_QUANT_IQ4_NL] = multiply_bytes,
    [OR_QUANT_Q4_0] = multiply_q4_0,  [OR_QUANT_Q5_0] = multiply_q5_0,
    [OR_QUANT_Q4_1] = multiply_fours, [OR_QUANT_Q4_K] = multiply_fours,
    [OR_QUANT_Q5_1] = multiply_fives, [OR_QUANT_Q5_K] = multiply_fives,
    [OR_QUANT_Q2_K] = multiply_q2_k,  [OR_QUANT_Q3_K] = multiply_q3_k,
    [OR_QUANT_Q6_K] = multiply_q6_k,
};

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
    const panels_t panels = {w, or_quant_unit_blocks(w->type), or_quant_unit_bytes(w->type)};
    for (uint32_t m = 0; m < rows; m += ROWS_MAX) {
        uint32_t count = rows - m < ROWS_MAX ? rows - m : ROWS_MAX;
        const rows_t some = {x + m * x_stride, x_stride, count, y + m * y_stride, y_stride};
        for (uint32_t p = 0; p < w->count; p++) {
            multiply_panel(&panels, p, &some);
        }
    }
}
