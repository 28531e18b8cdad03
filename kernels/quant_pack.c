// Rows of a GGUF file into panels. Four neighbours in K stay together in all parts of a panel, so all is
// done on words of four bytes.
#include <string.h>

#include "kernels/quant_internal.h"

#define WORDS (OR_QUANT_BLOCK / 4)
#define WORD_STRIDE (OR_PANEL * 4) // bytes from a word of a lane to its next

static void put_word(uint8_t *at, uint32_t word)
{
    memcpy(at, &word, sizeof word);
}

// Words of `words` shifted by 0, width, 2 * width ... and joined.
static uint32_t join(const uint32_t *words, uint32_t count, uint32_t step, uint32_t width)
{
    uint32_t joined = 0;
    for (uint32_t i = 0; i < count; i++) {
        joined |= words[(size_t)i * step] << i * width;
    }
    return joined;
}

static void put_bytes(const uint32_t stored[WORDS], uint8_t *at)
{
    for (uint32_t i = 0; i < WORDS; i++) {
        put_word(at + (size_t)i * WORD_STRIDE, stored[i]);
    }
}

static void put_nibbles(const uint32_t stored[WORDS], uint8_t *at)
{
    for (uint32_t c = 0; c < WORDS / 2; c++) {
        put_word(at + (size_t)c * WORD_STRIDE, join(stored + c, 2, WORDS / 2, 4));
    }
}

static void put_pairs(const uint32_t stored[WORDS], uint8_t *at)
{
    put_word(at, join(stored, WORDS / 2, 1, 2));
    put_word(at + WORD_STRIDE, join(stored + WORDS / 2, WORDS / 2, 1, 2));
}

static void put_bits(const uint32_t stored[WORDS], uint8_t *at)
{
    put_word(at, join(stored, WORDS, 1, 1));
}

// Some of the bits of each stored integer.
static void select_bits(const uint32_t stored[WORDS], uint32_t from, uint32_t count,
                        uint32_t selected[WORDS])
{
    uint32_t mask = ((1u << count) - 1) * 0x01010101u;
    for (uint32_t i = 0; i < WORDS; i++) {
        selected[i] = stored[i] >> from & mask;
    }
}

// Block `b` of a unit; `low` and `high` are its lane's first words there.
static void put_integers(uint32_t bits, const uint8_t block[OR_QUANT_BLOCK], uint32_t b,
                         uint8_t *low, uint8_t *high)
{
    uint32_t stored[WORDS], part[WORDS];
    memcpy(stored, block, sizeof stored);
    if (bits == 8) {
        put_bytes(stored, low);
        return;
    }
    if (bits >= 4) {
        select_bits(stored, 0, 4, part);
        put_nibbles(part, low + (size_t)b * 4 * WORD_STRIDE);
    } else {
        select_bits(stored, 0, 2, part);
        put_pairs(part, low + (size_t)b * 2 * WORD_STRIDE);
    }
    if (bits == 6) {
        select_bits(stored, 4, 2, part);
        put_pairs(part, high + (size_t)b * 2 * WORD_STRIDE);
    } else if (bits % 2 == 1) {
        select_bits(stored, bits - 1, 1, part);
        put_bits(part, high + (size_t)b * WORD_STRIDE);
    }
}

static void put_half(uint8_t *halves, uint32_t lane, uint16_t half)
{
    memcpy(halves + lane * sizeof half, &half, sizeof half);
}

static void put_unit(const or_quant_layout_t *layout, const or_quant_unit_t *unit, uint32_t lane,
                     uint8_t *panel)
{
    put_half(panel + layout->scales, lane, unit->scale);
    if (layout->has_minima) {
        put_half(panel + layout->minima, lane, unit->minimum);
    }
    for (uint32_t b = 0; b < layout->unit_blocks; b++) {
        put_integers(layout->bits, unit->stored[b], b, panel + layout->low + lane * 4,
                     panel + layout->high + lane * 4);
    }
    if (layout->groups > 0) {
        for (uint32_t g = 0; g < layout->unit_blocks * layout->block_groups; g++) {
            panel[layout->groups + g * OR_PANEL + lane] = unit->groups[g];
        }
    }
    if (layout->block_minima > 0) {
        for (uint32_t b = 0; b < layout->unit_blocks; b++) {
            panel[layout->block_minima + b * OR_PANEL + lane] = unit->block_minima[b];
        }
    }
}

void or_quant_pack(or_quant_t type, const void *rows, size_t row_bytes, uint32_t row_count,
                   uint32_t units, void *panel)
{
    const or_quant_layout_t *layout = or_quant_layout(type);
    for (size_t u = 0; u < units; u++) {
        uint8_t *to = (uint8_t *)panel + u * layout->unit_bytes;
        if (row_count < OR_PANEL) {
            memset(to, 0, layout->unit_bytes);
        }
        for (uint32_t lane = 0; lane < row_count; lane++) {
            or_quant_unit_t unit;
            or_quant_read(type, (const uint8_t *)rows + lane * row_bytes + u * layout->file_bytes,
                          &unit);
            put_unit(layout, &unit, lane, to);
        }
    }
}

// ---- blocks of zeros ----

// Scales and minima of Q4_K and Q5_K: 6 bits each, as quant_encode.c packs them.
static void clear_six_bits(uint8_t *packed, uint32_t block)
{
    uint32_t j = block % 4;
    if (block < 4) {
        packed[j] &= 0xC0;
        packed[j + 4] &= 0xC0;
    } else {
        packed[j] &= 0x3F;
        packed[j + 4] &= 0x3F;
        packed[j + 8] = 0;
    }
}

// A scale of Q3_K: 6 bits, of which 32 says zero.
static void clear_signed_six_bits(uint8_t *packed, uint32_t group)
{
    packed[group % 8] &= group < 8 ? 0xF0 : 0x0F;
    packed[8 + group % 4] &= (uint8_t) ~(3 << 2 * (group / 4));
    packed[8 + group % 4] |= (uint8_t)(2 << 2 * (group / 4));
}

// A scale of IQ4_XS: the same six bits, two bytes of pairs before four of nibbles.
static void clear_parted_six_bits(uint8_t *packed, uint32_t block)
{
    packed[block / 4] &= (uint8_t) ~(3 << block % 4 * 2);
    packed[block / 4] |= (uint8_t)(2 << block % 4 * 2);
    packed[2 + block / 2] &= block % 2 == 0 ? 0xF0 : 0x0F;
}

void or_quant_clear(or_quant_t type, uint32_t block, void *unit)
{
    uint8_t *bytes = unit;
    switch (type) {
    case OR_QUANT_Q4_K:
    case OR_QUANT_Q5_K:
        clear_six_bits(bytes + 4, block);
        break;
    case OR_QUANT_Q2_K: // a byte of a group's scale and minimum, before the weights
        memset(bytes + (size_t)2 * block, 0, 2);
        break;
    case OR_QUANT_Q3_K: // after the weights
        clear_signed_six_bits(bytes + 96, 2 * block);
        clear_signed_six_bits(bytes + 96, 2 * block + 1);
        break;
    case OR_QUANT_IQ4_XS:
        clear_parted_six_bits(bytes + 2, block);
        break;
    case OR_QUANT_Q6_K: // a byte of a group's scale, after the weights
        memset(bytes + 192 + (size_t)2 * block, 0, 2);
        break;
    default: // a block with a scale of its own
        memset(bytes, 0, or_quant_file_bytes(type));
        break;
    }
}
