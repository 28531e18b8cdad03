#include <string.h>

#include "kernels/quants.h"

// Scales and minima of Q4_K and Q5_K: 6 bits each, as quant_encode_super.c packs them.
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
    case OR_QUANT_Q6_K: // a byte of a group's scale, after the weights
        memset(bytes + 192 + (size_t)2 * block, 0, 2);
        break;
    default: // a block with a scale of its own
        memset(bytes, 0, or_quant_file_bytes(type));
        break;
    }
}
