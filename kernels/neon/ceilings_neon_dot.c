// Compiled for processors with dot products.
#include <arm_neon.h>

#include "kernels/neon/ceilings_neon_blocks.h"
#include "kernels/neon/kernels_neon_internal.h"

// sdot, 16 products each, added to what it had.
void dot_products_neon(uint32_t rounds, int32_t *sum)
{
    const int8x16_t weights = vdupq_n_s8(5);
    const int8x16_t quants = vdupq_n_s8(3);
    OR_CEILING_RUN(int32x4_t, vdupq_n_s32((int32_t)j),
                   chains[j] = vdotq_s32(chains[j], weights, quants), vaddq_s32, vaddvq_s32);
}

OR_CEILING_KINDS(all_kinds, multiply_blocks)

void blocks_neon_dot(uint32_t groups, bool minima, uint32_t rounds, float *sum)
{
    all_kinds(groups, minima, rounds, sum);
}
