// kernels_neon_unpack - weights of any type as signed bytes and floats, for the tiles of matmul_quants.
#pragma once

#include "kernels/neon/kernels_neon_internal.h"

// A block of a panel: what all types come to.
typedef struct {
    int8_t integers[OR_QUANT_BLOCK / 4][OR_PANEL][4];
    float scales[2][OR_PANEL];  // of each group; the first alone where 32 weights are one
    float addends[2][OR_PANEL]; // -minimum, likewise; only where the type has minima
} unpacked_t;

// Blocks first .. first + count - 1 of a panel, which may begin within a super-block.
void unpack_neon(or_quant_t type, const void *panel, uint32_t first, uint32_t count,
                 unpacked_t *out);
