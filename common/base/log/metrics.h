// metrics - counters, gauges and histograms by name, and the page that Prometheus reads of them.
//
//     or_metric_t *tokens = or_metrics_counter(metrics, "generation_tokens_total", "Tokens written.", NULL);
//     or_metric_add(tokens, NULL, 3);
//
//     # HELP outrider:generation_tokens_total Tokens written.
//     # TYPE outrider:generation_tokens_total counter
//     outrider:generation_tokens_total{model_name="tales-6m"} 3
//
// A metric has at most one label of its own besides the registry's constant one; its values come into being as they
// are used, OR_METRIC_VALUES_MAX at most, beyond that they are counted under "other". Not locked: one thread.
#pragma once

#include <stdint.h>

#include "common/base/status.h"

#define OR_METRIC_VALUES_MAX 64u
#define OR_METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

typedef struct or_metrics or_metrics_t;
typedef struct or_metric or_metric_t; // owned by its registry

// Every name is given `prefix` ("outrider:"); every series has the label model_name with this value. Both copied.
// OR_ERR_NO_MEMORY.
or_status_t or_metrics_create(const char *prefix, const char *model_name, or_metrics_t **metrics_p);
void or_metrics_destroy(or_metrics_t **metrics_p);

// Declared once, at start-up; strings are borrowed, `label` may be NULL. A counter's name ends in _total; its
// unlabelled series is there from the start, as a histogram's are; a gauge's once it is set. NULL if there is no
// memory; the functions below take NULL and do nothing then.
or_metric_t *or_metrics_counter(or_metrics_t *metrics, const char *name, const char *help,
                                const char *label);
or_metric_t *or_metrics_gauge(or_metrics_t *metrics, const char *name, const char *help,
                              const char *label);
// `bounds`: upper bounds, ascending, borrowed; +Inf is added.
or_metric_t *or_metrics_histogram(or_metrics_t *metrics, const char *name, const char *help,
                                  const double *bounds, uint32_t count);

// `value`: the label's value (copied); NULL where the metric has no label.
void or_metric_add(or_metric_t *counter, const char *value, double amount);
void or_metric_set(or_metric_t *gauge_or_counter, const char *value, double number);
// What is not set again is not shown any more: peers that left, a mean of nothing.
void or_metric_clear(or_metric_t *gauge_or_counter);
void or_metric_observe(or_metric_t *histogram, double number, uint64_t times);

// The page, in the order of declaration. *text_p is malloc'd and zero-terminated; the caller frees it.
// OR_ERR_NO_MEMORY.
or_status_t or_metrics_render(const or_metrics_t *metrics, char **text_p, size_t *length_p);
