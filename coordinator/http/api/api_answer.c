// The answers to calls: objects and refusals, a text as a whole, and a text while it is written.
//
// A stream of server-sent events says where to go on when the line was lost:
//
//     id: mJ3...            after which the client has it all up to here (streams of one text)
//     data: {"choices": [...]}
//
//     : keep-alive          every 10 s, also while the text waits for its turn
//
//     data: [DONE]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/http/api/api_internal.h"

#define JSON_TYPE "application/json"

// A refusal comes within milliseconds and deserves a status of its own, so the stream begins with the first words,
// or when this has passed.
#define BEGIN_NS (1 * OR_NS_PER_S)
#define KEEP_ALIVE_NS (10 * OR_NS_PER_S)

// ---- replies ----

void or_api_reply_json(or_http_call_t *call, unsigned status, json_t *object)
{
    char *text = or_api_dump(object);
    if (text == NULL) {
        or_http_reply_error(call, 500, NULL, NULL, "There is no memory for the answer.");
        return;
    }
    or_http_reply(call, status, JSON_TYPE, text, strlen(text));
    free(text);
}

void or_api_reply_problem(or_http_call_t *call, const or_api_problem_t *problem)
{
    or_http_reply_error(call, problem->status, problem->param[0] != '\0' ? problem->param : NULL,
                        problem->code, "%s", problem->message);
}

void or_api_reply_when(or_http_call_t *call, uint32_t retry_ms)
{
    char seconds[16];
    snprintf(seconds, sizeof seconds, "%u", retry_ms < 1000 ? 1 : (retry_ms + 999) / 1000);
    or_http_call_set_header(call, "Retry-After", seconds);
}

void or_api_reply_stopping(or_http_call_t *call)
{
    or_http_reply_error(call, 503, NULL, NULL, "The coordinator is shutting down.");
}

void or_api_reply_nothing(or_http_call_t *call)
{
    or_http_reply_error(call, 404, NULL, NULL,
                        "There is nothing at this path. The API is at /v1/completions, "
                        "/v1/chat/completions and /v1/models, the dashboard at /.");
}

// ---- streams: writing ----

static void begin(or_api_t *api, or_api_work_t *work)
{
    or_http_call_set_header(work->held.call, "Cache-Control", "no-cache");
    or_http_begin_stream(work->held.call, 200, "text/event-stream");
    work->streams = true;
    or_metric_set(api->streams_now, NULL, ++api->streams);
}

// False: the reader has been dropped.
static bool say(or_api_t *api, or_api_work_t *work, const char *text, size_t length)
{
    work->said_ns = or_clock_now(api->config.clock);
    return or_http_write(work->held.call, text, length);
}

// An event with this data, which it takes (NULL: no memory). `id` may be NULL. False: the reader has been dropped. That is so, too,
// where there is no memory for the event: what comes behind a gap would be taken for the text.
static bool say_event(or_api_t *api, or_api_work_t *work, const char *id, char *data)
{
    size_t room = data != NULL ? strlen(data) + OR_API_EVENT_ID_BYTES + 20 : 0;
    char *event = data != NULL ? malloc(room) : NULL;
    bool said = false;
    if (event != NULL) {
        int length = snprintf(event, room, "%s%s%sdata: %s\n\n", id != NULL ? "id: " : "",
                              id != NULL ? id : "", id != NULL ? "\n" : "", data);
        said = say(api, work, event, (size_t)length);
    } else {
        or_http_drop(work->held.call);
    }
    free(event);
    free(data);
    return said;
}

static void end(or_api_work_t *work)
{
    work->held.answered = true;
    or_http_end(work->held.call);
}

void or_api_stream_fail(or_api_t *api, or_api_work_t *work, unsigned status, const char *code,
                        const char *message)
{
    say_event(api, work, NULL, or_api_dump(or_api_error(status, code, message)));
    end(work);
}

// ---- streams: the place to go on at ----

