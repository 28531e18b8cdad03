// The float kernels for AArch64 and the tables: four outputs in a vector, every output the same
// chain as in kernels/ref. NEON's own maximum would let a NaN win; compare and select follows
// canonical.h.
#include "kernels/kernels_internal.h"

#include <arm_neon.h>

#include "kernels/canonical.h"
#include "kernels/neon/kernels_neon_internal.h"
#include "kernels/neon/kernels_neon_tile.h"

#define LANE_VECTORS (LANES / WIDTH) // the sixteen lanes of a lane sum

// ---- matmul ----

static void matmul_f32_neon(const float *panels, size_t panel_stride, uint32_t panel_count,
                            uint32_t k, const float *x, size_t x_stride, uint32_t rows, float *y,
                            size_t y_stride)
{
    const lines_t w = {panels, OR_PANEL, panel_stride, panel_count, WEIGHTS_F32};
    const rows_t at = {x, x_stride, y, y_stride, rows};
    multiply_lines(&w, k, &at, false);
}

static void matmul_f16_neon(const uint16_t *panels, size_t panel_stride, uint32_t panel_count,
                            uint32_t k, const float *x, size_t x_stride, uint32_t rows, float *y,
                            size_t y_stride)
{
    const lines_t w = {panels, OR_PANEL, panel_stride, panel_count, WEIGHTS_F16};
    const rows_t at = {x, x_stride, y, y_stride, rows};
    multiply_lines(&w, k, &at, false);
}

static void matmul_bf16_neon(const uint16_t *panels, size_t panel_stride, uint32_t panel_count,
                             uint32_t k, const float *x, size_t x_stride, uint32_t rows, float *y,
                             size_t y_stride)
{
    const lines_t w = {panels, OR_PANEL, panel_stride, panel_count, WEIGHTS_BF16};
    const rows_t at = {x, x_stride, y, y_stride, rows};
    multiply_lines(&w, k, &at, false);
}

// ---- element by element ----

ALWAYS_INLINE float32x4_t max_lanes(float32x4_t newer, float32x4_t older)
{
    return vbslq_f32(vcgtq_f32(newer, older), newer, older);
}

// canonical_exp in every lane.
ALWAYS_INLINE float32x4_t exp_lanes(float32x4_t x)
{
    const float32x4_t highest = vdupq_n_f32(EXP_HIGHEST);
    const float32x4_t one = vdupq_n_f32(1.0f);
    const float32x4_t magic = vdupq_n_f32(ROUND_MAGIC);
    x = vbslq_f32(vcltq_f32(highest, x), highest, x);
    x = max_lanes(vdupq_n_f32(EXP_LOWEST), x);
    float32x4_t shifted = vfmaq_f32(magic, x, vdupq_n_f32(EXP_LOG2E));
    float32x4_t n = vsubq_f32(shifted, magic);
    float32x4_t r = vfmaq_f32(x, n, vdupq_n_f32(-EXP_LN2_HIGH));
    r = vfmaq_f32(r, n, vdupq_n_f32(-EXP_LN2_LOW));
    float32x4_t y = vfmaq_f32(vdupq_n_f32(EXP_C5), vdupq_n_f32(EXP_C6), r);
    y = vfmaq_f32(vdupq_n_f32(EXP_C4), y, r);
    y = vfmaq_f32(vdupq_n_f32(EXP_C3), y, r);
    y = vfmaq_f32(vdupq_n_f32(EXP_C2), y, r);
    y = vfmaq_f32(vdupq_n_f32(EXP_C1), y, r);
    y = vfmaq_f32(one, y, r);
    y = vfmaq_f32(one, y, r);
    const uint32x4_t unit = vdupq_n_u32(1);
    uint32x4_t exponent =
        vsubq_u32(vreinterpretq_u32_f32(shifted), vdupq_n_u32(ROUND_MAGIC_BITS - 256));
    uint32x4_t half = vshrq_n_u32(exponent, 1);
    uint32x4_t rest = vsubq_u32(exponent, half);
    uint32x4_t factor = vshlq_n_u32(vsubq_u32(half, unit), 23);
    uint32x4_t other_factor = vshlq_n_u32(vsubq_u32(rest, unit), 23);
    y = vmulq_f32(y, vreinterpretq_f32_u32(factor));
    return vmulq_f32(y, vreinterpretq_f32_u32(other_factor));
}

