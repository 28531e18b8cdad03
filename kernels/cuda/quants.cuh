// quants - a block of a panel (quants.h of kernels/) as a warp loads it, and as or_multiply_bytes wants it.
//
// A lane loads words of neighbouring outputs at once, as panels keep them side by side: of two (uint2) or of four (uint4).
// Words of four weights are in K where or_multiply_bytes has them: word t of a lane's first half of the block, word 4 + t
// of the other. Here t is lane % 4.
//
//     quants.cu       two outputs, 2 g and 2 g + 1 with g = lane / 4: a warp has all 16 of a block
//     quants_few.cu   four outputs: a warp has all 16 of two blocks
#pragma once

#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/cuda_portable.cuh"

extern "C" {
#include "kernels/quant_internal.h"
}

// Each type, in the order of or_quant_t, and the struct that its panels are made of.
#define OR_QUANT_UNITS(row)                                                                        \
    row(OR_QUANT_Q8_0, or_panel_q8_0_t) row(OR_QUANT_Q4_0, or_panel_q4_0_t)                        \
        row(OR_QUANT_IQ4_NL, or_panel_q4_0_t) row(OR_QUANT_Q5_0, or_panel_q5_0_t)                  \
            row(OR_QUANT_Q4_1, or_panel_q4_1_t) row(OR_QUANT_Q5_1, or_panel_q5_1_t)                \
                row(OR_QUANT_Q4_K, or_panel_q4_k_t) row(OR_QUANT_Q5_K, or_panel_q5_k_t)            \
                    row(OR_QUANT_Q2_K, or_panel_q2_k_t) row(OR_QUANT_Q3_K, or_panel_q3_k_t)        \
                        row(OR_QUANT_Q6_K, or_panel_q6_k_t)                                        \
                            row(OR_QUANT_IQ4_XS, or_panel_iq4_xs_t)                                \
                                row(OR_QUANT_MXFP4, or_panel_q4_0_t)                               \
                                    row(OR_QUANT_IQ3_S, or_panel_iq4_xs_t)                         \
                                        row(OR_QUANT_IQ3_XXS, or_panel_iq4_xs_t)                   \
                                            row(OR_QUANT_IQ2_S, or_panel_q3_k_t)                   \
                                                row(OR_QUANT_IQ2_XS, or_panel_q3_k_t)              \
                                                    row(OR_QUANT_IQ2_XXS, or_panel_q3_k_t)

// The sum that or_cuda_sum_quants makes of the parts.
typedef struct {
    bool over;
    uint32_t outputs;
} or_cuda_few_sum_t;

// or_cuda_matmul_quants_beside of 1 to OR_CUDA_FEW_ROWS rows. Panels are aligned to 16 bytes, and there is something to do.
// If `sum` is not NULL, the spans' products are summed, and there is one matrix, whose y is that of the sum.
int or_cuda_few_quants(or_cuda_t *cuda, or_quant_t type, const or_cuda_beside_t *matrices,
                       uint32_t count, size_t panel_bytes, const or_q8_block_t *x, size_t x_stride,
                       uint32_t rows, const or_cuda_parts_t *to, const or_cuda_few_sum_t *sum);
// Whether one launch may sum them.
bool or_cuda_few_can_sum(const or_cuda_parts_t *to, uint32_t rows);

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

// A lane's integers of a block of a unit, of its outputs; what the type lacks stays 0.
template <typename WORDS> struct loaded_t {
    WORDS low[2];  // bytes, or pairs, of the block's halves; or nibbles of both at once
    WORDS high[2]; // pairs likewise, or bits of both at once
};

// Row `row` of a part of a unit that has a word of each output in a row; of those, the lane's at `place`.
template <typename WORDS> OR_DEVICE WORDS load_words(const void *part, uint32_t row, uint32_t place)
{
    return ((const WORDS *)part)[row * (OR_PANEL * sizeof(uint32_t) / sizeof(WORDS)) + place];
}

template <or_quant_t TYPE, typename WORDS, typename UNIT>
OR_DEVICE loaded_t<WORDS> load_integers(const UNIT *unit, uint32_t b, uint32_t place, uint32_t t)
{
    constexpr shape_t s = shape_of(TYPE);
    loaded_t<WORDS> to = {};
    if constexpr (s.bits == 8) {
        to.low[0] = load_words<WORDS>(unit->bytes, t, place);
        to.low[1] = load_words<WORDS>(unit->bytes, 4 + t, place);
    } else if constexpr (s.bits >= 4) {
        to.low[0] = load_words<WORDS>(unit->nibbles, b * 4 + t, place);
    } else {
        to.low[0] = load_words<WORDS>(unit->pairs, b * 2, place);
        to.low[1] = load_words<WORDS>(unit->pairs, b * 2 + 1, place);
    }
    if constexpr (s.bits == 6) {
        to.high[0] = load_words<WORDS>(unit->pairs, b * 2, place);
        to.high[1] = load_words<WORDS>(unit->pairs, b * 2 + 1, place);
    } else if constexpr (s.bits == 5 || s.bits == 3) {
        to.high[0] = load_words<WORDS>(unit->bits, b, place);
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

OR_DEVICE uint32_t word_of(const uint2 &words, uint32_t i)
{
    return i == 0 ? words.x : words.y;
}

OR_DEVICE uint32_t word_of(const uint4 &words, uint32_t i)
{
    return i == 0 ? words.x : i == 1 ? words.y : i == 2 ? words.z : words.w;
}

// Four integers of one of the lane's outputs, in half `half` of the block, as they are stored.
template <or_quant_t TYPE, typename WORDS>
OR_DEVICE uint32_t stored_word(const loaded_t<WORDS> *b, uint32_t output, uint32_t half, uint32_t t)
{
    constexpr shape_t s = shape_of(TYPE);
    const uint32_t low = word_of(b->low[s.bits == 8 || s.bits < 4 ? half : 0], output);
    const uint32_t high = word_of(b->high[s.bits == 6 ? half : 0], output);
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
template <or_quant_t TYPE, typename WORDS>
OR_DEVICE uint32_t unpack_word(const loaded_t<WORDS> *b, uint32_t output, uint32_t half, uint32_t t)
{
    const uint32_t stored = stored_word<TYPE>(b, output, half, t);
    if constexpr (values_of(TYPE).there) {
        return look_up<TYPE>(stored);
    }
    return stored;
}

// Unpack them as or_multiply_bytes takes them: `first` and the output behind it are what it calls g and g + 8.
template <or_quant_t TYPE, typename WORDS>
OR_DEVICE void unpack_block(const loaded_t<WORDS> *b, uint32_t first, uint32_t t, uint32_t words[4])
{
    for (uint32_t i = 0; i < 4; i++) {
        words[i] = unpack_word<TYPE>(b, first + i % 2, i / 2, t);
    }
}
