// Units of a row as they lie in a GGUF file, all numbers little-endian. In the simple types a byte
// holds nibbles of the weights i and i + 16. Super-blocks are more intricate: they are made for vectors
// of 32 bytes, whose bytes hold bits of the same weight of several blocks.
#include "kernels/quant_internal.h"

#define BLOCK OR_QUANT_BLOCK
#define EACH_BYTE 0x01010101u // times a byte: that byte four times

static uint16_t read_u16(const uint8_t *at)
{
    return (uint16_t)(at[0] | at[1] << 8);
}

static uint32_t read_u32(const uint8_t *at)
{
    return read_u16(at) | (uint32_t)read_u16(at + 2) << 16;
}

// Adds `count` bits of each of some bytes to as many stored integers, four at a time.
static void place_bits(const uint8_t *bytes, uint32_t size, uint32_t from, uint32_t count,
                       uint32_t to, uint8_t *stored)
{
    uint32_t mask = ((1u << count) - 1) * EACH_BYTE;
    for (uint32_t i = 0; i < size; i += 4) {
        uint32_t word, sum;
        memcpy(&word, bytes + i, sizeof word);
        memcpy(&sum, stored + i, sizeof sum);
        sum |= (word >> from & mask) << to;
        memcpy(stored + i, &sum, sizeof sum);
    }
}

// ---- one block ----

static void read_nibbles(const uint8_t *nibbles, uint8_t stored[BLOCK])
{
    place_bits(nibbles, BLOCK / 2, 0, 4, 0, stored);
    place_bits(nibbles, BLOCK / 2, 4, 4, 0, stored + BLOCK / 2);
}

// Bit i of four bytes is the fifth of weight i. The product puts four neighbours into four bytes.
static void add_fifth_bits(const uint8_t *at, uint8_t stored[BLOCK])
{
    uint32_t bits = read_u32(at);
    for (uint32_t i = 0; i < BLOCK; i += 4) {
        uint32_t four = (bits >> i & 15) * 0x00204081u & EACH_BYTE;
        uint32_t sum;
        memcpy(&sum, stored + i, sizeof sum);
        sum |= four << 4;
        memcpy(stored + i, &sum, sizeof sum);
    }
}

// half scale, 32 signed bytes
static void read_q8_0(const uint8_t *row, or_quant_unit_t *unit)
{
    unit->scale = read_u16(row);
    for (uint32_t i = 0; i < BLOCK; i++) {
        unit->stored[0][i] = row[2 + i] ^ 128;
    }
}

// half scale, 16 bytes of nibbles; IQ4_NL alike
static void read_q4_0(const uint8_t *row, or_quant_unit_t *unit)
{
    unit->scale = read_u16(row);
    read_nibbles(row + 2, unit->stored[0]);
}

// half scale, half minimum, nibbles
static void read_q4_1(const uint8_t *row, or_quant_unit_t *unit)
{
    unit->scale = read_u16(row);
    unit->minimum = read_u16(row + 2);
    read_nibbles(row + 4, unit->stored[0]);
}

// half scale, fifth bits, nibbles
static void read_q5_0(const uint8_t *row, or_quant_unit_t *unit)
{
    unit->scale = read_u16(row);
    read_nibbles(row + 6, unit->stored[0]);
    add_fifth_bits(row + 2, unit->stored[0]);
}

// half scale, half minimum, fifth bits, nibbles
static void read_q5_1(const uint8_t *row, or_quant_unit_t *unit)
{
    unit->scale = read_u16(row);
    unit->minimum = read_u16(row + 2);
    read_nibbles(row + 8, unit->stored[0]);
    add_fifth_bits(row + 4, unit->stored[0]);
}

// ---- super-blocks ----

// 128 bytes: 32 of them hold the nibbles of two neighbouring blocks.
static void read_paired_nibbles(const uint8_t *nibbles, or_quant_unit_t *unit)
{
    for (uint32_t b = 0; b < OR_SUPER_BLOCK; b++) {
        place_bits(nibbles + (size_t)b / 2 * BLOCK, BLOCK, b % 2 * 4, 4, 0, unit->stored[b]);
    }
}

