// rng_inline - the bodies of or_philox and or_rng_draw (rng.h).
#pragma once

#include <Random123/philox.h>

#include "common/base/inline.h"
#include "common/base/math/rng.h"

OR_INLINE void inline_philox(or_rng_key_t key, const uint32_t counter[4], uint32_t out[4])
{
    philox4x32_key_t halves = {{(uint32_t)key.value, (uint32_t)(key.value >> 32)}};
    philox4x32_ctr_t in = {{counter[0], counter[1], counter[2], counter[3]}};
    philox4x32_ctr_t bits = philox4x32_R(10, in, halves);
    for (int i = 0; i < 4; i++) {
        out[i] = bits.v[i];
    }
}

// The first 64 bits, out[0] their lower half.
OR_INLINE uint64_t inline_philox_64(or_rng_key_t key, const uint32_t counter[4])
{
    uint32_t out[4];
    inline_philox(key, counter, out);
    return (uint64_t)out[1] << 32 | out[0];
}

OR_INLINE uint64_t inline_rng_draw(or_rng_key_t key, or_rng_purpose_t purpose, uint32_t round,
                                   uint32_t node, uint32_t draw)
{
    const uint32_t counter[4] = {draw & 0xffffff, node, round, (uint32_t)purpose << 24};
    return inline_philox_64(key, counter);
}
