// Weights to quantised blocks: the types whose blocks of 32 weights stand alone.
#include "kernels/quant_encode_internal.h"

#define LARGEST 0x1p+30f // more than any type can hold; squares of it still add up
// The least importance, of the mean: with less, sums of floats would lose the other weights.
#define LEAST 0x1p-10f

static uint8_t *put_fifth_bits(uint8_t *at, const uint8_t *codes)
{
    memset(at, 0, OR_QUANT_BLOCK / 8);
    for (uint32_t i = 0; i < OR_QUANT_BLOCK; i++) {
        at[i / 8] |= (uint8_t)((codes[i] >> 4) << i % 8);
    }
    return at + OR_QUANT_BLOCK / 8;
}

// Write the half of the best scale at `at`, and find the integers for the scale as it will be read back.
static uint8_t *fit_scale(const or_fit_grid_t *grid, const float *x, const float *w, uint8_t *at,
                          float *integers)
{
    uint16_t half = nearest_half(or_fit_scale(grid, x, w, OR_QUANT_BLOCK));
    or_fit_round(grid, x, OR_QUANT_BLOCK, or_f16_to_f32(half), 0, integers);
    return put_half(at, half);
}

// The same with a minimum, which the file adds to a weight.
static uint8_t *fit_both(const or_fit_grid_t *grid, const float *x, const float *w, uint8_t *at,
                         float *integers)
{
    float scale, minimum;
    or_fit_both(grid, x, w, OR_QUANT_BLOCK, false, &scale, &minimum);
    uint16_t scale_half = nearest_half(scale);
    uint16_t added_half = nearest_half(-minimum);
    or_fit_round(grid, x, OR_QUANT_BLOCK, or_f16_to_f32(scale_half), -or_f16_to_f32(added_half),
                 integers);
    return put_half(put_half(at, scale_half), added_half);
}

static void encode_q8_0(const float *x, const float *w, uint8_t *at)
{
    static const or_fit_grid_t grid = {-127, 127, NULL};
    float integers[OR_QUANT_BLOCK];
    at = fit_scale(&grid, x, w, at, integers);
    for (uint32_t i = 0; i < OR_QUANT_BLOCK; i++) {
        at[i] = (uint8_t)(int8_t)integers[i];
    }
}

static void encode_iq4_nl(const float *x, const float *w, uint8_t *at)
{
    static const or_fit_grid_t grid = IQ4_GRID;
    float integers[OR_QUANT_BLOCK];
    uint8_t codes[OR_QUANT_BLOCK];
    at = fit_scale(&grid, x, w, at, integers);
    to_iq4_codes(integers, codes, OR_QUANT_BLOCK);
    put_nibbles(at, codes);
}

// ---- MXFP4 ----

#define MXFP4_MAGNITUDES 8u
#define MXFP4_MINUS 8u

// The power of two that MXFP4 makes of a byte.
static float mxfp4_scale(int exponent)
{
    return ldexpf(1.0f, exponent - 128);
}

// Choose the nearest codes for a scale, and return the sum of w * squared error. Of two that are as near the smaller is
// taken; a negative weight that becomes 0 has no minus.
static float choose_mxfp4_codes(const float *x, const float *w, float scale,
                                uint8_t codes[OR_QUANT_BLOCK])
{
    float error = 0;
    for (uint32_t i = 0; i < OR_QUANT_BLOCK; i++) {
        float magnitude = fabsf(x[i]);
        uint8_t code = 0;
        for (uint8_t c = 1; c < MXFP4_MAGNITUDES; c++) {
            float middle = 0.5f * (float)(or_mxfp4_values[c - 1] + or_mxfp4_values[c]);
            code += magnitude > scale * middle ? 1 : 0;
        }
        float left = magnitude - scale * (float)or_mxfp4_values[code];
        error += w[i] * (left * left);
        codes[i] = (uint8_t)(code | (x[i] < 0 && code > 0 ? MXFP4_MINUS : 0));
    }
    return error;
}

