// The kernels for x86-64 with AVX2, FMA and F16C: eight outputs in a vector, every output the same
// chain as in kernels/ref. Compiled for those instructions as a whole; kernels.c hands it out
// only where they exist.
#include "kernels/kernels_internal.h"

#include <immintrin.h>

#include "kernels/avx2/kernels_avx2_internal.h"
#include "kernels/canonical.h"

// ---- matmul ----
//
// A tile is `rows` x `panels`, its sums in registers. An fma takes about four cycles and two can
// start in each, so eight independent chains keep the units busy: with few rows they come from
// several panels, with many rows each weight serves all rows of the tile.

#define TILE_ROWS 6u // 12 sums, 2 weights, 1 x: 15 of the 16 registers
#define TILE_PANELS 4u

typedef enum { WEIGHTS_F32, WEIGHTS_F16, WEIGHTS_BF16 } weights_t;

typedef struct {
    const void *data; // float, IEEE half or bfloat16
    size_t stride;    // elements from panel to panel
    uint32_t count;
    weights_t type;
} panels_t;

typedef struct {
    const float *x;
    size_t x_stride;
    float *y;
    size_t y_stride;
} rows_t;

ALWAYS_INLINE __m256 load_weights(const panels_t *w, size_t at)
{
    if (w->type == WEIGHTS_F32) {
        return _mm256_loadu_ps((const float *)w->data + at);
    }
    __m128i narrow = _mm_loadu_si128((const __m128i *)((const uint16_t *)w->data + at));
    if (w->type == WEIGHTS_F16) {
        return _mm256_cvtph_ps(narrow);
    }
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(narrow), 16));
}

// Rows `m` and on, panels `p` and on. `rows` and `panels` are constants wherever this is inlined.
ALWAYS_INLINE void multiply_tile(const panels_t *w, uint32_t p, uint32_t panels, uint32_t k,
                                 const rows_t *at, uint32_t m, uint32_t rows)
{
    const float *x = at->x + m * at->x_stride;
    float *y = at->y + m * at->y_stride + (size_t)p * OR_PANEL;
    size_t first = p * w->stride;
    __m256 sums[TILE_ROWS][TILE_PANELS][2];
#pragma GCC unroll 6
    for (uint32_t r = 0; r < rows; r++) {
#pragma GCC unroll 4
        for (uint32_t c = 0; c < panels; c++) {
            sums[r][c][0] = _mm256_setzero_ps();
            sums[r][c][1] = _mm256_setzero_ps();
        }
    }
    for (size_t i = 0; i < k; i++) {
#pragma GCC unroll 4
        for (uint32_t c = 0; c < panels; c++) {
            __m256 low = load_weights(w, first + c * w->stride + i * OR_PANEL);
            __m256 high = load_weights(w, first + c * w->stride + i * OR_PANEL + WIDTH);
#pragma GCC unroll 6
            for (uint32_t r = 0; r < rows; r++) {
                __m256 factor = _mm256_broadcast_ss(&x[r * at->x_stride + i]);
                sums[r][c][0] = _mm256_fmadd_ps(factor, low, sums[r][c][0]);
                sums[r][c][1] = _mm256_fmadd_ps(factor, high, sums[r][c][1]);
            }
        }
    }
#pragma GCC unroll 6
    for (uint32_t r = 0; r < rows; r++) {
#pragma GCC unroll 4
        for (uint32_t c = 0; c < panels; c++) {
            _mm256_storeu_ps(&y[r * at->y_stride + c * OR_PANEL], sums[r][c][0]);
            _mm256_storeu_ps(&y[r * at->y_stride + c * OR_PANEL + WIDTH], sums[r][c][1]);
        }
    }
}

