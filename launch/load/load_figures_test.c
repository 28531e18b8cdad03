// Goal: percentiles are right within their promise, over the whole range of times, and rates are those
// of the sessions.
// Method: known distributions, compared with exact percentiles of the sorted values; small sums by hand.
#include "launch/load/load_figures.h"

#include <math.h>
#include <stdlib.h>

#include "tests/support/test_support.h"

#define VALUES 20001
#define PRECISION 0.016

static int ascending(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;
    return (*x > *y) - (*x < *y);
}

static void percentiles_are_right(void **context)
{
    (void)context;
    static or_load_histogram_t histogram;
    static uint64_t values[VALUES];
    uint64_t random = test_seed();
    for (uint32_t i = 0; i < VALUES; i++) { // from 1 us to days, evenly by magnitude
        values[i] = (uint64_t)exp2(40 * test_uniform(&random));
        or_load_histogram_add(&histogram, values[i], 1);
    }
    qsort(values, VALUES, sizeof *values, ascending);
    const double shares[] = {0.01, 0.25, 0.5, 0.95, 0.99, 1};
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        uint64_t at = (uint64_t)ceil(shares[i] * VALUES) - 1;
        double exact = (double)values[at] / 1000;
        assert_true(fabs(or_load_histogram_ms(&histogram, shares[i]) - exact) <= PRECISION * exact);
    }
}

// Each time has one bucket, and a longer time never an earlier one.
static void buckets_ascend(void **context)
{
    (void)context;
    double last = -1;
    for (uint64_t us = 0; us < 5000; us++) {
        or_load_histogram_t histogram = {.total = 0};
        or_load_histogram_add(&histogram, us, 3);
        double ms = or_load_histogram_ms(&histogram, 0.5);
        assert_true(ms >= last);
        assert_true(fabs(ms * 1000 - (double)us) <= PRECISION * (double)us);
        assert_int_equal(histogram.total, 3);
        last = ms;
    }
    or_load_histogram_t histogram = {.total = 0};
    or_load_histogram_add(&histogram, UINT64_MAX, 1);
    assert_true(or_load_histogram_ms(&histogram, 1) > 1e9);
}

static void weights_count(void **context)
{
    (void)context;
    or_load_histogram_t histogram = {.total = 0};
    assert_true(isnan(or_load_histogram_ms(&histogram, 0.5)));
    or_load_histogram_add(&histogram, 10, 95);
    or_load_histogram_add(&histogram, 100, 5);
    assert_true(or_load_histogram_ms(&histogram, 0.95) == 0.01);
    assert_true(or_load_histogram_ms(&histogram, 0.96) == 0.1);
}

static void rates_are_the_sessions(void **context)
{
    (void)context;
    uint64_t tokens[] = {300, 100, 500, 200};
    or_load_figures_t figures = {.sessions = 4, .session_tokens = tokens};
    assert_true(isnan(or_load_rates(&figures).fairness));
    figures.seconds = 10;
    or_load_rates_t rates = or_load_rates(&figures);
    assert_true(rates.total == 110);
    assert_true(rates.median == 25);
    assert_true(rates.worst == 10);
    assert_true(rates.fairness == 0.4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(percentiles_are_right),
        cmocka_unit_test(buckets_ascend),
        cmocka_unit_test(weights_count),
        cmocka_unit_test(rates_are_the_sessions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
