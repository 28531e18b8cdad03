// bench_progress - how far a benchmark is, on standard error: one line that is written anew where
// that is a terminal, else a line now and then.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/base/clock.h"

typedef struct {
    const or_clock_t *clock; // borrowed
    bool terminal;
    uint64_t done, all;
    int64_t started_ns, said_ns;
} or_bench_progress_t;

void or_bench_progress_init(or_bench_progress_t *progress, uint64_t all, const or_clock_t *clock);
// `done` runs are behind us and `name` is next.
void or_bench_progress_show(or_bench_progress_t *progress, uint64_t done, const char *name);
// Make way for other lines on standard error.
void or_bench_progress_clear(const or_bench_progress_t *progress);
