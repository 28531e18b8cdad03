// The definition of every kernel: plain loops, one operation after the other. fmaf rounds once also
// where the processor has no such instruction. Slow and meant to be: what another table must equal,
// bit for bit.
#include "kernels/canonical.h"
#include "kernels/kernels.h"
#include "kernels/kernels_internal.h"
#include "kernels/quant_internal.h"

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

// Number `at` of a block, whose scale, if it has one, is `scale_at`.
static float number_of(const or_kv_block_t *block, size_t at, size_t scale_at)
{
    switch (block->type) {
    case OR_KV_F16:
        return canonical_widen(((const uint16_t *)block->numbers)[at]);
    case OR_KV_Q8_0:
        return block->scales[scale_at] * (float)((const int8_t *)block->numbers)[at];
    case OR_KV_F32:
        break;
    }
    return ((const float *)block->numbers)[at];
}

static float key_of(const or_kv_block_t *keys, size_t d, size_t p)
{
    return number_of(keys, d * OR_KV_BLOCK + p, d / OR_QUANT_BLOCK * OR_KV_BLOCK + p);
}

static float value_of(const or_kv_block_t *values, uint32_t head_dim, size_t p, size_t d)
{
    return number_of(values, p * head_dim + d, p * or_kv_scales(head_dim) + d / OR_QUANT_BLOCK);
}

static void attention_scores_ref(const float *q, size_t q_stride, uint32_t queries,
                                 const or_kv_block_t *keys, uint32_t head_dim, float scale,
                                 float *scores, size_t score_stride)
{
    for (uint32_t i = 0; i < queries; i++) {
        for (uint32_t p = 0; p < OR_KV_BLOCK; p++) {
            float dot = 0.0f;
            for (uint32_t d = 0; d < head_dim; d++) {
                dot = fmaf(q[i * q_stride + d], key_of(keys, d, p), dot);
            }
            scores[i * score_stride + p] = scale * dot;
        }
    }
}

// Make of the scores of a part their exponentials, and return the sum.
static float exponentiate(float *scores, uint32_t n, float max)
{
    float sums[LANES] = {0};
    for (uint32_t i = 0; i < n; i++) {
        scores[i] = canonical_exp(scores[i] - max);
        sums[i % LANES] += scores[i];
    }
    return canonical_lane_sum(sums);
}

static void softmax_ref(float *scores, uint32_t first, uint32_t n)
{
    float maxima[LANES];
    float total = 0.0f;
    for (uint32_t j = 0; j < LANES; j++) {
        maxima[j] = -INFINITY;
    }
    for (uint32_t i = 0; i < n; i++) {
        maxima[i % LANES] = canonical_max(scores[i], maxima[i % LANES]);
    }
    float max = canonical_lane_max(maxima);
    for (uint32_t i = 0, count; i < n; i += count) {
        count = or_part_count(first + i, n - i);
        total += exponentiate(scores + i, count, max);
    }
    float factor = 1.0f / total;
    for (uint32_t i = 0; i < n; i++) {
        scores[i] *= factor;
    }
}