bool or_api_stream_place(or_http_call_t *call, or_api_work_t *work, bool *resumes)
{
    const char *header = or_http_call_header(call, "Last-Event-ID");
    size_t bytes;
    const uint8_t *body = or_http_call_body(call, &bytes);
    uint32_t request = or_api_event_request(work->request.chat, body, bytes);
    *resumes = header != NULL && header[0] != '\0';
    if (!*resumes) {
        work->place = (or_api_event_id_t){
            .number = work->head.number, .created = work->head.created, .request = request};
        return true;
    }
    if (!work->request.stream || work->count != 1 || !or_api_event_id_parse(header, &work->place) ||
        work->place.request != request) {
        or_http_reply_error(call, 400, "Last-Event-ID", NULL,
                            "Last-Event-ID must be the id of the last event of a stream of one "
                            "text, with the same body as before.");
        return false;
    }
    work->head.number = work->place.number;
    work->head.created = work->place.created;
    work->has_id = true;
    return true;
}

static void note_place(or_api_work_t *work, const or_api_choice_t *choice,
                       const or_generate_delta_t *delta)
{
    work->place.tokens = delta->offset + delta->count;
    work->place.text_bytes = delta->text_offset + delta->text_bytes - choice->held_bytes;
    work->place.characters = choice->characters;
}

static void note_secret(or_api_work_t *work, const or_generate_delta_t *delta)
{
    // A place between calls has no number that a client could say: streams with tools cannot be resumed.
    if (work->count == 1 && work->request.tools == NULL &&
        delta->token_bytes == sizeof work->place.secret) {
        memcpy(work->place.secret, delta->token, sizeof work->place.secret);
        work->has_id = true;
    }
}

// ---- streams: deltas ----

static const char *id_of(const or_api_work_t *work, char text[OR_API_EVENT_ID_BYTES])
{
    if (!work->has_id) {
        return NULL;
    }
    or_api_event_id_format(&work->place, text);
    return text;
}

static void finish(or_api_t *api, or_api_work_t *work)
{
    bool said = true;
    if (work->request.include_usage && work->place.said < OR_API_SAID_USAGE) {
        char id[OR_API_EVENT_ID_BYTES];
        work->place.said = OR_API_SAID_USAGE;
        said = say_event(api, work, id_of(work, id),
                         or_api_dump(or_api_usage_chunk(&work->head, work->choices, work->count)));
    }
    if (said && say_event(api, work, NULL, strdup("[DONE]"))) {
        end(work);
    }
}

static void stream_delta(or_api_t *api, or_api_work_t *work, or_api_choice_t *choice,
                         const or_generate_delta_t *delta)
{
    json_t *chunks[OR_API_CHUNKS_MAX];
    char before[OR_API_EVENT_ID_BYTES], after[OR_API_EVENT_ID_BYTES];
    uint32_t count;
    bool opens = !choice->begun && (work->request.chat || work->request.echo);
    bool closes = delta->finish != OR_FINISH_NONE && !choice->end_told;
    if (or_api_chunks(&work->head, choice, delta, chunks, &count) != OR_OK) {
        or_api_work_fail(api, work, 500, NULL, NULL, "There is no memory for the text.");
        return;
    }
    if (!work->streams) {
        begin(api, work);
    }
    note_secret(work, delta);
    const char *id = id_of(work, before);
    note_place(work, choice, delta);
    bool said = true;
    for (uint32_t i = 0; i < count; i++) {
        char *data = or_api_dump(chunks[i]);
        if (closes && i + 1 == count) {
            work->place.said = OR_API_SAID_FINISH;
        }
        // A client that has only the role has no word of the text.
        if (said) {
            said = say_event(api, work, opens && i == 0 ? id : id_of(work, after), data);
        } else {
            free(data);
        }
    }
    if (said && work->live == 0) {
        finish(api, work);
    }
}

int64_t or_api_stream_turn(or_api_t *api, or_api_work_t *work, int64_t now)
{
    if (!work->streams) {
        if (now < work->begin_ns + BEGIN_NS) {
            return work->begin_ns + BEGIN_NS;
        }
        begin(api, work);
        say(api, work, ": waiting\n\n", 11);
    } else if (now >= work->said_ns + KEEP_ALIVE_NS) {
        say(api, work, ": keep-alive\n\n", 14);
    }
    return work->said_ns + KEEP_ALIVE_NS;
}

