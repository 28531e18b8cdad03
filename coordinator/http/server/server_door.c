// server_door - who may come in, decided when a request's headers are here and nothing of its body has been read.
//
// Requests that a proxy in front of us might take for something else are refused first (server_framing.c). Then
// three kinds of stranger are kept out: who has no key, where keys are asked for; a page from elsewhere in the browser of
// somebody who may (its Origin is not ours); and a name in the DNS that was made to point at loopback (its Host is not
// loopback's).
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log/log.h"
#include "coordinator/http/server/server_internal.h"

#define HTML_POLICY                                                                                \
    "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; "              \
    "frame-ancestors 'none'"

// ---- where it comes from ----

static bool starts_with(const char *text, const char *start)
{
    return strncasecmp(text, start, strlen(start)) == 0;
}

// Return true for "localhost", "127.x.y.z" or "[::1]", with or without a port.
static bool is_loopback_host(const char *host)
{
    char name[64];
    size_t length = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    if (length >= sizeof name - 3 || strlen(host) < length) {
        return false;
    }
    memcpy(name, host, length);
    strcpy(name + length, ":0");
    return starts_with(name, "localhost:") || or_http_address_is_loopback(name);
}

// A request to 127.0.0.1 whose Host is evil.example was made by a page of evil.example.
static bool is_for_us(const or_http_call_t *call)
{
    const char *host = or_http_call_header(call, "Host");
    bool open = call->server->config.keys == NULL && call->server->loopback;
    return !open || host == NULL || is_loopback_host(host);
}

static bool is_origin_allowed(const or_http_call_t *call)
{
    const char *allowed = call->server->config.cors_origin;
    const char *origin = or_http_call_header(call, "Origin");
    return allowed != NULL && origin != NULL &&
           (strcmp(allowed, "*") == 0 || strcasecmp(allowed, origin) == 0);
}

static bool is_own_page(const or_http_call_t *call)
{
    const char *origin = or_http_call_header(call, "Origin");
    const char *host = or_http_call_header(call, "Host");
    if (origin == NULL) {
        return true; // no browser's page
    }
    const char *authority = strstr(origin, "://");
    return authority != NULL && host != NULL && strcasecmp(authority + 3, host) == 0;
}

// Return true if the request may be made from a page of another origin: it changes nothing, and its answer cannot be
// read there anyway.
static bool may_act(const or_http_call_t *call)
{
    return strcmp(call->method, "GET") == 0 || is_own_page(call) || is_origin_allowed(call);
}

// ---- keys ----

static void log_refusal(or_http_call_t *call)
{
    char address[OR_KEY_BYTES];
    uint32_t unlogged;
    or_http_connection_address(call->connection, address, sizeof address);
    if (or_refusals_note(&call->server->refusals, address, or_clock_now(or_clock_monotonic()),
                         &unlogged)) {
        or_log(OR_LOG_WARN, "http: request %s from %s has no valid key; refused (%u others before)",
               call->id, address, unlogged);
    }
}

static void check_key(or_http_call_t *call)
{
    const or_api_keys_t *keys = call->server->config.keys;
    if (keys == NULL) {
        return;
    }
    const char *authorization = or_http_call_header(call, "Authorization");
    const or_key_grant_t *grant =
        authorization != NULL ? or_api_keys_find(keys, authorization) : NULL;
    if (grant != NULL) {
        call->grant = *grant;
        return;
    }
    log_refusal(call);
    or_http_call_set_header(call, "WWW-Authenticate", "Bearer realm=\"outrider\"");
    or_http_call_set_header(call, "WWW-Authenticate", "Basic realm=\"outrider\"");
    or_http_reply_error(call, 401, NULL, "invalid_api_key", "%s",
                        authorization == NULL
                            ? "no API key: send one as \"Authorization: Bearer KEY\""
                            : "the API key is not known here");
}

void or_http_door_check_again(or_http_call_t *call)
{
    const or_api_keys_t *keys = call->server->config.keys;
    if (call->status == 0 && keys != NULL && or_api_keys_still(keys, &call->grant) == NULL) {
        or_http_reply_error(call, 401, NULL, "invalid_api_key", "this API key was revoked");
    }
}

// ---- sizes ----

static bool has_too_many_headers(const or_http_call_t *call)
{
    struct MHD_Connection *mhd = call->connection->mhd;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    return (info != NULL && info->header_size > call->server->config.header_bytes_max) ||
           MHD_get_connection_values(mhd, MHD_HEADER_KIND, NULL, NULL) > OR_HTTP_HEADERS_MAX;
}

