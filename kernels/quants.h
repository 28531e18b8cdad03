// quants - weights kept as small integers with shared scales, and activations made so to meet them.
//
// A row of weights is a chain of blocks of 32. A block has one group of 32 weights, or two of 16 (Q2_K,
// Q3_K, Q6_K, and those of IQ2). A group has a scale and perhaps a minimum, and each weight an integer:
//
//     weight = scale * integer - minimum      (without the last term where the type has no minima)
//
//     type    group  integer                       scale             minimum            blocks that share halves
//     Q8_0      32   byte                          half              -                  1
//     Q4_0      32   nibble - 8                    half              -                  1
//     IQ4_NL    32   or_iq4_values[nibble]         half              -                  1
//     Q5_0      32   5 bits - 16                   half              -                  1
//     Q4_1      32   nibble                        half              -(half)            1
//     Q5_1      32   5 bits                        half              -(half)            1
//     Q4_K      32   nibble                        half * 6 bits     half * 6 bits      8
//     Q5_K      32   5 bits                        half * 6 bits     half * 6 bits      8
//     Q2_K      16   2 bits                        half * 4 bits     half * 4 bits      8
//     Q3_K      16   3 bits - 4                    half * (6 bits - 32)   -             8
//     Q6_K      16   6 bits - 32                   half * byte       -                  8
//     IQ4_XS    32   or_iq4_values[nibble]         half * (6 bits - 32)   -             8
//     MXFP4     32   or_mxfp4_values[nibble]       2^(byte - 128)    -                  1
//     IQ3_S     32   or_iq3_s_values[nibble]       half * (2 * 4 bits + 1)       -      8
//     IQ3_XXS   32   or_iq3_xxs_values[nibble]     half * (2 * 4 bits + 1) / 2   -      8
//     IQ2_S     16   or_iq2_values[3 bits]         half * (2 * 4 bits + 1) / 8   -      8
//     IQ2_XS    16   or_iq2_values[3 bits]         half * (2 * 4 bits + 1) / 8   -      8
//     IQ2_XXS   16   or_iq2_values[3 bits]         half * (2 * 4 bits + 1) / 8   -      8
//
// Files keep IQ3 and IQ2 as signs and places in a list of magnitudes of four or eight weights (quant_internal.h). Here
// each weight has its own sign and magnitude, so a product needs no such list. The two groups of a block of IQ2_XXS
// have the same scale.
//
// A half times so few bits is exact as a float, so is a scale times an integer. What sharing eight
// blocks means: a file has whole super-blocks of 256 weights.
//
// Canonical arithmetic (kernels.h): a group is one step of the chain, or two where it has a minimum:
//
//     y = fma(scale * x.scale, (float)sum of integer * x.quant, y)            the sum exact
//     y = fma(-minimum, x.scale * (float)(sum of x.quant), y)                 over the same group
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OR_PANEL 16u       // outputs in a panel
#define OR_QUANT_BLOCK 32u // weights, or activations, of a block
#define OR_SUPER_BLOCK 8u  // blocks that share halves in the _K types

typedef enum {
    OR_QUANT_Q8_0,
    OR_QUANT_Q4_0,
    OR_QUANT_IQ4_NL,
    OR_QUANT_Q5_0,
    OR_QUANT_Q4_1,
    OR_QUANT_Q5_1,
    OR_QUANT_Q4_K,
    OR_QUANT_Q5_K,
    OR_QUANT_Q2_K,
    OR_QUANT_Q3_K,
    OR_QUANT_Q6_K,
    OR_QUANT_IQ4_XS,
    OR_QUANT_MXFP4,
    OR_QUANT_IQ3_S,
    OR_QUANT_IQ3_XXS,
    OR_QUANT_IQ2_S,
    OR_QUANT_IQ2_XS,
    OR_QUANT_IQ2_XXS,
    OR_QUANT_TYPES,
} or_quant_t;

