// ceilings_neon_blocks - or_ceilings_t's `blocks` by the instructions that this file is compiled for, as the kernels have them.
#pragma once

#include "kernels/ceilings_internal.h"
#include "kernels/neon/kernels_neon_products.h"

#define OR_CEILING_BLOCK_CHAINS 6u // for which both have registers

ALWAYS_INLINE void multiply_blocks(uint32_t groups, bool minima, uint32_t rounds, float *sum)
{
    const float32x4_t factor = vdupq_n_f32(0.75f);
    const int8x8_t quants = vdup_n_s8(3);
    int8x16_t weights[2] = {vdupq_n_s8(5), vdupq_n_s8(7)};
    float32x4_t scale = vdupq_n_f32(0.5f);
    // A step is of eight weights, so every other one is empty.
    OR_CEILING_BLOCKS(
        float32x4_t, sums_t, OR_CEILING_BLOCK_CHAINS, groups, vdupq_n_f32(0), sums[j] = no_sums();
        OR_CEILING_UNKNOWN("w", weights[0]),
        sums[j] = g % 2 == 0 ? add_products(sums[j], weights, quants) : sums[j];
        OR_CEILING_UNKNOWN("w", weights[0]), OR_CEILING_UNKNOWN("w", scale);
        chains[j] =
            vfmaq_f32(chains[j], vmulq_f32(scale, factor), vcvtq_f32_s32(sum_each(sums[j])));
        chains[j] = minima ? vfmsq_f32(chains[j], scale, factor) : chains[j], vaddq_f32,
        vaddvq_f32);
}