static void check_length(or_http_call_t *call)
{
    const char *length = or_http_call_header(call, "Content-Length");
    size_t most = call->server->config.body_bytes_max;
    if (length != NULL && strtoull(length, NULL, 10) > most) {
        or_http_reply_error(call, 413, NULL, "request_too_large",
                            "the body is larger than %zu bytes, the most that is read", most);
    }
}

// ---- browsers' questions ----

// Answer the question that a browser asks before a page of another origin may send something; no key comes with it.
static void answer_options(or_http_call_t *call)
{
    if (or_http_call_header(call, "Access-Control-Request-Method") != NULL &&
        !is_origin_allowed(call)) {
        or_http_reply_error(
            call, 403, NULL, "origin_not_allowed",
            "pages from elsewhere may not use this API; --http-cors allows an origin");
        return;
    }
    if (is_origin_allowed(call)) {
        or_http_call_set_header(call, "Access-Control-Allow-Methods", "GET, HEAD, POST, OPTIONS");
        or_http_call_set_header(call, "Access-Control-Allow-Headers",
                                "Authorization, Content-Type, Last-Event-ID, X-Request-Id");
        or_http_call_set_header(call, "Access-Control-Max-Age", "600");
    }
    or_http_call_set_header(call, "Allow", "GET, HEAD, POST, OPTIONS");
    or_http_reply(call, 204, NULL, "", 0);
}

static void refuse_framing(or_http_call_t *call, const char *trouble)
{
    call->last = true; // who knows what the rest is
    or_http_reply_error(call, 400, NULL, "bad_request", "the request is ambiguous: %s", trouble);
}

void or_http_door_check(or_http_call_t *call, const char *framing)
{
    // The library reads the end of chunks more leniently than others do, so no other request may follow them.
    call->last = or_http_call_header(call, "Transfer-Encoding") != NULL;
    if (framing != NULL) {
        refuse_framing(call, framing);
    } else if (has_too_many_headers(call)) {
        or_http_reply_error(call, 431, NULL, "headers_too_large",
                            "more than %d headers, or more than %u bytes of them",
                            OR_HTTP_HEADERS_MAX, call->server->config.header_bytes_max);
    } else if (!is_for_us(call)) {
        or_http_reply_error(
            call, 403, NULL, "host_not_allowed",
            "this server is for programs of its own machine; address it as localhost "
            "or 127.0.0.1, or give it an API key (--api-key-file)");
    } else if (strcmp(call->method, "OPTIONS") == 0) {
        answer_options(call);
    } else if (!may_act(call)) {
        or_http_reply_error(
            call, 403, NULL, "origin_not_allowed",
            "pages from elsewhere may not use this API; --http-cors allows an origin");
    } else {
        check_key(call);
        if (call->status == 0) {
            check_length(call);
        }
    }
}

// ---- what every answer says ----

static void add_cors(const or_http_call_t *call, struct MHD_Response *response)
{
    const char *allowed = call->server->config.cors_origin;
    if (allowed == NULL) {
        return;
    }
    if (strcmp(allowed, "*") != 0) {
        MHD_add_response_header(response, "Vary", "Origin");
    }
    if (is_origin_allowed(call)) {
        MHD_add_response_header(response, "Access-Control-Allow-Origin", allowed);
        MHD_add_response_header(response, "Access-Control-Expose-Headers",
                                "X-Request-Id, Retry-After");
    }
}

void or_http_door_add_headers(or_http_call_t *call, const char *content_type,
                              struct MHD_Response *response)
{
    const or_http_server_t *server = call->server;
    if (content_type != NULL) {
        MHD_add_response_header(response, "Content-Type", content_type);
        if (starts_with(content_type, "text/html")) {
            MHD_add_response_header(response, "Content-Security-Policy", HTML_POLICY);
            MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
        }
    }
    if (call->events) {
        MHD_add_response_header(response, "X-Accel-Buffering", "no");
    }
    MHD_add_response_header(response, "X-Request-Id", call->id);
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Cache-Control", "no-store");
    add_cors(call, response);
    // A connection that is kept costs its buffers (header_bytes_max, twice): not many at a time.
    if (call->last || server->connections > server->config.connections_max / OR_HTTP_KEPT_SHARE) {
        MHD_add_response_header(response, "Connection", "close");
    }
}
