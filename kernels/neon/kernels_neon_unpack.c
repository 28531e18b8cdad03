#include "kernels/neon/kernels_neon_unpack.h"

#include <arm_neon.h>

#include "kernels/quant_internal.h"

#define QUADS (OR_PANEL / 4u)       // vectors of four weights of each of four outputs
#define FOURS (OR_QUANT_BLOCK / 4u) // of a block, along K
#define VECTOR_BYTES 16u
#define BIT_BYTES (QUADS * VECTOR_BYTES) // what one bit of every weight of a block takes

// ---- integers ----

// Vector `f` (along K), `q` (along outputs) of each of the ways in which quants.h draws bits. A shift by
// a negative count goes to the right.
ALWAYS_INLINE uint8x16_t load_bytes(const uint8_t *bytes, uint32_t f, uint32_t q)
{
    return vld1q_u8(bytes + (f * QUADS + q) * VECTOR_BYTES);
}

ALWAYS_INLINE uint8x16_t load_nibbles(const uint8_t *nibbles, uint32_t f, uint32_t q)
{
    uint8x16_t both = load_bytes(nibbles, f % 4, q);
    return f < 4 ? vandq_u8(both, vdupq_n_u8(15)) : vshrq_n_u8(both, 4);
}

ALWAYS_INLINE uint8x16_t load_pairs(const uint8_t *pairs, uint32_t f, uint32_t q)
{
    uint8x16_t four = load_bytes(pairs, f / 4, q);
    return vandq_u8(vshlq_u8(four, vdupq_n_s8(-2 * (int)(f % 4))), vdupq_n_u8(3));
}

ALWAYS_INLINE uint8x16_t load_bits(const uint8_t *bits, uint32_t f, uint32_t q)
{
    uint8x16_t eight = load_bytes(bits, 0, q);
    return vandq_u8(vshlq_u8(eight, vdupq_n_s8(-(int)f)), vdupq_n_u8(1));
}

ALWAYS_INLINE uint8x16_t load_stored(uint32_t bits, const uint8_t *low, const uint8_t *high,
                                     uint32_t f, uint32_t q)
{
    switch (bits) {
    case 8:
        return load_bytes(low, f, q);
    case 6:
        return vorrq_u8(load_nibbles(low, f, q), vshlq_n_u8(load_pairs(high, f, q), 4));
    case 5:
        return vorrq_u8(load_nibbles(low, f, q), vshlq_n_u8(load_bits(high, f, q), 4));
    case 4:
        return load_nibbles(low, f, q);
    case 3:
        return vorrq_u8(load_pairs(low, f, q), vshlq_n_u8(load_bits(high, f, q), 2));
    default:
        return load_pairs(low, f, q);
    }
}

// The integers that stored ones of up to four bits stand for; all larger ones are counted from its first.
static int8x16_t table_of(or_quant_t type)
{
    int8_t table[16];
    for (uint8_t stored = 0; stored < 16; stored++) {
        table[stored] = (int8_t)or_quant_integer(type, stored);
    }
    return vld1q_s8(table);
}

// Block `b` of a unit. `bits` is a constant wherever this is inlined.
ALWAYS_INLINE void unpack_bits(const or_quant_layout_t *layout, uint32_t bits, int8x16_t table,
                               const uint8_t *unit, uint32_t b, unpacked_t *out)
{
    uint32_t low_bits = bits >= 4 ? bits & 12 : 2;
    const uint8_t *low = unit + layout->low + b * low_bits * BIT_BYTES;
    const uint8_t *high = unit + layout->high + b * (bits - low_bits) * BIT_BYTES;
    const int8x16_t lowest = vdupq_laneq_s8(table, 0);
#pragma GCC unroll 8
    for (uint32_t f = 0; f < FOURS; f++) {
#pragma GCC unroll 4
        for (uint32_t q = 0; q < QUADS; q++) {
            uint8x16_t stored = load_stored(bits, low, high, f, q);
            int8x16_t integers = bits <= 4 ? vqtbl1q_s8(table, stored)
                                           : vaddq_s8(vreinterpretq_s8_u8(stored), lowest);
            vst1q_s8(out->integers[f][4 * q], integers);
        }
    }
}

static void unpack_integers(const or_quant_layout_t *layout, int8x16_t table, const uint8_t *unit,
                            uint32_t b, unpacked_t *out)
{
    switch (layout->bits) {
    case 8:
        unpack_bits(layout, 8, table, unit, b, out);
        break;
    case 6:
        unpack_bits(layout, 6, table, unit, b, out);
        break;
    case 5:
        unpack_bits(layout, 5, table, unit, b, out);
        break;
    case 4:
        unpack_bits(layout, 4, table, unit, b, out);
        break;
    case 3:
        unpack_bits(layout, 3, table, unit, b, out);
        break;
    default:
        unpack_bits(layout, 2, table, unit, b, out);
        break;
    }
}

// ---- scales and minima ----
//
// Of all 16 outputs at once: four vectors of floats, two of the numbers that groups have.

ALWAYS_INLINE float32x4x4_t load_halves(const uint8_t *halves)
{
    float32x4x4_t out;
#pragma GCC unroll 4
    for (uint32_t v = 0; v < 4; v++) {
        uint16x4_t four = vreinterpret_u16_u8(vld1_u8(halves + v * WIDTH * sizeof(uint16_t)));
        out.val[v] = vcvt_f32_f16(vreinterpret_f16_u16(four));
    }
    return out;
}

