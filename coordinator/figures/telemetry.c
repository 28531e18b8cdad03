#include "coordinator/figures/telemetry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log/metrics.h"
#include "common/base/version.h"
#include "common/text/utf8.h"

// ---- what is counted ----

// These are vLLM's bounds, and some below them, for texts that are written faster than it expects.
static const double first_bounds[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
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

#define NO_BOUNDS .bounds = NULL
#define BOUNDS(array) .bounds = (array), .bound_count = sizeof(array) / sizeof *(array)

// The metrics that are counted here, in the order of the page: X(id, kind, name, label, bounds, help). Up to DRAFTED_AT
// names and meanings are vLLM's. The last four are gauges of or_stats_t that no single member has.
// clang-format off
#define COUNTED(X)                                                                                 \
    X(PROMPT_TOKENS, COUNTER, "prompt_tokens_total", NULL, NO_BOUNDS, "Tokens of prompts.")        \
    X(GENERATION_TOKENS, COUNTER, "generation_tokens_total", NULL, NO_BOUNDS, "Tokens written.")   \
    X(REQUESTS, COUNTER, "request_success_total", "finished_reason", NO_BOUNDS,                    \
      "Requests that ended, by why.")                                                              \
    X(FIRST_TOKEN_TIME, HISTOGRAM, "time_to_first_token_seconds", NULL, BOUNDS(first_bounds),      \
      "From a request to its first tokens.")                                                       \
    X(TOKEN_TIME, HISTOGRAM, "inter_token_latency_seconds", NULL, BOUNDS(token_bounds),            \
      "From a token to the next; those of one round share its time.")                              \
    X(REQUEST_TIME, HISTOGRAM, "e2e_request_latency_seconds", NULL, BOUNDS(request_bounds),        \
      "From a request to its end.")                                                                \
    X(QUEUE_TIME, HISTOGRAM, "request_queue_time_seconds", NULL, BOUNDS(request_bounds),           \
      "From a request to the beginning of its work.")                                              \
    X(PROMPT_LENGTH, HISTOGRAM, "request_prompt_tokens", NULL, BOUNDS(length_bounds),              \
      "Tokens of a request's prompt.")                                                             \
    X(GENERATION_LENGTH, HISTOGRAM, "request_generation_tokens", NULL, BOUNDS(length_bounds),      \
      "Tokens written for a request.")                                                             \
    X(CACHE_QUERIES, COUNTER, "prefix_cache_queries_total", NULL, NO_BOUNDS,                       \
      "Prompt tokens looked for in the cache.")                                                    \
    X(CACHE_HITS, COUNTER, "prefix_cache_hits_total", NULL, NO_BOUNDS,                             \
      "Prompt tokens that were in the cache already.")                                             \
    X(DRAFTS, COUNTER, "spec_decode_num_drafts_total", NULL, NO_BOUNDS, "Rounds with guesses.")    \
    X(DRAFT_TOKENS, COUNTER, "spec_decode_num_draft_tokens_total", NULL, NO_BOUNDS,                \
      "Guesses judged.")                                                                           \
    X(ACCEPTED_TOKENS, COUNTER, "spec_decode_num_accepted_tokens_total", NULL, NO_BOUNDS,          \
      "Guesses accepted.")                                                                         \
    X(ACCEPTED_AT, COUNTER, "spec_decode_num_accepted_tokens_per_pos_total", "position",           \
      NO_BOUNDS, "Guesses accepted, by depth from 0.")                                             \
    X(DRAFTED_AT, COUNTER, "drafts_at_depth_total", "position", NO_BOUNDS,                         \
      "Rounds whose guesses reach a depth, from 0.")                                               \
    X(CALLS, COUNTER, "verifier_calls_total", NULL, NO_BOUNDS,                                     \
      "Rounds judged, those without guesses included.")                                            \
    X(TOKENS_PER_CALL, HISTOGRAM, "tokens_per_call", NULL, BOUNDS(call_bounds),                    \
      "Tokens that a round brought.")                                                              \
    X(WASTED_NODES, COUNTER, "wasted_nodes_total", NULL, NO_BOUNDS,                                \
      "Guesses that were not accepted.")                                                           \
    X(UNSEEN_NODES, COUNTER, "unseen_nodes_total", NULL, NO_BOUNDS,                                \
      "Of them, those deeper than where the accepted path ended.")                                 \
    X(LINK_BYTES, COUNTER, "drafter_link_bytes_total", NULL, NO_BOUNDS,                            \
      "Bytes on drafters' links, both ways.")                                                      \
    X(ROUND_TRIP_TIME, COUNTER, "round_trip_seconds_total", NULL, NO_BOUNDS,                       \
      "To drafters and back, their work included.")                                                \
    X(HIDDEN_TIME, COUNTER, "round_trip_hidden_seconds_total", NULL, NO_BOUNDS,                    \
      "Of it, what no round waited for.")                                                          \
    X(AHEAD_ROUNDS, COUNTER, "draft_ahead_rounds_total", NULL, NO_BOUNDS,                          \
      "Rounds that began while a drafter was ahead.")                                              \
    X(AHEAD_HITS, COUNTER, "draft_ahead_hits_total", NULL, NO_BOUNDS,                              \
      "Of them, those whose guesses were there.")                                                  \
    X(ROUNDS, COUNTER, "rounds_total", "source", NO_BOUNDS,                                        \
      "Rounds by where their guesses came from.")                                                  \
    X(ROUND_TIME, COUNTER, "round_seconds_total", "part", NO_BOUNDS,                               \
      "Time from verdict to verdict by what it was spent on; draft and network: "                  \
      "waiting for them.")                                                                         \
    X(EVENTS, COUNTER, "events_total", "kind", NO_BOUNDS, "Events by kind.")                       \
    X(BUILD, GAUGE, "build_info", "version", NO_BOUNDS, "The version that runs.")                  \
    X(CHOICE, GAUGE, "draft_choice_info", "choice", NO_BOUNDS,                                     \
      "What texts are written with at present; /status says why.")                                 \
    X(RUNNING, GAUGE, "num_requests_running", NULL, NO_BOUNDS, "Requests that are worked on.")     \
    X(CACHE_USAGE, GAUGE, "kv_cache_usage_perc", NULL, NO_BOUNDS,                                  \
      "Part of the verifier's pages in use, 0 to 1.")                                              \
    X(SOURCES, GAUGE, "sessions", "source", NO_BOUNDS,                                             \
      "Live sessions by what their last round was made of.")
// clang-format on

typedef enum {
#define X(id, ...) id,
    COUNTED(X)
#undef X
        METRICS
} metric_t;

static const or_metric_row_t counted_rows[METRICS] = {
#define X(id_, kind_, name_, label_, bounds_, help_)                                               \
    [id_] = {.kind = OR_METRIC_##kind_, .name = name_, .help = help_, .label = label_, bounds_},
    COUNTED(X)
#undef X
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

static const char *const event_kinds[] = {OR_EVENT_KINDS};

// Rounds are many and pages few: counts by depth get their labels when they are shown.
#define DEPTHS_MAX OR_METRIC_VALUES_MAX

struct or_telemetry {
    or_metrics_t *metrics;
    or_metric_t *counted[METRICS];
    or_metric_t *stats[OR_STATS_ROWS], *peers[OR_PEER_ROWS], *sessions[OR_SESSION_ROWS];
    uint64_t drafted_at[DEPTHS_MAX], accepted_at[DEPTHS_MAX];
};

// ---- declared ----

// Declare the metrics of one table of proto/wire/figures.h, in the order of their lines.
static bool declare_rows(or_metrics_t *metrics, const or_figure_t *rows, uint32_t count,
                         const char *label, or_metric_t **metric_of_row)
{
    for (uint32_t line = 1; line <= count; line++) {
        for (uint32_t i = 0; i < count; i++) {
            if (rows[i].line != line) {
                continue;
            }
            const or_metric_row_t row = {
                .kind = rows[i].kind, .name = rows[i].metric, .help = rows[i].help, .label = label};
            metric_of_row[i] = or_metrics_declare(metrics, &row);
            if (metric_of_row[i] == NULL) {
                return false;
            }
        }
    }
    return true;
}

static bool declare(or_telemetry_t *t)
{
    for (uint32_t i = 0; i < METRICS; i++) {
        t->counted[i] = or_metrics_declare(t->metrics, &counted_rows[i]);
        if (t->counted[i] == NULL) {
            return false;
        }
    }
    return declare_rows(t->metrics, or_stats_rows, OR_STATS_ROWS, NULL, t->stats) &&
           declare_rows(t->metrics, or_peer_rows, OR_PEER_ROWS, "peer", t->peers) &&
           declare_rows(t->metrics, or_session_rows, OR_SESSION_ROWS, NULL, t->sessions);
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
    if (status == OR_OK && !declare(t)) {
        status = or_fail(OR_ERR_NO_MEMORY, "no memory for metrics");
    }
    return status;
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

// The time that the round waited for its drafter is drafting first, and the network for the rest.
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

static void show_number(or_metric_t *metric, const char *label, const or_figure_t *row,
                        const void *of)
{
    or_metric_set(metric, label, or_figure_number(row, of) * row->unit);
}

static void show_sources(or_telemetry_t *t, const or_stats_t *stats)
{
    or_metric_t *sources = t->counted[SOURCES];
    for (uint32_t source = OR_SOURCE_PLAIN; source <= OR_SOURCE_DRAFTER; source++) {
        or_metric_set(sources, or_guess_source_name(source), 0);
    }
    for (uint32_t i = 0; i < stats->policy_count; i++) {
        or_metric_add(sources, or_guess_source_name(stats->policies[i].source), 1);
    }
}

// The choice alone: with its reason, whose figures change, there would be a new series at every page.
static void show_choice(or_telemetry_t *t, const char *choice)
{
    char name[64];
    or_metric_clear(t->counted[CHOICE]);
    if (choice != NULL && choice[0] != '\0') {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(choice, ":"), choice);
        or_metric_set(t->counted[CHOICE], name, 1);
    }
}

// Show the mean of the sessions. What is not known of a session yet is 0 and left out; a mean of none is not shown.
static void show_mean(or_metric_t *metric, const or_figure_t *row, const or_stats_t *stats)
{
    double sum = 0;
    uint32_t known = 0;
    for (uint32_t i = 0; i < stats->policy_count; i++) {
        double number = or_figure_number(row, &stats->policies[i]) * row->unit;
        sum += number;
        known += number != 0;
    }
    or_metric_clear(metric);
    if (known > 0) {
        or_metric_set(metric, NULL, sum / known);
    }
}

static void show_peer(or_telemetry_t *t, const or_peer_figures_t *peer)
{
    char name[192];
    snprintf(name, sizeof name, "%llu %s %s", (unsigned long long)peer->number,
             or_role_name(peer->role), peer->model != NULL ? peer->model : "");
    or_utf8_mend(name);
    for (uint32_t i = 0; i < OR_PEER_ROWS; i++) {
        if (peer->role == OR_ROLE_DRAFTER || (or_peer_rows[i].traits & OR_OF_DRAFTERS) == 0) {
            show_number(t->peers[i], name, &or_peer_rows[i], peer);
        }
    }
}

// A verifier that was started again counts from zero again, as Prometheus expects of it.
static void show_stats(or_telemetry_t *t, const or_stats_t *stats)
{
    for (uint32_t i = 0; i < OR_STATS_ROWS; i++) {
        show_number(t->stats[i], NULL, &or_stats_rows[i], stats);
    }
    or_metric_set(t->counted[CACHE_USAGE], NULL,
                  stats->pages > 0 ? 1 - (double)stats->pages_free / stats->pages : 0);
    or_metric_set(t->counted[RUNNING], NULL, stats->policy_count);
    show_choice(t, stats->choice);
    show_sources(t, stats);
    for (uint32_t i = 0; i < OR_SESSION_ROWS; i++) {
        show_mean(t->sessions[i], &or_session_rows[i], stats);
    }
    for (uint32_t i = 0; i < OR_PEER_ROWS; i++) {
        or_metric_clear(t->peers[i]);
    }
    for (uint32_t i = 0; i < stats->peer_count; i++) {
        show_peer(t, &stats->peers[i]);
    }
}

or_status_t or_telemetry_render(or_telemetry_t *t, const or_stats_t *stats, char **text_p,
                                size_t *length_p)
{
    show_depths(t->counted[DRAFTED_AT], t->drafted_at);
    show_depths(t->counted[ACCEPTED_AT], t->accepted_at);
    show_stats(t, stats);
    return or_metrics_render(t->metrics, text_p, length_p);
}