// 64 bytes: 32 of them hold the pairs of four blocks.
static void read_pairs(const uint8_t *pairs, uint32_t to, or_quant_unit_t *unit)
{
    for (uint32_t b = 0; b < OR_SUPER_BLOCK; b++) {
        place_bits(pairs + (size_t)b / 4 * BLOCK, BLOCK, b % 4 * 2, 2, to, unit->stored[b]);
    }
}

// 32 bytes hold a bit of each block.
static void read_bits(const uint8_t *bits, uint32_t to, or_quant_unit_t *unit)
{
    for (uint32_t b = 0; b < OR_SUPER_BLOCK; b++) {
        place_bits(bits, BLOCK, b, 1, to, unit->stored[b]);
    }
}

// 12 bytes hold 6 bits of scale (S) and of minimum (m) of each block:
//
//     0 to 3    S4 S0    upper 2 bits of blocks 4 to 7, 6 bits of 0 to 3
//     4 to 7    m4 m0    the same of minima
//     8 to 11   m4 S4    lower 4 bits of blocks 4 to 7
static void read_six_bits(const uint8_t *at, or_quant_unit_t *unit)
{
    for (uint32_t b = 0; b < 4; b++) {
        unit->groups[b] = at[b] & 63;
        unit->block_minima[b] = at[4 + b] & 63;
        unit->groups[4 + b] = (uint8_t)((at[8 + b] & 15) | at[b] >> 6 << 4);
        unit->block_minima[4 + b] = (uint8_t)(at[8 + b] >> 4 | at[4 + b] >> 6 << 4);
    }
}

// half scale, half minimum, 12 bytes of sixes, nibbles
static void read_q4_k(const uint8_t *row, or_quant_unit_t *unit)
{
    unit->scale = read_u16(row);
    unit->minimum = read_u16(row + 2);
    read_six_bits(row + 4, unit);
    read_paired_nibbles(row + 16, unit);
}

// half scale, half minimum, 12 bytes of sixes, fifth bits, nibbles
static void read_q5_k(const uint8_t *row, or_quant_unit_t *unit)
{
    unit->scale = read_u16(row);
    unit->minimum = read_u16(row + 2);
    read_six_bits(row + 4, unit);
    read_paired_nibbles(row + 48, unit);
    read_bits(row + 16, 4, unit);
}

// 16 groups' nibbles, pairs, half scale, half minimum
static void read_q2_k(const uint8_t *row, or_quant_unit_t *unit)
{
    memcpy(unit->groups, row, sizeof unit->groups);
    read_pairs(row + 16, 0, unit);
    unit->scale = read_u16(row + 80);
    unit->minimum = read_u16(row + 82);
}

// Third bits, pairs, 12 bytes of scales, half scale. Of the 16 scales of 6 bits the first 8 bytes hold
// the lower 4 of two, 8 apart; the others the upper 2 of four, 4 apart.
static void read_q3_k(const uint8_t *row, or_quant_unit_t *unit)
{
    const uint8_t *scales = row + 96;
    for (uint32_t g = 0; g < 2 * OR_SUPER_BLOCK; g++) {
        int lower = scales[g % 8] >> g / 8 * 4 & 15;
        int upper = scales[8 + g % 4] >> g / 4 * 2 & 3;
        unit->groups[g] = (uint8_t)((lower | upper << 4) - 32);
    }
    read_pairs(row + 32, 0, unit);
    read_bits(row, 2, unit);
    unit->scale = read_u16(row + 108);
}

