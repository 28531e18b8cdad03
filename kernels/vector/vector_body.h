// vector_body - the kernels of a table that computes in vectors, written once and compiled for each instruction set by
// the file that includes this one. All but matmul_quants is here. Private to kernels.
//
// Before the include, that file defines its vectors and a tile of a product:
//
//     WIDTH                                     floats in a vector: 4, 8 or 16
//     vector_t                                  WIDTH floats, a vector type of the compiler, so that + - * / work
//     words_t                                   the same bits as WIDTH uint32_t
//     spread(x)                                 x in every lane
//     load(x), store(y, v)                      WIDTH floats of memory, aligned as floats are
//     load_first(x, count)                      the first `count` < WIDTH of them and 0 in the other lanes
//     store_first(y, v, count)                  the first `count` < WIDTH lanes
//     keep_first(newer, older, count)           the first `count` < WIDTH lanes of newer, the others of older
//     fma_lanes(a, b, c)                        a * b + c, rounded once
//     max_lanes(newer, older)                   canonical_max in every lane
//     min_lanes(a, b)                           a < b ? a : b in every lane
//     PAIRS, rotate_pairs(x, cosine, sine)      canonical_rotate of PAIRS neighbouring pairs in place
//     load_halves(x)                            WIDTH IEEE halves as floats
//     load_quants(x)                            WIDTH signed bytes as floats
//     largest_magnitude(x)                      the largest of OR_QUANT_BLOCK floats without its sign, compared as bits
//     quantize_block(x, inverse, quants, sums)  canonical_quantize of OR_QUANT_BLOCK floats; sums[2]: of each half
//     TILE_ROWS, CHUNK, PANELS                  rows of a tile; steps of K and panels that stay in a cache meanwhile
//     multiply(product, type, rows, strips)     product.h; rows and strips >= 0, k >= 1; `type` is a constant
//
// Each output is the chain of operations that kernels/ref has for it, so the bits are the same for every WIDTH. What
// does not fill a vector is computed in a vector with some lanes off.
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/canonical.h"
#include "kernels/kernels.h"
#include "kernels/quant_internal.h"
#include "kernels/vector/product.h"

#ifdef WIDTH                    // without vectors this header is empty
#define VECTORS (LANES / WIDTH) // that hold the 16 lanes of a lane sum

// ---- vectors with some lanes off ----

ALWAYS_INLINE vector_t get(const float *x, size_t left)
{
    return left < WIDTH ? load_first(x, (uint32_t)left) : load(x);
}

ALWAYS_INLINE void put(float *y, size_t left, vector_t v)
{
    if (left < WIDTH) {
        store_first(y, v, (uint32_t)left);
    } else {
        store(y, v);
    }
}

// Vector `i` of a group of LANES floats, of which only `left` may be there; likewise below.
ALWAYS_INLINE vector_t get_of_group(const float *x, uint32_t i, uint32_t left)
{
    return left > i * WIDTH ? get(x + i * WIDTH, left - i * WIDTH) : spread(0.0f);
}

ALWAYS_INLINE void put_of_group(float *y, uint32_t i, uint32_t left, vector_t v)
{
    if (left > i * WIDTH) {
        put(y + i * WIDTH, left - i * WIDTH, v);
    }
}

ALWAYS_INLINE vector_t keep_of_group(vector_t newer, vector_t older, uint32_t i, uint32_t left)
{
    if (left >= (i + 1) * WIDTH) {
        return newer;
    }
    return left > i * WIDTH ? keep_first(newer, older, left - i * WIDTH) : older;
}

ALWAYS_INLINE void fill_lanes(vector_t vectors[VECTORS], float value)
{
#pragma GCC unroll 4
    for (uint32_t i = 0; i < VECTORS; i++) {
        vectors[i] = spread(value);
    }
}

