// The definition of every kernel: plain loops, one operation after the other. fmaf rounds once also
// where the processor has no such instruction. Slow and meant to be: what another table must equal,
// bit for bit.
#include "kernels/kernels.h"

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

// ---- quantised ----

static void quantize_row_ref(const float *x, uint32_t blocks, int8_t *quants, float *scales,
                             int32_t *sums)
{
    for (size_t b = 0; b < blocks; b++) {
        const float *values = x + b * OR_QUANT_BLOCK;
        uint32_t largest = 0;
        for (uint32_t i = 0; i < OR_QUANT_BLOCK; i++) {
            uint32_t magnitude = bits_of(values[i]) & 0x7FFFFFFFu;
            largest = magnitude > largest ? magnitude : largest;
        }
        float amax = float_of(largest);
        float inverse = largest == 0 ? 0.0f : QUANT_MAX / amax;
        scales[b] = amax / QUANT_MAX;
        sums[b] = 0;
        for (uint32_t i = 0; i < OR_QUANT_BLOCK; i++) {
            int8_t quant = canonical_quantize(values[i], inverse);
            quants[b * OR_QUANT_BLOCK + i] = quant;
            sums[b] += quant;
        }
    }
}

// What one output needs of a panel's block: its integers, and the scale that is returned.
typedef uint16_t (*read_block_t)(const void *panel, size_t block, uint32_t lane,
                                 int8_t w[OR_QUANT_BLOCK]);

static uint16_t read_q8_block(const void *panel, size_t b, uint32_t lane, int8_t w[OR_QUANT_BLOCK])
{
    const or_q8_panel_block_t *block = (const or_q8_panel_block_t *)panel + b;
    for (uint32_t i = 0; i < OR_QUANT_BLOCK; i++) {
        w[i] = block->quants[i / 4][lane][i % 4];
    }
    return block->scales[lane];
}

static uint16_t read_q4_block(const void *panel, size_t b, uint32_t lane, int8_t w[OR_QUANT_BLOCK])
{
    const or_q4_panel_block_t *block = (const or_q4_panel_block_t *)panel + b;
    for (uint32_t i = 0; i < OR_QUANT_BLOCK / 2; i++) {
        uint8_t nibbles = block->nibbles[i / 4][lane][i % 4];
        w[i] = (int8_t)((nibbles & 15) - 8);
        w[i + OR_QUANT_BLOCK / 2] = (int8_t)((nibbles >> 4) - 8);
    }
    return block->scales[lane];
}

static int32_t sum_of_products(const int8_t w[OR_QUANT_BLOCK], const int8_t x[OR_QUANT_BLOCK])
{
    int32_t sum = 0;
    for (uint32_t i = 0; i < OR_QUANT_BLOCK; i++) {
        sum += w[i] * x[i];
    }
    return sum;
}

// The chain of one output over the blocks, in every row.
static void multiply_lane(const void *panels, size_t first_block, uint32_t lane, uint32_t blocks,
                          const or_q8_rows_t *x, uint32_t rows, float *y, size_t y_stride,
                          read_block_t read_block)
{
    for (uint32_t b = 0; b < blocks; b++) {
        int8_t w[OR_QUANT_BLOCK];
        float w_scale = canonical_widen(read_block(panels, first_block + b, lane, w));
        for (uint32_t m = 0; m < rows; m++) {
            size_t at = m * x->blocks_stride + b;
            int32_t sum = sum_of_products(w, x->quants + at * OR_QUANT_BLOCK);
            y[m * y_stride] = fmaf(w_scale * x->scales[at], (float)sum, y[m * y_stride]);
        }
    }
}

static void multiply_quantised(const void *panels, size_t panel_blocks, uint32_t panel_count,
                               uint32_t blocks, const or_q8_rows_t *x, uint32_t rows, float *y,
                               size_t y_stride, read_block_t read_block)
{
    for (uint32_t p = 0; p < panel_count; p++) {
        float *y_panel = y + (size_t)p * OR_PANEL;
        clear_rows(y_panel, y_stride, rows);
        for (uint32_t lane = 0; lane < OR_PANEL; lane++) {
            multiply_lane(panels, p * panel_blocks, lane, blocks, x, rows, y_panel + lane, y_stride,
                          read_block);
        }
    }
}

static void matmul_q8_0_ref(const void *panels, size_t panel_blocks, uint32_t panel_count,
                            uint32_t blocks, const or_q8_rows_t *x, uint32_t rows, float *y,
                            size_t y_stride)
{
    multiply_quantised(panels, panel_blocks, panel_count, blocks, x, rows, y, y_stride,
                       read_q8_block);
}

static void matmul_q4_0_ref(const void *panels, size_t panel_blocks, uint32_t panel_count,
                            uint32_t blocks, const or_q8_rows_t *x, uint32_t rows, float *y,
                            size_t y_stride)
{
    multiply_quantised(panels, panel_blocks, panel_count, blocks, x, rows, y, y_stride,
                       read_q4_block);
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

static void sum_shards_ref(const float *parts, size_t part_stride, uint32_t n, float *y)
{
    for (uint32_t i = 0; i < n; i++) {
        y[i] = canonical_sum_shards(parts + i, part_stride);
    }
}

static void attention_scores_ref(const float *q, const float *k_block, uint32_t head_dim,
                                 float scale, float *scores)
{
    for (uint32_t p = 0; p < OR_KV_BLOCK; p++) {
        float dot = 0.0f;
        for (uint32_t d = 0; d < head_dim; d++) {
            dot = fmaf(q[d], k_block[(size_t)d * OR_KV_BLOCK + p], dot);
        }
        scores[p] = scale * dot;
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

static void attention_values_ref(const float *weights, const float *v_block, uint32_t head_dim,
                                 uint32_t n, float *out)
{
    for (uint32_t p = 0; p < n; p++) {
        for (uint32_t d = 0; d < head_dim; d++) {
            out[d] = fmaf(weights[p], v_block[(size_t)p * head_dim + d], out[d]);
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
    .matmul_q8_0 = matmul_q8_0_ref,
    .matmul_q4_0 = matmul_q4_0_ref,
    .rmsnorm = rmsnorm_ref,
    .rope_pairs = rope_pairs_ref,
    .rope_halves = rope_halves_ref,
    .swiglu = swiglu_ref,
    .add = add_ref,
    .sum_shards = sum_shards_ref,
    .attention_scores = attention_scores_ref,
    .softmax = softmax_ref,
    .attention_values = attention_values_ref,
    .widen_f16 = widen_f16_ref,
    .widen_q8_0 = widen_q8_0_ref,
    .widen_q8_0_keys = widen_q8_0_keys_ref,
};
