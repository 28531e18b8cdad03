// server - HTTP/1.1 for many connections on one thread (libmicrohttpd over epoll).
//
//     request, whole ──▶ handle(call) ──▶ reply                  at once, or
//                                     └─▶ begin_stream ──▶ write ... write ──▶ end      as it comes
//
// Slow work on a large body is a task, on a second thread (or_http_call_begin). Everything else runs on one thread.
//
// A call is answered once, now or in any later turn. While there is nothing to send, its connection is suspended and
// costs nothing but memory (some 75 KiB). Its descriptor is watched, so that a client that hangs up is noticed at
// once. A client that only closes its sending side still gets an answer that is ready, or its event stream
// (server_connection.c).
//
// There are limits for headers, bodies, connections, the time to send a request, and bytes that wait for a slow
// reader. A request over a limit is answered with the status for it, in OpenAI's shape. Only what is no HTTP, or has
// headers beyond all bounds, gets the library's own words.
//
// Bodies and unread bytes are charged to their owner in the ledger of owners. If an owner has no room for more, its
// body that has stood still for longest loses its place (408), and so does its reader with the most unread. So
// requests that make progress are not held up by others that do not.
//
// If an eighth of all connections are taken, further ones are not kept for a second request. Off loopback one address
// has at most half of all connections.
//
// The server looks after keys, CORS and TLS, and after browsers. Without keys it serves only requests to a loopback
// Host, and pages of another origin that `cors_origin` does not name may only GET. OPTIONS is answered here.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "coordinator/clients/ledger.h"
#include "coordinator/http/server/api_keys.h"

#define OR_HTTP_HEADERS_MAX 100 // most headers of a request

typedef struct or_http_server or_http_server_t;
typedef struct or_http_call or_http_call_t;

typedef struct {
    const char *address;              // HOST:PORT, [HOST]:PORT; port 0 takes any free one
    const char *cert_file, *key_file; // PEM; both or neither
    const char *cors_origin; // "*" or an origin; NULL: browsers' pages from elsewhere get nothing
    or_api_keys_t *keys;     // borrowed; its owner refreshes it; NULL: no request needs a key
    or_ledger_t *ledger;     // borrowed; NULL: nothing is charged
    size_t body_bytes_max;
    uint32_t header_bytes_max; // bytes of all headers of a request
    uint32_t connections_max;  // if nearly all are taken, strangers make room
    uint32_t
        request_timeout_s; // for the headers of a request, and again for its body; else it is dropped
    size_t stream_bytes_max; // bytes that may wait for a reader before it is dropped
    // Handle a whole request. It must be answered, now or later. `call` stays until its answer is sent or it is gone.
    void (*handle)(void *context, or_http_call_t *call);
    // Hear that the call is over: its answer was sent, or (`complete` false) its client hung up before. It is called
    // only for calls that were handed to `handle` and have data set. The call is freed afterwards.
    void (*over)(void *context, or_http_call_t *call, bool complete);
    // Count an answered request; refused ones are included. May be NULL.
    void (*answered)(void *context, const char *path, unsigned status, double seconds);
    void *context;
} or_http_server_config_t;

// Return the defaults: 127.0.0.1:8080, 4 MiB bodies, 16 KiB headers, 4096 connections, 30 s, 4 MiB.
or_http_server_config_t or_http_server_config_default(void);

// Return true if only this machine reaches this address. False for a text that is no address.
bool or_http_address_is_loopback(const char *address);

// Create a server that listens. Copies all strings but `keys`. OR_ERR_INVALID (address, certificate; an address off
// loopback without keys) or OR_ERR_IO (in use, not readable), with a sentence that names the option.
or_status_t or_http_server_create(const or_http_server_config_t *config,
                                  or_http_server_t **server_p);
// Destroy the server. Calls that are not over are cut; `over` is called for them.
void or_http_server_destroy(or_http_server_t **server_p);

