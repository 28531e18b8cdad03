// server_call - a request and its answer: the parts that came, the answer, and the bytes that wait for its reader.
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/math/rng.h"
#include "coordinator/http/server/server_internal.h"

// The most bytes of a stream that the library takes at once, if it has no size of its own.
#define STREAM_CHUNK_BYTES 4096u

// ---- a queue of bytes that grows, and gives its memory back when it has been long and is empty ----

#define KEPT_BYTES 16384u // an empty buffer keeps no more

size_t or_http_buffer_capacity(const or_http_buffer_t *buffer, size_t count)
{
    size_t needed = or_http_buffer_waiting(buffer) + count;
    size_t capacity = buffer->capacity > 0 ? buffer->capacity : 512;
    while (capacity < needed) {
        capacity *= 2;
    }
    return capacity;
}

static bool add_bytes(or_http_buffer_t *buffer, const void *bytes, size_t count)
{
    if (count == 0) {
        return true;
    }
    if (buffer->start > 0 && count > buffer->capacity - buffer->end) {
        memmove(buffer->bytes, buffer->bytes + buffer->start, or_http_buffer_waiting(buffer));
        buffer->end -= buffer->start;
        buffer->start = 0;
    }
    if (count > buffer->capacity - buffer->end) {
        size_t capacity = or_http_buffer_capacity(buffer, count); // all begins at 0 now
        uint8_t *grown = realloc(buffer->bytes, capacity);
        if (grown == NULL) {
            return false;
        }
        buffer->bytes = grown;
        buffer->capacity = capacity;
    }
    memcpy(buffer->bytes + buffer->end, bytes, count);
    buffer->end += count;
    return true;
}

static size_t take_bytes(or_http_buffer_t *buffer, void *bytes, size_t count)
{
    size_t waiting = or_http_buffer_waiting(buffer);
    size_t taken = count < waiting ? count : waiting;
    if (taken == 0) {
        return 0;
    }
    memcpy(bytes, buffer->bytes + buffer->start, taken);
    buffer->start += taken;
    if (buffer->start == buffer->end) {
        buffer->start = buffer->end = 0;
        if (buffer->capacity > KEPT_BYTES) {
            free(buffer->bytes);
            *buffer = (or_http_buffer_t){0};
        }
    }
    return taken;
}

struct or_http_header {
    or_http_header_t *next;
    const char *value; // behind the name
    char name[];
};

// ---- what came ----

static bool is_good_id(const char *id)
{
    size_t length = id != NULL ? strlen(id) : 0;
    for (size_t i = 0; i < length; i++) {
        if (id[i] < 0x21 || id[i] > 0x7e) {
            return false;
        }
    }
    return length > 0 && length < OR_HTTP_ID_BYTES;
}

or_http_call_t *or_http_call_create(or_http_connection_t *connection, const char *method,
                                    const char *path)
{
    or_http_call_t *call = calloc(1, sizeof *call);
    if (call == NULL) {
        return NULL;
    }
    call->server = connection->server;
    call->connection = connection;
    call->method = strcmp(method, "HEAD") == 0 ? "GET" : method;
    call->path = path;
    call->between_events = true;
    call->began_ns = or_clock_now(or_clock_monotonic());
    connection->call = call;
    const char *id = or_http_call_header(call, "X-Request-Id");
    if (is_good_id(id)) {
        snprintf(call->id, sizeof call->id, "%s", id);
    } else {
        snprintf(call->id, sizeof call->id, "%016" PRIx64, or_rng_system_seed());
    }
    return call;
}

void or_http_call_forget_body(or_http_call_t *call)
{
    free(call->body.bytes);
    call->body = (or_http_buffer_t){0};
    or_hold_close(&call->body_hold);
}

void or_http_call_destroy(or_http_call_t **call_p)
{
    or_http_call_t *call = *call_p;
    if (call == NULL) {
        return;
    }
    for (or_http_header_t *next, *header = call->headers; header != NULL; header = next) {
        next = header->next;
        free(header);
    }
    if (call->response != NULL) {
        MHD_destroy_response(call->response);
    }
    or_http_call_forget_body(call);
    call->connection->call = NULL;
    or_hold_close(&call->unsent_hold);
    free(call->stream.bytes);
    free(call);
    *call_p = NULL;
}

