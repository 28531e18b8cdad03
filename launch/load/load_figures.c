#include "launch/load/load_figures.h"

#include <math.h>
#include <stdlib.h>

#define OCTAVE_BITS 6 // 64 buckets an octave
#define OCTAVE (1u << OCTAVE_BITS)

// Below 128 every microsecond has a bucket; above, the top seven bits of the time choose it.
static uint32_t bucket_of(uint64_t us)
{
    int exponent = 63 - __builtin_clzll(us | OCTAVE);
    uint32_t shift = (uint32_t)exponent - OCTAVE_BITS;
    uint64_t bucket = shift * OCTAVE + (us >> shift);
    return bucket < OR_LOAD_BUCKETS ? (uint32_t)bucket : OR_LOAD_BUCKETS - 1;
}

// Return the middle of a bucket.
static double bucket_us(uint32_t bucket)
{
    if (bucket < 2 * OCTAVE) {
        return bucket;
    }
    uint32_t shift = bucket / OCTAVE - 1;
    return ldexp((double)(bucket % OCTAVE + OCTAVE) + 0.5, (int)shift);
}

void or_load_histogram_add(or_load_histogram_t *histogram, uint64_t us, uint64_t times)
{
    histogram->counts[bucket_of(us)] += times;
    histogram->total += times;
}

double or_load_histogram_ms(const or_load_histogram_t *histogram, double share)
{
    double least = share * (double)histogram->total;
    uint64_t below = 0;
    for (uint32_t i = 0; i < OR_LOAD_BUCKETS; i++) {
        below += histogram->counts[i];
        if (below > 0 && (double)below >= least) {
            return bucket_us(i) / 1000;
        }
    }
    return (double)NAN;
}

static int ascending(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;
    return (*x > *y) - (*x < *y);
}

or_load_rates_t or_load_rates(or_load_figures_t *figures)
{
    or_load_rates_t rates = {0, 0, 0, (double)NAN};
    uint32_t count = figures->sessions;
    uint64_t total = 0;
    if (count == 0 || figures->seconds <= 0) {
        return rates;
    }
    uint64_t *tokens = figures->session_tokens;
    qsort(tokens, count, sizeof *tokens, ascending);
    for (uint32_t i = 0; i < count; i++) {
        total += tokens[i];
    }
    uint32_t below = (count - 1) / 2;
    uint32_t above = count / 2;
    double middle = ((double)tokens[below] + (double)tokens[above]) / 2;
    rates.total = (double)total / figures->seconds;
    rates.median = middle / figures->seconds;
    rates.worst = (double)tokens[0] / figures->seconds;
    rates.fairness = middle > 0 ? (double)tokens[0] / middle : (double)NAN;
    return rates;
}