static void attention_values_ref(const float *weights, size_t weight_stride, uint32_t queries,
                                 const or_kv_block_t *values, uint32_t head_dim, uint32_t n,
                                 float *out, size_t out_stride)
{
    for (uint32_t i = 0; i < queries; i++) {
        for (uint32_t p = 0; p < n; p++) {
            for (uint32_t d = 0; d < head_dim; d++) {
                float *cell = &out[i * out_stride + d];
                *cell =
                    fmaf(weights[i * weight_stride + p], value_of(values, head_dim, p, d), *cell);
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

// ---- activations ----

static void quantize_row_ref(const float *x, uint32_t blocks, or_q8_block_t *out)
{
    for (uint32_t b = 0; b < blocks; b++, out++, x += OR_QUANT_BLOCK) {
        uint32_t largest = 0;
        for (uint32_t i = 0; i < OR_QUANT_BLOCK; i++) {
            uint32_t magnitude = bits_of(x[i]) & 0x7FFFFFFFu;
            largest = magnitude > largest ? magnitude : largest;
        }
        float amax = float_of(largest);
        float inverse = largest == 0 ? 0.0f : QUANT_MAX / amax;
        out->scale = amax / QUANT_MAX;
        int32_t sums[2] = {0, 0};
        for (uint32_t i = 0; i < OR_QUANT_BLOCK; i++) {
            out->quants[i] = canonical_quantize(x[i], inverse);
            sums[i / (OR_QUANT_BLOCK / 2)] += out->quants[i];
        }
        or_q8_block_set_sums(out, sums[0], sums[1]);
    }
}

// ---- quantised panels ----

// A block of one output.
typedef struct {
    int32_t integers[OR_QUANT_BLOCK];
    or_quant_group_t groups[2];
} block_t;

// Read the bits of weight `k` of block `b`, in each of the ways that quants.h draws.
static uint32_t read_byte(const uint8_t *bytes, uint32_t lane, uint32_t k)
{
    return bytes[(k / 4 * OR_PANEL + lane) * 4 + k % 4];
}

static uint32_t read_nibble(const uint8_t *nibbles, uint32_t b, uint32_t lane, uint32_t k)
{
    return nibbles[((b * 4 + k % 16 / 4) * OR_PANEL + lane) * 4 + k % 4] >> k / 16 * 4 & 15;
}

static uint32_t read_pair(const uint8_t *pairs, uint32_t b, uint32_t lane, uint32_t k)
{
    return pairs[((b * 2 + k / 16) * OR_PANEL + lane) * 4 + k % 4] >> k % 16 / 4 * 2 & 3;
}

static uint32_t read_bit(const uint8_t *bits, uint32_t b, uint32_t lane, uint32_t k)
{
    return bits[(b * OR_PANEL + lane) * 4 + k % 4] >> k / 4 & 1;
}

static uint8_t read_stored(const or_quant_layout_t *layout, const uint8_t *unit, uint32_t b,
                           uint32_t lane, uint32_t k)
{
    const uint8_t *low = unit + layout->low;
    const uint8_t *high = unit + layout->high;
    switch (layout->bits) {
    case 8:
        return (uint8_t)read_byte(low, lane, k);
    case 6:
        return (uint8_t)(read_nibble(low, b, lane, k) | read_pair(high, b, lane, k) << 4);
    case 5:
        return (uint8_t)(read_nibble(low, b, lane, k) | read_bit(high, b, lane, k) << 4);
    case 4:
        return (uint8_t)read_nibble(low, b, lane, k);
    case 3:
        return (uint8_t)(read_pair(low, b, lane, k) | read_bit(high, b, lane, k) << 2);
    default:
        return (uint8_t)read_pair(low, b, lane, k);
    }
}

static uint16_t read_half(const uint8_t *halves, uint32_t lane)
{
    uint16_t half;
    memcpy(&half, halves + lane * sizeof half, sizeof half);
    return half;
}

// Read lane `lane` of block `b` of a unit. Parts that a type lacks are not read.
static void read_block(or_quant_t type, const uint8_t *unit, uint32_t b, uint32_t lane,
                       block_t *block)
{
    const or_quant_layout_t *layout = or_quant_layout(type);
    for (uint32_t k = 0; k < OR_QUANT_BLOCK; k++) {
        block->integers[k] = or_quant_integer(type, read_stored(layout, unit, b, lane, k));
    }
    for (uint32_t g = 0; g < layout->block_groups; g++) {
        size_t group = (b * layout->block_groups + g) * OR_PANEL + lane;
        size_t minimum = b * OR_PANEL + lane;
        block->groups[g] =
            or_quant_group(type, read_half(unit + layout->scales, lane),
                           layout->has_minima ? read_half(unit + layout->minima, lane) : 0,
                           layout->groups > 0 ? unit[layout->groups + group] : 0,
                           layout->block_minima > 0 ? unit[layout->block_minima + minimum] : 0);
    }
}

// ---- products of quantised weights ----

// The steps of one block of one output in one row.
static float step(or_quant_t type, const block_t *w, const or_q8_block_t *x, float y)
{
    const or_quant_layout_t *layout = or_quant_layout(type);
    uint32_t size = OR_QUANT_BLOCK / layout->block_groups;
    for (uint32_t g = 0; g < layout->block_groups; g++) {
        int32_t sum = 0;
        for (uint32_t k = g * size; k < (g + 1) * size; k++) {
            sum += w->integers[k] * x->quants[k];
        }
        y = fmaf(w->groups[g].scale * x->scale, (float)sum, y);
        if (layout->has_minima) {
            float scaled = layout->block_groups == 1 ? x->scaled_sum : x->scaled_half_sums[g];
            y = fmaf(-w->groups[g].minimum, scaled, y);
        }
    }
    return y;
}

// The chain of one output over the blocks, in every row.
static void multiply_lane(or_quant_t type, const uint8_t *panel, uint32_t first, uint32_t lane,
                          uint32_t blocks, const or_q8_block_t *x, size_t x_stride, uint32_t rows,
                          float *y, size_t y_stride)
{
    uint32_t unit_blocks = or_quant_unit_blocks(type);
    for (uint32_t m = 0; m < rows; m++) {
        y[m * y_stride] = 0.0f;
    }
    for (uint32_t b = 0; b < blocks; b++) {
        size_t unit = (first + b) / unit_blocks;
        block_t block;
        read_block(type, panel + unit * or_quant_unit_bytes(type), (first + b) % unit_blocks, lane,
                   &block);
        for (uint32_t m = 0; m < rows; m++) {
            y[m * y_stride] = step(type, &block, &x[m * x_stride + b], y[m * y_stride]);
        }
    }
}

static void matmul_quants_ref(const or_quant_panels_t *w, const or_q8_block_t *x, size_t x_stride,
                              uint32_t rows, float *y, size_t y_stride)
{
    for (uint32_t p = 0; p < w->count; p++) {
        const uint8_t *panel = (const uint8_t *)w->panels + p * w->panel_bytes;
        for (uint32_t lane = 0; lane < OR_PANEL; lane++) {
            multiply_lane(w->type, panel, w->first, lane, w->blocks, x, x_stride, rows,
                          y + (size_t)p * OR_PANEL + lane, y_stride);
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
    .row_panels = one_panel,
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
