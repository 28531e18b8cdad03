// bench_synthetic - a cluster without models: the real coordinator as a process, and a drafter and a
// verifier that compute nothing as threads of ours, over real sockets.
//
// What is left of a round is transport and scheduling.
#pragma once

#include "launch/bench/bench_synthetic_roles.h"

typedef struct or_synthetic or_synthetic_t;

// "0.6,0.2". OR_ERR_INVALID: not probabilities, more than a total of 1, too many.
or_status_t or_synthetic_parse(const char *list, or_synthetic_distribution_t *dist);

// `model` lends its vocabulary; `dist`, `model` and `log_level` are borrowed until stop. Starts a
// process first and threads behind it: main thread only. OR_ERR_IO, OR_ERR_FORMAT,
// OR_ERR_UNREACHABLE.
or_status_t or_synthetic_start(const or_synthetic_distribution_t *dist, const char *model,
                               const char *log_level, bool show_logs, or_synthetic_t **synthetic_p);
void or_synthetic_stop(or_synthetic_t **synthetic_p, int64_t patience_ns);
// Borrowed.
const char *or_synthetic_endpoint(const or_synthetic_t *synthetic);