ALWAYS_INLINE void store_lanes(const vector_t vectors[VECTORS], float lanes[LANES])
{
#pragma GCC unroll 4
    for (uint32_t i = 0; i < VECTORS; i++) {
        store(lanes + i * WIDTH, vectors[i]);
    }
}

// ---- products ----

// A function for each type of weights: AddressSanitizer checks with calls what is in a function as large as all of them.
#define OF_TYPE(name, type)                                                                        \
    __attribute__((noinline)) static void name(const product_t *p, uint32_t rows, uint32_t strips) \
    {                                                                                              \
        multiply(p, type, rows, strips);                                                           \
    }

OF_TYPE(multiply_f32, WEIGHTS_F32)
OF_TYPE(multiply_f16, WEIGHTS_F16)
OF_TYPE(multiply_bf16, WEIGHTS_BF16)
OF_TYPE(multiply_q8_keys, WEIGHTS_Q8_KEYS)
OF_TYPE(multiply_q8_values, WEIGHTS_Q8_VALUES)

#undef OF_TYPE

static void multiply_product(const product_t *product, uint32_t rows, uint32_t strips)
{
    switch (product->type) {
    case WEIGHTS_F32:
        multiply_f32(product, rows, strips);
        break;
    case WEIGHTS_F16:
        multiply_f16(product, rows, strips);
        break;
    case WEIGHTS_BF16:
        multiply_bf16(product, rows, strips);
        break;
    case WEIGHTS_Q8_KEYS:
        multiply_q8_keys(product, rows, strips);
        break;
    case WEIGHTS_Q8_VALUES:
        multiply_q8_values(product, rows, strips);
        break;
    }
}

// ---- matmul ----
//
// The rows of one tile walk the panels side by side, straight from memory. More rows take K in chunks: some panels'
// chunk of weights stays in a cache while all tiles of rows pass over it and prefetch the next one.

typedef struct {
    const void *data; // of `type`
    size_t stride;    // weights from panel to panel
    uint32_t count;
    weights_t type;
} panels_t;

typedef struct {
    const float *x;
    size_t x_stride;
    float *y;
    size_t y_stride;
    uint32_t count;
} rows_t;

ALWAYS_INLINE const char *place_of(const panels_t *w, size_t panel, size_t step)
{
    return (const char *)w->data + (panel * w->stride + step * OR_PANEL) * bytes_of_weight(w->type);
}

static void multiply_panels(const panels_t *w, uint32_t p, uint32_t panels, uint32_t k,
                            const rows_t *at)
{
    product_t product = {.type = w->type,
                         .step = OR_PANEL,
                         .apart = w->stride,
                         .x_stride = at->x_stride,
                         .y = at->y + (size_t)p * OR_PANEL,
                         .y_stride = at->y_stride,
                         .next_bytes = CHUNK * OR_PANEL * bytes_of_weight(w->type),
                         .next_apart = w->stride * bytes_of_weight(w->type)};
    for (uint32_t first = 0; first < k; first += CHUNK) {
        uint32_t after = k - first < CHUNK ? k : first + CHUNK;
        product.w = place_of(w, p, first);
        product.k = after - first;
        product.x = at->x + first;
        product.continues = first > 0;
        product.next = after < k ? place_of(w, p, after) : place_of(w, p + panels, 0);
        multiply_product(&product, at->count, panels);
    }
}

static void multiply_matrix(const panels_t *w, uint32_t k, const rows_t *at)
{
    if (at->count <= TILE_ROWS) {
        const product_t product = {.w = w->data,
                                   .type = w->type,
                                   .step = OR_PANEL,
                                   .apart = w->stride,
                                   .k = k,
                                   .x = at->x,
                                   .x_stride = at->x_stride,
                                   .y = at->y,
                                   .y_stride = at->y_stride};
        multiply_product(&product, at->count, w->count);
        return;
    }
    for (uint32_t p = 0; p < w->count; p += PANELS) {
        multiply_panels(w, p, w->count - p < PANELS ? w->count - p : PANELS, k, at);
    }
}

