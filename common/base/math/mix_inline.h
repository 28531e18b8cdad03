// mix_inline - two experts that are weighted apart (or_experts_mix in common/model/cpu/experts.h), for hosts and devices (inline.h).
#pragma once

#include <stdbool.h>

#include "common/base/inline.h"
#include "common/base/math/math_inline.h"

// Twice the noise of training ("router_jitter_noise"), which is 0.01 in what was published.
#define NEARLY 0.02F

OR_INLINE uint32_t inline_largest_but(const float *logits, uint32_t count, uint32_t without)
{
    uint32_t best = count;
    for (uint32_t e = 0; e < count; e++) {
        if (e != without && (best == count || logits[e] > logits[best])) {
            best = e;
        }
    }
    return best;
}

// The softmax's part of an expert among those whose logits are nearly its own, all but `without`.
OR_INLINE float inline_part_of(const float *logits, uint32_t count, uint32_t expert,
                               uint32_t without)
{
    const float best = logits[expert];
    double sum = 0;
    for (uint32_t e = 0; e < count; e++) {
        const float size = fabsf(logits[e]) > best ? fabsf(logits[e]) : best;
        const float gap = best - logits[e];
        bool is_near = gap == 0 || gap / size <= NEARLY;
        sum += e != without && is_near ? inline_exp((double)-gap) : 0;
    }
    return (float)(1 / sum);
}

OR_INLINE void inline_mix(const float *logits, uint32_t count, uint32_t chosen[2], float weights[2])
{
    const uint32_t first = inline_largest_but(logits, count, count);
    const uint32_t second = inline_largest_but(logits, count, first);
    const uint32_t place = first < second ? 0 : 1; // of the first, as experts ascend
    chosen[place] = first;
    chosen[1 - place] = second;
    weights[place] = inline_part_of(logits, count, first, count);
    weights[1 - place] = inline_part_of(logits, count, second, first);
}
