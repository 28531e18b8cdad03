// The definition of every kernel: plain loops, one operation after the other. fmaf rounds once also
// where the processor has no such instruction. Slow and meant to be: what another table must equal,
// bit for bit.
#include "kernels/ref/kernels_ref_internal.h"

#include "kernels/canonical.h"

// ---- matmul ----

static void clear_rows(float *y, size_t y_stride, uint32_t rows)
{
    for (uint32_t m = 0; m < rows; m++) {
        memset(y + m * y_stride, 0, OR_PANEL * sizeof *y);
    }
}

// One step of the chain in every row of a panel: y[m][lane] = fma(x[m], w[lane], y[m][lane]).
static void step_rows(const float *w, const float *x, size_t x_stride, uint32_t rows, float *y,
                      size_t y_stride)
{
    for (uint32_t m = 0; m < rows; m++) {
        for (uint32_t lane = 0; lane < OR_PANEL; lane++) {
            float *cell = &y[m * y_stride + lane];
            *cell = fmaf(x[m * x_stride], w[lane], *cell);
        }
    }
}

static void matmul_f32_ref(const float *panels, size_t panel_stride, uint32_t panel_count,
                           uint32_t k, const float *x, size_t x_stride, uint32_t rows, float *y,
                           size_t y_stride)
{
    for (uint32_t p = 0; p < panel_count; p++) {
        const float *panel = panels + p * panel_stride;
        float *y_panel = y + (size_t)p * OR_PANEL;
        clear_rows(y_panel, y_stride, rows);
        for (uint32_t i = 0; i < k; i++) {
            step_rows(panel + (size_t)i * OR_PANEL, x + i, x_stride, rows, y_panel, y_stride);
        }
    }
}

static void multiply_widened(const uint16_t *panels, size_t panel_stride, uint32_t panel_count,
                             uint32_t k, const float *x, size_t x_stride, uint32_t rows, float *y,
                             size_t y_stride, float (*widen)(uint16_t))
{
    for (uint32_t p = 0; p < panel_count; p++) {
        const uint16_t *panel = panels + p * panel_stride;
        float *y_panel = y + (size_t)p * OR_PANEL;
        clear_rows(y_panel, y_stride, rows);
        for (uint32_t i = 0; i < k; i++) {
            float w[OR_PANEL];
            for (uint32_t lane = 0; lane < OR_PANEL; lane++) {
                w[lane] = widen(panel[(size_t)i * OR_PANEL + lane]);
            }
            step_rows(w, x + i, x_stride, rows, y_panel, y_stride);
        }
    }
}

static void matmul_f16_ref(const uint16_t *panels, size_t panel_stride, uint32_t panel_count,
                           uint32_t k, const float *x, size_t x_stride, uint32_t rows, float *y,
                           size_t y_stride)
{
    multiply_widened(panels, panel_stride, panel_count, k, x, x_stride, rows, y, y_stride,
                     canonical_widen);
}

static void matmul_bf16_ref(const uint16_t *panels, size_t panel_stride, uint32_t panel_count,
                            uint32_t k, const float *x, size_t x_stride, uint32_t rows, float *y,
                            size_t y_stride)
{
    multiply_widened(panels, panel_stride, panel_count, k, x, x_stride, rows, y, y_stride,
                     canonical_widen_bf16);
}

// ---- element by element, across lanes, attention ----

static void rmsnorm_ref(const float *x, const float *weight, uint32_t n, float eps, float *y)
{
    float squares[LANES] = {0};
    for (uint32_t i = 0; i < n; i++) {
        squares[i % LANES] = fmaf(x[i], x[i], squares[i % LANES]);
    }
    float factor = canonical_rms_factor(canonical_lane_sum(squares), n, eps);
    for (uint32_t i = 0; i < n; i++) {
        y[i] = x[i] * factor * weight[i];
    }
}

static void rope_pairs_ref(float *x, const float *cosine, const float *sine, uint32_t head_dim)
{
    for (uint32_t i = 0; i < head_dim / 2; i++) {
        canonical_rotate(&x[2 * (size_t)i], &x[2 * (size_t)i + 1], cosine[i], sine[i]);
    }
}

