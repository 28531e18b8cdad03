// quant_encode_internal - what the encoders of single blocks and of super-blocks share. Private to kernels.
#pragma once

#include <string.h>

#include "kernels/canonical.h"
#include "kernels/kernels.h"
#include "kernels/quant_fit.h"
#include "kernels/quants.h"

#define SUPER_WEIGHTS (OR_SUPER_BLOCK * OR_QUANT_BLOCK)
#define HALF_MAX 65504.0f

// The half nearest to a value; the largest half for a value beyond it.
CANONICAL uint16_t nearest_half(float value)
{
    value = value > -HALF_MAX ? value : -HALF_MAX;
    return or_f32_to_f16(value < HALF_MAX ? value : HALF_MAX);
}

// Write a half, low byte first, and return the place behind it.
CANONICAL uint8_t *put_half(uint8_t *at, uint16_t half)
{
    at[0] = (uint8_t)half;
    at[1] = (uint8_t)(half >> 8);
    return at + 2;
}

// Weights i and i + 16 share a byte.
CANONICAL uint8_t *put_nibbles(uint8_t *at, const uint8_t *codes)
{
    for (uint32_t i = 0; i < OR_QUANT_BLOCK / 2; i++) {
        at[i] = (uint8_t)((codes[i] & 15) | (codes[i + OR_QUANT_BLOCK / 2] & 15) << 4);
    }
    return at + OR_QUANT_BLOCK / 2;
}

// Codes count from the grid's lowest integer.
CANONICAL void to_codes(const float *integers, float lowest, uint8_t *codes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        codes[i] = (uint8_t)(int)(integers[i] - lowest);
    }
}

#define IQ4_GRID                                                                                   \
    {                                                                                              \
        -127, 113, or_iq4_values                                                                   \
    }

// A code is the place of an integer among or_iq4_values.
CANONICAL void to_iq4_codes(const float *integers, uint8_t *codes, uint32_t count)
{
    memset(codes, 0, count);
    for (uint32_t i = 0; i < count; i++) {
        while ((float)or_iq4_values[codes[i]] < integers[i]) {
            codes[i]++;
        }
    }
}

// Encode the 256 weights of a super-block (quant_encode_super.c), each of importance w > 0.
void or_quant_encode_super_block(or_quant_t type, const float *x, const float *w, uint8_t *at);