// canonical_rotate in every lane.
ALWAYS_INLINE void rotate_lanes(float32x4_t *first, float32x4_t *second, float32x4_t cosine,
                                float32x4_t sine)
{
    float32x4_t a = *first;
    float32x4_t b = *second;
    *first = vfmaq_f32(vnegq_f32(vmulq_f32(b, sine)), a, cosine);
    *second = vfmaq_f32(vmulq_f32(b, cosine), a, sine);
}

static void rope_pairs_neon(float *x, const float *cosine, const float *sine, uint32_t head_dim)
{
    uint32_t pairs = head_dim / 2;
    uint32_t i = 0;
    for (; i + WIDTH <= pairs; i += WIDTH) {
        float32x4x2_t ab = vld2q_f32(x + 2 * (size_t)i);
        rotate_lanes(&ab.val[0], &ab.val[1], vld1q_f32(cosine + i), vld1q_f32(sine + i));
        vst2q_f32(x + 2 * (size_t)i, ab);
    }
    for (; i < pairs; i++) {
        canonical_rotate(&x[2 * (size_t)i], &x[2 * (size_t)i + 1], cosine[i], sine[i]);
    }
}

static void rope_halves_neon(float *x, const float *cosine, const float *sine, uint32_t head_dim)
{
    uint32_t half = head_dim / 2;
    uint32_t i = 0;
    for (; i + WIDTH <= half; i += WIDTH) {
        float32x4_t a = vld1q_f32(x + i);
        float32x4_t b = vld1q_f32(x + half + i);
        rotate_lanes(&a, &b, vld1q_f32(cosine + i), vld1q_f32(sine + i));
        vst1q_f32(x + i, a);
        vst1q_f32(x + half + i, b);
    }
    for (; i < half; i++) {
        canonical_rotate(&x[i], &x[half + i], cosine[i], sine[i]);
    }
}

static void swiglu_neon(float *gate, const float *up, uint32_t n)
{
    const float32x4_t one = vdupq_n_f32(1.0f);
    uint32_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH) {
        float32x4_t g = vld1q_f32(gate + i);
        float32x4_t silu = vdivq_f32(g, vaddq_f32(one, exp_lanes(vnegq_f32(g))));
        vst1q_f32(gate + i, vmulq_f32(silu, vld1q_f32(up + i)));
    }
    for (; i < n; i++) {
        gate[i] = canonical_swiglu(gate[i], up[i]);
    }
}

static void add_neon(float *y, const float *x, uint32_t n)
{
    uint32_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH) {
        vst1q_f32(y + i, vaddq_f32(vld1q_f32(y + i), vld1q_f32(x + i)));
    }
    for (; i < n; i++) {
        y[i] += x[i];
    }
}

// ---- across lanes ----
//
// The sixteen lanes are four vectors; what is left over of n is added to them by scalar code.

ALWAYS_INLINE void fill_lanes(float32x4_t vectors[LANE_VECTORS], float value)
{
    for (uint32_t v = 0; v < LANE_VECTORS; v++) {
        vectors[v] = vdupq_n_f32(value);
    }
}

ALWAYS_INLINE void store_lanes(const float32x4_t vectors[LANE_VECTORS], float lanes[LANES])
{
    for (uint32_t v = 0; v < LANE_VECTORS; v++) {
        vst1q_f32(lanes + v * WIDTH, vectors[v]);
    }
}

