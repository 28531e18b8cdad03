// sums - the order in which a long list of weights is added up, so that hosts and devices get the same
// bits.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/base/inline.h"

#define OR_SUM_BLOCK 256u // weights that share a sum

// Add in four strands, since an addition waits for the one before it.
OR_INLINE double or_sum(const double *x, uint32_t count)
{
    double strands[4] = {0};
    uint32_t i = 0;
    for (; i + 4 <= count; i += 4) {
        strands[0] += x[i];
        strands[1] += x[i + 1];
        strands[2] += x[i + 2];
        strands[3] += x[i + 3];
    }
    for (; i < count; i++) {
        strands[0] += x[i];
    }
    return (strands[0] + strands[1]) + (strands[2] + strands[3]);
}

// The number of weights in block `block` of a list of `count`.
OR_INLINE uint32_t or_sum_block_size(uint32_t count, uint32_t block)
{
    uint32_t first = block * OR_SUM_BLOCK;
    uint32_t left = first < count ? count - first : 0;
    return left < OR_SUM_BLOCK ? left : OR_SUM_BLOCK;
}

// Add block by block, one sum after the other.
OR_INLINE double or_sum_of_blocks(const double *x, uint32_t count)
{
    double sum = 0;
    for (uint32_t block = 0; or_sum_block_size(count, block) > 0; block++) {
        sum += or_sum(x + (size_t)block * OR_SUM_BLOCK, or_sum_block_size(count, block));
    }
    return sum;
}