// Return the address as it really is: "127.0.0.1:41234".
const char *or_http_server_address(const or_http_server_t *server);
// Return a descriptor that is readable when or_http_server_turn has work.
int or_http_server_fd(const or_http_server_t *server);
// Do what can be done without waiting. Returns when to come back at the latest (or_clock_monotonic).
int64_t or_http_server_turn(or_http_server_t *server);

// ---- a call ----

// Return the method. It is never "HEAD" but "GET", whose body is then not sent.
const char *or_http_call_method(const or_http_call_t *call);
const char *or_http_call_path(const or_http_call_t *call); // without the query
// Return the value of this query parameter or header; NULL if there is none.
const char *or_http_call_query(const or_http_call_t *call, const char *name);
const char *or_http_call_header(const or_http_call_t *call, const char *name);
// Return the body. It is there for `handle` and `then` until they return or begin a task. NULL if *bytes is 0.
const uint8_t *or_http_call_body(const or_http_call_t *call, size_t *bytes);
// Charge the owner for memory besides the body that `handle`, or the task that it begins, needs for a moment. The
// charge ends with them. Returns false if there is no room: the call was answered, and its body is gone.
bool or_http_call_take_room(or_http_call_t *call, size_t bytes);

// A task: slow work on a large body that would hold up everybody's streams.
typedef struct {
    // Work on another thread if the body is large. It may use only its data, the body, and what never changes.
    void (*work)(void *data, const uint8_t *body, size_t bytes);
    // Then, on the server's thread, answer the call now or later. It is left out if the call or its key is gone.
    void (*then)(void *context, or_http_call_t *call, void *data);
    void (*drop)(void *data); // at the end, in any case, on the server's thread
} or_http_task_t;
// Begin a task. It is the last thing that `handle` or `then` does with a call that it does not answer, because all of
// the task may happen before this returns. `task` is copied.
void or_http_call_begin(or_http_call_t *call, const or_http_task_t *task, void *data);

// Return the owner of the key that the call came with; "" without a key.
const char *or_http_call_owner(const or_http_call_t *call);
// Return the rights of that key as they were when the request came; all zero without a key.
const or_key_grant_t *or_http_call_grant(const or_http_call_t *call);
// Return the name of the call in logs: the client's X-Request-Id if it is short and printable, else one of our own.
// It is sent back.
const char *or_http_call_id(const or_http_call_t *call);
void or_http_call_set_data(or_http_call_t *call, void *data);
void *or_http_call_data(const or_http_call_t *call);

// Set a header of the answer, before answering. Copied. Cache-Control is "no-store" unless it is set here.
// X-Request-Id and the headers that keep browsers safe are always set.
void or_http_call_set_header(or_http_call_t *call, const char *name, const char *value);
// Send the whole answer; the body is copied.
void or_http_reply(or_http_call_t *call, unsigned status, const char *content_type,
                   const void *body, size_t bytes);
// Send the whole answer, taking a body from malloc.
void or_http_reply_taking(or_http_call_t *call, unsigned status, const char *content_type,
                          void *body, size_t bytes);
// Answer bit by bit. An event is written whole, in one write. If write returns false the reader is too slow or gone,
// and has been dropped. `over` follows in a later turn; until then all of these may be called.
void or_http_begin_stream(or_http_call_t *call, unsigned status, const char *content_type);
bool or_http_write(or_http_call_t *call, const void *bytes, size_t count);
void or_http_end(or_http_call_t *call);
// Hang up, so that the client sees that the answer is cut short. It is then as after a write that returned false.
void or_http_drop(or_http_call_t *call);

// Answer with {"error": {"message", "type", "param", "code"}} as OpenAI does. `param` and `code` may be NULL. The
// type follows from the status.
void or_http_reply_error(or_http_call_t *call, unsigned status, const char *param, const char *code,
                         const char *format, ...) __attribute__((format(printf, 5, 6)));
