// /health, /status and /metrics: the coordinator is asked by message, and every call that waits gets the answer.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/http/api/api_internal.h"
#include "proto/wire/stats_json.h"

#define PATIENCE_NS (5 * OR_NS_PER_S) // the coordinator answers between two rounds
#define PREFIX "outrider:"

static const double seconds_bounds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                        0.5,   1,      2.5,   5,    10,    30,   60};

#define ROW(member, kind_, name_, label_, help_)                                                   \
    {                                                                                              \
        offsetof(or_api_t, member),                                                                \
        {                                                                                          \
            .kind = OR_METRIC_##kind_, .name = name_, .label = label_, .help = help_               \
        }                                                                                          \
    }

static const struct {
    size_t place; // of the metric in or_api_t
    or_metric_row_t row;
} rows[] = {
    ROW(requests_total, COUNTER, "http_requests_total", "handler",
        "HTTP requests that were answered."),
    ROW(responses_total, COUNTER, "http_responses_total", "code", "HTTP answers by their status."),
    {offsetof(or_api_t, request_seconds),
     {.kind = OR_METRIC_HISTOGRAM,
      .name = "http_request_duration_seconds",
      .help = "Time from a whole HTTP request to the end of its answer.",
      .bounds = seconds_bounds,
      .bound_count = sizeof seconds_bounds / sizeof *seconds_bounds}},
    ROW(streams_now, GAUGE, "http_streams", NULL, "Answers that are being streamed."),
    ROW(held_now, GAUGE, "held_bytes", "kind", "What is kept for owners, by what it is."),
    ROW(held_most, GAUGE, "held_limit_bytes", "pool", "What may be kept, by where."),
    ROW(held_refused, COUNTER, "held_refused_total", "kind",
        "How often an owner asked for more than it may hold."),
};

bool or_api_figures_init(or_api_t *api)
{
    if (or_metrics_create(PREFIX, api->config.model, &api->metrics) != OR_OK) {
        return false;
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        or_metric_t **place = (void *)((char *)api + rows[i].place);
        *place = or_metrics_declare(api->metrics, &rows[i].row);
    }
    return true;
}

// Set the metrics of what is held to what the ledger of owners says now.
static void measure_held(const or_api_t *api)
{
    or_ledger_usage_t usage;
    if (api->config.ledger == NULL) {
        return;
    }
    or_ledger_usage(api->config.ledger, &usage);
    for (or_held_t kind = 0; kind < OR_HELD_KINDS; kind++) {
        or_metric_set(api->held_now, or_held_name(kind), (double)usage.bytes[kind]);
        or_metric_set(api->held_refused, or_held_name(kind), (double)usage.refused[kind]);
    }
    or_metric_set(api->held_most, "memory", (double)usage.memory_max);
    or_metric_set(api->held_most, "journal", (double)usage.disk_max);
}

// ---- questions ----

static void remove_question(or_api_question_t *question)
{
    question->previous->next = question->next;
    question->next->previous = question->previous;
    free(question);
}

static void on_over(or_api_t *api, or_api_held_t *held, bool complete)
{
    (void)api, (void)complete;
    remove_question((or_api_question_t *)held);
}

void or_api_questions_end(or_api_t *api)
{
    while (api->questions.next != &api->questions) {
        remove_question(api->questions.next);
    }
}

static void ask(or_api_t *api, or_http_call_t *call, or_api_about_t about)
{
    or_api_question_t *question = calloc(1, sizeof *question);
    if (question == NULL) {
        or_http_reply_error(call, 500, NULL, NULL, "There is no memory for the question.");
        return;
    }
    *question = (or_api_question_t){.held = {.over = on_over, .call = call},
                                    .next = &api->questions,
                                    .previous = api->questions.previous,
                                    .about = about,
                                    .asked_ns = or_clock_now(api->config.clock)};
    question->previous->next = question;
    api->questions.previous = question;
    or_http_call_set_data(call, &question->held);
    // All events, whoever asks: how far each has read is looked at when they are here.
    or_requests_ask_stats(api->requests, about == OR_API_METRICS, 0);
    api->due_ns = or_clock_now(api->config.clock);
}

void or_api_ask_health(or_api_t *api, or_http_call_t *call)
{
    ask(api, call, OR_API_HEALTH);
}

