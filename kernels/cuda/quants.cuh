// quants - a block of a panel (quants.h of kernels/) as a warp loads it, and as or_multiply_bytes wants it.
//
// Lane 4 g + t has outputs 2 g and 2 g + 1, which are what or_multiply_bytes calls g and g + 8. Panels keep
// neighbours side by side, so both are loaded at once, and a warp's loads lie together. Words of four weights are
// in K where or_multiply_bytes has them: word t of a lane's first half of the block, word 4 + t of the other.
#pragma once

#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/cuda_portable.cuh"

extern "C" {
#include "kernels/quant_internal.h"
}

// Parts of each byte of a word.
#define NIBBLES 0x0F0F0F0Fu
#define PAIRS 0x03030303u
#define BITS 0x01010101u

#define NO_BIAS 99u

// The traits of a type that must be known when a kernel is compiled, beside the struct that its panels are made of
// (UNIT).
typedef struct {
    uint32_t unit_blocks;
    uint32_t groups; // of a block
    uint32_t bits;   // of a stored integer
    uint32_t bias;   // what an integer was made larger by to be stored, as 128 >> bias
    bool minima;
} shape_t;

CANONICAL constexpr shape_t shape_of(or_quant_t type)
{
    switch (type) {
    case OR_QUANT_Q8_0:
        return {1, 1, 8, 0, false};
    case OR_QUANT_Q4_0:
        return {1, 1, 4, 4, false};
    case OR_QUANT_IQ4_NL:
        return {1, 1, 4, 0, false};
    case OR_QUANT_Q5_0:
        return {1, 1, 5, 3, false};
    case OR_QUANT_Q4_1:
        return {1, 1, 4, NO_BIAS, true};
    case OR_QUANT_Q5_1:
        return {1, 1, 5, NO_BIAS, true};
    case OR_QUANT_Q4_K:
        return {OR_SUPER_BLOCK, 1, 4, NO_BIAS, true};
    case OR_QUANT_Q5_K:
        return {OR_SUPER_BLOCK, 1, 5, NO_BIAS, true};
    case OR_QUANT_Q2_K:
        return {OR_SUPER_BLOCK, 2, 2, NO_BIAS, true};
    case OR_QUANT_Q3_K:
        return {OR_SUPER_BLOCK, 2, 3, 5, false};
    case OR_QUANT_IQ4_XS:
    case OR_QUANT_IQ3_S:
    case OR_QUANT_IQ3_XXS:
        return {OR_SUPER_BLOCK, 1, 4, 0, false};
    case OR_QUANT_MXFP4:
        return {1, 1, 4, 0, false};
    case OR_QUANT_IQ2_S:
    case OR_QUANT_IQ2_XS:
    case OR_QUANT_IQ2_XXS:
        return {OR_SUPER_BLOCK, 2, 3, 0, false};
    default: // Q6_K
        return {OR_SUPER_BLOCK, 2, 6, 2, false};
    }
}

// ---- loading ----

// A lane's integers of a block of a unit, of both its outputs; what the type lacks stays 0.
typedef struct {
    uint2 low[2];  // bytes, or pairs, of the block's halves; or nibbles of both at once
    uint2 high[2]; // pairs likewise, or bits of both at once
} loaded_t;

// Row `row` of a part of a unit that has a word of each output in a row.
OR_DEVICE uint2 load_words(const void *part, uint32_t row, uint32_t lane)
{
    return ((const uint2 *)part)[row * (OR_PANEL / 2) + lane / 4];
}

template <or_quant_t TYPE, typename UNIT>
OR_DEVICE loaded_t load_integers(const UNIT *unit, uint32_t b, uint32_t lane)
{
    constexpr shape_t s = shape_of(TYPE);
    const uint32_t t = lane % 4;
    loaded_t to = {};
    if constexpr (s.bits == 8) {
        to.low[0] = load_words(unit->bytes, t, lane);
        to.low[1] = load_words(unit->bytes, 4 + t, lane);
    } else if constexpr (s.bits >= 4) {
        to.low[0] = load_words(unit->nibbles, b * 4 + t, lane);
    } else {
        to.low[0] = load_words(unit->pairs, b * 2, lane);
        to.low[1] = load_words(unit->pairs, b * 2 + 1, lane);
    }
    if constexpr (s.bits == 6) {
        to.high[0] = load_words(unit->pairs, b * 2, lane);
        to.high[1] = load_words(unit->pairs, b * 2 + 1, lane);
    } else if constexpr (s.bits == 5 || s.bits == 3) {
        to.high[0] = load_words(unit->bits, b, lane);
    }
    return to;
}

// A group of a block of an output, as or_quant_group takes it.
typedef struct {
    uint16_t scale;
    uint16_t minimum;
    uint8_t group;
    uint8_t block_minimum;
} loaded_group_t;