// A byte of an exponent, nibbles. The largest weight lies between 8 and 16 of the second scale that is tried: the
// first one cuts it, the third is coarser than it needs.
static void encode_mxfp4(const float *x, const float *w, uint8_t *at)
{
    float largest = 0;
    for (uint32_t i = 0; i < OR_QUANT_BLOCK; i++) {
        largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
    }
    memset(at, 0, 1 + OR_QUANT_BLOCK / 2);
    if (largest < mxfp4_scale(0)) {
        return;
    }
    int wanted = ilogbf(largest) - 3 + 128;
    float best = INFINITY;
    for (int exponent = wanted - 1; exponent <= wanted + 1; exponent++) {
        uint8_t codes[OR_QUANT_BLOCK];
        if (exponent < 0 || exponent > UINT8_MAX) {
            continue;
        }
        float error = choose_mxfp4_codes(x, w, mxfp4_scale(exponent), codes);
        if (error < best) {
            best = error;
            at[0] = (uint8_t)exponent;
            put_nibbles(at + 1, codes);
        }
    }
}

// A block of codes of four or five bits; a grid that begins with 0 has a minimum.
static void encode_codes(or_fit_grid_t grid, const float *x, const float *w, uint8_t *at)
{
    float integers[OR_QUANT_BLOCK];
    uint8_t codes[OR_QUANT_BLOCK];
    at = (grid.lowest == 0 ? fit_both : fit_scale)(&grid, x, w, at, integers);
    to_codes(integers, grid.lowest, codes, OR_QUANT_BLOCK);
    put_nibbles(grid.highest - grid.lowest > 15 ? put_fifth_bits(at, codes) : at, codes);
}

static void encode_q4_0(const float *x, const float *w, uint8_t *at)
{
    encode_codes((or_fit_grid_t){-8, 7, NULL}, x, w, at);
}

static void encode_q5_0(const float *x, const float *w, uint8_t *at)
{
    encode_codes((or_fit_grid_t){-16, 15, NULL}, x, w, at);
}

static void encode_q4_1(const float *x, const float *w, uint8_t *at)
{
    encode_codes((or_fit_grid_t){0, 15, NULL}, x, w, at);
}

static void encode_q5_1(const float *x, const float *w, uint8_t *at)
{
    encode_codes((or_fit_grid_t){0, 31, NULL}, x, w, at);
}

// ---- any type ----

// Cut values that no type can hold, and replace those that are no numbers.
static void cut(const float *x, uint32_t n, float *out)
{
    for (uint32_t i = 0; i < n; i++) {
        float value = x[i] > -LARGEST ? x[i] : -LARGEST;
        out[i] = value < LARGEST ? value : LARGEST;
    }
}

// Set w to the importance of each weight as a part of their mean, or LEAST.
// Where all are equal, also 0, w is 1.
static void weigh(const float *importance, uint32_t n, float *w)
{
    double sum = 0;
    for (uint32_t i = 0; importance != NULL && i < n; i++) {
        sum += (double)importance[i];
    }
    for (uint32_t i = 0; i < n; i++) {
        float part = sum > 0 ? (float)((double)importance[i] * n / sum) : 1;
        w[i] = part > LEAST ? part : LEAST;
    }
}

void or_quant_encode(or_quant_t type, const float *x, const float *importance, uint32_t units,
                     void *row)
{
    static void (*const encoders[OR_QUANT_ENCODED])(const float *, const float *, uint8_t *) = {
        [OR_QUANT_Q8_0] = encode_q8_0,     [OR_QUANT_Q4_0] = encode_q4_0,
        [OR_QUANT_IQ4_NL] = encode_iq4_nl, [OR_QUANT_Q5_0] = encode_q5_0,
        [OR_QUANT_Q4_1] = encode_q4_1,     [OR_QUANT_Q5_1] = encode_q5_1,
        [OR_QUANT_MXFP4] = encode_mxfp4,
    };
    uint32_t weights = or_quant_unit_blocks(type) * OR_QUANT_BLOCK;
    uint32_t bytes = or_quant_file_bytes(type);
    for (uint32_t u = 0; u < units; u++) {
        float unit[SUPER_WEIGHTS], w[SUPER_WEIGHTS];
        size_t first = (size_t)u * weights;
        cut(x + first, weights, unit);
        weigh(importance != NULL ? importance + first : NULL, weights, w);
        uint8_t *at = (uint8_t *)row + (size_t)u * bytes;
        if (encoders[type] != NULL) {
            encoders[type](unit, w, at);
        } else {
            or_quant_encode_super_block(type, unit, w, at);
        }
    }
}
