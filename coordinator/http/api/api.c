#include "coordinator/http/api/api.h"

#include <stdlib.h>
#include <string.h>

#include "coordinator/http/api/api_internal.h"

#define JSON_TYPE "application/json"
#define MODELS_PATH "/v1/models/"

// ---- life ----

or_status_t or_api_create(const or_api_config_t *config, or_requests_t *requests, or_api_t **api_p)
{
    or_api_t *api = calloc(1, sizeof *api);
    or_api_json_init();
    if (api != NULL) {
        *api = (or_api_t){.config = *config,
                          .requests = requests,
                          .slots = calloc(config->slots, sizeof *api->slots),
                          .idle = calloc(config->slots, sizeof *api->idle),
                          .started_ns = or_clock_now(config->clock),
                          .due_ns = OR_TIME_NEVER};
        api->works.next = api->works.previous = &api->works;
        api->questions.next = api->questions.previous = &api->questions;
    }
    if (api == NULL || api->slots == NULL || api->idle == NULL ||
        or_limits_create(&api->limits) != OR_OK || !or_api_figures_init(api)) {
        or_api_destroy(&api);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the HTTP API");
    }
    for (uint32_t i = config->slots; i > 0; i--) {
        api->idle[api->idle_count++] = i - 1;
    }
    *api_p = api;
    return OR_OK;
}

void or_api_destroy(or_api_t **api_p)
{
    or_api_t *api = *api_p;
    if (api != NULL) {
        or_api_works_end(api);
        or_api_questions_end(api);
        or_metrics_destroy(&api->metrics);
        or_limits_destroy(&api->limits);
        free(api->slots);
        free(api->idle);
        free(api);
        *api_p = NULL;
    }
}

// ---- routes ----

typedef void (*handler_t)(or_api_t *api, or_http_call_t *call);

typedef struct {
    const char *path;
    const char *allow; // methods
    handler_t handler;
} route_t;

#define READS "GET, HEAD"

static const route_t routes[] = {
    {"/v1/completions", "POST", or_api_post_completion},
    {"/v1/chat/completions", "POST", or_api_post_chat},
    {"/v1/models", READS, or_api_get_models},
    {"/tokenize", "POST", or_api_post_tokenize},
    {"/detokenize", "POST", or_api_post_detokenize},
    {"/parameters", READS, or_api_get_parameters},
    {"/health", READS, or_api_ask_health},
    {"/status", READS, or_api_ask_status},
    {"/metrics", READS, or_api_ask_metrics},
};

static const route_t *find_route(const char *path)
{
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        if (strcmp(routes[i].path, path) == 0) {
            return &routes[i];
        }
    }
    return NULL;
}

static bool is_read(const or_http_call_t *call)
{
    return strcmp(or_http_call_method(call), "GET") == 0;
}

// Is the method one of these? Else the call is answered.
static bool allows(or_http_call_t *call, const char *allow)
{
    const char *method = or_http_call_method(call);
    bool right = strcmp(allow, READS) == 0 ? is_read(call) : strcmp(method, allow) == 0;
    if (right) {
        return true;
    }
    or_http_call_set_header(call, "Allow", allow);
    or_http_reply_error(call, 405, NULL, NULL, "%s is not a method of %s: use %s.",
                        strlen(method) <= 16 ? method : "This", or_http_call_path(call), allow);
    return false;
}

// A foreign page in a browser on this machine can send forms and plain text to any address without asking it first, but
// not JSON. So a body must say that it is JSON.
static bool is_json(or_http_call_t *call)
{
    const char *type = or_http_call_header(call, "Content-Type");
    size_t length = strlen(JSON_TYPE);
    if (type != NULL && strncasecmp(type, JSON_TYPE, length) == 0 &&
        strchr("; \t", type[length]) != NULL) { // or its end
        return true;
    }
    or_http_reply_error(call, 415, NULL, NULL,
                        "The body must be JSON and say so: send the header Content-Type: "
                        "application/json.");
    return false;
}

