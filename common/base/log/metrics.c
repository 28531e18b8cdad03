#include "common/base/log/metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_names[] = {[OR_METRIC_COUNTER] = "counter",
                                         [OR_METRIC_GAUGE] = "gauge",
                                         [OR_METRIC_HISTOGRAM] = "histogram"};

typedef struct {
    char *value; // of the label; NULL: the metric has none
    double number;
} series_t;

struct or_metric {
    or_metric_t *next;
    or_metric_row_t row;
    // A counter's or gauge's series.
    series_t *series;
    uint32_t count, places;
    // A histogram's: buckets[i] counts the numbers that are at most bounds[i] and above the bound before it. The last
    // entry is that of +Inf.
    uint64_t *buckets;
    double sum;
};

struct or_metrics {
    char *prefix, *model_name;
    or_metric_t *first, **end; // in the order of declaration
};

or_status_t or_metrics_create(const char *prefix, const char *model_name, or_metrics_t **metrics_p)
{
    or_metrics_t *metrics = calloc(1, sizeof *metrics);
    if (metrics != NULL) {
        metrics->end = &metrics->first;
        metrics->prefix = strdup(prefix);
        metrics->model_name = strdup(model_name);
    }
    if (metrics == NULL || metrics->prefix == NULL || metrics->model_name == NULL) {
        or_metrics_destroy(&metrics);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for metrics");
    }
    *metrics_p = metrics;
    return OR_OK;
}

static void metric_destroy(or_metric_t *metric)
{
    or_metric_clear(metric);
    free(metric->series);
    free(metric->buckets);
    free(metric);
}

void or_metrics_destroy(or_metrics_t **metrics_p)
{
    or_metrics_t *metrics = *metrics_p;
    *metrics_p = NULL;
    if (metrics == NULL) {
        return;
    }
    while (metrics->first != NULL) {
        or_metric_t *metric = metrics->first;
        metrics->first = metric->next;
        metric_destroy(metric);
    }
    free(metrics->prefix);
    free(metrics->model_name);
    free(metrics);
}

// ---- declared ----

or_metric_t *or_metrics_declare(or_metrics_t *metrics, const or_metric_row_t *row)
{
    or_metric_t *metric = calloc(1, sizeof *metric);
    if (metric == NULL) {
        return NULL;
    }
    metric->row = *row;
    if (row->kind == OR_METRIC_HISTOGRAM) {
        metric->buckets = calloc(row->bound_count + 1, sizeof *metric->buckets);
    } else {
        metric->places = row->label != NULL ? OR_METRIC_VALUES_MAX + 1 : 1;
        metric->series = calloc(metric->places, sizeof *metric->series);
    }
    if (metric->buckets == NULL && metric->series == NULL) {
        free(metric);
        return NULL;
    }
    *metrics->end = metric;
    metrics->end = &metric->next;
    if (row->kind == OR_METRIC_COUNTER && row->label == NULL) {
        or_metric_add(metric, NULL, 0);
    }
    return metric;
}

// ---- counted ----

static series_t *find(const or_metric_t *metric, const char *value)
{
    for (uint32_t i = 0; i < metric->count; i++) {
        if (metric->row.label == NULL || strcmp(metric->series[i].value, value) == 0) {
            return &metric->series[i];
        }
    }
    return NULL;
}

// Return the series of this value; a new one takes one of the first `places`. NULL: no place or no memory is left.
static series_t *find_or_add(or_metric_t *metric, const char *value, uint32_t places)
{
    series_t *series = find(metric, value);
    if (series != NULL || metric->count >= places) {
        return series;
    }
    char *copy = NULL;
    if (metric->row.label != NULL && (copy = strdup(value)) == NULL) {
        return NULL;
    }
    series = &metric->series[metric->count++];
    *series = (series_t){.value = copy};
    return series;
}

void or_metric_add(or_metric_t *counter, const char *value, double amount)
{
    if (counter == NULL) {
        return;
    }
    uint32_t places = counter->row.label != NULL ? OR_METRIC_VALUES_MAX : 1;
    series_t *series = find_or_add(counter, value, places);
    if (series == NULL) {
        series = find_or_add(counter, "other", counter->places);
    }
    if (series != NULL) {
        series->number += amount;
    }
}

void or_metric_set(or_metric_t *gauge_or_counter, const char *value, double number)
{
    if (gauge_or_counter == NULL) {
        return;
    }
    uint32_t places = gauge_or_counter->row.label != NULL ? OR_METRIC_VALUES_MAX : 1;
    series_t *series = find_or_add(gauge_or_counter, value, places);
    if (series != NULL) {
        series->number = number;
    }
}

