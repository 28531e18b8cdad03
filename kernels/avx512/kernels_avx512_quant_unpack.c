// Each type of weights unpacked to the bytes, scales and minima of a chunk.
#include "kernels/avx512/kernels_avx512_quant_block.h"

// Leave bytes or nibbles in the panel, where they are multiplied.
ALWAYS_INLINE void leave(quant_chunk_t *chunk, uint32_t p, const void *bytes, size_t stride)
{
    chunk->bytes[p] = bytes;
    chunk->bytes_stride = stride;
}

// Return whether the chunk's integers stay in the panel. The bytes of Q8_0 are ready where they lie, but half of the
// lines there cross two of the cache.
ALWAYS_INLINE bool leave_integers(or_quant_t type, const void *panel, uint32_t first, uint32_t p,
                                  quant_chunk_t *chunk)
{
    if (type == OR_QUANT_Q8_0 && !chunk->many_rows) {
        const or_panel_q8_0_t *w = (const or_panel_q8_0_t *)panel + first;
        leave(chunk, p, w->bytes, sizeof *w);
        return true;
    }
    if (!chunk->packed) {
        return false;
    }
    if (type == OR_QUANT_Q4_0) {
        const or_panel_q4_0_t *w = (const or_panel_q4_0_t *)panel + first;
        leave(chunk, p, w->nibbles, sizeof *w);
    } else if (type == OR_QUANT_Q4_1) {
        const or_panel_q4_1_t *w = (const or_panel_q4_1_t *)panel + first;
        leave(chunk, p, w->nibbles, sizeof *w);
    } else {
        const or_panel_q4_k_t *w = (const or_panel_q4_k_t *)panel + first / OR_SUPER_BLOCK;
        leave(chunk, p, w->nibbles[first % OR_SUPER_BLOCK], sizeof w->nibbles[0]);
    }
    return true;
}

ALWAYS_INLINE void unpack(or_quant_t type, bool halves, bool minima, const void *panel,
                          uint32_t first, uint32_t p, quant_chunk_t *chunk)
{
    const uint32_t parts = halves ? HALVES : 1;
    const bool stay = leave_integers(type, panel, first, p, chunk);
    for (uint32_t b = 0; b < chunk->blocks; b++) {
        if (!stay) {
#pragma GCC unroll 8
            for (uint32_t g = 0; g < GROUPS; g++) {
                _mm512_store_si512(chunk->unpacked[p][b][g],
                                   bytes_of_group(type, panel, first + b, g));
            }
        }
#pragma GCC unroll 2
        for (uint32_t h = 0; h < parts; h++) {
            _mm512_store_ps(chunk->scales[b][h][p], scales_of(type, panel, first + b, h));
            if (minima) {
                _mm512_store_ps(chunk->minima[b][h][p], minima_of(type, panel, first + b, h));
            }
        }
    }
}

#define UNPACK(name, type, block_bytes, halves, minima, nibbles)                                   \
    static void unpack_##name(const void *panel, uint32_t first, uint32_t p, quant_chunk_t *chunk) \
    {                                                                                              \
        unpack(type, halves, minima, panel, first, p, chunk);                                      \
    }

QUANT_FORMATS(UNPACK)

#define FORMAT(name, type, block_bytes, halves, minima, nibbles)                                   \
    [type] = {unpack_##name, halves, minima, nibbles},

const quant_format_t avx512_quant_formats[OR_QUANT_TYPES] = {QUANT_FORMATS(FORMAT)};