#define OR_QUANT_ENCODED OR_QUANT_IQ3_S // the types in front of it can be encoded, too

// ---- activations ----

// A block of 32 activations: activation = scale * quant. It is one cache line, with everything that a kernel needs.
// Vector code keeps weights as unsigned bytes, integer + 128; a bias added to the sum over those leaves the sum over
// the integers.
typedef struct {
    int8_t quants[OR_QUANT_BLOCK]; // -127 to 127
    float scale;
    float scaled_sum;          // scale * (float)sum of the quants
    float scaled_half_sums[2]; // likewise of the first 16 and of the others
    int32_t sum;
    int32_t bias;           // -128 * sum
    int32_t half_biases[2]; // likewise of the first 16 and of the others
} or_q8_block_t;

// ---- weights, re-laid ----
//
// A panel is 16 outputs. Its unit is a block, or a super-block of 8, of each of the 16; its units follow
// each other, `or_quant_unit_bytes` apart. Four weights that neighbour each other in K stay together,
// so that 32 bytes are four weights of each of eight outputs:
//
//     bytes     [k / 4][output][k % 4]
//     nibbles   [c][output][j]   low: k = 4 c + j, high: k = 16 + 4 c + j
//     pairs     [half][output][j]   bits 2 c and 2 c + 1: k = 16 half + 4 c + j
//     bits      [output][j]      bit c: k = 4 c + j

// A lane whose scales and minima are 0 is an output of zeros, whatever its integers.

typedef struct {
    uint8_t bytes[8][OR_PANEL][4]; // integer + 128
    uint16_t scales[OR_PANEL];
} or_panel_q8_0_t;

typedef struct { // Q4_0, IQ4_NL and MXFP4
    uint8_t nibbles[4][OR_PANEL][4];
    uint16_t scales[OR_PANEL]; // of MXFP4: bfloats
} or_panel_q4_0_t;

typedef struct {
    uint8_t nibbles[4][OR_PANEL][4];
    uint16_t scales[OR_PANEL];
    uint16_t minima[OR_PANEL]; // as in the file: what is added
} or_panel_q4_1_t;

typedef struct {
    uint8_t nibbles[4][OR_PANEL][4];
    uint8_t bits[OR_PANEL][4]; // the fifth
    uint16_t scales[OR_PANEL];
} or_panel_q5_0_t;

typedef struct {
    uint8_t nibbles[4][OR_PANEL][4];
    uint8_t bits[OR_PANEL][4]; // the fifth
    uint16_t scales[OR_PANEL];
    uint16_t minima[OR_PANEL]; // as in the file: what is added
} or_panel_q5_1_t;

typedef struct {
    uint16_t scales[OR_PANEL];
    uint16_t minima[OR_PANEL];
    uint8_t block_scales[OR_SUPER_BLOCK][OR_PANEL];
    uint8_t block_minima[OR_SUPER_BLOCK][OR_PANEL];
    uint8_t nibbles[OR_SUPER_BLOCK][4][OR_PANEL][4];
} or_panel_q4_k_t;

typedef struct {
    uint16_t scales[OR_PANEL];
    uint16_t minima[OR_PANEL];
    uint8_t block_scales[OR_SUPER_BLOCK][OR_PANEL];
    uint8_t block_minima[OR_SUPER_BLOCK][OR_PANEL];
    uint8_t nibbles[OR_SUPER_BLOCK][4][OR_PANEL][4];
    uint8_t bits[OR_SUPER_BLOCK][OR_PANEL][4]; // the fifth
} or_panel_q5_k_t;

typedef struct {
    uint16_t scales[OR_PANEL];
    uint16_t minima[OR_PANEL];
    uint8_t groups[2 * OR_SUPER_BLOCK][OR_PANEL]; // low nibble: scale, high: minimum
    uint8_t pairs[OR_SUPER_BLOCK][2][OR_PANEL][4];
} or_panel_q2_k_t;