static void rope_halves_ref(float *x, const float *cosine, const float *sine, uint32_t head_dim)
{
    uint32_t half = head_dim / 2;
    for (uint32_t i = 0; i < half; i++) {
        canonical_rotate(&x[i], &x[half + i], cosine[i], sine[i]);
    }
}

static void swiglu_ref(float *gate, const float *up, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        gate[i] = canonical_swiglu(gate[i], up[i]);
    }
}

static void add_ref(float *y, const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        y[i] += x[i];
    }
}

static void attention_scores_ref(const float *q, size_t q_stride, uint32_t queries,
                                 const float *k_block, uint32_t head_dim, float scale,
                                 float *scores, size_t score_stride)
{
    for (uint32_t i = 0; i < queries; i++) {
        for (uint32_t p = 0; p < OR_KV_BLOCK; p++) {
            float dot = 0.0f;
            for (uint32_t d = 0; d < head_dim; d++) {
                dot = fmaf(q[i * q_stride + d], k_block[(size_t)d * OR_KV_BLOCK + p], dot);
            }
            scores[i * score_stride + p] = scale * dot;
        }
    }
}

static void softmax_ref(float *scores, uint32_t n)
{
    float maxima[LANES];
    float sums[LANES] = {0};
    for (uint32_t j = 0; j < LANES; j++) {
        maxima[j] = -INFINITY;
    }
    for (uint32_t i = 0; i < n; i++) {
        maxima[i % LANES] = canonical_max(scores[i], maxima[i % LANES]);
    }
    float max = canonical_lane_max(maxima);
    for (uint32_t i = 0; i < n; i++) {
        scores[i] = canonical_exp(scores[i] - max);
        sums[i % LANES] += scores[i];
    }
    float factor = 1.0f / canonical_lane_sum(sums);
    for (uint32_t i = 0; i < n; i++) {
        scores[i] *= factor;
    }
}

static void attention_values_ref(const float *weights, size_t weight_stride, uint32_t queries,
                                 const float *v_block, uint32_t head_dim, uint32_t n, float *out,
                                 size_t out_stride)
{
    for (uint32_t i = 0; i < queries; i++) {
        for (uint32_t p = 0; p < n; p++) {
            for (uint32_t d = 0; d < head_dim; d++) {
                float *cell = &out[i * out_stride + d];
                *cell =
                    fmaf(weights[i * weight_stride + p], v_block[(size_t)p * head_dim + d], *cell);
            }
        }
    }
}

static void widen_f16_ref(const uint16_t *x, size_t n, float *y)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = canonical_widen(x[i]);
    }
}

static void widen_q8_0_ref(const uint16_t *scales, const int8_t *quants, uint32_t n, float *y)
{
    for (uint32_t d = 0; d < n; d++) {
        y[d] = canonical_widen(scales[d / OR_QUANT_BLOCK]) * (float)quants[d];
    }
}

static void widen_q8_0_keys_ref(const uint16_t *scales, const int8_t *quants, uint32_t head_dim,
                                float *y)
{
    for (size_t d = 0; d < head_dim; d++) {
        const uint16_t *scale = scales + d / OR_QUANT_BLOCK * OR_KV_BLOCK;
        for (size_t p = 0; p < OR_KV_BLOCK; p++) {
            size_t at = d * OR_KV_BLOCK + p;
            y[at] = canonical_widen(scale[p]) * (float)quants[at];
        }
    }
}

const or_kernels_t or_kernels_ref = {
    .name = "ref",
    .matmul_f32 = matmul_f32_ref,
    .matmul_f16 = matmul_f16_ref,
    .matmul_bf16 = matmul_bf16_ref,
    .quantize_row = quantize_row_ref,
    .matmul_quants = matmul_quants_ref,
    .rmsnorm = rmsnorm_ref,
    .rope_pairs = rope_pairs_ref,
    .rope_halves = rope_halves_ref,
    .swiglu = swiglu_ref,
    .add = add_ref,
    .attention_scores = attention_scores_ref,
    .softmax = softmax_ref,
    .attention_values = attention_values_ref,
    .widen_f16 = widen_f16_ref,
    .widen_q8_0 = widen_q8_0_ref,
    .widen_q8_0_keys = widen_q8_0_keys_ref,
};
