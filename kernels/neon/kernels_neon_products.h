// kernels_neon_products - sums of products of signed bytes, by the best instructions that this file is
// compiled for: those of every AArch64 processor, or sdot.
//
//     sums_t                            integer sums of four outputs, in whatever form
//     no_sums()                         zeros
//     add_products(sums, w, x)          products of eight neighbours in K added: w[0] holds four of each output,
//                                       w[1] the next four
//     sum_each(sums)                    one sum for each output
//     TILE_ROWS                         rows whose sums fit the registers, two vectors of outputs at a time
#pragma once

#include <arm_neon.h>

#include "kernels/neon/kernels_neon_internal.h"

#ifdef __ARM_FEATURE_DOTPROD

#define TILE_ROWS 4u

typedef int32x4_t sums_t;

ALWAYS_INLINE sums_t no_sums(void)
{
    return vdupq_n_s32(0);
}

ALWAYS_INLINE sums_t add_products(sums_t sums, const int8x16_t w[2], int8x8_t x)
{
    return vdotq_lane_s32(vdotq_lane_s32(sums, w[0], x, 0), w[1], x, 1);
}

ALWAYS_INLINE int32x4_t sum_each(sums_t sums)
{
    return sums;
}

#else

#define TILE_ROWS 3u

// Two lanes for each output, all in order. (Compilers keep NEON's own pairs of vectors in memory.)
typedef struct {
    int32x4_t low;
    int32x4_t high;
} sums_t;

ALWAYS_INLINE sums_t no_sums(void)
{
    return (sums_t){vdupq_n_s32(0), vdupq_n_s32(0)};
}

// Products fit 16 bits, and so do two: 2 * 128 * 127 at most, for no quant of x is -128.
ALWAYS_INLINE sums_t add_products(sums_t sums, const int8x16_t w[2], int8x8_t x)
{
    int8x8_t first = vreinterpret_s8_s32(vdup_lane_s32(vreinterpret_s32_s8(x), 0));
    int8x8_t second = vreinterpret_s8_s32(vdup_lane_s32(vreinterpret_s32_s8(x), 1));
    int16x8_t low = vmull_s8(vget_low_s8(w[0]), first);
    int16x8_t high = vmull_high_s8(w[0], vcombine_s8(first, first));
    low = vmlal_s8(low, vget_low_s8(w[1]), second);
    high = vmlal_high_s8(high, w[1], vcombine_s8(second, second));
    return (sums_t){vpadalq_s16(sums.low, low), vpadalq_s16(sums.high, high)};
}

ALWAYS_INLINE int32x4_t sum_each(sums_t sums)
{
    return vpaddq_s32(sums.low, sums.high);
}

#endif