// One panel and all rows, in tiles as even as can be: 7 rows are 4 and 3, not 6 and a lonely 1.
ALWAYS_INLINE void multiply_panel(const panels_t *w, uint32_t p, uint32_t k, const rows_t *at,
                                  uint32_t rows)
{
    uint32_t tiles = (rows + TILE_ROWS - 1) / TILE_ROWS;
    for (uint32_t m = 0; tiles > 0; tiles--) {
        uint32_t tile_rows = (rows - m + tiles - 1) / tiles;
        switch (tile_rows) {
        case 1:
            multiply_tile(w, p, 1, k, at, m, 1);
            break;
        case 2:
            multiply_tile(w, p, 1, k, at, m, 2);
            break;
        case 3:
            multiply_tile(w, p, 1, k, at, m, 3);
            break;
        case 4:
            multiply_tile(w, p, 1, k, at, m, 4);
            break;
        case 5:
            multiply_tile(w, p, 1, k, at, m, 5);
            break;
        default:
            multiply_tile(w, p, 1, k, at, m, TILE_ROWS);
            break;
        }
        m += tile_rows;
    }
}

ALWAYS_INLINE void multiply(const panels_t *w, uint32_t k, const rows_t *at, uint32_t rows)
{
    uint32_t p = 0;
    if (rows == 1) {
        for (; p + 4 <= w->count; p += 4) {
            multiply_tile(w, p, 4, k, at, 0, 1);
        }
    } else if (rows == 2) {
        for (; p + 2 <= w->count; p += 2) {
            multiply_tile(w, p, 2, k, at, 0, 2);
        }
    }
    for (; p < w->count; p++) {
        multiply_panel(w, p, k, at, rows);
    }
}

static void matmul_f32_avx2(const float *panels, size_t panel_stride, uint32_t panel_count,
                            uint32_t k, const float *x, size_t x_stride, uint32_t rows, float *y,
                            size_t y_stride)
{
    const panels_t w = {panels, panel_stride, panel_count, WEIGHTS_F32};
    const rows_t at = {x, x_stride, y, y_stride};
    multiply(&w, k, &at, rows);
}

static void matmul_f16_avx2(const uint16_t *panels, size_t panel_stride, uint32_t panel_count,
                            uint32_t k, const float *x, size_t x_stride, uint32_t rows, float *y,
                            size_t y_stride)
{
    const panels_t w = {panels, panel_stride, panel_count, WEIGHTS_F16};
    const rows_t at = {x, x_stride, y, y_stride};
    multiply(&w, k, &at, rows);
}

static void matmul_bf16_avx2(const uint16_t *panels, size_t panel_stride, uint32_t panel_count,
                             uint32_t k, const float *x, size_t x_stride, uint32_t rows, float *y,
                             size_t y_stride)
{
    const panels_t w = {panels, panel_stride, panel_count, WEIGHTS_BF16};
    const rows_t at = {x, x_stride, y, y_stride};
    multiply(&w, k, &at, rows);
}

// ---- element by element ----

// canonical_exp in every lane. min and max return their second operand if either is a NaN, so a NaN
// passes the clamps.
ALWAYS_INLINE __m256 exp_lanes(__m256 x)
{
    x = _mm256_min_ps(_mm256_set1_ps(EXP_HIGHEST), x);
    x = _mm256_max_ps(_mm256_set1_ps(EXP_LOWEST), x);
    __m256 magic = _mm256_set1_ps(ROUND_MAGIC);
    __m256 shifted = _mm256_fmadd_ps(x, _mm256_set1_ps(EXP_LOG2E), magic);
    __m256 n = _mm256_sub_ps(shifted, magic);
    __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-EXP_LN2_HIGH), x);
    r = _mm256_fmadd_ps(n, _mm256_set1_ps(-EXP_LN2_LOW), r);
    __m256 y = _mm256_fmadd_ps(_mm256_set1_ps(EXP_C6), r, _mm256_set1_ps(EXP_C5));
    y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(EXP_C4));
    y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(EXP_C3));
    y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(EXP_C2));
    y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(EXP_C1));
    y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(1.0f));
    y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(1.0f));
    __m256i one = _mm256_set1_epi32(1);
    __m256i exponent = _mm256_sub_epi32(_mm256_castps_si256(shifted),
                                        _mm256_set1_epi32((int)(ROUND_MAGIC_BITS - 256)));
    __m256i half = _mm256_srli_epi32(exponent, 1);
    __m256i rest = _mm256_sub_epi32(exponent, half);
    __m256i factor = _mm256_slli_epi32(_mm256_sub_epi32(half, one), 23);
    __m256i other_factor = _mm256_slli_epi32(_mm256_sub_epi32(rest, one), 23);
    y = _mm256_mul_ps(y, _mm256_castsi256_ps(factor));
    return _mm256_mul_ps(y, _mm256_castsi256_ps(other_factor));
}