// The memory that a body's values take. There must be room for it before the body is read.
typedef struct {
    handler_t handler;
    bool good;
    size_t form_bytes;        // if it is good
    or_api_problem_t problem; // else
} weighing_t;

static void weigh(void *data, const uint8_t *body, size_t bytes)
{
    weighing_t *weighing = data;
    weighing->good = or_api_body_weigh(body, bytes, &weighing->form_bytes, &weighing->problem);
}

static void go_on(void *context, or_http_call_t *call, void *data)
{
    or_api_t *api = context;
    const weighing_t *weighing = data;
    if (!weighing->good) {
        or_api_reply_problem(call, &weighing->problem);
    } else if (or_http_call_take_room(call, weighing->form_bytes)) {
        weighing->handler(api, call);
    }
}

static void read_body(or_http_call_t *call, handler_t handler)
{
    static const or_http_task_t task = {weigh, go_on, free};
    weighing_t *weighing = calloc(1, sizeof *weighing);
    if (weighing == NULL) {
        or_http_reply_error(call, 500, NULL, NULL, "There is no memory for the request.");
        return;
    }
    weighing->handler = handler;
    or_http_call_begin(call, &task, weighing);
}

void or_api_handle(void *context, or_http_call_t *call)
{
    or_api_t *api = context;
    const char *path = or_http_call_path(call);
    const route_t *route = find_route(path);
    if (api->stopping) {
        or_api_reply_stopping(call);
    } else if (route != NULL) {
        bool allowed = allows(call, route->allow);
        if (allowed && is_read(call)) {
            route->handler(api, call);
        } else if (allowed && is_json(call)) {
            read_body(call, route->handler);
        }
    } else if (strncmp(path, MODELS_PATH, strlen(MODELS_PATH)) == 0) {
        if (allows(call, READS)) {
            or_api_get_model(api, call, path + strlen(MODELS_PATH));
        }
    } else if (is_read(call)) {
        or_api_get_file(api, call);
    } else {
        or_api_reply_nothing(call);
    }
}

void or_api_over(void *context, or_http_call_t *call, bool complete)
{
    or_api_held_t *held = or_http_call_data(call);
    held->over(context, held, complete);
}

void or_api_answered(void *context, const char *path, unsigned status, double seconds)
{
    or_api_t *api = context;
    const route_t *route = find_route(path);
    char code[8];
    snprintf(code, sizeof code, "%u", status);
    or_metric_add(api->requests_total, route != NULL ? route->path : "other", 1);
    or_metric_add(api->responses_total, code, 1);
    or_metric_observe(api->request_seconds, seconds, 1);
}

// ---- turns ----

void or_api_take(or_api_t *api, uint32_t slot, const or_message_t *message)
{
    switch (message->type) {
    case OR_MSG_STATS:
        or_api_take_stats(api, &message->body.stats);
        break;
    case OR_MSG_METRICS:
        or_api_take_metrics(api, &message->body.metrics);
        break;
    default:
        or_api_take_delta(api, slot, &message->body.generate_delta);
    }
}

int64_t or_api_turn(or_api_t *api)
{
    int64_t now = or_clock_now(api->config.clock);
    int64_t keys_due = or_api_keys_turn(api, now);
    api->due_ns = keys_due < api->due_ns ? keys_due : api->due_ns;
    if (now < api->due_ns) {
        return api->due_ns;
    }
    int64_t questions_due = or_api_questions_turn(api, now);
    int64_t works_due = or_api_works_turn(api, now);
    api->due_ns = questions_due < works_due ? questions_due : works_due;
    api->due_ns = keys_due < api->due_ns ? keys_due : api->due_ns;
    return api->due_ns;
}

void or_api_stop(or_api_t *api)
{
    api->stopping = true;
    or_api_work_t *next;
    for (or_api_work_t *work = api->works.next; work != &api->works; work = next) {
        next = work->next;
        if (!work->held.answered && work->held.call != NULL) {
            or_api_work_fail(api, work, 503, NULL, NULL, "The coordinator is shutting down.");
        }
    }
    or_api_questions_turn(api, OR_TIME_NEVER);
}