static void matmul_f32(const float *panels, size_t panel_stride, uint32_t panel_count, uint32_t k,
                       const float *x, size_t x_stride, uint32_t rows, float *y, size_t y_stride)
{
    const panels_t w = {panels, panel_stride, panel_count, WEIGHTS_F32};
    const rows_t at = {x, x_stride, y, y_stride, rows};
    multiply_matrix(&w, k, &at);
}

static void matmul_f16(const uint16_t *panels, size_t panel_stride, uint32_t panel_count,
                       uint32_t k, const float *x, size_t x_stride, uint32_t rows, float *y,
                       size_t y_stride)
{
    const panels_t w = {panels, panel_stride, panel_count, WEIGHTS_F16};
    const rows_t at = {x, x_stride, y, y_stride, rows};
    multiply_matrix(&w, k, &at);
}

static void matmul_bf16(const uint16_t *panels, size_t panel_stride, uint32_t panel_count,
                        uint32_t k, const float *x, size_t x_stride, uint32_t rows, float *y,
                        size_t y_stride)
{
    const panels_t w = {panels, panel_stride, panel_count, WEIGHTS_BF16};
    const rows_t at = {x, x_stride, y, y_stride, rows};
    multiply_matrix(&w, k, &at);
}

// ---- attention ----

#include "kernels/vector/attention_body.h"

// ---- element by element ----

// canonical_exp in every lane.
ALWAYS_INLINE vector_t exp_lanes(vector_t x)
{
    const vector_t magic = spread(ROUND_MAGIC);
    x = min_lanes(spread(EXP_HIGHEST), x);
    x = max_lanes(spread(EXP_LOWEST), x);
    vector_t shifted = fma_lanes(x, spread(EXP_LOG2E), magic);
    vector_t n = shifted - magic;
    vector_t r = fma_lanes(n, spread(-EXP_LN2_HIGH), x);
    r = fma_lanes(n, spread(-EXP_LN2_LOW), r);
    vector_t y = fma_lanes(spread(EXP_C6), r, spread(EXP_C5));
    y = fma_lanes(y, r, spread(EXP_C4));
    y = fma_lanes(y, r, spread(EXP_C3));
    y = fma_lanes(y, r, spread(EXP_C2));
    y = fma_lanes(y, r, spread(EXP_C1));
    y = fma_lanes(y, r, spread(1.0f));
    y = fma_lanes(y, r, spread(1.0f));
    words_t exponent = (words_t)shifted - (ROUND_MAGIC_BITS - 256u);
    words_t half = exponent >> 1u;
    words_t factor = (half - 1u) << 23u;
    words_t other_factor = (exponent - half - 1u) << 23u;
    return y * (vector_t)factor * (vector_t)other_factor;
}

static void rope_pairs(float *x, const float *cosine, const float *sine, uint32_t head_dim)
{
    uint32_t pairs = head_dim / 2;
    uint32_t i = 0;
    for (; i + PAIRS <= pairs; i += PAIRS) {
        rotate_pairs(x + 2 * (size_t)i, cosine + i, sine + i);
    }
    for (; i < pairs; i++) {
        canonical_rotate(&x[2 * (size_t)i], &x[2 * (size_t)i + 1], cosine[i], sine[i]);
    }
}

static void rope_halves(float *x, const float *cosine, const float *sine, uint32_t head_dim)
{
    uint32_t half = head_dim / 2;
    for (uint32_t i = 0; i < half; i += WIDTH) {
        vector_t a = get(x + i, half - i);
        vector_t b = get(x + half + i, half - i);
        vector_t c = get(cosine + i, half - i);
        vector_t s = get(sine + i, half - i);
        put(x + i, half - i, fma_lanes(a, c, -(b * s)));
        put(x + half + i, half - i, fma_lanes(a, s, b * c));
    }
}