typedef struct { // Q3_K and those of IQ2
    uint16_t scales[OR_PANEL];
    int8_t groups[2 * OR_SUPER_BLOCK][OR_PANEL]; // -32 to 31
    uint8_t pairs[OR_SUPER_BLOCK][2][OR_PANEL][4];
    uint8_t bits[OR_SUPER_BLOCK][OR_PANEL][4]; // the third; of Q3_K, as in the file, 0 takes 4 off
} or_panel_q3_k_t;

typedef struct {
    uint16_t scales[OR_PANEL];
    int8_t groups[2 * OR_SUPER_BLOCK][OR_PANEL];
    uint8_t nibbles[OR_SUPER_BLOCK][4][OR_PANEL][4];
    uint8_t pairs[OR_SUPER_BLOCK][2][OR_PANEL][4]; // bits 4 and 5
} or_panel_q6_k_t;

typedef struct { // IQ4_XS, IQ3_S and IQ3_XXS
    uint16_t scales[OR_PANEL];
    int8_t block_scales[OR_SUPER_BLOCK][OR_PANEL];
    uint8_t nibbles[OR_SUPER_BLOCK][4][OR_PANEL][4];
} or_panel_iq4_xs_t;

// The integers that stored ones stand for. Those of IQ3 and IQ2 are magnitudes, then the same with a minus; magnitude
// 3 of IQ2 is in no file, and it has no integers above 7.
extern const int8_t or_iq4_values[16];
extern const int8_t or_mxfp4_values[16];
extern const int8_t or_iq3_s_values[16];
extern const int8_t or_iq3_xxs_values[16];
extern const int8_t or_iq2_values[16];

// A group's scale is that part of half times integer.
#define OR_IQ3_XXS_PART 0.5f
#define OR_IQ2_PART 0.125f

// Return the type's name: "Q4_K".
const char *or_quant_name(or_quant_t type);
// Return the blocks of a unit: 1, or OR_SUPER_BLOCK.
uint32_t or_quant_unit_blocks(or_quant_t type);
// Return the groups of a block, 1 or 2, and whether each has a minimum.
uint32_t or_quant_block_groups(or_quant_t type);
bool or_quant_has_minima(or_quant_t type);
// Return the bytes of a panel's unit, of all 16 outputs.
size_t or_quant_unit_bytes(or_quant_t type);
// Return the bytes of a unit of one row in a GGUF file.
uint32_t or_quant_file_bytes(or_quant_t type);

// Write `units` units of a panel from `row_count` (1 to 16) rows of a GGUF file, `row_bytes` apart; lanes without a
// row become zeros. Rows need no alignment; all of the panel's units are written.
void or_quant_pack(or_quant_t type, const void *rows, size_t row_bytes, uint32_t row_count,
                   uint32_t units, void *panel);

// Decode such a row to the values that GGUF defines: out[units * unit_blocks * 32]. Each is exact but for one
// rounding where a minimum is subtracted.
void or_quant_decode(or_quant_t type, const void *row, uint32_t units, float *out);

// Encode x[units * unit_blocks * 32] as the units of a GGUF row of a type in front of OR_QUANT_ENCODED. A block's scale
// and minimum are searched for the least sum of importance[i] * squared error, over a unit at a time. The importance
// of a weight is the mean square of what it is multiplied with: finite and not negative. Less than 2^-10 of a unit's mean
// counts as that. Where all of a unit's are equal, also 0, the bits are those of NULL, where all weights count alike.
// What no half can hold is cut to the largest that can; all x must be finite. Deterministic: the same bits from the same
// input everywhere.
void or_quant_encode(or_quant_t type, const float *x, const float *importance, uint32_t units,
                     void *row);

// Make one block (0 .. unit_blocks - 1) of a unit of a GGUF row zeros; the unit's others stay as they are. The type is
// one in front of OR_QUANT_ENCODED: the others can have no such block.
void or_quant_clear(or_quant_t type, uint32_t block, void *unit);