ALWAYS_INLINE float32x4x4_t load_bfloats(const uint8_t *bfloats)
{
    float32x4x4_t out;
#pragma GCC unroll 4
    for (uint32_t v = 0; v < 4; v++) {
        uint16x4_t four = vreinterpret_u16_u8(vld1_u8(bfloats + v * WIDTH * sizeof(uint16_t)));
        out.val[v] = vreinterpretq_f32_u32(vshll_n_u16(four, 16));
    }
    return out;
}

ALWAYS_INLINE int16x8x2_t widen_bytes(uint8x16_t bytes)
{
    return (int16x8x2_t){{vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(bytes))),
                          vreinterpretq_s16_u16(vmovl_high_u8(bytes))}};
}

ALWAYS_INLINE int16x8x2_t widen_signed_bytes(int8x16_t bytes)
{
    return (int16x8x2_t){{vmovl_s8(vget_low_s8(bytes)), vmovl_high_s8(bytes)}};
}

// Exact: so few bits.
ALWAYS_INLINE float32x4x4_t multiply(float32x4x4_t halves, int16x8x2_t numbers)
{
#pragma GCC unroll 2
    for (uint32_t h = 0; h < 2; h++) {
        float32x4_t low = vcvtq_f32_s32(vmovl_s16(vget_low_s16(numbers.val[h])));
        float32x4_t high = vcvtq_f32_s32(vmovl_high_s16(numbers.val[h]));
        halves.val[2 * h] = vmulq_f32(halves.val[2 * h], low);
        halves.val[2 * h + 1] = vmulq_f32(halves.val[2 * h + 1], high);
    }
    return halves;
}

// Exact: a power of two.
ALWAYS_INLINE float32x4x4_t take_part(float32x4x4_t values, float part)
{
#pragma GCC unroll 4
    for (uint32_t v = 0; v < 4; v++) {
        values.val[v] = vmulq_n_f32(values.val[v], part);
    }
    return values;
}

ALWAYS_INLINE float32x4x4_t negate(float32x4x4_t values)
{
#pragma GCC unroll 4
    for (uint32_t v = 0; v < 4; v++) {
        values.val[v] = vnegq_f32(values.val[v]);
    }
    return values;
}

// Group `g` of a unit, where blocks share halves.
static int16x8x2_t group_scales(or_quant_t type, const or_quant_layout_t *layout,
                                const uint8_t *unit, uint32_t g)
{
    uint8x16_t bytes = vld1q_u8(unit + layout->groups + g * OR_PANEL);
    switch (type) {
    case OR_QUANT_Q2_K:
        return widen_bytes(vandq_u8(bytes, vdupq_n_u8(15)));
    case OR_QUANT_Q4_K:
    case OR_QUANT_Q5_K:
        return widen_bytes(bytes);
    default:
        return widen_signed_bytes(vreinterpretq_s8_u8(bytes));
    }
}

static int16x8x2_t group_minima(or_quant_t type, const or_quant_layout_t *layout,
                                const uint8_t *unit, uint32_t g)
{
    if (type == OR_QUANT_Q2_K) {
        return widen_bytes(vshrq_n_u8(vld1q_u8(unit + layout->groups + g * OR_PANEL), 4));
    }
    return widen_bytes(vld1q_u8(unit + layout->block_minima + g * OR_PANEL));
}

static float32x4x4_t load_scales(or_quant_t type, const or_quant_layout_t *layout,
                                 const uint8_t *unit, uint32_t g)
{
    if (type == OR_QUANT_MXFP4) {
        return load_bfloats(unit + layout->scales);
    }
    float32x4x4_t halves = load_halves(unit + layout->scales);
    if (layout->unit_blocks == 1) {
        return halves;
    }
    float32x4x4_t scales = multiply(halves, group_scales(type, layout, unit, g));
    switch (type) {
    case OR_QUANT_IQ3_XXS:
        return take_part(scales, OR_IQ3_XXS_PART);
    case OR_QUANT_IQ2_S:
    case OR_QUANT_IQ2_XS:
    case OR_QUANT_IQ2_XXS:
        return take_part(scales, OR_IQ2_PART);
    default:
        return scales;
    }
}

static void unpack_groups(or_quant_t type, const or_quant_layout_t *layout, const uint8_t *unit,
                          uint32_t b, unpacked_t *out)
{
    bool share_halves = layout->unit_blocks > 1;
    for (uint32_t i = 0; i < layout->block_groups; i++) {
        uint32_t g = b * layout->block_groups + i;
        vst1q_f32_x4(out->scales[i], load_scales(type, layout, unit, g));
        if (layout->has_minima) {
            float32x4x4_t addends = load_halves(unit + layout->minima);
            if (share_halves) {
                addends = negate(multiply(addends, group_minima(type, layout, unit, g)));
            }
            vst1q_f32_x4(out->addends[i], addends);
        }
    }
}

void unpack_neon(or_quant_t type, const void *panel, uint32_t first, uint32_t count,
                 unpacked_t *out)
{
    const or_quant_layout_t *layout = or_quant_layout(type);
    const int8x16_t table = table_of(type);
    for (uint32_t i = 0; i < count; i++) {
        size_t u = (first + i) / layout->unit_blocks;
        uint32_t b = (first + i) % layout->unit_blocks;
        const uint8_t *unit = (const uint8_t *)panel + u * layout->unit_bytes;
        unpack_integers(layout, table, unit, b, &out[i]);
        unpack_groups(type, layout, unit, b, &out[i]);
    }
}
