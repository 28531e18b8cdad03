// Blocks of 32 weights with halves of their own. Super-blocks are in quant_encode_super.c.
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/quant_encode_internal.h"

#define LARGEST 0x1p+30f // more than any type can hold; squares of it still add up
#define HALF_MAX 65504.0f

uint16_t or_encode_half(float value)
{
    value = value > -HALF_MAX ? value : -HALF_MAX;
    return or_f32_to_f16(value < HALF_MAX ? value : HALF_MAX);
}

uint8_t *or_encode_put(uint8_t *at, uint16_t half)
{
    at[0] = (uint8_t)half;
    at[1] = (uint8_t)(half >> 8);
    return at + 2;
}

// Weights i and i + 16 share a byte.
static uint8_t *put_nibbles(uint8_t *at, const uint8_t *codes)
{
    for (uint32_t i = 0; i < OR_QUANT_BLOCK / 2; i++) {
        at[i] = (uint8_t)((codes[i] & 15) | (codes[i + OR_QUANT_BLOCK / 2] & 15) << 4);
    }
    return at + OR_QUANT_BLOCK / 2;
}

static uint8_t *put_fifth_bits(uint8_t *at, const uint8_t *codes)
{
    memset(at, 0, OR_QUANT_BLOCK / 8);
    for (uint32_t i = 0; i < OR_QUANT_BLOCK; i++) {
        at[i / 8] |= (uint8_t)((codes[i] >> 4) << i % 8);
    }
    return at + OR_QUANT_BLOCK / 8;
}

// The scale as it will be read, its half at `at`, and the integers for it.
static uint8_t *fit_scale(const or_fit_grid_t *grid, const float *x, uint8_t *at, float *integers)
{
    uint16_t half = or_encode_half(or_fit_scale(grid, x, OR_QUANT_BLOCK));
    or_fit_round(grid, x, OR_QUANT_BLOCK, or_f16_to_f32(half), 0, integers);
    return or_encode_put(at, half);
}

// The same with a minimum, which the file adds.
static uint8_t *fit_both(const or_fit_grid_t *grid, const float *x, uint8_t *at, float *integers)
{
    float scale, minimum;
    or_fit_both(grid, x, OR_QUANT_BLOCK, false, &scale, &minimum);
    uint16_t scale_half = or_encode_half(scale);
    uint16_t added_half = or_encode_half(-minimum);
    or_fit_round(grid, x, OR_QUANT_BLOCK, or_f16_to_f32(scale_half), -or_f16_to_f32(added_half),
                 integers);
    return or_encode_put(or_encode_put(at, scale_half), added_half);
}

static void to_codes(const float *integers, float lowest, uint8_t *codes)
{
    for (uint32_t i = 0; i < OR_QUANT_BLOCK; i++) {
        codes[i] = (uint8_t)(int)(integers[i] - lowest);
    }
}

static void encode_q8_0(const float *x, uint8_t *at)
{
    static const or_fit_grid_t grid = {-127, 127, NULL};
    float integers[OR_QUANT_BLOCK];
    at = fit_scale(&grid, x, at, integers);
    for (uint32_t i = 0; i < OR_QUANT_BLOCK; i++) {
        at[i] = (uint8_t)(int8_t)integers[i];
    }
}

static void encode_q4_0(const float *x, uint8_t *at)
{
    static const or_fit_grid_t grid = {-8, 7, NULL};
    float integers[OR_QUANT_BLOCK];
    uint8_t codes[OR_QUANT_BLOCK];
    at = fit_scale(&grid, x, at, integers);
    to_codes(integers, grid.lowest, codes);
    put_nibbles(at, codes);
}

static void encode_iq4_nl(const float *x, uint8_t *at)
{
    const or_fit_grid_t grid = {or_iq4_values[0], or_iq4_values[15], or_iq4_values};
    float integers[OR_QUANT_BLOCK];
    uint8_t codes[OR_QUANT_BLOCK] = {0};
    at = fit_scale(&grid, x, at, integers);
    for (uint32_t i = 0; i < OR_QUANT_BLOCK; i++) {
        while ((float)or_iq4_values[codes[i]] < integers[i]) {
            codes[i]++;
        }
    }
    put_nibbles(at, codes);
}

static void encode_q5_0(const float *x, uint8_t *at)
{
    static const or_fit_grid_t grid = {-16, 15, NULL};
    float integers[OR_QUANT_BLOCK];
    uint8_t codes[OR_QUANT_BLOCK];
    at = fit_scale(&grid, x, at, integers);
    to_codes(integers, grid.lowest, codes);
    put_nibbles(put_fifth_bits(at, codes), codes);
}

static void encode_q4_1(const float *x, uint8_t *at)
{
    static const or_fit_grid_t grid = {0, 15, NULL};
    float integers[OR_QUANT_BLOCK];
    uint8_t codes[OR_QUANT_BLOCK];
    at = fit_both(&grid, x, at, integers);
    to_codes(integers, grid.lowest, codes);
    put_nibbles(at, codes);
}

static void encode_q5_1(const float *x, uint8_t *at)
{
    static const or_fit_grid_t grid = {0, 31, NULL};
    float integers[OR_QUANT_BLOCK];
    uint8_t codes[OR_QUANT_BLOCK];
    at = fit_both(&grid, x, at, integers);
    to_codes(integers, grid.lowest, codes);
    put_nibbles(put_fifth_bits(at, codes), codes);
}

// What no type can hold is cut; what is no number, too.
static void cut(const float *x, uint32_t n, float *out)
{
    for (uint32_t i = 0; i < n; i++) {
        float value = x[i] > -LARGEST ? x[i] : -LARGEST;
        out[i] = value < LARGEST ? value : LARGEST;
    }
}

void or_quant_encode(or_quant_t type, const float *x, uint32_t units, void *row)
{
    static void (*const encoders[OR_QUANT_TYPES])(const float *, uint8_t *) = {
        [OR_QUANT_Q8_0] = encode_q8_0,     [OR_QUANT_Q4_0] = encode_q4_0,
        [OR_QUANT_IQ4_NL] = encode_iq4_nl, [OR_QUANT_Q5_0] = encode_q5_0,
        [OR_QUANT_Q4_1] = encode_q4_1,     [OR_QUANT_Q5_1] = encode_q5_1,
        [OR_QUANT_Q4_K] = or_encode_q4_k,  [OR_QUANT_Q5_K] = or_encode_q5_k,
        [OR_QUANT_Q2_K] = or_encode_q2_k,  [OR_QUANT_Q3_K] = or_encode_q3_k,
        [OR_QUANT_Q6_K] = or_encode_q6_k,
    };
    uint32_t weights = or_quant_unit_blocks(type) * OR_QUANT_BLOCK;
    uint32_t bytes = or_quant_file_bytes(type);
    for (uint32_t u = 0; u < units; u++) {
        float unit[OR_SUPER_WEIGHTS];
        cut(x + (size_t)u * weights, weights, unit);
        encoders[type](unit, (uint8_t *)row + (size_t)u * bytes);
    }
}
