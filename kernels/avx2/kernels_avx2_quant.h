// kernels_avx2_quant - the quantised types as AVX2 multiplies them, private to kernels/avx2.
//
// vpmaddubsw multiplies unsigned bytes with signed ones and adds two neighbours in 16 bits, which overflow
// when more than two bytes of full size are added. So weights are small unsigned numbers where they can be: then many
// sums of pairs are added in 16 bits before they have to be widened.
//
//     kernels_avx2_quant_block.h    those numbers as vectors, from a panel or from plain blocks
//     kernels_avx2_quant_unpack.c   panels to plain blocks, for several rows
//     kernels_avx2_quant_sums.h     the sums of a group, and the steps of a chain with them
//     kernels_avx2_quant_tile.h     a few rows and some blocks
//     kernels_avx2_quant_direct.c   those tiles from the panels themselves, by type
//     kernels_avx2_quant_matmul.c   all rows and panels; tiles from plain blocks, by shape
#pragma once

#include <stdbool.h>

#include "kernels/avx2/kernels_avx2_internal.h"

#define WORDS (OR_QUANT_BLOCK / 4)
#define VECTORS 2u // of a word in a panel

typedef struct {
    uint8_t words[WORDS][OR_PANEL][4];
    float scales[2][OR_PANEL]; // of the block's groups
    float negated_minima[2][OR_PANEL];
} __attribute__((aligned(32))) plain_block_t;

#define NO_BIAS 99u

// The traits of a type that a product has to know. All of them are constants where a product is inlined.
typedef struct {
    bool has_signs; // its words are signed bytes
    uint32_t groups;
    uint32_t span; // words whose sums of pairs fit 16 bits
    uint32_t bias; // what an integer was made larger by to be stored, as 128 >> bias
    bool minima;
    bool is_dear; // to decode, so that many rows read it from a plain block
    // Panels that a row alone reads at once (docs/decisions.md), and bytes of each that it fetches ahead; 0: one after the other.
    uint32_t streams, ahead;
} shape_t;

#define FEW_AHEAD 2048u // bytes

// All shapes: a name for functions, and its shape_t.
#define QUANT_SHAPES(SHAPE)                                                                        \
    SHAPE(bytes, .has_signs = true, .groups = 1, .span = 1, .bias = NO_BIAS, .streams = 4)         \
    SHAPE(q4_0, .groups = 1, .span = 8, .bias = 4, .streams = 4)                                   \
    SHAPE(q5_0, .groups = 1, .span = 4, .bias = 3, .is_dear = true, .streams = 2,                  \
          .ahead = FEW_AHEAD)                                                                      \
    SHAPE(fours, .groups = 1, .span = 8, .bias = NO_BIAS, .minima = true, .is_dear = true,         \
          .streams = 4, .ahead = FEW_AHEAD)                                                        \
    SHAPE(fives, .groups = 1, .span = 4, .bias = NO_BIAS, .minima = true, .is_dear = true,         \
          .streams = 2, .ahead = FEW_AHEAD)                                                        \
    SHAPE(q2_k, .groups = 2, .span = 4, .bias = NO_BIAS, .minima = true, .is_dear = true)          \
    SHAPE(q3_k, .groups = 2, .span = 4, .bias = 5, .is_dear = true)                                \
    SHAPE(q6_k, .groups = 2, .span = 2, .bias = 2, .is_dear = true, .streams = 2,                  \
          .ahead = FEW_AHEAD)                                                                      \
    SHAPE(iq3_xxs, .groups = 1, .span = 2, .bias = 2, .is_dear = true, .streams = 2,               \
          .ahead = FEW_AHEAD)                                                                      \
    SHAPE(iq2, .groups = 2, .span = 1, .bias = 1, .is_dear = true)

#define DEFINE_SHAPE(name, ...) static const shape_t shape_##name = {__VA_ARGS__};
QUANT_SHAPES(DEFINE_SHAPE)