static void rope_pairs_avx2(float *x, const float *cosine, const float *sine, uint32_t head_dim)
{
    uint32_t pairs = head_dim / 2;
    uint32_t i = 0;
    for (; i + 4 <= pairs; i += 4) {
        __m256 ab = _mm256_loadu_ps(x + 2 * i);
        __m128 c = _mm_loadu_ps(cosine + i);
        __m128 s = _mm_loadu_ps(sine + i);
        __m256 cs = _mm256_set_m128(_mm_unpackhi_ps(c, s), _mm_unpacklo_ps(c, s));
        __m256 sc = _mm256_set_m128(_mm_unpackhi_ps(s, c), _mm_unpacklo_ps(s, c));
        __m256 b_sc = _mm256_mul_ps(_mm256_movehdup_ps(ab), sc);
        // Even lanes a c - (b s), odd lanes a s + (b c).
        _mm256_storeu_ps(x + 2 * i, _mm256_fmaddsub_ps(_mm256_moveldup_ps(ab), cs, b_sc));
    }
    for (; i < pairs; i++) {
        canonical_rotate(&x[2 * i], &x[2 * i + 1], cosine[i], sine[i]);
    }
}

static void rope_halves_avx2(float *x, const float *cosine, const float *sine, uint32_t head_dim)
{
    uint32_t half = head_dim / 2;
    uint32_t i = 0;
    for (; i + WIDTH <= half; i += WIDTH) {
        __m256 a = _mm256_loadu_ps(x + i);
        __m256 b = _mm256_loadu_ps(x + half + i);
        __m256 c = _mm256_loadu_ps(cosine + i);
        __m256 s = _mm256_loadu_ps(sine + i);
        _mm256_storeu_ps(x + i, _mm256_fmsub_ps(a, c, _mm256_mul_ps(b, s)));
        _mm256_storeu_ps(x + half + i, _mm256_fmadd_ps(a, s, _mm256_mul_ps(b, c)));
    }
    for (; i < half; i++) {
        canonical_rotate(&x[i], &x[half + i], cosine[i], sine[i]);
    }
}

static void swiglu_avx2(float *gate, const float *up, uint32_t n)
{
    uint32_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH) {
        __m256 g = _mm256_loadu_ps(gate + i);
        __m256 e = exp_lanes(_mm256_xor_ps(g, _mm256_set1_ps(-0.0f)));
        __m256 silu = _mm256_div_ps(g, _mm256_add_ps(_mm256_set1_ps(1.0f), e));
        _mm256_storeu_ps(gate + i, _mm256_mul_ps(silu, _mm256_loadu_ps(up + i)));
    }
    for (; i < n; i++) {
        gate[i] = canonical_swiglu(gate[i], up[i]);
    }
}

static void add_avx2(float *y, const float *x, uint32_t n)
{
    uint32_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH) {
        _mm256_storeu_ps(y + i, _mm256_add_ps(_mm256_loadu_ps(y + i), _mm256_loadu_ps(x + i)));
    }
    for (; i < n; i++) {
        y[i] += x[i];
    }
}

ALWAYS_INLINE __m256 add_two_parts(const float *part, size_t part_stride)
{
    return _mm256_add_ps(_mm256_loadu_ps(part), _mm256_loadu_ps(part + part_stride));
}

static void sum_shards_avx2(const float *parts, size_t part_stride, uint32_t n, float *y)
{
    uint32_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH) {
        __m256 p01 = add_two_parts(parts + i, part_stride);
        __m256 p23 = add_two_parts(parts + i + 2 * part_stride, part_stride);
        __m256 p45 = add_two_parts(parts + i + 4 * part_stride, part_stride);
        __m256 p67 = add_two_parts(parts + i + 6 * part_stride, part_stride);
        _mm256_storeu_ps(y + i, _mm256_add_ps(_mm256_add_ps(p01, p23), _mm256_add_ps(p45, p67)));
    }
    for (; i < n; i++) {
        y[i] = canonical_sum_shards(parts + i, part_stride);
    }
}