// Nibbles, pairs, 16 signed bytes of scales, half scale. Of the nibbles 64 bytes hold four blocks: the low
// ones the first two, the high ones the others.
static void read_q6_k(const uint8_t *row, or_quant_unit_t *unit)
{
    for (uint32_t b = 0; b < OR_SUPER_BLOCK; b++) {
        const uint8_t *nibbles = row + (size_t)(b / 4 * 2 + b % 2) * BLOCK;
        place_bits(nibbles, BLOCK, b % 4 / 2 * 4, 4, 0, unit->stored[b]);
    }
    read_pairs(row + 128, 4, unit);
    memcpy(unit->groups, row + 192, sizeof unit->groups);
    unit->scale = read_u16(row + 208);
}

// ---- values and grids ----

// half scale, 8 pairs of bits, 8 nibbles, nibbles of the weights: the pair is above the nibble
static void read_iq4_xs(const uint8_t *row, or_quant_unit_t *unit)
{
    unit->scale = read_u16(row);
    uint32_t upper = read_u16(row + 2);
    for (uint32_t b = 0; b < OR_SUPER_BLOCK; b++) {
        uint32_t lower = row[4 + b / 2] >> b % 2 * 4 & 15;
        unit->groups[b] = (uint8_t)((lower | (upper >> 2 * b & 3) << 4) - 32);
        read_nibbles(row + 8 + (size_t)b * BLOCK / 2, unit->stored[b]);
    }
}

// A byte with the exponent of a power of two, nibbles. A bfloat holds each of the powers: the least two are subnormal.
static void read_mxfp4(const uint8_t *row, or_quant_unit_t *unit)
{
    uint32_t exponent = row[0];
    unit->scale = (uint16_t)(exponent < 2 ? 0x20u << exponent : (exponent - 1) << 7);
    read_nibbles(row + 1, unit->stored[0]);
}

// Store eight weights: magnitudes of `width` bits each, and above each of them its sign.
static void put_signed(uint32_t magnitudes, uint32_t width, uint32_t signs, uint8_t *stored)
{
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t magnitude = magnitudes >> width * i & ((1u << width) - 1);
        stored[i] = (uint8_t)(magnitude | (signs >> i & 1) << width);
    }
}

// Return eight signs, of which seven are stored: the number of minus signs is even.
static uint32_t even_signs(uint32_t seven)
{
    seven &= 127;
    return seven | (uint32_t)(__builtin_popcount(seven) & 1) << 7;
}

// Return the scale of a group, of its nibble.
static uint8_t odd_scale(uint32_t nibble)
{
    return (uint8_t)(2 * (nibble & 15) + 1);
}

// Two fours of a grid of IQ3, as magnitudes of eight weights.
static uint32_t join_fours(const uint16_t *grid, uint32_t first, uint32_t second)
{
    return grid[first] | (uint32_t)grid[second] << 12;
}

// half scale, places, ninth bits of the places, signs, nibbles of scales
static void read_iq3_s(const uint8_t *row, or_quant_unit_t *unit)
{
    unit->scale = read_u16(row);
    for (uint32_t b = 0; b < OR_SUPER_BLOCK; b++) {
        const uint8_t *places = row + 2 + (size_t)8 * b;
        uint32_t ninths = row[66 + b];
        unit->groups[b] = odd_scale(row[106 + b / 2] >> b % 2 * 4);
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t first = places[2 * i] | (ninths >> 2 * i & 1) << 8;
            uint32_t second = places[2 * i + 1] | (ninths >> (2 * i + 1) & 1) << 8;
            put_signed(join_fours(or_iq3_s_grid, first, second), 3, row[74 + 4 * b + i],
                       unit->stored[b] + (size_t)8 * i);
        }
    }
}

// half scale, places, for each block a word: four times seven signs, a nibble of scale
static void read_iq3_xxs(const uint8_t *row, or_quant_unit_t *unit)
{
    unit->scale = read_u16(row);
    for (uint32_t b = 0; b < OR_SUPER_BLOCK; b++) {
        const uint8_t *places = row + 2 + (size_t)8 * b;
        uint32_t word = read_u32(row + 66 + (size_t)4 * b);
        unit->groups[b] = odd_scale(word >> 28);
        for (uint32_t i = 0; i < 4; i++) {
            put_signed(join_fours(or_iq3_xxs_grid, places[2 * i], places[2 * i + 1]), 3,
                       even_signs(word >> 7 * i), unit->stored[b] + (size_t)8 * i);
        }
    }
}

