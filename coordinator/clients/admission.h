// admission - when a request that finds no place should be tried again.
//
//     requests before it x mean time a request takes / places
//
// One thread.
#pragma once

#include <stdint.h>

#define OR_RETRY_MS_MIN 500u   // a crowd of clients must not ask faster
#define OR_RETRY_MS_MAX 30000u // nobody should find an idle service asleep

typedef struct {
    double mean_ms; // of the requests served lately; 0: none yet
} or_admission_t;

// A request was served and took so long.
void or_admission_served(or_admission_t *admission, uint64_t elapsed_us);

// For a request that has `before` others before it, with `places` served at a time.
uint32_t or_admission_retry_ms(const or_admission_t *admission, uint32_t before, uint32_t places);