static float sum_of_squares(const float *x, uint32_t n)
{
    uint32_t whole = n - n % LANES;
    float32x4_t sums[LANE_VECTORS];
    fill_lanes(sums, 0.0f);
    for (uint32_t i = 0; i < whole; i += LANES) {
#pragma GCC unroll 4
        for (uint32_t v = 0; v < LANE_VECTORS; v++) {
            float32x4_t values = vld1q_f32(x + i + v * WIDTH);
            sums[v] = vfmaq_f32(sums[v], values, values);
        }
    }
    float squares[LANES];
    store_lanes(sums, squares);
    for (uint32_t i = whole; i < n; i++) {
        squares[i % LANES] = fmaf(x[i], x[i], squares[i % LANES]);
    }
    return canonical_lane_sum(squares);
}

static void rmsnorm_neon(const float *x, const float *weight, uint32_t n, float eps, float *y)
{
    float factor = canonical_rms_factor(sum_of_squares(x, n), n, eps);
    uint32_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH) {
        float32x4_t scaled = vmulq_n_f32(vld1q_f32(x + i), factor);
        vst1q_f32(y + i, vmulq_f32(scaled, vld1q_f32(weight + i)));
    }
    for (; i < n; i++) {
        y[i] = x[i] * factor * weight[i];
    }
}

static float largest_score(const float *scores, uint32_t n)
{
    uint32_t whole = n - n % LANES;
    float32x4_t largest[LANE_VECTORS];
    fill_lanes(largest, -INFINITY);
    for (uint32_t i = 0; i < whole; i += LANES) {
#pragma GCC unroll 4
        for (uint32_t v = 0; v < LANE_VECTORS; v++) {
            largest[v] = max_lanes(vld1q_f32(scores + i + v * WIDTH), largest[v]);
        }
    }
    float maxima[LANES];
    store_lanes(largest, maxima);
    for (uint32_t i = whole; i < n; i++) {
        maxima[i % LANES] = canonical_max(scores[i], maxima[i % LANES]);
    }
    return canonical_lane_max(maxima);
}

// scores = exp(scores - max); their sum.
static float exponentiate(float *scores, uint32_t n, float max)
{
    uint32_t whole = n - n % LANES;
    float32x4_t totals[LANE_VECTORS];
    fill_lanes(totals, 0.0f);
    for (uint32_t i = 0; i < whole; i += LANES) {
#pragma GCC unroll 4
        for (uint32_t v = 0; v < LANE_VECTORS; v++) {
            float *at = scores + i + v * WIDTH;
            float32x4_t e = exp_lanes(vsubq_f32(vld1q_f32(at), vdupq_n_f32(max)));
            vst1q_f32(at, e);
            totals[v] = vaddq_f32(totals[v], e);
        }
    }
    float sums[LANES];
    store_lanes(totals, sums);
    for (uint32_t i = whole; i < n; i++) {
        scores[i] = canonical_exp(scores[i] - max);
        sums[i % LANES] += scores[i];
    }
    return canonical_lane_sum(sums);
}

static void softmax_neon(float *scores, uint32_t n)
{
    float factor = 1.0f / exponentiate(scores, n, largest_score(scores, n));
    uint32_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH) {
        vst1q_f32(scores + i, vmulq_n_f32(vld1q_f32(scores + i), factor));
    }
    for (; i < n; i++) {
        scores[i] *= factor;
    }
}

#define FLOAT_KERNELS                                                                              \
    .matmul_f32 = matmul_f32_neon, .matmul_f16 = matmul_f16_neon, .matmul_bf16 = matmul_bf16_neon, \
    .quantize_row = quantize_row_neon, .rmsnorm = rmsnorm_neon, .rope_pairs = rope_pairs_neon,     \
    .rope_halves = rope_halves_neon, .swiglu = swiglu_neon, .add = add_neon,                       \
    .attention_scores = attention_scores_neon, .softmax = softmax_neon,                            \
    .attention_values = attention_values_neon, .widen_f16 = widen_f16_neon,                        \
    .widen_q8_0 = widen_q8_0_neon, .widen_q8_0_keys = widen_q8_0_keys_neon

const or_kernels_t or_kernels_neon = {
    .name = "neon", .matmul_quants = matmul_quants_neon, FLOAT_KERNELS};

const or_kernels_t or_kernels_neon_dot = {
    .name = "neon_dot", .matmul_quants = matmul_quants_neon_dot, FLOAT_KERNELS};
