#include "coordinator/figures/telemetry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log/metrics.h"
#include "common/base/version.h"
#include "common/text/utf8.h"
#include "coordinator/figures/telemetry_stats.h"

// ---- what is counted ----

// vLLM's bounds; where texts are written faster than it has bounds for, some below them.
static const double first_token_bounds[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                            0.25,  0.5,   0.75, 1,    2.5,  5,    7.5,  10,
                                            20,    40,    80,   160,  640,  2560};
static const double token_bounds[] = {
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,
    0.3,    0.4,     0.5,    0.75,  1,      2.5,   5,    7.5,   10,   20,    40,  80};
static const double request_bounds[] = {0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5,  0.8, 1,
                                        1.5,  2,     2.5,  5,   10,  15,  20,   30,  40,
                                        50,   60,    120,  240, 480, 960, 1920, 7680};
static const double length_bounds[] = {1,     2,      5,      10,     20,     50,    100,
                                       200,   500,    1000,   2000,   5000,   10000, 20000,
                                       50000, 100000, 200000, 500000, 1000000};
static const double call_bounds[] = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 32, 64};

typedef enum {
    PROMPT_TOKENS,
    GENERATION_TOKENS,
    REQUESTS,
    FIRST_TOKEN_TIME,
    TOKEN_TIME,
    REQUEST_TIME,
    QUEUE_TIME,
    PROMPT_LENGTH,
    GENERATION_LENGTH,
    CACHE_QUERIES,
    CACHE_HITS,
    DRAFTS,
    DRAFT_TOKENS,
    ACCEPTED_TOKENS,
    ACCEPTED_AT,
    DRAFTED_AT,
    CALLS,
    TOKENS_PER_CALL,
    WASTED_NODES,
    UNSEEN_NODES,
    LINK_BYTES,
    ROUND_TRIP_TIME,
    HIDDEN_TIME,
    AHEAD_ROUNDS,
    AHEAD_HITS,
    ROUNDS,
    ROUND_TIME,
    EVENTS,
    BUILD,
    METRICS
} metric_t;

typedef struct {
    enum { COUNTER, GAUGE, HISTOGRAM } kind;
    const char *name, *help, *label;
    const double *bounds;
    uint32_t bound_count;
} declaration_t;

#define BOUNDS(array) NULL, (array), sizeof(array) / sizeof *(array)

