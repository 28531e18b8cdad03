// top_logits - the greatest few of many logits: what a rank sends where the rest does not matter.
//
// The order is total: greater first, the lower id among equals. What is not finite is below all that is
// and has no order of its own, as for the sampler, to whom it is -INFINITY. Internal to this folder.
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    uint32_t id;
    float logit;
} or_top_logit_t;

// The `top` greatest of x[count], which have ids first_id, first_id + 1, ..., in no order. 1 <= top <=
// count.
void or_top_logits(const float *x, uint32_t count, uint32_t first_id, uint32_t top,
                   or_top_logit_t *out);
