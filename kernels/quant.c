// Quantised rows as they lie in a GGUF file: a block is a half, its scale, and the integers of 32
// weights.
#include "kernels/kernels.h"

#include "kernels/canonical.h"

#define Q8_0_BYTES (2u + OR_QUANT_BLOCK)
#define Q4_0_BYTES (2u + OR_QUANT_BLOCK / 2)

static uint16_t block_scale(const uint8_t *block)
{
    return (uint16_t)(block[0] | block[1] << 8);
}

void or_pack_q8_0(const void *row, uint32_t blocks, or_q8_panel_block_t *panel, uint32_t lane)
{
    const uint8_t *block = row;
    for (uint32_t b = 0; b < blocks; b++, block += Q8_0_BYTES) {
        panel[b].scales[lane] = block_scale(block);
        for (uint32_t g = 0; g < OR_QUANT_BLOCK / 4; g++) {
            memcpy(panel[b].quants[g][lane], block + 2 + (size_t)4 * g, 4);
        }
    }
}

void or_pack_q4_0(const void *row, uint32_t blocks, or_q4_panel_block_t *panel, uint32_t lane)
{
    const uint8_t *block = row;
    for (uint32_t b = 0; b < blocks; b++, block += Q4_0_BYTES) {
        panel[b].scales[lane] = block_scale(block);
        for (uint32_t g = 0; g < OR_QUANT_BLOCK / 8; g++) {
            memcpy(panel[b].nibbles[g][lane], block + 2 + (size_t)4 * g, 4);
        }
    }
}

void or_dequantize_q8_0(const void *row, uint32_t blocks, float *out)
{
    const uint8_t *block = row;
    for (uint32_t b = 0; b < blocks; b++, block += Q8_0_BYTES, out += OR_QUANT_BLOCK) {
        float scale = canonical_widen(block_scale(block));
        for (uint32_t i = 0; i < OR_QUANT_BLOCK; i++) {
            out[i] = scale * (float)(int8_t)block[2 + i];
        }
    }
}

void or_dequantize_q4_0(const void *row, uint32_t blocks, float *out)
{
    const uint8_t *block = row;
    for (uint32_t b = 0; b < blocks; b++, block += Q4_0_BYTES, out += OR_QUANT_BLOCK) {
        float scale = canonical_widen(block_scale(block));
        for (uint32_t i = 0; i < OR_QUANT_BLOCK / 2; i++) {
            int nibbles = block[2 + i];
            out[i] = scale * (float)((nibbles & 15) - 8);
            out[i + OR_QUANT_BLOCK / 2] = scale * (float)((nibbles >> 4) - 8);
        }
    }
}