// Up to DRAFTED_AT the names and meanings are vLLM's.
static const declaration_t declarations[METRICS] = {
    [PROMPT_TOKENS] = {COUNTER, "prompt_tokens_total", "Tokens of prompts.", NULL, NULL, 0},
    [GENERATION_TOKENS] = {COUNTER, "generation_tokens_total", "Tokens written.", NULL, NULL, 0},
    [REQUESTS] = {COUNTER, "request_success_total", "Requests that ended, by why.",
                  "finished_reason", NULL, 0},
    [FIRST_TOKEN_TIME] = {HISTOGRAM, "time_to_first_token_seconds",
                          "From a request to its first tokens.", BOUNDS(first_token_bounds)},
    [TOKEN_TIME] = {HISTOGRAM, "inter_token_latency_seconds",
                    "From a token to the next; those of one round share its time.",
                    BOUNDS(token_bounds)},
    [REQUEST_TIME] = {HISTOGRAM, "e2e_request_latency_seconds", "From a request to its end.",
                      BOUNDS(request_bounds)},
    [QUEUE_TIME] = {HISTOGRAM, "request_queue_time_seconds",
                    "From a request to the beginning of its work.", BOUNDS(request_bounds)},
    [PROMPT_LENGTH] = {HISTOGRAM, "request_prompt_tokens", "Tokens of a request's prompt.",
                       BOUNDS(length_bounds)},
    [GENERATION_LENGTH] = {HISTOGRAM, "request_generation_tokens", "Tokens written for a request.",
                           BOUNDS(length_bounds)},
    [CACHE_QUERIES] = {COUNTER, "prefix_cache_queries_total",
                       "Prompt tokens looked for in the cache.", NULL, NULL, 0},
    [CACHE_HITS] = {COUNTER, "prefix_cache_hits_total",
                    "Prompt tokens that were in the cache already.", NULL, NULL, 0},
    [DRAFTS] = {COUNTER, "spec_decode_num_drafts_total", "Rounds with guesses.", NULL, NULL, 0},
    [DRAFT_TOKENS] = {COUNTER, "spec_decode_num_draft_tokens_total", "Guesses judged.", NULL, NULL,
                      0},
    [ACCEPTED_TOKENS] = {COUNTER, "spec_decode_num_accepted_tokens_total", "Guesses accepted.",
                         NULL, NULL, 0},
    [ACCEPTED_AT] = {COUNTER, "spec_decode_num_accepted_tokens_per_pos_total",
                     "Guesses accepted, by depth from 0.", "position", NULL, 0},
    [DRAFTED_AT] = {COUNTER, "drafts_at_depth_total", "Rounds whose guesses reach a depth, from 0.",
                    "position", NULL, 0},
    [CALLS] = {COUNTER, "verifier_calls_total", "Rounds judged, those without guesses included.",
               NULL, NULL, 0},
    [TOKENS_PER_CALL] = {HISTOGRAM, "tokens_per_call", "Tokens that a round brought.",
                         BOUNDS(call_bounds)},
    [WASTED_NODES] = {COUNTER, "wasted_nodes_total", "Guesses that were not accepted.", NULL, NULL,
                      0},
    [UNSEEN_NODES] = {COUNTER, "unseen_nodes_total",
                      "Of them, those deeper than where the accepted path ended.", NULL, NULL, 0},
    [LINK_BYTES] = {COUNTER, "drafter_link_bytes_total", "Bytes on drafters' links, both ways.",
                    NULL, NULL, 0},
    [ROUND_TRIP_TIME] = {COUNTER, "round_trip_seconds_total",
                         "To drafters and back, their work included.", NULL, NULL, 0},
    [HIDDEN_TIME] = {COUNTER, "round_trip_hidden_seconds_total", "Of it, what no round waited for.",
                     NULL, NULL, 0},
    [AHEAD_ROUNDS] = {COUNTER, "draft_ahead_rounds_total",
                      "Rounds that began while a drafter was ahead.", NULL, NULL, 0},
    [AHEAD_HITS] = {COUNTER, "draft_ahead_hits_total", "Of them, those whose guesses were there.",
                    NULL, NULL, 0},
    [ROUNDS] = {COUNTER, "rounds_total", "Rounds by where their guesses came from.", "source", NULL,
                0},
    [ROUND_TIME] = {COUNTER, "round_seconds_total",
                    "Time from verdict to verdict by what it was spent on; draft and network: "
                    "waiting for them.",
                    "part", NULL, 0},
    [EVENTS] = {COUNTER, "events_total", "Events by kind.", "kind", NULL, 0},
    [BUILD] = {GAUGE, "build_info", "The version that runs.", "version", NULL, 0},
};

static const char *const finish_reasons[] = {
    [OR_FINISH_STOP] = "stop",
    [OR_FINISH_LENGTH] = "length",
    [OR_FINISH_ERROR] = "error",
    [OR_FINISH_CANCELLED] = "abort",
};
#define FINISH_REASONS (sizeof finish_reasons / sizeof *finish_reasons)

static const char *const round_parts[] = {"draft", "network", "verify", "accept", "other"};
#define ROUND_PARTS (sizeof round_parts / sizeof *round_parts)

static const char *const event_kinds[] = {
    OR_EVENT_DRAFTER_JOINED, OR_EVENT_DRAFTER_LOST, OR_EVENT_VERIFIER_JOINED,
    OR_EVENT_VERIFIER_LOST,  OR_EVENT_FAILOVER,     OR_EVENT_REFUSED,
    OR_EVENT_CUT_OFF,        OR_EVENT_BUSY,         OR_EVENT_FAILED,
};

// Rounds are many and pages few: what is counted by depth gets its labels when it is shown.
#define DEPTHS_MAX OR_METRIC_VALUES_MAX

struct or_telemetry {
    or_metrics_t *metrics;
    or_metric_t *counted[METRICS];
    uint64_t drafted_at[DEPTHS_MAX], accepted_at[DEPTHS_MAX];
    or_telemetry_stats_t *stats;
};

