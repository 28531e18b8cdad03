// Goal: the page is Prometheus' text format 0.0.4 to the letter, and nothing of what was counted is lost on it.
// Method: whole pages against what they must be; numbers read back; then what a registry must survive: too many
// values, foreign characters, no metric at all.
#include "common/base/log/metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test_support.h"

static or_metrics_t *create(const char *model)
{
    or_metrics_t *metrics = NULL;
    assert_int_equal(or_metrics_create("t:", model, &metrics), OR_OK);
    return metrics;
}

static or_metric_t *declare_counter(or_metrics_t *metrics, const char *name, const char *help,
                                    const char *label)
{
    return or_metrics_declare(
        metrics,
        &(or_metric_row_t){.kind = OR_METRIC_COUNTER, .name = name, .help = help, .label = label});
}

static or_metric_t *declare_gauge(or_metrics_t *metrics, const char *name, const char *help,
                                  const char *label)
{
    return or_metrics_declare(
        metrics,
        &(or_metric_row_t){.kind = OR_METRIC_GAUGE, .name = name, .help = help, .label = label});
}

static or_metric_t *declare_histogram(or_metrics_t *metrics, const char *name, const char *help,
                                      const double *bounds, uint32_t count)
{
    return or_metrics_declare(metrics, &(or_metric_row_t){.kind = OR_METRIC_HISTOGRAM,
                                                          .name = name,
                                                          .help = help,
                                                          .bounds = bounds,
                                                          .bound_count = count});
}

// Render the page, which is good until the next one.
static const char *render(const or_metrics_t *metrics)
{
    static char page[64 << 10];
    char *text = NULL;
    size_t length = 0;
    assert_int_equal(or_metrics_render(metrics, &text, &length), OR_OK);
    assert_true(length < sizeof page && strlen(text) == length);
    memcpy(page, text, length + 1);
    free(text);
    return page;
}

static void assert_page(const or_metrics_t *metrics, const char *expected)
{
    assert_string_equal(render(metrics), expected);
}

static void counters_and_gauges_look_as_prometheus_wants(void **state)
{
    (void)state;
    or_metrics_t *metrics = create("m");
    or_metric_t *tokens = declare_counter(metrics, "tokens_total", "Tokens.", NULL);
    or_metric_t *rounds = declare_counter(metrics, "rounds_total", "Rounds.", "source");
    or_metric_t *load = declare_gauge(metrics, "load", "Load.", NULL);
    or_metric_add(tokens, NULL, 3);
    or_metric_add(tokens, NULL, 4);
    or_metric_add(rounds, "plain", 1);
    or_metric_add(rounds, "drafter", 2);
    or_metric_add(rounds, "plain", 1);
    or_metric_set(load, NULL, 0.25);
    or_metric_set(load, NULL, 0.5);
    assert_page(metrics, "# HELP t:tokens_total Tokens.\n"
                         "# TYPE t:tokens_total counter\n"
                         "t:tokens_total{model_name=\"m\"} 7\n"
                         "# HELP t:rounds_total Rounds.\n"
                         "# TYPE t:rounds_total counter\n"
                         "t:rounds_total{model_name=\"m\",source=\"plain\"} 2\n"
                         "t:rounds_total{model_name=\"m\",source=\"drafter\"} 2\n"
                         "# HELP t:load Load.\n"
                         "# TYPE t:load gauge\n"
                         "t:load{model_name=\"m\"} 0.5\n");
    or_metrics_destroy(&metrics);
    assert_null(metrics);
}

static void a_histogram_counts_up_to_each_bound(void **state)
{
    (void)state;
    static const double bounds[] = {0.1, 1};
    or_metrics_t *metrics = create("m");
    or_metric_t *wait = declare_histogram(metrics, "wait_seconds", "Wait.", bounds, 2);
    or_metric_observe(wait, 0.1, 1); // a bound belongs to its bucket
    or_metric_observe(wait, 0.5, 4);
    or_metric_observe(wait, 3, 1);
    or_metric_observe(wait, 7, 0);
    assert_page(metrics, "# HELP t:wait_seconds Wait.\n"
                         "# TYPE t:wait_seconds histogram\n"
                         "t:wait_seconds_bucket{model_name=\"m\",le=\"0.1\"} 1\n"
                         "t:wait_seconds_bucket{model_name=\"m\",le=\"1\"} 5\n"
                         "t:wait_seconds_bucket{model_name=\"m\",le=\"+Inf\"} 6\n"
                         "t:wait_seconds_sum{model_name=\"m\"} 5.1\n"
                         "t:wait_seconds_count{model_name=\"m\"} 6\n");
    or_metrics_destroy(&metrics);
}

static void what_was_never_counted_is_there_where_it_has_no_label(void **state)
{
    (void)state;
    static const double bounds[] = {1};
    or_metrics_t *metrics = create("m");
    declare_counter(metrics, "a_total", "A.", NULL);
    declare_counter(metrics, "b_total", "B.", "kind");
    declare_gauge(metrics, "c", "C.", NULL);
    declare_histogram(metrics, "d", "D.", bounds, 1);
    assert_page(metrics,
                "# HELP t:a_total A.\n# TYPE t:a_total counter\nt:a_total{model_name=\"m\"} 0\n"
                "# HELP t:d D.\n# TYPE t:d histogram\n"
                "t:d_bucket{model_name=\"m\",le=\"1\"} 0\n"
                "t:d_bucket{model_name=\"m\",le=\"+Inf\"} 0\n"
                "t:d_sum{model_name=\"m\"} 0\nt:d_count{model_name=\"m\"} 0\n");
    or_metrics_destroy(&metrics);
}

