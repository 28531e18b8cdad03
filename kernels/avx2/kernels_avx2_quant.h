// kernels_avx2_quant - a panel's block in the form that AVX2 multiplies, private to kernels/avx2.
//
// vpmaddubsw multiplies unsigned bytes with signed ones and adds two neighbours in 16 bits, which overflow
// when more than a few bytes of full size are added. So weights are kept as small unsigned numbers, bytes
// as two planes of nibbles: then many sums of pairs are added in 16 bits before they have to be widened.
#pragma once

#include "kernels/avx2/kernels_avx2_internal.h"

#define WORDS (OR_QUANT_BLOCK / 4)

typedef struct {
    uint8_t planes[2][WORDS][OR_PANEL][4]; // the second: upper nibbles of bytes
    float scales[2][OR_PANEL];             // of the block's groups
    float negated_minima[2][OR_PANEL];
} __attribute__((aligned(32))) plain_block_t;

// Block `b` of a unit. Parts that the type lacks stay as they are.
typedef void (*unpack_avx2_t)(const void *unit, uint32_t b, plain_block_t *out);

extern const unpack_avx2_t unpack_avx2[OR_QUANT_TYPES];
