// Compiled for processors with dot products.
#include <arm_neon.h>

#include "kernels/ceilings_internal.h"
#include "kernels/neon/kernels_neon_internal.h"

// sdot, 16 products each, added to what it had.
void dot_products_neon(uint32_t rounds, int32_t *sum)
{
    const int8x16_t weights = vdupq_n_s8(5);
    const int8x16_t quants = vdupq_n_s8(3);
    int32x4_t chains[OR_CEILING_CHAINS];
#pragma GCC unroll 12
    for (uint32_t j = 0; j < OR_CEILING_CHAINS; j++) {
        chains[j] = vdupq_n_s32((int32_t)j);
    }
    for (uint32_t i = 0; i < rounds; i++) {
#pragma GCC unroll 12
        for (uint32_t j = 0; j < OR_CEILING_CHAINS; j++) {
            chains[j] = vdotq_s32(chains[j], weights, quants);
        }
    }
#pragma GCC unroll 12
    for (uint32_t j = 1; j < OR_CEILING_CHAINS; j++) {
        chains[0] = vaddq_s32(chains[0], chains[j]);
    }
    *sum = vaddvq_s32(chains[0]);
}