bool or_http_call_take(or_http_call_t *call, const void *bytes, size_t count)
{
    or_http_server_t *server = call->server;
    size_t body_max = server->config.body_bytes_max;
    if (call->status == 0 && count > body_max - or_http_buffer_waiting(&call->body)) {
        or_http_reply_error(call, 413, NULL, "request_too_large",
                            "the body is larger than %zu bytes, the most that is read", body_max);
    } else if (call->status == 0) {
        (void)or_http_room_for_body(call, count);
    }
    if (call->status !=
        0) { // refused: read on, so that the client reads the answer; a little if it has no end
        bool has_end = or_http_call_header(call, "Content-Length") != NULL;
        call->body_discarded += count;
        return call->body_discarded <= (has_end ? OR_HTTP_DISCARDED_MAX : body_max);
    }
    call->came_ns = or_clock_now(or_clock_monotonic());
    return add_bytes(&call->body, bytes, count);
}

const char *or_http_call_method(const or_http_call_t *call)
{
    return call->method;
}

const char *or_http_call_path(const or_http_call_t *call)
{
    return call->path;
}

const char *or_http_call_query(const or_http_call_t *call, const char *name)
{
    return MHD_lookup_connection_value(call->connection->mhd, MHD_GET_ARGUMENT_KIND, name);
}

const char *or_http_call_header(const or_http_call_t *call, const char *name)
{
    return MHD_lookup_connection_value(call->connection->mhd, MHD_HEADER_KIND, name);
}

const uint8_t *or_http_call_body(const or_http_call_t *call, size_t *bytes)
{
    *bytes = or_http_buffer_waiting(&call->body);
    return call->body.bytes;
}

bool or_http_call_take_room(or_http_call_t *call, size_t bytes)
{
    return or_http_room_to_read(call, bytes);
}

const char *or_http_call_owner(const or_http_call_t *call)
{
    return call->grant.owner;
}

const or_key_grant_t *or_http_call_grant(const or_http_call_t *call)
{
    return &call->grant;
}

const char *or_http_call_id(const or_http_call_t *call)
{
    return call->id;
}

void or_http_call_set_data(or_http_call_t *call, void *data)
{
    call->data = data;
}

void *or_http_call_data(const or_http_call_t *call)
{
    return call->data;
}

// ---- the answer ----

void or_http_call_set_header(or_http_call_t *call, const char *name, const char *value)
{
    size_t name_bytes = strlen(name) + 1;
    size_t value_bytes = strlen(value) + 1;
    or_http_header_t *header = malloc(sizeof *header + name_bytes + value_bytes);
    if (header == NULL) {
        or_http_connection_cut(call->connection);
        return;
    }
    memcpy(header->name, name, name_bytes);
    header->value = memcpy(header->name + name_bytes, value, value_bytes);
    header->next = call->headers;
    call->headers = header;
}

// Prepare the answer, which is final; it goes out when the library comes by.
static void prepare(or_http_call_t *call, unsigned status, const char *content_type,
                    struct MHD_Response *response)
{
    if (response == NULL) {
        or_http_connection_cut(call->connection);
        return;
    }
    call->status = status;
    call->response = response;
    or_http_door_add_headers(call, content_type, response);
    for (const or_http_header_t *header = call->headers; header != NULL; header = header->next) {
        if (strcasecmp(header->name, "Cache-Control") == 0) {
            MHD_del_response_header(response, "Cache-Control", "no-store");
        }
        MHD_add_response_header(response, header->name, header->value);
    }
    or_http_connection_resume(call->connection);
}

// Return true if so large an answer may wait for its reader; else a small one says why not.
static bool may_wait(or_http_call_t *call, size_t bytes)
{
    if (call->gone || or_http_room_for_reader(call, bytes)) {
        return !call->gone;
    }
    or_http_call_set_header(call, "Retry-After", "1");
    or_http_reply_error(call, 429, NULL, "rate_limit_exceeded", "%s", or_error_text());
    return false;
}

void or_http_reply(or_http_call_t *call, unsigned status, const char *content_type,
                   const void *body, size_t bytes)
{
    if (may_wait(call, bytes)) {
        // The library does not write to it, and copies it.
        prepare(
            call, status, content_type,
            MHD_create_response_from_buffer(bytes, (void *)(uintptr_t)body, MHD_RESPMEM_MUST_COPY));
    }
}

