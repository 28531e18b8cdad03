// load_figures - what a load test measured: counts, throughput by session, and latencies as a histogram
// of fixed size, so that ten minutes cost no more memory than ten seconds.
#pragma once

#include <stdint.h>

#include "common/base/status.h"

// Times in microseconds, each bucket 1/64 of its octave: a percentile is right within 1.6 %.
#define OR_LOAD_BUCKETS 2432u // up to 2^43 us

typedef struct {
    uint64_t counts[OR_LOAD_BUCKETS];
    uint64_t total;
} or_load_histogram_t;

void or_load_histogram_add(or_load_histogram_t *histogram, uint64_t us, uint64_t times);
// Return the time in milliseconds that a `share` of all entries (0.95) does not exceed; NAN if there are none.
double or_load_histogram_ms(const or_load_histogram_t *histogram, double share);

typedef struct {
    uint32_t sessions;
    double seconds;
    uint64_t *session_tokens;        // owned; tokens that came to each
    uint64_t texts;                  // ended
    uint64_t errors;                 // texts that ended with one, "busy" not counted
    uint64_t busy;                   // requests answered "busy, retry after"
    uint64_t wrong;                  // texts that differ from plain decoding's
    uint64_t plain_rounds, rounds;   // of texts that ended: how many rounds had no tree
    char error[256];                 // the first one's sentence; "" if none
    or_load_histogram_t first_token; // from the request to its first token
    or_load_histogram_t
        inter_token; // a delivery's distance to the one before, spread over its tokens
} or_load_figures_t;

// The rates are tokens per second.
typedef struct {
    double total;
    double median, worst; // of one session
    double fairness;      // worst / median; NAN if nothing came
} or_load_rates_t;

// Compute the rates. Leaves session_tokens in ascending order.
or_load_rates_t or_load_rates(or_load_figures_t *figures);