template <or_quant_t TYPE, typename UNIT>
OR_DEVICE loaded_group_t load_group(const UNIT *unit, uint32_t b, uint32_t group, uint32_t output)
{
    constexpr shape_t s = shape_of(TYPE);
    loaded_group_t to = {};
    to.scale = unit->scales[output];
    if constexpr (s.minima) {
        to.minimum = unit->minima[output];
    }
    if constexpr (s.groups == 2) {
        to.group = (uint8_t)unit->groups[b * 2 + group][output];
    } else if constexpr (s.unit_blocks > 1) {
        to.group = (uint8_t)unit->block_scales[b][output];
    }
    if constexpr (s.groups == 1 && s.unit_blocks > 1 && s.minima) {
        to.block_minimum = unit->block_minima[b][output];
    }
    return to;
}

// ---- unpacking ----

// The 16 values of a type + 128, four a word.
typedef struct {
    bool there; // false: the integers are stored as they are
    uint32_t words[4];
} values_t;

CANONICAL constexpr values_t values_of(or_quant_t type)
{
    switch (type) {
    case OR_QUANT_IQ4_NL:
    case OR_QUANT_IQ4_XS:
        return {true, {0x3F2D1801u, 0x766A5D4Fu, 0xA6998D81u, 0xF1D9C5B5u}};
    case OR_QUANT_MXFP4:
        return {true, {0x83828180u, 0x8C888684u, 0x7D7E7F80u, 0x74787A7Cu}};
    case OR_QUANT_IQ3_S:
        return {true, {0x87858381u, 0x8F8D8B89u, 0x797B7D7Fu, 0x71737577u}};
    case OR_QUANT_IQ3_XXS:
        return {true, {0x8E8A8682u, 0x9F9A9692u, 0x72767A7Eu, 0x61666A6Eu}};
    case OR_QUANT_IQ2_S:
    case OR_QUANT_IQ2_XS:
    case OR_QUANT_IQ2_XXS:
        return {true, {0x80AB9988u, 0x80556778u, 0x80808080u, 0x80808080u}};
    default:
        return {false, {0, 0, 0, 0}};
    }
}

// Look up the nibbles in four bytes. Their lower three bits pick from the lower and from the upper half of the table.
template <or_quant_t TYPE> OR_DEVICE uint32_t look_up(uint32_t nibbles)
{
    constexpr values_t VALUES = values_of(TYPE);
    uint32_t pairs = nibbles | nibbles >> 4;
    uint32_t which = ((pairs & 0xFFu) | (pairs >> 8 & 0xFF00u)) & 0x7777u;
    uint32_t upper = (nibbles >> 3 & BITS) * 0xFFu;
    return (or_pick_bytes(VALUES.words[0], VALUES.words[1], which) & ~upper) |
           (or_pick_bytes(VALUES.words[2], VALUES.words[3], which) & upper);
}

// Four integers of an output, 0 or 1, in half `half` of the block, as they are stored.
template <or_quant_t TYPE>
OR_DEVICE uint32_t stored_word(const loaded_t *b, uint32_t output, uint32_t half, uint32_t t)
{
    constexpr shape_t s = shape_of(TYPE);
    const uint2 lows = b->low[s.bits == 8 || s.bits < 4 ? half : 0];
    const uint2 highs = b->high[s.bits == 6 ? half : 0];
    const uint32_t low = output == 0 ? lows.x : lows.y;
    const uint32_t high = output == 0 ? highs.x : highs.y;
    const uint32_t nibbles = low >> 4 * half & NIBBLES;
    switch (s.bits) {
    case 8:
        return low;
    case 6:
        return nibbles | (high >> 2 * t & PAIRS) << 4;
    case 5:
        return nibbles | (high >> (4 * half + t) & BITS) << 4;
    case 4:
        return nibbles;
    case 3:
        return (low >> 2 * t & PAIRS) | (high >> (4 * half + t) & BITS) << 2;
    default:
        return low >> 2 * t & PAIRS;
    }
}

// The same as they are multiplied: looked up where the type has values.
template <or_quant_t TYPE>
OR_DEVICE uint32_t unpack_word(const loaded_t *b, uint32_t output, uint32_t half, uint32_t t)
{
    const uint32_t stored = stored_word<TYPE>(b, output, half, t);
    if constexpr (values_of(TYPE).there) {
        return look_up<TYPE>(stored);
    }
    return stored;
}

template <or_quant_t TYPE>
OR_DEVICE void unpack_block(const loaded_t *b, uint32_t lane, uint32_t words[4])
{
    for (uint32_t i = 0; i < 4; i++) {
        words[i] = unpack_word<TYPE>(b, i % 2, i / 2, lane % 4);
    }
}
