// server_door - who may come in, decided when a request's headers are here and nothing of its body has been read.
//
// Requests that a proxy in front of us might take for something else are refused first. Then
// three kinds of stranger are kept out: who has no key, where keys are asked for; a page from elsewhere in the browser of
// somebody who may (its Origin is not ours); and a name in the DNS that was made to point at loopback (its Host is not
// loopback's).
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log/log.h"
#include "coordinator/http/server/server_internal.h"

#define HTML_POLICY                                                                                \
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
#define PORT_DIGITS_MAX 5
#define TOKEN_MARKS "!#$%&'*+-.^_`|~" // what names of headers have besides letters and digits

// ---- the outer form of a request: is it beyond doubt where it ends and for whom it is? ----
//
// A proxy in front of us and we read the same bytes. If two readings of them are possible, a client can hide a request
// for one of us in the body of a request for the other (request smuggling). RFC 9112 lets a server repair such requests;
// we refuse them, and close the connection.

// The headers of a request, in one look at all of them.
typedef struct {
    const char *trouble; // the first that was found; NULL: none
    const char *end;     // of the line before, behind its line end
    const char *length, *coding, *host;
    unsigned keys, types;
} look_t;

static bool is_token(const char *name, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (!isalnum((unsigned char)name[i]) && strchr(TOKEN_MARKS, name[i]) == NULL) {
            return false;
        }
    }
    return bytes > 0;
}

// The library takes line ends of LF or CR alone and joins folded lines without a word, and has no option against it before
// 0.9.77. But names and values lie where they came, with a NUL for each byte of a line end: so a line that
// does not begin two bytes behind the end of the one before was not ended by CR LF.
static const char *behind_line(const char *last, size_t bytes)
{
    return last + bytes + 2;
}

static void look_at_place(look_t *look, const char *name, const char *value, size_t bytes)
{
#if MHD_VERSION < 0x00097700
    if (name != look->end || value == NULL) {
        look->trouble = "each line of the header must end with CR LF and stand on one line";
    }
    look->end = value != NULL ? behind_line(value, bytes) : NULL;
#else
    (void)look, (void)name, (void)value, (void)bytes;
#endif
}

static void look_once(look_t *look, const char **place, const char *value, const char *trouble)
{
    if (*place != NULL) {
        look->trouble = trouble;
    }
    *place = value;
}

static bool has_name(const char *name, size_t bytes, const char *wanted)
{
    return bytes == strlen(wanted) && strncasecmp(name, wanted, bytes) == 0;
}

// The headers that decide where a request ends, for whom it is and who sent it may come only once.
static void look_at_header(look_t *look, const char *name, size_t bytes, const char *value)
{
    if (has_name(name, bytes, "Content-Length")) {
        look_once(look, &look->length, value, "there are two Content-Length headers");
    } else if (has_name(name, bytes, "Transfer-Encoding")) {
        look_once(look, &look->coding, value, "there are two Transfer-Encoding headers");
    } else if (has_name(name, bytes, "Host")) {
        look_once(look, &look->host, value, "there are two Host headers");
    } else if (has_name(name, bytes, "Authorization") && look->keys++ > 0) {
        look->trouble = "there are two Authorization headers";
    } else if (has_name(name, bytes, "Content-Type") && look->types++ > 0) {
        look->trouble = "there are two Content-Type headers";
    }
}

static enum MHD_Result on_header(void *context, enum MHD_ValueKind kind, const char *name,
                                 size_t name_bytes, const char *value, size_t value_bytes)
{
    look_t *look = context;
    (void)kind;
    if (!is_token(name, name_bytes)) {
        look->trouble = "the name of a header has characters that names do not have";
    }
    if (value != NULL && strpbrk(value, "\r\n") != NULL) {
        look->trouble = "a header has CR or LF in its value";
    }
    look_at_place(look, name, value, value_bytes);
    look_at_header(look, name, name_bytes, value != NULL ? value : "");
    return look->trouble == NULL ? MHD_YES : MHD_NO;
}

// Return the end of a host name (letters, digits, dots and such, or an address in brackets); NULL if there is none.
static const char *behind_host_name(const char *host)
{
    if (host[0] == '[') {
        size_t length = strspn(host + 1, "0123456789abcdefABCDEF:.");
        return length > 0 && host[1 + length] == ']' ? host + length + 2 : NULL;
    }
    size_t length = 0;
    while (isalnum((unsigned char)host[length]) ||
           (host[length] != '\0' && strchr("-._~", host[length]) != NULL)) {
        length++;
    }
    return host + length;
}

// Return true for HOST, HOST: or HOST:PORT. An empty one is none that we have, but well-formed.
static bool is_host(const char *host)
{
    const char *end = behind_host_name(host);
    if (end == NULL || *end == '\0') {
        return end != NULL;
    }
    size_t digits = strspn(end + 1, "0123456789");
    int port = digits <= PORT_DIGITS_MAX ? atoi(end + 1) : 0;
    return *end == ':' && end[1 + digits] == '\0' && (digits == 0 || (port >= 1 && port <= 65535));
}

static bool is_number(const char *text)
{
    return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
}

static const char *trouble_of(const look_t *look, bool old)
{
    if (look->trouble != NULL) {
        return look->trouble;
    }
    if (look->coding != NULL && (look->length != NULL || old)) {
        return "Transfer-Encoding goes neither with Content-Length nor with HTTP/1.0";
    }
    if (look->coding != NULL && strcasecmp(look->coding, "chunked") != 0) {
        return "Transfer-Encoding can be 'chunked' only";
    }
    if (look->length != NULL && !is_number(look->length)) {
        return "Content-Length must be a number";
    }
    if (look->host == NULL && !old) {
        return "HTTP/1.1 needs a Host header";
    }
    return look->host != NULL && !is_host(look->host) ? "Host must be NAME or NAME:PORT" : NULL;
}

// Return why it is in doubt where the request ends or for whom it is; NULL if it is not.
static const char *framing_trouble(struct MHD_Connection *mhd, const char *method,
                                   const char *version)
{
    look_t look = {.end = behind_line(version, strlen(version))};
    MHD_get_connection_values_n(mhd, MHD_HEADER_KIND, on_header, &look);
#if MHD_VERSION < 0x00097700
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    // The empty line behind them has an end, too.
    if (look.trouble == NULL && (info == NULL || look.end + 2 != method + info->header_size)) {
        look.trouble = "each line of the header must end with CR LF and stand on one line";
    }
#else
    (void)method;
#endif
    return trouble_of(&look, strcmp(version, "HTTP/1.0") == 0);
}

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

void or_http_door_check(or_http_call_t *call, const char *method, const char *version)
{
    const char *framing = framing_trouble(call->connection->mhd, method, version);
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
        MHD_add_response_header(response, "X-Accel-Buffering", "no"); // or proxies collect them
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
