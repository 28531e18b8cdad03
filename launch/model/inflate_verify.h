// inflate_verify - do two models compute the same?
#pragma once

#include <stdint.h>

#include "common/base/status.h"

// Run both over the same pseudo-random tokens, at most `tokens` and no more than the context holds,
// and compare all logits bit by bit; *compared is how many tokens it were. OR_ERR_MISMATCH if a bit
// differs; what loading a model may fail with; OR_ERR_CANCELLED if interrupted.
or_status_t or_inflate_verify(const char *path_a, const char *path_b, uint32_t threads,
                              uint32_t tokens, uint64_t seed, uint32_t *compared);