static void swiglu(float *gate, const float *up, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += WIDTH) {
        vector_t g = get(gate + i, n - i);
        vector_t silu = g / (spread(1.0f) + exp_lanes(-g));
        put(gate + i, n - i, silu * get(up + i, n - i));
    }
}

static void add(float *y, const float *x, uint32_t n)
{
    uint32_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH) {
        store(y + i, load(y + i) + load(x + i));
    }
    if (i < n) {
        store_first(y + i, load_first(y + i, n - i) + load_first(x + i, n - i), n - i);
    }
}

// ---- across lanes ----

ALWAYS_INLINE void add_squares(const float *x, uint32_t left, vector_t sums[VECTORS])
{
#pragma GCC unroll 4
    for (uint32_t i = 0; i < VECTORS; i++) {
        vector_t values = get_of_group(x, i, left);
        sums[i] = keep_of_group(fma_lanes(values, values, sums[i]), sums[i], i, left);
    }
}

static void rmsnorm(const float *x, const float *weight, uint32_t n, float eps, float *y)
{
    uint32_t whole = n - n % LANES;
    vector_t sums[VECTORS];
    float squares[LANES];
    fill_lanes(sums, 0.0f);
    for (uint32_t i = 0; i < whole; i += LANES) {
        add_squares(x + i, LANES, sums);
    }
    add_squares(x + whole, n - whole, sums);
    store_lanes(sums, squares);
    vector_t factor = spread(canonical_rms_factor(canonical_lane_sum(squares), n, eps));
    for (uint32_t i = 0; i < n; i += WIDTH) {
        put(y + i, n - i, get(x + i, n - i) * factor * get(weight + i, n - i));
    }
}

ALWAYS_INLINE void find_largest(const float *scores, uint32_t left, vector_t largest[VECTORS])
{
#pragma GCC unroll 4
    for (uint32_t i = 0; i < VECTORS; i++) {
        vector_t newer = max_lanes(get_of_group(scores, i, left), largest[i]);
        largest[i] = keep_of_group(newer, largest[i], i, left);
    }
}

ALWAYS_INLINE void exponentiate(float *scores, uint32_t left, vector_t max, vector_t sums[VECTORS])
{
#pragma GCC unroll 4
    for (uint32_t i = 0; i < VECTORS; i++) {
        vector_t e = exp_lanes(get_of_group(scores, i, left) - max);
        put_of_group(scores, i, left, e);
        sums[i] = keep_of_group(sums[i] + e, sums[i], i, left);
    }
}

static vector_t largest_score(const float *scores, uint32_t n)
{
    uint32_t whole = n - n % LANES;
    vector_t largest[VECTORS];
    float maxima[LANES];
    fill_lanes(largest, -INFINITY);
    for (uint32_t i = 0; i < whole; i += LANES) {
        find_largest(scores + i, LANES, largest);
    }
    find_largest(scores + whole, n - whole, largest);
    store_lanes(largest, maxima);
    return spread(canonical_lane_max(maxima));
}

static float exponentiate_part(float *scores, uint32_t n, vector_t max)
{
    uint32_t whole = n - n % LANES;
    vector_t totals[VECTORS];
    float sums[LANES];
    fill_lanes(totals, 0.0f);
    for (uint32_t i = 0; i < whole; i += LANES) {
        exponentiate(scores + i, LANES, max, totals);
    }
    if (whole < n) {
        exponentiate(scores + whole, n - whole, max, totals);
    }
    store_lanes(totals, sums);
    return canonical_lane_sum(sums);
}

static void softmax(float *scores, uint32_t first, uint32_t n)
{
    const vector_t max = largest_score(scores, n);
    float total = 0.0f;
    for (uint32_t i = 0, count; i < n; i += count) {
        count = or_part_count(first + i, n - i);
        total += exponentiate_part(scores + i, count, max);
    }
    for (uint32_t i = 0; i < n; i += WIDTH) {
        put(scores + i, n - i, get(scores + i, n - i) * spread(1.0f / total));
    }
}

