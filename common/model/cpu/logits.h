// logits - the head, on the ranks that have it. Internal to this folder.
#pragma once

#include "common/model/model.h"

// This rank's part of or_model_logits_top, which all ranks do together: the ranks of the last stage compute their share of
// the vocabulary, and the leader collects it in `out`. OR_ERR_INVALID if these are not rows of the last pass.
or_status_t or_logits_run(or_model_t *model, uint32_t first, uint32_t count, uint32_t top,
                          float *out);

typedef struct {
    uint32_t id;
    float logit;
} or_top_logit_t;

// Write the `top` greatest of x[count], whose ids are first_id, first_id + 1, ..., in no order: what a rank sends where the
// other logits do not matter. The greater logit comes first, and among equals the lower id. A logit that is not finite is
// below all others, as for the sampler, to whom it is -INFINITY. 1 <= top <= count.
void or_top_logits(const float *x, uint32_t count, uint32_t first_id, uint32_t top,
                   or_top_logit_t *out);
