// weights_inline - the draw of one of several weights, for chooser.c and for a device.
#pragma once

#include <stdint.h>

#include "common/base/inline.h"

// Add the weights in order: the bits of a draw depend on it.
OR_INLINE double inline_weights_total(const double *weights, uint32_t count)
{
    double total = 0;
    for (uint32_t i = 0; i < count; i++) {
        total += weights[i];
    }
    return total;
}

// The first index at which the weights up to and including it add up to more than `left`. Rounding may leave
// their sum a little below what was asked for: then it is the last index of a positive weight.
OR_INLINE uint32_t inline_weights_pick(const double *weights, uint32_t count, double left)
{
    uint32_t last = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (weights[i] > 0) {
            last = i;
            left -= weights[i];
            if (left < 0) {
                break;
            }
        }
    }
    return last;
}
