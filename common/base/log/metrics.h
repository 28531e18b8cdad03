// metrics - counters, gauges and histograms by name, and the page that Prometheus reads of them.
//
//     static const or_metric_row_t row = {OR_METRIC_COUNTER, "generation_tokens_total", "Tokens written."};
//     or_metric_t *tokens = or_metrics_declare(metrics, &row);
//     or_metric_add(tokens, NULL, 3);
//
//     # HELP outrider:generation_tokens_total Tokens written.
//     # TYPE outrider:generation_tokens_total counter
//     outrider:generation_tokens_total{model_name="tales-6m"} 3
//
// A metric has at most one label of its own besides the registry's constant one. The label's values come into being
// as they are used, OR_METRIC_VALUES_MAX at most; what is beyond that is counted under "other". Not locked: one thread.
#pragma once

#include <stdint.h>

#include "common/base/status.h"

#define OR_METRIC_VALUES_MAX 64u
#define OR_METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

typedef struct or_metrics or_metrics_t;
typedef struct or_metric or_metric_t; // owned by its registry

typedef enum {
    OR_METRIC_NONE, // a number that is no metric: never declared
    OR_METRIC_COUNTER,
    OR_METRIC_GAUGE,
    OR_METRIC_HISTOGRAM
} or_metric_kind_t;

typedef struct {
    or_metric_kind_t kind;
    const char *name, *help; // a counter's name ends in _total
    const char *label;       // NULL: none
    const double *bounds;    // a histogram's upper bounds, ascending; +Inf is added
    uint32_t bound_count;
} or_metric_row_t;

// Every name is given `prefix` ("outrider:"); every series has the label model_name with this value. Both are copied.
// OR_ERR_NO_MEMORY.
or_status_t or_metrics_create(const char *prefix, const char *model_name, or_metrics_t **metrics_p);
void or_metrics_destroy(or_metrics_t **metrics_p);

// Declare a metric, once, at start-up. The row is copied; what it points to is borrowed. A histogram's series and an
// unlabelled counter's are on the page from the start, a gauge's once it is set. NULL if there is no memory: the
// functions below take NULL and do nothing then.
or_metric_t *or_metrics_declare(or_metrics_t *metrics, const or_metric_row_t *row);

// Count or set. `value` is the label's value and is copied; it is NULL where the metric has no label.
void or_metric_add(or_metric_t *counter, const char *value, double amount);
void or_metric_set(or_metric_t *gauge_or_counter, const char *value, double number);
// Take all series away. Those that are not set again are not on the page any more: peers that left, a mean of nothing.
void or_metric_clear(or_metric_t *gauge_or_counter);
void or_metric_observe(or_metric_t *histogram, double number, uint64_t times);

// Write the page, in the order of declaration. *text_p is malloc'd and zero-terminated; the caller frees it.
// OR_ERR_NO_MEMORY.
or_status_t or_metrics_render(const or_metrics_t *metrics, char **text_p, size_t *length_p);
