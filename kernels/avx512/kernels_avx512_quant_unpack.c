// Each type of weights unpacked to the bytes, scales and minima of a chunk.
#include "kernels/avx512/kernels_avx512_quant_block.h"

// Return whether the chunk's integers stay in the panel. The bytes of Q8_0 are ready where they lie, but half of the
// lines there cross two of the cache.
ALWAYS_INLINE bool leave_integers(or_quant_t type, const void *panel, uint32_t first, uint32_t p,
                                  quant_chunk_t *chunk)
{
    const or_panel_q8_0_t *w = (const or_panel_q8_0_t *)panel + first;
    if (type != OR_QUANT_Q8_0 || chunk->many_rows) {
        return false;
    }
    chunk->bytes[p] = &w->bytes[0][0][0];
    chunk->bytes_stride = sizeof *w;
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

#define UNPACK(name, type, block_bytes, halves, minima)                                            \
    static void unpack_##name(const void *panel, uint32_t first, uint32_t p, quant_chunk_t *chunk) \
    {                                                                                              \
        unpack(type, halves, minima, panel, first, p, chunk);                                      \
    }

QUANT_FORMATS(UNPACK)

#define FORMAT(name, type, block_bytes, halves, minima) [type] = {unpack_##name, halves, minima},

const quant_format_t avx512_quant_formats[OR_QUANT_TYPES] = {QUANT_FORMATS(FORMAT)};
