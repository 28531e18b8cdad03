// status_page - the page of figures that `outrider status` prints for people.
#pragma once

#include <stdio.h>

#include "proto/wire/message.h"

// The numbers of the page before, from which rates are made.
typedef struct {
    uint64_t rounds, accepted, passes;
    int64_t at_ns; // 0: there was none
} or_status_before_t;

// Write the page of figures that were taken at `now_ns`, with rates since *before, which then becomes these figures.
void or_status_page(FILE *out, const char *endpoint, const or_stats_t *stats, int64_t now_ns,
                    or_status_before_t *before);