// ---- declared ----

static or_metric_t *declare(or_metrics_t *metrics, const declaration_t *d)
{
    switch (d->kind) {
    case COUNTER:
        return or_metrics_counter(metrics, d->name, d->help, d->label);
    case GAUGE:
        return or_metrics_gauge(metrics, d->name, d->help, d->label);
    default:
        return or_metrics_histogram(metrics, d->name, d->help, d->bounds, d->bound_count);
    }
}

// A rate needs a series that was 0 before the first time.
static void begin_at_zero(or_telemetry_t *t)
{
    for (uint32_t i = OR_FINISH_STOP; i < FINISH_REASONS; i++) {
        or_metric_add(t->counted[REQUESTS], finish_reasons[i], 0);
    }
    for (uint32_t i = OR_SOURCE_PLAIN; i <= OR_SOURCE_DRAFTER; i++) {
        or_metric_add(t->counted[ROUNDS], or_guess_source_name(i), 0);
    }
    for (uint32_t i = 0; i < ROUND_PARTS; i++) {
        or_metric_add(t->counted[ROUND_TIME], round_parts[i], 0);
    }
    for (uint32_t i = 0; i < sizeof event_kinds / sizeof *event_kinds; i++) {
        or_metric_add(t->counted[EVENTS], event_kinds[i], 0);
    }
    or_metric_set(t->counted[BUILD], OR_VERSION, 1);
}

static or_status_t create_metrics(or_telemetry_t *t, const char *model)
{
    char name[128];
    snprintf(name, sizeof name, "%s", model != NULL ? model : "");
    or_utf8_mend(name);
    or_status_t status = or_metrics_create("outrider:", name, &t->metrics);
    for (uint32_t i = 0; status == OR_OK && i < METRICS; i++) {
        t->counted[i] = declare(t->metrics, &declarations[i]);
        if (t->counted[i] == NULL) {
            status = or_fail(OR_ERR_NO_MEMORY, "no memory for metrics");
        }
    }
    return status == OR_OK ? or_telemetry_stats_create(t->metrics, &t->stats) : status;
}

or_status_t or_telemetry_create(const char *model, or_telemetry_t **telemetry_p)
{
    or_telemetry_t *telemetry = calloc(1, sizeof *telemetry);
    if (telemetry == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for metrics");
    }
    or_status_t status = create_metrics(telemetry, model);
    if (status != OR_OK) {
        or_telemetry_destroy(&telemetry);
        return status;
    }
    begin_at_zero(telemetry);
    *telemetry_p = telemetry;
    return OR_OK;
}

void or_telemetry_destroy(or_telemetry_t **telemetry_p)
{
    or_telemetry_t *telemetry = *telemetry_p;
    *telemetry_p = NULL;
    if (telemetry != NULL) {
        or_telemetry_stats_destroy(&telemetry->stats);
        or_metrics_destroy(&telemetry->metrics);
        free(telemetry);
    }
}

// ---- texts ----

static void add(or_telemetry_t *t, metric_t metric, double amount)
{
    or_metric_add(t->counted[metric], NULL, amount);
}

static void observe(or_telemetry_t *t, metric_t metric, double number, uint64_t times)
{
    or_metric_observe(t->counted[metric], number, times);
}

void or_telemetry_begun(or_telemetry_t *t, double waited)
{
    observe(t, QUEUE_TIME, waited, 1);
}

void or_telemetry_prompt(or_telemetry_t *t, uint32_t tokens, uint32_t reused)
{
    add(t, PROMPT_TOKENS, tokens);
    add(t, CACHE_QUERIES, tokens);
    add(t, CACHE_HITS, reused);
    observe(t, PROMPT_LENGTH, tokens, 1);
}

void or_telemetry_first_tokens(or_telemetry_t *t, uint32_t tokens, double since)
{
    add(t, GENERATION_TOKENS, tokens);
    observe(t, FIRST_TOKEN_TIME, since, 1);
}

