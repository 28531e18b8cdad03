// progress - how far a long job is, on standard error: one line that is written anew on a terminal, elsewhere a line now and
// then.
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    bool terminal; // standard error is one
    bool in_bytes; // done and all are bytes; else runs
    uint64_t done, all;
    int64_t started_ns, shown_ns;
} or_progress_t;

void or_progress_init(or_progress_t *progress, uint64_t all, bool in_bytes);
// `done` of all is behind us and `name` is next.
void or_progress_show(or_progress_t *progress, uint64_t done, const char *name);
// Make way for other lines on standard error.
void or_progress_clear(const or_progress_t *progress);