void or_metric_clear(or_metric_t *gauge_or_counter)
{
    if (gauge_or_counter == NULL) {
        return;
    }
    while (gauge_or_counter->count > 0) {
        free(gauge_or_counter->series[--gauge_or_counter->count].value);
    }
}

void or_metric_observe(or_metric_t *histogram, double number, uint64_t times)
{
    if (histogram == NULL) {
        return;
    }
    uint32_t bucket = 0;
    while (bucket < histogram->row.bound_count && number > histogram->row.bounds[bucket]) {
        bucket++;
    }
    histogram->buckets[bucket] += times;
    histogram->sum += number * (double)times;
}

// ---- shown ----

// The text format escapes \ and line ends, and quotes inside quotes.
static void write_escaped(FILE *page, const char *text, bool quoted)
{
    for (; *text != '\0'; text++) {
        if (*text == '\n') {
            fputs("\\n", page);
            continue;
        }
        if (*text == '\\' || (quoted && *text == '"')) {
            fputc('\\', page);
        }
        fputc(*text, page);
    }
}

// Write the shortest form that reads back as the same number.
static void write_number(FILE *page, double number)
{
    if (!isfinite(number)) {
        fputs(isnan(number) ? "NaN" : number > 0 ? "+Inf" : "-Inf", page);
        return;
    }
    char text[32];
    int digits = 15;
    do {
        snprintf(text, sizeof text, "%.*g", digits, number);
    } while (strtod(text, NULL) != number && ++digits <= 17);
    fputs(text, page);
}

static void write_name(FILE *page, const or_metrics_t *metrics, const or_metric_t *metric,
                       const char *suffix)
{
    fprintf(page, "%s%s%s{model_name=\"", metrics->prefix, metric->row.name, suffix);
    write_escaped(page, metrics->model_name, true);
    fputc('"', page);
}

static void write_series(FILE *page, const or_metrics_t *metrics, const or_metric_t *metric,
                         const series_t *series)
{
    write_name(page, metrics, metric, "");
    if (metric->row.label != NULL) {
        fprintf(page, ",%s=\"", metric->row.label);
        write_escaped(page, series->value, true);
        fputc('"', page);
    }
    fputs("} ", page);
    write_number(page, series->number);
    fputc('\n', page);
}

static void write_histogram(FILE *page, const or_metrics_t *metrics, const or_metric_t *metric)
{
    uint64_t so_far = 0;
    for (uint32_t i = 0; i <= metric->row.bound_count; i++) {
        so_far += metric->buckets[i];
        write_name(page, metrics, metric, "_bucket");
        fputs(",le=\"", page);
        write_number(page, i < metric->row.bound_count ? metric->row.bounds[i] : INFINITY);
        fprintf(page, "\"} %llu\n", (unsigned long long)so_far);
    }
    write_name(page, metrics, metric, "_sum");
    fputs("} ", page);
    write_number(page, metric->sum);
    fputc('\n', page);
    write_name(page, metrics, metric, "_count");
    fprintf(page, "} %llu\n", (unsigned long long)so_far);
}

static void write_metric(FILE *page, const or_metrics_t *metrics, const or_metric_t *metric)
{
    if (metric->row.kind != OR_METRIC_HISTOGRAM && metric->count == 0) {
        return;
    }
    fprintf(page, "# HELP %s%s ", metrics->prefix, metric->row.name);
    write_escaped(page, metric->row.help, false);
    fprintf(page, "\n# TYPE %s%s %s\n", metrics->prefix, metric->row.name,
            kind_names[metric->row.kind]);
    if (metric->row.kind == OR_METRIC_HISTOGRAM) {
        write_histogram(page, metrics, metric);
    }
    for (uint32_t i = 0; i < metric->count; i++) {
        write_series(page, metrics, metric, &metric->series[i]);
    }
}

or_status_t or_metrics_render(const or_metrics_t *metrics, char **text_p, size_t *length_p)
{
    char *text = NULL;
    size_t length = 0;
    FILE *page = open_memstream(&text, &length);
    if (page == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a page of metrics");
    }
    for (const or_metric_t *metric = metrics->first; metric != NULL; metric = metric->next) {
        write_metric(page, metrics, metric);
    }
    bool whole = ferror(page) == 0;
    whole = fclose(page) == 0 && whole;
    if (!whole) {
        free(text);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a page of metrics");
    }
    *text_p = text;
    *length_p = length;
    return OR_OK;
}