// Nibbles of the scales of a block's two groups.
static void read_group_scales(uint32_t both, uint32_t b, or_quant_unit_t *unit)
{
    unit->groups[2 * b] = odd_scale(both);
    unit->groups[2 * b + 1] = odd_scale(both >> 4);
}

// half scale, places, signs, upper two bits of the places, nibbles of scales
static void read_iq2_s(const uint8_t *row, or_quant_unit_t *unit)
{
    unit->scale = read_u16(row);
    for (uint32_t b = 0; b < OR_SUPER_BLOCK; b++) {
        read_group_scales(row[74 + b], b, unit);
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t place = row[2 + 4 * b + i] | (uint32_t)(row[66 + b] >> 2 * i & 3) << 8;
            put_signed(or_iq2_s_grid[place], 2, row[34 + 4 * b + i],
                       unit->stored[b] + (size_t)8 * i);
        }
    }
}

// half scale, 9 bits of place and 7 signs for each eight weights, nibbles of scales
static void read_iq2_xs(const uint8_t *row, or_quant_unit_t *unit)
{
    unit->scale = read_u16(row);
    for (uint32_t b = 0; b < OR_SUPER_BLOCK; b++) {
        read_group_scales(row[66 + b], b, unit);
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t both = read_u16(row + 2 + (size_t)8 * b + (size_t)2 * i);
            put_signed(or_iq2_xs_grid[both & 511], 2, even_signs(both >> 9),
                       unit->stored[b] + (size_t)8 * i);
        }
    }
}

// half scale, for each block: 4 places and a word of four times seven signs and a nibble of scale
static void read_iq2_xxs(const uint8_t *row, or_quant_unit_t *unit)
{
    unit->scale = read_u16(row);
    for (uint32_t b = 0; b < OR_SUPER_BLOCK; b++) {
        const uint8_t *places = row + 2 + (size_t)8 * b;
        uint32_t word = read_u32(places + 4);
        read_group_scales((word >> 28) * 0x11, b, unit);
        for (uint32_t i = 0; i < 4; i++) {
            put_signed(or_iq2_xxs_grid[places[i]], 2, even_signs(word >> 7 * i),
                       unit->stored[b] + (size_t)8 * i);
        }
    }
}

void or_quant_read(or_quant_t type, const uint8_t *row, or_quant_unit_t *unit)
{
    static void (*const readers[OR_QUANT_TYPES])(const uint8_t *, or_quant_unit_t *) = {
        [OR_QUANT_Q8_0] = read_q8_0,       [OR_QUANT_Q4_0] = read_q4_0,
        [OR_QUANT_IQ4_NL] = read_q4_0,     [OR_QUANT_Q5_0] = read_q5_0,
        [OR_QUANT_Q4_1] = read_q4_1,       [OR_QUANT_Q5_1] = read_q5_1,
        [OR_QUANT_Q4_K] = read_q4_k,       [OR_QUANT_Q5_K] = read_q5_k,
        [OR_QUANT_Q2_K] = read_q2_k,       [OR_QUANT_Q3_K] = read_q3_k,
        [OR_QUANT_Q6_K] = read_q6_k,       [OR_QUANT_IQ4_XS] = read_iq4_xs,
        [OR_QUANT_MXFP4] = read_mxfp4,     [OR_QUANT_IQ3_S] = read_iq3_s,
        [OR_QUANT_IQ3_XXS] = read_iq3_xxs, [OR_QUANT_IQ2_S] = read_iq2_s,
        [OR_QUANT_IQ2_XS] = read_iq2_xs,   [OR_QUANT_IQ2_XXS] = read_iq2_xxs};
    memset(unit, 0, offsetof(or_quant_unit_t, stored) + or_quant_unit_blocks(type) * BLOCK);
    readers[type](row, unit);
}