// ---- whole answers ----

typedef struct {
    uint32_t code;
    unsigned status;
    const char *name;
} failure_t;

// The HTTP status of a failure. Busy without a time to come back means that there is no verifier.
static failure_t failure_of(const or_generate_delta_t *delta)
{
    static const failure_t known[] = {
        {OR_WIRE_INVALID, 400, NULL},
        {OR_WIRE_CONTEXT, 400, "context_length_exceeded"},
        {OR_WIRE_REFUSED, 403, NULL},
        {OR_WIRE_UNKNOWN_SESSION, 404, "unknown_session"},
        {OR_WIRE_BUSY, 429, "rate_limit_exceeded"},
        {OR_WIRE_LIMIT, 429, "rate_limit_exceeded"},
    };
    failure_t failure = {delta->error_code, 500, NULL};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i].code == delta->error_code) {
            failure = known[i];
        }
    }
    if (failure.code == OR_WIRE_BUSY && delta->retry_ms == 0) {
        failure = (failure_t){OR_WIRE_BUSY, 503, NULL};
    }
    return failure;
}

static void fail(or_api_t *api, or_api_work_t *work, const or_generate_delta_t *delta)
{
    const failure_t failure = failure_of(delta);
    const char *prompt = work->request.chat ? "messages" : "prompt";
    if (failure.code == OR_WIRE_BUSY && !work->streams) {
        or_api_reply_when(work->held.call, delta->retry_ms);
    }
    or_api_work_fail(api, work, failure.status, failure.code == OR_WIRE_CONTEXT ? prompt : NULL,
                     failure.name,
                     delta->error[0] != '\0' ? delta->error : "The text was cancelled.");
}

// An answer may grow by what its owner has room for.
static void fail_for_room(or_api_t *api, or_api_work_t *work)
{
    char why[256];
    snprintf(why, sizeof why, "%s", or_error_text());
    or_api_work_fail(api, work, 429, NULL, "rate_limit_exceeded", why);
}

// Answer with all texts at once. For a moment the answer takes memory beside what was gathered; it grows by halves.
static void answer_whole(or_api_t *api, or_api_work_t *work)
{
    size_t bytes = 0;
    uint64_t whole_bytes = or_api_whole_bytes(work->choices, work->count);
    if (or_hold_resize(&work->gathered, work->gathered.bytes + whole_bytes + whole_bytes / 2) !=
        OR_OK) {
        fail_for_room(api, work);
        return;
    }
    char *text = or_api_whole(&work->head, work->choices, work->count, &bytes);
    work->held.answered = true;
    or_api_work_forget(work);
    if (text != NULL) {
        or_http_reply_taking(work->held.call, 200, JSON_TYPE, text, bytes);
    } else {
        or_http_reply_error(work->held.call, 500, NULL, NULL, "There is no memory for the answer.");
    }
}

static void gather(or_api_t *api, or_api_work_t *work, or_api_choice_t *choice,
                   const or_generate_delta_t *delta)
{
    size_t before = or_api_gathered_bytes(choice);
    or_status_t status = or_api_gather(&work->head, choice, delta);
    uint64_t bytes = work->gathered.bytes + or_api_gathered_bytes(choice) - before;
    if (status != OR_OK) {
        or_api_work_fail(api, work, 500, NULL, NULL, "There is no memory for the text.");
    } else if (or_hold_resize(&work->gathered, bytes) != OR_OK) {
        fail_for_room(api, work);
    } else if (work->live == 0) {
        answer_whole(api, work);
    }
}

void or_api_answer(or_api_t *api, or_api_work_t *work, or_api_choice_t *choice,
                   const or_generate_delta_t *delta)
{
    if (delta->finish == OR_FINISH_ERROR || delta->finish == OR_FINISH_CANCELLED) {
        fail(api, work, delta);
    } else if (work->request.stream) {
        stream_delta(api, work, choice, delta);
    } else {
        gather(api, work, choice, delta);
    }
}