// ---- across lanes ----
//
// The sixteen lanes are two vectors; what is left over of n is added to them by scalar code.

static void rmsnorm_avx2(const float *x, const float *weight, uint32_t n, float eps, float *y)
{
    uint32_t whole = n - n % LANES;
    __m256 low = _mm256_setzero_ps();
    __m256 high = _mm256_setzero_ps();
    for (uint32_t i = 0; i < whole; i += LANES) {
        __m256 a = _mm256_loadu_ps(x + i);
        __m256 b = _mm256_loadu_ps(x + i + WIDTH);
        low = _mm256_fmadd_ps(a, a, low);
        high = _mm256_fmadd_ps(b, b, high);
    }
    float squares[LANES];
    _mm256_storeu_ps(squares, low);
    _mm256_storeu_ps(squares + WIDTH, high);
    for (uint32_t i = whole; i < n; i++) {
        squares[i % LANES] = fmaf(x[i], x[i], squares[i % LANES]);
    }
    float factor = canonical_rms_factor(canonical_lane_sum(squares), n, eps);
    __m256 factors = _mm256_set1_ps(factor);
    for (uint32_t i = 0; i < whole; i += WIDTH) {
        __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(x + i), factors);
        _mm256_storeu_ps(y + i, _mm256_mul_ps(scaled, _mm256_loadu_ps(weight + i)));
    }
    for (uint32_t i = whole; i < n; i++) {
        y[i] = x[i] * factor * weight[i];
    }
}

static float largest_score(const float *scores, uint32_t n)
{
    uint32_t whole = n - n % LANES;
    __m256 low = _mm256_set1_ps(-INFINITY);
    __m256 high = low;
    for (uint32_t i = 0; i < whole; i += LANES) {
        low = _mm256_max_ps(_mm256_loadu_ps(scores + i), low);
        high = _mm256_max_ps(_mm256_loadu_ps(scores + i + WIDTH), high);
    }
    float maxima[LANES];
    _mm256_storeu_ps(maxima, low);
    _mm256_storeu_ps(maxima + WIDTH, high);
    for (uint32_t i = whole; i < n; i++) {
        maxima[i % LANES] = canonical_max(scores[i], maxima[i % LANES]);
    }
    return canonical_lane_max(maxima);
}

static void softmax_avx2(float *scores, uint32_t n)
{
    uint32_t whole = n - n % LANES;
    float max = largest_score(scores, n);
    __m256 maxima = _mm256_set1_ps(max);
    __m256 low = _mm256_setzero_ps();
    __m256 high = _mm256_setzero_ps();
    for (uint32_t i = 0; i < whole; i += LANES) {
        __m256 a = exp_lanes(_mm256_sub_ps(_mm256_loadu_ps(scores + i), maxima));
        __m256 b = exp_lanes(_mm256_sub_ps(_mm256_loadu_ps(scores + i + WIDTH), maxima));
        _mm256_storeu_ps(scores + i, a);
        _mm256_storeu_ps(scores + i + WIDTH, b);
        low = _mm256_add_ps(low, a);
        high = _mm256_add_ps(high, b);
    }
    float sums[LANES];
    _mm256_storeu_ps(sums, low);
    _mm256_storeu_ps(sums + WIDTH, high);
    for (uint32_t i = whole; i < n; i++) {
        scores[i] = canonical_exp(scores[i] - max);
        sums[i % LANES] += scores[i];
    }
    float factor = 1.0f / canonical_lane_sum(sums);
    __m256 factors = _mm256_set1_ps(factor);
    for (uint32_t i = 0; i < whole; i += WIDTH) {
        _mm256_storeu_ps(scores + i, _mm256_mul_ps(_mm256_loadu_ps(scores + i), factors));
    }
    for (uint32_t i = whole; i < n; i++) {
        scores[i] *= factor;
    }
}

