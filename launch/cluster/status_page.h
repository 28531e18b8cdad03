// status_page - what `outrider status` shows a person: a page of figures, and with --watch the same again and again.
#pragma once

#include <stdio.h>

#include "proto/wire/message.h"

// What a page needs of the one before it, for rates.
typedef struct {
    uint64_t rounds, accepted, passes;
    int64_t at_ns; // 0: there was none
} or_status_before_t;

// Write the page of these figures, taken at `now_ns`; *before becomes them.
void or_status_page(FILE *out, const char *endpoint, const or_stats_t *stats, int64_t now_ns,
                    or_status_before_t *before);
