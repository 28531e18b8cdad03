// telemetry_stats - what or_stats_t says, as metrics: the verifier's figures, those of each peer, who waits, and
// what the cost model believes. Set anew for each page; a verifier that was restarted counts from zero again, as
// Prometheus expects of it.
//
// One thread.
#pragma once

#include "common/base/log/metrics.h"
#include "proto/wire/message.h"

typedef struct or_telemetry_stats or_telemetry_stats_t;

// Declares them. `metrics` is borrowed. OR_ERR_NO_MEMORY.
or_status_t or_telemetry_stats_create(or_metrics_t *metrics, or_telemetry_stats_t **stats_p);
void or_telemetry_stats_destroy(or_telemetry_stats_t **stats_p);

void or_telemetry_stats_set(or_telemetry_stats_t *metrics, const or_stats_t *stats);