// ---- attention ----

static void attention_scores_avx2(const float *q, const float *k_block, uint32_t head_dim,
                                  float scale, float *scores)
{
    __m256 dots[OR_KV_BLOCK / WIDTH];
#pragma GCC unroll 4
    for (uint32_t j = 0; j < OR_KV_BLOCK / WIDTH; j++) {
        dots[j] = _mm256_setzero_ps();
    }
    for (uint32_t d = 0; d < head_dim; d++) {
        __m256 factor = _mm256_broadcast_ss(q + d);
        const float *keys = k_block + (size_t)d * OR_KV_BLOCK;
#pragma GCC unroll 4
        for (uint32_t j = 0; j < OR_KV_BLOCK / WIDTH; j++) {
            dots[j] = _mm256_fmadd_ps(factor, _mm256_loadu_ps(keys + j * WIDTH), dots[j]);
        }
    }
#pragma GCC unroll 4
    for (uint32_t j = 0; j < OR_KV_BLOCK / WIDTH; j++) {
        _mm256_storeu_ps(scores + j * WIDTH, _mm256_mul_ps(_mm256_set1_ps(scale), dots[j]));
    }
}

// `vectors` dimensions of eight each, constant wherever this is inlined.
ALWAYS_INLINE void add_values(const float *weights, const float *v, uint32_t head_dim, uint32_t n,
                              float *out, uint32_t vectors)
{
    __m256 sums[8];
#pragma GCC unroll 8
    for (uint32_t j = 0; j < vectors; j++) {
        sums[j] = _mm256_loadu_ps(out + j * WIDTH);
    }
    for (uint32_t p = 0; p < n; p++) {
        __m256 weight = _mm256_broadcast_ss(weights + p);
        const float *values = v + (size_t)p * head_dim;
#pragma GCC unroll 8
        for (uint32_t j = 0; j < vectors; j++) {
            sums[j] = _mm256_fmadd_ps(weight, _mm256_loadu_ps(values + j * WIDTH), sums[j]);
        }
    }
#pragma GCC unroll 8
    for (uint32_t j = 0; j < vectors; j++) {
        _mm256_storeu_ps(out + j * WIDTH, sums[j]);
    }
}

static void attention_values_avx2(const float *weights, const float *v_block, uint32_t head_dim,
                                  uint32_t n, float *out)
{
    uint32_t d = 0;
    for (; d + 8 * WIDTH <= head_dim; d += 8 * WIDTH) {
        add_values(weights, v_block + d, head_dim, n, out + d, 8);
    }
    for (; d + 4 * WIDTH <= head_dim; d += 4 * WIDTH) {
        add_values(weights, v_block + d, head_dim, n, out + d, 4);
    }
    for (; d + WIDTH <= head_dim; d += WIDTH) {
        add_values(weights, v_block + d, head_dim, n, out + d, 1);
    }
    for (; d < head_dim; d++) {
        for (uint32_t p = 0; p < n; p++) {
            out[d] = fmaf(weights[p], v_block[(size_t)p * head_dim + d], out[d]);
        }
    }
}

const or_kernels_t or_kernels_avx2 = {
    .name = "avx2",
    .matmul_f32 = matmul_f32_avx2,
    .matmul_f16 = matmul_f16_avx2,
    .matmul_bf16 = matmul_bf16_avx2,
    .quantize_row = quantize_row_avx2,
    .matmul_q8_0 = matmul_q8_0_avx2,
    .matmul_q4_0 = matmul_q4_0_avx2,
    .rmsnorm = rmsnorm_avx2,
    .rope_pairs = rope_pairs_avx2,
    .rope_halves = rope_halves_avx2,
    .swiglu = swiglu_avx2,
    .add = add_avx2,
    .sum_shards = sum_shards_avx2,
    .attention_scores = attention_scores_avx2,
    .softmax = softmax_avx2,
    .attention_values = attention_values_avx2,
    .widen_f16 = widen_f16_avx2,
    .widen_q8_0 = widen_q8_0_avx2,
    .widen_q8_0_keys = widen_q8_0_keys_avx2,
};
