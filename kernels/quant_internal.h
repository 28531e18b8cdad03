// quant_internal - a unit of one row as its numbers, between the order of a file and that of panels;
// and where panels keep what. Private to kernels/.
#pragma once

#include <stdbool.h>

#include "kernels/canonical.h"
#include "kernels/quants.h"

// A unit of one row. Its integers are as they are stored, without a sign, like a panel's.
typedef struct {
    uint16_t scale; // halves; of MXFP4 the scale is a bfloat
    uint16_t minimum;
    uint8_t groups[2 * OR_SUPER_BLOCK]; // bytes of a panel's block_scales or groups
    uint8_t block_minima[OR_SUPER_BLOCK];
    uint8_t stored[OR_SUPER_BLOCK][OR_QUANT_BLOCK];
} or_quant_unit_t;

// The layout of a type. Parts of a panel's unit are given by their first byte; the integers' upper bits lie apart
// where `bits` are not 8, 4 or 2.
typedef struct {
    const char *name;
    uint32_t unit_blocks;
    uint32_t block_groups; // 1, or 2 of 16 weights
    uint32_t bits;         // of a stored integer
    bool has_minima;
    uint32_t file_bytes;
    size_t unit_bytes;
    size_t scales;
    size_t minima;
    size_t groups; // block_scales or groups; only where blocks share halves
    size_t block_minima;
    size_t low;  // bytes, nibbles, or pairs
    size_t high; // bits, or pairs behind nibbles
} or_quant_layout_t;

// A group's numbers, as quants.h has them.
typedef struct {
    float scale;
    float minimum;
} or_quant_group_t;

const or_quant_layout_t *or_quant_layout(or_quant_t type);

// The magnitudes that the types of IQ2 and IQ3 give to neighbouring weights at once. A file says a place in one of these
// lists. An entry of IQ2 is of eight weights, two bits of each; of IQ3 it is of four, three bits of each.
// The first weight has the lowest bits. They say which of the first magnitudes of or_iq2_values, or_iq3_s_values or
// or_iq3_xxs_values a weight has. The lists are data of the GGUF format and follow no rule: tests/oracles/make_quants.py
// prints them from the gguf package.
extern const uint16_t or_iq2_xxs_grid[256];
extern const uint16_t or_iq2_xs_grid[512];
extern const uint16_t or_iq2_s_grid[1024];
extern const uint16_t or_iq3_xxs_grid[256];
extern const uint16_t or_iq3_s_grid[512];

// Read the unit that begins at `row`, whose bytes need no alignment.
void or_quant_read(or_quant_t type, const uint8_t *row, or_quant_unit_t *unit);

// Return the integer that a stored value stands for.
CANONICAL int32_t or_quant_integer(or_quant_t type, uint8_t stored)
{
    switch (type) {
    case OR_QUANT_Q8_0:
        return stored - 128;
    case OR_QUANT_Q4_0:
        return stored - 8;
    case OR_QUANT_IQ4_NL:
    case OR_QUANT_IQ4_XS:
        return or_iq4_values[stored];
    case OR_QUANT_MXFP4:
        return or_mxfp4_values[stored];
    case OR_QUANT_IQ3_S:
        return or_iq3_s_values[stored];
    case OR_QUANT_IQ3_XXS:
        return or_iq3_xxs_values[stored];
    case OR_QUANT_IQ2_S:
    case OR_QUANT_IQ2_XS:
    case OR_QUANT_IQ2_XXS:
        return or_iq2_values[stored];
    case OR_QUANT_Q5_0:
        return stored - 16;
    case OR_QUANT_Q3_K:
        return stored - 4;
    case OR_QUANT_Q6_K:
        return stored - 32;
    default:
        return stored;
    }
}

// Return a group's numbers, from the halves, widened, and, where blocks share those, the group's own bytes.
CANONICAL or_quant_group_t or_quant_group_of(or_quant_t type, float s, float m, uint8_t group,
                                             uint8_t block_minimum)
{
    switch (type) {
    case OR_QUANT_Q4_1:
    case OR_QUANT_Q5_1:
        return (or_quant_group_t){s, -m};
    case OR_QUANT_Q4_K:
    case OR_QUANT_Q5_K:
        return (or_quant_group_t){s * (float)group, m * (float)block_minimum};
    case OR_QUANT_Q2_K:
        return (or_quant_group_t){s * (float)(group & 15), m * (float)(group >> 4)};
    case OR_QUANT_Q3_K:
    case OR_QUANT_Q6_K:
    case OR_QUANT_IQ4_XS:
    case OR_QUANT_IQ3_S:
        return (or_quant_group_t){s * (float)(int8_t)group, 0.0f};
    case OR_QUANT_IQ3_XXS:
        return (or_quant_group_t){s * (float)(int8_t)group * OR_IQ3_XXS_PART, 0.0f};
    case OR_QUANT_IQ2_S:
    case OR_QUANT_IQ2_XS:
    case OR_QUANT_IQ2_XXS:
        return (or_quant_group_t){s * (float)(int8_t)group * OR_IQ2_PART, 0.0f};
    default:
        return (or_quant_group_t){s, 0.0f};
    }
}

// The same of halves as they are kept, which of MXFP4 are bfloats.
CANONICAL or_quant_group_t or_quant_group(or_quant_t type, uint16_t scale, uint16_t minimum,
                                          uint8_t group, uint8_t block_minimum)
{
    float s = type == OR_QUANT_MXFP4 ? canonical_widen_bf16(scale) : canonical_widen(scale);
    return or_quant_group_of(type, s, canonical_widen(minimum), group, block_minimum);
}

// Complete a block of activations whose scale is set: `first` and `second` are the sums of its halves' quants.
CANONICAL void or_q8_block_set_sums(or_q8_block_t *block, int32_t first, int32_t second)
{
    int32_t sum = first + second;
    block->scaled_sum = block->scale * (float)sum;
    block->scaled_half_sums[0] = block->scale * (float)first;
    block->scaled_half_sums[1] = block->scale * (float)second;
    block->sum = sum;
    block->bias = -128 * sum;
    block->half_biases[0] = -128 * first;
    block->half_biases[1] = -128 * second;
}
