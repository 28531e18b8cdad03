// logits - the head, on the ranks that have it. Internal to this folder.
#pragma once

#include "common/model/model.h"

// OR_ERR_INVALID if these are not rows of the last pass.
or_status_t or_logits_check(const or_model_t *model, uint32_t first, uint32_t count);
// This rank's part of or_model_logits_top, which all ranks do together: ranks of the last stage compute
// their share of the vocabulary, the leader collects. `out` is the leader's. OR_ERR_INVALID if the rows
// are not the last pass's.
or_status_t or_logits_run(or_model_t *model, uint32_t first, uint32_t count, uint32_t top,
                          float *out);