static void foreign_characters_are_escaped(void **state)
{
    (void)state;
    or_metrics_t *metrics = create("a\\b\"c\nd");
    or_metric_t *metric = declare_counter(metrics, "x_total", "One \\ two\n\"three\".", "l");
    or_metric_add(metric, "\"\\\n}é,", 1);
    assert_page(metrics, "# HELP t:x_total One \\\\ two\\n\"three\".\n"
                         "# TYPE t:x_total counter\n"
                         "t:x_total{model_name=\"a\\\\b\\\"c\\nd\",l=\"\\\"\\\\\\n}é,\"} 1\n");
    or_metrics_destroy(&metrics);
}

static void numbers_read_back_as_they_were(void **state)
{
    (void)state;
    static const double some[] = {
        0,      1,     0.1,    1.0 / 3, 123456789012345, 9007199254740991,
        1e-300, 1e300, 2.5e-7, -17,     5e-324,          0.30000000000000004};
    or_metrics_t *metrics = create("m");
    or_metric_t *gauge = declare_gauge(metrics, "g", "G.", NULL);
    uint64_t random = test_seed();
    for (uint32_t i = 0; i < 1000; i++) {
        double number = i < sizeof some / sizeof *some
                            ? some[i]
                            : ldexp(test_uniform(&random), (int)test_below(&random, 600) - 300);
        or_metric_set(gauge, NULL, number);
        assert_true(strtod(strrchr(render(metrics), ' '), NULL) == number);
    }
    or_metrics_destroy(&metrics);
}

static void what_is_no_number_is_said_as_prometheus_says_it(void **state)
{
    (void)state;
    or_metrics_t *metrics = create("m");
    or_metric_t *gauge = declare_gauge(metrics, "g", "G.", "l");
    or_metric_set(gauge, "a", INFINITY);
    or_metric_set(gauge, "b", -INFINITY);
    or_metric_set(gauge, "c", NAN);
    assert_page(metrics, "# HELP t:g G.\n# TYPE t:g gauge\n"
                         "t:g{model_name=\"m\",l=\"a\"} +Inf\n"
                         "t:g{model_name=\"m\",l=\"b\"} -Inf\n"
                         "t:g{model_name=\"m\",l=\"c\"} NaN\n");
    or_metrics_destroy(&metrics);
}

static void too_many_values_are_counted_together(void **state)
{
    (void)state;
    or_metrics_t *metrics = create("m");
    or_metric_t *counter = declare_counter(metrics, "x_total", "X.", "l");
    or_metric_t *gauge = declare_gauge(metrics, "g", "G.", "l");
    for (uint32_t i = 0; i < 2 * OR_METRIC_VALUES_MAX; i++) {
        char value[16];
        snprintf(value, sizeof value, "v%u", i);
        or_metric_add(counter, value, 2);
        or_metric_set(gauge, value, i);
    }
    const char *page = render(metrics);
    char other[80], last[80];
    snprintf(other, sizeof other, "l=\"other\"} %u\n", 2 * OR_METRIC_VALUES_MAX);
    snprintf(last, sizeof last, "t:g{model_name=\"m\",l=\"v%u\"} %u\n", OR_METRIC_VALUES_MAX - 1,
             OR_METRIC_VALUES_MAX - 1);
    assert_non_null(strstr(page, other));
    assert_non_null(strstr(page, last));
    assert_null(strstr(strstr(page, last), "other"));
    assert_string_equal(strstr(page, last) + strlen(last), "");
    or_metrics_destroy(&metrics);
}

static void what_is_cleared_makes_room(void **state)
{
    (void)state;
    or_metrics_t *metrics = create("m");
    or_metric_t *gauge = declare_gauge(metrics, "g", "G.", "l");
    or_metric_t *mean = declare_gauge(metrics, "mean", "M.", NULL);
    for (uint32_t i = 0; i < 3 * OR_METRIC_VALUES_MAX; i++) {
        char value[16];
        snprintf(value, sizeof value, "v%u", i);
        or_metric_clear(gauge);
        or_metric_set(gauge, value, i);
    }
    or_metric_set(mean, NULL, 1);
    or_metric_clear(mean);
    assert_page(metrics, "# HELP t:g G.\n# TYPE t:g gauge\nt:g{model_name=\"m\",l=\"v191\"} 191\n");
    or_metrics_destroy(&metrics);
}

static void a_metric_that_is_none_counts_nothing(void **state)
{
    (void)state;
    or_metric_add(NULL, "a", 1);
    or_metric_set(NULL, NULL, 1);
    or_metric_observe(NULL, 1, 1);
    or_metric_clear(NULL);
    or_metrics_t *none = NULL;
    or_metrics_destroy(&none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_and_gauges_look_as_prometheus_wants),
        cmocka_unit_test(a_histogram_counts_up_to_each_bound),
        cmocka_unit_test(what_was_never_counted_is_there_where_it_has_no_label),
        cmocka_unit_test(foreign_characters_are_escaped),
        cmocka_unit_test(numbers_read_back_as_they_were),
        cmocka_unit_test(what_is_no_number_is_said_as_prometheus_says_it),
        cmocka_unit_test(too_many_values_are_counted_together),
        cmocka_unit_test(what_is_cleared_makes_room),
        cmocka_unit_test(a_metric_that_is_none_counts_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