void or_telemetry_tokens(or_telemetry_t *t, uint32_t tokens, double since)
{
    add(t, GENERATION_TOKENS, tokens);
    if (tokens > 0) {
        observe(t, TOKEN_TIME, since / tokens, tokens);
    }
}

void or_telemetry_finished(or_telemetry_t *t, uint32_t finish, uint32_t tokens, double after)
{
    const char *reason = finish < FINISH_REASONS ? finish_reasons[finish] : NULL;
    or_metric_add(t->counted[REQUESTS], reason != NULL ? reason : "error", 1);
    observe(t, GENERATION_LENGTH, tokens, 1);
    observe(t, REQUEST_TIME, after, 1);
}

// ---- rounds ----

static void count_depths(uint64_t counts[DEPTHS_MAX], uint32_t end)
{
    for (uint32_t depth = 0; depth < end && depth < DEPTHS_MAX; depth++) {
        counts[depth]++;
    }
}

static void count_guesses(or_telemetry_t *t, const or_telemetry_round_t *round)
{
    if (round->nodes == 0) {
        return;
    }
    add(t, DRAFTS, 1);
    add(t, DRAFT_TOKENS, round->nodes);
    add(t, ACCEPTED_TOKENS, round->accepted);
    add(t, WASTED_NODES, round->nodes - round->accepted);
    add(t, UNSEEN_NODES, round->nodes - round->path_nodes);
    count_depths(t->drafted_at, round->depth);
    count_depths(t->accepted_at, round->accepted);
}

// What the round waited for its drafter was drafting first, and the network for the rest.
static void count_time(or_telemetry_t *t, const or_telemetry_round_t *round)
{
    uint64_t round_trip_us = round->link_us + round->draft_us;
    uint64_t hidden_us = round->hidden_us < round_trip_us ? round->hidden_us : round_trip_us;
    uint64_t waited_us = round_trip_us - hidden_us;
    uint64_t draft_us = round->draft_us < waited_us ? round->draft_us : waited_us;
    uint64_t parts_us[ROUND_PARTS] = {draft_us, waited_us - draft_us, round->verify_us,
                                      round->accept_us};
    add(t, ROUND_TRIP_TIME, 1e-6 * (double)round_trip_us);
    add(t, HIDDEN_TIME, 1e-6 * (double)hidden_us);
    uint64_t left_us = round->round_us;
    for (uint32_t i = 0; i < ROUND_PARTS; i++) {
        uint64_t part_us = i + 1 == ROUND_PARTS || parts_us[i] > left_us ? left_us : parts_us[i];
        or_metric_add(t->counted[ROUND_TIME], round_parts[i], 1e-6 * (double)part_us);
        left_us -= part_us;
    }
}

void or_telemetry_round(or_telemetry_t *t, const or_telemetry_round_t *round)
{
    add(t, CALLS, 1);
    observe(t, TOKENS_PER_CALL, round->accepted + 1, 1);
    or_metric_add(t->counted[ROUNDS], or_guess_source_name(round->source), 1);
    count_guesses(t, round);
    count_time(t, round);
    add(t, LINK_BYTES, (double)round->link_bytes);
    add(t, AHEAD_ROUNDS, round->ahead);
    add(t, AHEAD_HITS, round->ahead && round->hit);
}

void or_telemetry_event(or_telemetry_t *t, const char *kind)
{
    or_metric_add(t->counted[EVENTS], kind, 1);
}

// ---- shown ----

static void show_depths(or_metric_t *metric, const uint64_t counts[DEPTHS_MAX])
{
    for (uint32_t depth = 0; depth < DEPTHS_MAX && counts[depth] > 0; depth++) {
        char name[16];
        snprintf(name, sizeof name, "%u", depth);
        or_metric_set(metric, name, (double)counts[depth]);
    }
}

or_status_t or_telemetry_render(or_telemetry_t *t, const or_stats_t *stats, char **text_p,
                                size_t *length_p)
{
    show_depths(t->counted[DRAFTED_AT], t->drafted_at);
    show_depths(t->counted[ACCEPTED_AT], t->accepted_at);
    or_telemetry_stats_set(t->stats, stats);
    return or_metrics_render(t->metrics, text_p, length_p);
}
