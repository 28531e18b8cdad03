// The definition of quantised arithmetic: the formulas of quants.h, one operation after the other.
#include "kernels/ref/kernels_ref_internal.h"

#include "kernels/quant_internal.h"

// ---- activations ----

static void sum_quants(or_q8_block_t *block)
{
    int32_t halves[2] = {0, 0};
    for (uint32_t i = 0; i < OR_QUANT_BLOCK; i++) {
        halves[i / (OR_QUANT_BLOCK / 2)] += block->quants[i];
    }
    for (uint32_t h = 0; h < 2; h++) {
        block->half_biases[h] = -128 * halves[h];
        block->scaled_half_sums[h] = block->scale * (float)halves[h];
    }
    block->sum = halves[0] + halves[1];
    block->bias = -128 * block->sum;
    block->scaled_sum = block->scale * (float)block->sum;
}

void quantize_row_ref(const float *x, uint32_t blocks, or_q8_block_t *out)
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
        for (uint32_t i = 0; i < OR_QUANT_BLOCK; i++) {
            out->quants[i] = canonical_quantize(x[i], inverse);
        }
        sum_quants(out);
    }
}

// ---- panels ----

// A block of one output.
typedef struct {
    int32_t integers[OR_QUANT_BLOCK];
    or_quant_group_t groups[2];
} block_t;

// Bits that weight `k` of block `b` has in each of the ways quants.h draws.
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

// Of block `b` of a unit what lane `lane` has there. Parts that a type lacks are not looked at.
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

// ---- matmul ----

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

void matmul_quants_ref(const or_quant_panels_t *w, const or_q8_block_t *x, size_t x_stride,
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