void or_http_reply_taking(or_http_call_t *call, unsigned status, const char *content_type,
                          void *body, size_t bytes)
{
    if (may_wait(call, bytes)) {
        prepare(call, status, content_type,
                MHD_create_response_from_buffer(bytes, body, MHD_RESPMEM_MUST_FREE));
    } else {
        free(body);
    }
}

// Give the library more of a stream.
static ssize_t read_stream(void *context, uint64_t position, char *bytes, size_t bytes_max)
{
    (void)position;
    or_http_call_t *call = context;
    if (call->gone) {
        return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    size_t taken = take_bytes(&call->stream, bytes, bytes_max);
    if (taken > 0) {
        (void)or_http_room_for_reader(call, call->stream.capacity); // no more than before
        return (ssize_t)taken;
    }
    if (call->ended) {
        return MHD_CONTENT_READER_END_OF_STREAM;
    }
    or_http_connection_suspend(call->connection);
    return 0;
}

void or_http_begin_stream(or_http_call_t *call, unsigned status, const char *content_type)
{
    if (call->gone) {
        return;
    }
    call->streaming = true;
    call->events = strncmp(content_type, "text/event-stream", 17) == 0;
    prepare(call, status, content_type,
            MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_CHUNK_BYTES, read_stream,
                                              call, NULL));
}

bool or_http_write(or_http_call_t *call, const void *bytes, size_t count)
{
    if (call->gone) {
        return false;
    }
    size_t room = call->server->config.stream_bytes_max;
    size_t waiting = or_http_buffer_waiting(&call->stream);
    if (waiting > room || count > room - waiting ||
        !or_http_room_for_reader(call, or_http_buffer_capacity(&call->stream, count)) ||
        !add_bytes(&call->stream, bytes, count)) {
        or_http_connection_cut(call->connection);
        return false;
    }
    if (count > 0) {
        call->between_events =
            count >= 2 && memcmp((const uint8_t *)bytes + count - 2, "\n\n", 2) == 0;
        or_http_connection_resume(call->connection);
    }
    return true;
}

void or_http_end(or_http_call_t *call)
{
    call->ended = true;
    or_http_connection_resume(call->connection);
}

void or_http_drop(or_http_call_t *call)
{
    or_http_connection_cut(call->connection);
}

enum MHD_Result or_http_call_queue(or_http_call_t *call)
{
    enum MHD_Result result =
        MHD_queue_response(call->connection->mhd, call->status, call->response);
    MHD_destroy_response(call->response); // it keeps its own reference
    call->response = NULL;
    call->queued = true;
    return result;
}

// ---- errors, in OpenAI's shape ----

static const char *type_of(unsigned status)
{
    switch (status) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 429:
        return "rate_limit_error";
    default:
        return status >= 500 ? "server_error" : "invalid_request_error";
    }
}

// A client's own bytes may be in it, and they need not be UTF-8.
static json_t *text_of(char *message)
{
    json_t *text = json_string(message);
    for (char *at = message; text == NULL && *at != '\0'; at++) {
        *at = (unsigned char)*at < 0x80 ? *at : '?';
    }
    return text != NULL ? text : json_string(message);
}

static char *error_body(unsigned status, const char *param, const char *code, char *message)
{
    json_t *error = json_pack("{s:{s:o, s:s, s:s?, s:s?}}", "error", "message", text_of(message),
                              "type", type_of(status), "param", param, "code", code);
    char *body = error != NULL ? json_dumps(error, JSON_COMPACT) : NULL;
    json_decref(error);
    return body;
}

void or_http_reply_error(or_http_call_t *call, unsigned status, const char *param, const char *code,
                         const char *format, ...)
{
    char *message = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&message, format, arguments);
    va_end(arguments);
    char *body = length >= 0 ? error_body(status, param, code, message) : NULL;
    if (body != NULL) {
        or_http_reply(call, status, "application/json", body, strlen(body));
        free(body);
    } else {
        or_http_connection_cut(call->connection);
    }
    if (length >= 0) {
        free(message);
    }
}