// All types: a name for functions, the type, its shape, and a panel's bytes for a block.
#define QUANT_TYPES(TYPE)                                                                          \
    TYPE(q8_0, OR_QUANT_Q8_0, bytes, sizeof(or_panel_q8_0_t))                                      \
    TYPE(q4_0, OR_QUANT_Q4_0, q4_0, sizeof(or_panel_q4_0_t))                                       \
    TYPE(iq4_nl, OR_QUANT_IQ4_NL, bytes, sizeof(or_panel_q4_0_t))                                  \
    TYPE(q5_0, OR_QUANT_Q5_0, q5_0, sizeof(or_panel_q5_0_t))                                       \
    TYPE(q4_1, OR_QUANT_Q4_1, fours, sizeof(or_panel_q4_1_t))                                      \
    TYPE(q5_1, OR_QUANT_Q5_1, fives, sizeof(or_panel_q5_1_t))                                      \
    TYPE(q4_k, OR_QUANT_Q4_K, fours, sizeof(or_panel_q4_k_t) / OR_SUPER_BLOCK)                     \
    TYPE(q5_k, OR_QUANT_Q5_K, fives, sizeof(or_panel_q5_k_t) / OR_SUPER_BLOCK)                     \
    TYPE(q2_k, OR_QUANT_Q2_K, q2_k, sizeof(or_panel_q2_k_t) / OR_SUPER_BLOCK)                      \
    TYPE(q3_k, OR_QUANT_Q3_K, q3_k, sizeof(or_panel_q3_k_t) / OR_SUPER_BLOCK)                      \
    TYPE(q6_k, OR_QUANT_Q6_K, q6_k, sizeof(or_panel_q6_k_t) / OR_SUPER_BLOCK)                      \
    TYPE(iq4_xs, OR_QUANT_IQ4_XS, bytes, sizeof(or_panel_iq4_xs_t) / OR_SUPER_BLOCK)               \
    TYPE(mxfp4, OR_QUANT_MXFP4, q5_0, sizeof(or_panel_q4_0_t))                                     \
    TYPE(iq3_s, OR_QUANT_IQ3_S, q5_0, sizeof(or_panel_iq4_xs_t) / OR_SUPER_BLOCK)                  \
    TYPE(iq3_xxs, OR_QUANT_IQ3_XXS, iq3_xxs, sizeof(or_panel_iq4_xs_t) / OR_SUPER_BLOCK)           \
    TYPE(iq2_s, OR_QUANT_IQ2_S, iq2, sizeof(or_panel_q3_k_t) / OR_SUPER_BLOCK)                     \
    TYPE(iq2_xs, OR_QUANT_IQ2_XS, iq2, sizeof(or_panel_q3_k_t) / OR_SUPER_BLOCK)                   \
    TYPE(iq2_xxs, OR_QUANT_IQ2_XXS, iq2, sizeof(or_panel_q3_k_t) / OR_SUPER_BLOCK)

// Block `b` of a unit. Parts that the type lacks stay as they are.
typedef void (*unpack_avx2_t)(const void *unit, uint32_t b, plain_block_t *out);

extern const unpack_avx2_t unpack_avx2[OR_QUANT_TYPES];

#define TILE_ROWS 4u // rows that are multiplied at once: as many as there are registers for

// Some blocks of a panel and at most TILE_ROWS rows, which begin at the first of those blocks.
typedef struct {
    const void *w;       // the panel, or plain blocks
    uint32_t first, end; // of its blocks
    const or_q8_block_t *x;
    size_t x_stride;
    float *y;
    size_t y_stride;
    bool begins;          // so do chains
    const char *ahead;    // what to fetch next: as much as a block has
    uint32_t every, wait; // blocks from one fetch to another, and to the next one
} tile_t;

typedef void (*multiply_tile_t)(tile_t *tile, uint32_t rows);

extern const multiply_tile_t multiply_direct_avx2[OR_QUANT_TYPES];

// A row alone, over the same blocks of some panels at once.
typedef struct {
    const char *panels[OR_ROW_PANELS_MAX];
    uint32_t first, end; // of their blocks
    const or_q8_block_t *x;
    float *y[OR_ROW_PANELS_MAX];
} streams_t;

typedef void (*multiply_streams_t)(const streams_t *row);

extern const multiply_streams_t multiply_streams_avx2[OR_QUANT_TYPES];