void or_api_ask_status(or_api_t *api, or_http_call_t *call)
{
    ask(api, call, OR_API_STATUS);
}

// The figures are of all owners' texts together.
void or_api_ask_metrics(or_api_t *api, or_http_call_t *call)
{
    const char *names = or_http_call_query(call, "names");
    if (or_http_call_owner(call)[0] != '\0') {
        or_http_reply_error(call, 403, NULL, NULL,
                            "Metrics are of all owners' texts: use a key without an owner.");
    } else if (names != NULL && strcmp(names, "plain") != 0) {
        or_http_reply_error(call, 400, "names", NULL, "'names' can be 'plain' only.");
    } else {
        ask(api, call, OR_API_METRICS);
    }
}

int64_t or_api_questions_turn(or_api_t *api, int64_t now)
{
    int64_t due = OR_TIME_NEVER;
    for (or_api_question_t *question = api->questions.next; question != &api->questions;
         question = question->next) {
        if (question->held.answered) {
            continue;
        }
        if (now - PATIENCE_NS >= question->asked_ns) {
            question->held.answered = true;
            or_http_reply_error(question->held.call, 503, NULL, NULL,
                                "The coordinator does not answer in time: try again.");
        } else if (question->asked_ns + PATIENCE_NS < due) {
            due = question->asked_ns + PATIENCE_NS;
        }
    }
    return due;
}

// ---- answers ----

static void answer_health(const or_api_t *api, or_http_call_t *call, const or_stats_t *stats)
{
    bool ready = stats->verifiers > 0;
    (void)api;
    if (!ready) {
        or_http_call_set_header(call, "Retry-After", "1");
    }
    or_api_reply_json(call, ready ? 200 : 503,
                      json_pack("{s:s}", "status", ready ? "ok" : "loading model"));
}

static void answer_status(const or_api_t *api, or_http_call_t *call, const or_stats_t *stats)
{
    const char *after = or_http_call_query(call, "events_after");
    uint64_t number = after != NULL ? strtoull(after, NULL, 10) : 0;
    int64_t up_ns = or_clock_now(api->config.clock) - api->started_ns;
    json_t *status = or_stats_json(stats, or_http_call_owner(call), number);
    json_object_set_new(status, "uptime_s", json_real((double)up_ns / 1e9));
    or_api_reply_json(call, 200, status);
}

void or_api_take_stats(or_api_t *api, const or_stats_t *stats)
{
    for (or_api_question_t *question = api->questions.next; question != &api->questions;
         question = question->next) {
        if (question->held.answered || question->about == OR_API_METRICS) {
            continue;
        }
        question->held.answered = true;
        if (question->about == OR_API_HEALTH) {
            answer_health(api, question->held.call, stats);
        } else {
            answer_status(api, question->held.call, stats);
        }
    }
}

// Join the coordinator's page and ours. The result is malloc'd; NULL: no memory.
static char *join_pages(const or_api_t *api, const or_metrics_text_t *theirs)
{
    char *ours;
    size_t length;
    measure_held(api);
    if (or_metrics_render(api->metrics, &ours, &length) != OR_OK) {
        return NULL;
    }
    char *page = malloc(theirs->bytes + length + 1);
    if (page != NULL) {
        memcpy(page, theirs->text, theirs->bytes);
        memcpy(page + theirs->bytes, ours, length + 1);
    }
    free(ours);
    return page;
}

// Prometheus' own linter wants no colons in names, which are for recording rules.
static void make_plain(char *page)
{
    for (char *at = page; (at = strstr(at, PREFIX)) != NULL; at++) {
        at[strlen(PREFIX) - 1] = '_';
    }
}

void or_api_take_metrics(or_api_t *api, const or_metrics_text_t *text)
{
    for (or_api_question_t *question = api->questions.next; question != &api->questions;
         question = question->next) {
        if (question->held.answered || question->about != OR_API_METRICS) {
            continue;
        }
        or_http_call_t *call = question->held.call;
        char *page = join_pages(api, text);
        question->held.answered = true;
        if (page == NULL) {
            or_http_reply_error(call, 500, NULL, NULL, "There is no memory for the page.");
            continue;
        }
        if (or_http_call_query(call, "names") != NULL) {
            make_plain(page);
        }
        or_http_reply(call, 200, OR_METRICS_CONTENT_TYPE, page, strlen(page));
        free(page);
    }
}