// ---- K and V that are not kept as floats ----

static void widen_f16(const uint16_t *x, size_t n, float *y)
{
    size_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH) {
        store(y + i, load_halves(x + i));
    }
    for (; i < n; i++) {
        y[i] = canonical_widen(x[i]);
    }
}

static void widen_q8_0(const uint16_t *scales, const int8_t *quants, uint32_t n, float *y)
{
    uint32_t d = 0;
    for (; d + OR_QUANT_BLOCK <= n; d += OR_QUANT_BLOCK) {
        vector_t scale = spread(canonical_widen(scales[d / OR_QUANT_BLOCK]));
#pragma GCC unroll 8
        for (uint32_t j = 0; j < OR_QUANT_BLOCK; j += WIDTH) {
            store(y + d + j, scale * load_quants(quants + d + j));
        }
    }
    for (; d < n; d++) {
        y[d] = canonical_widen(scales[d / OR_QUANT_BLOCK]) * (float)quants[d];
    }
}

// The `count` dimensions that share scales[32].
ALWAYS_INLINE void widen_keys(const uint16_t *scales, const int8_t *quants, uint32_t count,
                              float *y)
{
    vector_t scale[OR_KV_BLOCK / WIDTH];
#pragma GCC unroll 8
    for (uint32_t j = 0; j < OR_KV_BLOCK / WIDTH; j++) {
        scale[j] = load_halves(scales + j * WIDTH);
    }
    for (size_t at = 0; at < count * (size_t)OR_KV_BLOCK; at += OR_KV_BLOCK) {
#pragma GCC unroll 8
        for (uint32_t j = 0; j < OR_KV_BLOCK / WIDTH; j++) {
            store(y + at + j * WIDTH, scale[j] * load_quants(quants + at + j * WIDTH));
        }
    }
}

static void widen_q8_0_keys(const uint16_t *scales, const int8_t *quants, uint32_t head_dim,
                            float *y)
{
    for (uint32_t d = 0; d < head_dim; d += OR_QUANT_BLOCK) {
        uint32_t count = head_dim - d < OR_QUANT_BLOCK ? head_dim - d : OR_QUANT_BLOCK;
        size_t at = (size_t)d * OR_KV_BLOCK;
        widen_keys(scales + at / OR_QUANT_BLOCK, quants + at, count, y + at);
    }
}

// ---- activations ----

static void quantize_row(const float *x, uint32_t blocks, or_q8_block_t *out)
{
    for (uint32_t b = 0; b < blocks; b++, out++, x += OR_QUANT_BLOCK) {
        float amax = largest_magnitude(x);
        float inverse = bits_of(amax) == 0 ? 0.0f : QUANT_MAX / amax;
        int32_t sums[2];
        out->scale = amax / QUANT_MAX;
        quantize_block(x, inverse, out->quants, sums);
        or_q8_block_set_sums(out, sums[0], sums[1]);
    }
}

// ---- the table ----
#define VECTOR_TABLE(name_, matmul_quants_, row_panels_)                                           \
    {                                                                                              \
        .name = name_, .matmul_f32 = matmul_f32, .matmul_f16 = matmul_f16,                         \
        .matmul_bf16 = matmul_bf16, .quantize_row = quantize_row, .matmul_quants = matmul_quants_, \
        .row_panels = row_panels_, .rmsnorm = rmsnorm, .rope_pairs = rope_pairs,                   \
        .rope_halves = rope_halves, .swiglu = swiglu, .add = add,                                  \
        .attention_scores = attention_scores, .softmax = softmax,                                  \
        .attention_values = attention_values, .widen_f16 = widen_f16, .widen_q8_0 = widen_q8_0,    \
        .widen_q8_0_keys = widen_q8_0_keys,                                                        \
    }

#endif
