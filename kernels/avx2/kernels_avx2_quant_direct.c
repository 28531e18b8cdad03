// Tiles of all quantised types straight from the panels, for AVX2.
//
// A block goes from memory through registers into the chains of its 16 outputs. Its integers are prepared once for all
// rows of a tile.
#include "kernels/avx2/kernels_avx2_quant_tile.h"

#define DEFINE_DIRECT(name, type, shape, block_bytes)                                              \
    static void direct_##name(tile_t *t, uint32_t rows)                                            \
    {                                                                                              \
        multiply_rows(type, shape_##shape, block_bytes, t, rows);                                  \
    }

QUANT_TYPES(DEFINE_DIRECT)

#define DIRECT_OF_TYPE(name, type, shape, block_bytes) [type] = direct_##name,

const multiply_tile_t multiply_direct_avx2[OR_QUANT_TYPES] = {QUANT_TYPES(DIRECT_OF_TYPE)};

#define DEFINE_STREAMS(name, type, shape, block_bytes)                                             \
    static void streams_##name(const streams_t *row)                                               \
    {                                                                                              \
        multiply_streams(type, shape_##shape, block_bytes, row);                                   \
    }

QUANT_TYPES(DEFINE_STREAMS)

#define STREAMS_OF_TYPE(name, type, shape, block_bytes) [type] = streams_##name,

const multiply_streams_t multiply_streams_avx2[OR_QUANT_TYPES] = {QUANT_TYPES(STREAMS_OF_TYPE)};
