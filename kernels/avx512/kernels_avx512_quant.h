// kernels_avx512_quant - how the quantised kernels of the two AVX-512 tables divide their work.
//
// Many rows multiply weights a chunk at a time: up to 8 blocks of two panels. A chunk is unpacked once,
// from whatever its type keeps, to bytes and scales; then all rows pass over it, while it lies in
// the first-level cache. So a type is what kernels_avx512_quant_block.h makes of its bits, and nothing
// else knows it. Few rows unpack nothing at all (kernels_avx512_quant_few.h).
#pragma once

#include <stdbool.h>

#include "kernels/avx512/kernels_avx512_internal.h"

#define GROUPS (OR_QUANT_BLOCK / 4) // vectors of weights in a block: four neighbours of 16 outputs
#define HALVES 2u                   // groups of 16 weights in a block, where a type has them
#define PAIR 2u                     // panels in a chunk

typedef uint8_t quant_bytes_t[GROUPS][OR_PANEL][4]; // of a block

// The first of the halves is the whole block where a type has none.
typedef struct {
    uint32_t blocks;
    bool many_rows;             // so that care in unpacking pays
    const uint8_t *bytes[PAIR]; // in `unpacked`, or in the panel
    size_t bytes_stride;        // from block to block
    _Alignas(64) quant_bytes_t unpacked[PAIR][OR_SUPER_BLOCK];
    float scales[OR_SUPER_BLOCK][HALVES][PAIR][OR_PANEL];
    float minima[OR_SUPER_BLOCK][HALVES][PAIR][OR_PANEL];
} quant_chunk_t;

typedef struct {
    // Panel `p` of a chunk: all of its blocks, from block `first` of the panel on, within a super-block.
    void (*unpack)(const void *panel, uint32_t first, uint32_t p, quant_chunk_t *chunk);
    bool halves;
    bool minima; // then a byte is the integer itself; otherwise it is integer + 128
} quant_format_t;

// All types: a name for functions, the type, a panel's bytes for a block, and quant_format_t's halves and minima.
#define QUANT_FORMATS(FORMAT)                                                                      \
    FORMAT(q8_0, OR_QUANT_Q8_0, sizeof(or_panel_q8_0_t), false, false)                             \
    FORMAT(q4_0, OR_QUANT_Q4_0, sizeof(or_panel_q4_0_t), false, false)                             \
    FORMAT(iq4_nl, OR_QUANT_IQ4_NL, sizeof(or_panel_q4_0_t), false, false)                         \
    FORMAT(q5_0, OR_QUANT_Q5_0, sizeof(or_panel_q5_0_t), false, false)                             \
    FORMAT(q4_1, OR_QUANT_Q4_1, sizeof(or_panel_q4_1_t), false, true)                              \
    FORMAT(q5_1, OR_QUANT_Q5_1, sizeof(or_panel_q5_1_t), false, true)                              \
    FORMAT(q4_k, OR_QUANT_Q4_K, sizeof(or_panel_q4_k_t) / OR_SUPER_BLOCK, false, true)             \
    FORMAT(q5_k, OR_QUANT_Q5_K, sizeof(or_panel_q5_k_t) / OR_SUPER_BLOCK, false, true)             \
    FORMAT(q2_k, OR_QUANT_Q2_K, sizeof(or_panel_q2_k_t) / OR_SUPER_BLOCK, true, true)              \
    FORMAT(q3_k, OR_QUANT_Q3_K, sizeof(or_panel_q3_k_t) / OR_SUPER_BLOCK, true, false)             \
    FORMAT(q6_k, OR_QUANT_Q6_K, sizeof(or_panel_q6_k_t) / OR_SUPER_BLOCK, true, false)             \
    FORMAT(iq4_xs, OR_QUANT_IQ4_XS, sizeof(or_panel_iq4_xs_t) / OR_SUPER_BLOCK, false, false)      \
    FORMAT(mxfp4, OR_QUANT_MXFP4, sizeof(or_panel_q4_0_t), false, false)                           \
    FORMAT(iq3_s, OR_QUANT_IQ3_S, sizeof(or_panel_iq4_xs_t) / OR_SUPER_BLOCK, false, false)        \
    FORMAT(iq3_xxs, OR_QUANT_IQ3_XXS, sizeof(or_panel_iq4_xs_t) / OR_SUPER_BLOCK, false, false)    \
    FORMAT(iq2_s, OR_QUANT_IQ2_S, sizeof(or_panel_q3_k_t) / OR_SUPER_BLOCK, true, false)           \
    FORMAT(iq2_xs, OR_QUANT_IQ2_XS, sizeof(or_panel_q3_k_t) / OR_SUPER_BLOCK, true, false)         \
    FORMAT(iq2_xxs, OR_QUANT_IQ2_XXS, sizeof(or_panel_q3_k_t) / OR_SUPER_BLOCK, true, false)

extern const quant_format_t avx512_quant_formats[OR_QUANT_TYPES];
