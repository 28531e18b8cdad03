// bench_synthetic - a cluster without models: the real coordinator as a process, and a drafter and a verifier that compute
// nothing as threads of ours, over real sockets. What is left of a round is transport and scheduling.
//
// The verifier accepts the child of rank i (from 0, in order) of a node on the path with probability acceptance[i]. It
// accepts at most one of them, and otherwise ends the path. The drafter knows these probabilities and sends the tree of the n
// likeliest nodes, which is Sequoia's (Chen et al. 2024, arXiv 2402.12374, section 4.1). Both take one session after the
// other; a newer one replaces the older.
#pragma once

#include <stdint.h>

#include "common/base/status.h"

#define OR_SYNTHETIC_RANKS_MAX 32u

typedef struct {
    double acceptance[OR_SYNTHETIC_RANKS_MAX]; // adds up to 1 at most
    uint32_t ranks;
    uint32_t step_us;  // of the verifier, whatever the tree
    uint32_t draft_us; // of the drafter, a tree
    uint64_t seed;
} or_synthetic_distribution_t;

typedef struct or_synthetic or_synthetic_t;

// `model` lends its vocabulary; `dist`, `model` and `log_level` are borrowed until stop, as is *endpoint, where clients connect.
// Starts a process first and threads behind it: main thread only. OR_ERR_IO, OR_ERR_FORMAT, OR_ERR_UNREACHABLE.
or_status_t or_synthetic_start(const or_synthetic_distribution_t *dist, const char *model,
                               const char *log_level, bool show_logs, or_synthetic_t **synthetic_p,
                               const char **endpoint);
void or_synthetic_stop(or_synthetic_t **synthetic_p, int64_t patience_ns);
