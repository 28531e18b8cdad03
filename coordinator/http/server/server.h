// server - HTTP/1.1 for many connections on one thread (libmicrohttpd over epoll).
//
//     request, whole ──▶ handle(call) ──▶ reply                  at once, or
//                                     └─▶ begin_stream ──▶ write ... write ──▶ end      as it comes
//
// What takes long with a large body is a task, on a second thread (or_http_call_begin); everything else has one thread.
//
// A call is answered once, now or in any later turn; while nothing is there to send its connection is suspended and costs
// nothing but memory (some 75 KiB), and its descriptor is watched, so that a client that hangs up is noticed at once.
// (One that closes its write side alone gets an answer that is ready, and an event stream; server_connection.c.)
//
// Limits: headers, body, connections, time to send a request, and what may wait for a slow reader. What is over a limit is
// answered with the status for it, in OpenAI's shape; only what is no HTTP, or has headers beyond all bounds, gets the
// library's own words. Bodies, and what waits for readers, are in the ledger of owners. Where an owner has no room for more,
// the body of its that has stood still for longest loses its place (408), as does its reader with the most
// unread: so whoever goes on is not held up by who does not. Where an eighth of all connections are taken, more are not kept for a second request. Off
// loopback one address has half of them at most.
//
// Keys, CORS and TLS are looked after here, and browsers: without keys only requests to a loopback Host are served, and
// nothing but GET for pages of another origin that `cors_origin` does not name. OPTIONS is answered here.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "coordinator/clients/ledger.h"
#include "coordinator/http/server/api_keys.h"

#define OR_HTTP_HEADERS_MAX 100 // of a request

typedef struct or_http_server or_http_server_t;
typedef struct or_http_call or_http_call_t;

typedef struct {
    const char *address;              // HOST:PORT, [HOST]:PORT; port 0 takes any free one
    const char *cert_file, *key_file; // PEM; both or neither
    const char *cors_origin; // "*" or an origin; NULL: browsers' pages from elsewhere get nothing
    or_api_keys_t *keys;     // borrowed, and refreshed by whoever has them; NULL: nobody needs one
    or_ledger_t *ledger;     // what is kept for owners; borrowed; NULL: nothing is counted
    size_t body_bytes_max;
    uint32_t header_bytes_max; // of all headers of a request
    uint32_t connections_max;  // where nearly all are taken, strangers make room
    uint32_t
        request_timeout_s; // for the headers of a request, and again for its body; else it is dropped
    size_t stream_bytes_max; // that wait for a reader, before it is dropped
    // A whole request is here. It must be answered, now or later. `call` stays until it is answered and sent, or gone.
    void (*handle)(void *context, or_http_call_t *call);
    // The call is over: sent, or its client hung up (`complete` false: before all was sent). Only for calls that were handed
    // to `handle` and have data set. The call is freed behind it.
    void (*over)(void *context, or_http_call_t *call, bool complete);
    // Every request that was answered, refused ones included: for counting. May be NULL.
    void (*answered)(void *context, const char *path, unsigned status, double seconds);
    void *context;
} or_http_server_config_t;

// What is usual: 127.0.0.1:8080, 4 MiB bodies, 16 KiB headers, 4096 connections, 30 s, 4 MiB.
or_http_server_config_t or_http_server_config_default(void);

// Is this address reachable from this machine only? False for what is no address.
bool or_http_address_is_loopback(const char *address);

// Listens. Strings are copied but for `keys`. OR_ERR_INVALID (address, certificate), OR_ERR_IO (in use, not
// readable), with a sentence that names the option. OR_ERR_INVALID, too, for an address off loopback without keys.
or_status_t or_http_server_create(const or_http_server_config_t *config,
                                  or_http_server_t **server_p);
// Calls that go on are cut, `over` included.
void or_http_server_destroy(or_http_server_t **server_p);

// As it really is: "127.0.0.1:41234".
const char *or_http_server_address(const or_http_server_t *server);
// Readable when or_http_server_turn has work.
int or_http_server_fd(const or_http_server_t *server);
// Do what can be done without waiting. Returns when to come back at the latest (or_clock_monotonic).
int64_t or_http_server_turn(or_http_server_t *server);

// ---- a call ----

// Never "HEAD": that is "GET", and what is written is not sent.
const char *or_http_call_method(const or_http_call_t *call);
const char *or_http_call_path(const or_http_call_t *call); // without the query
// NULL: there is none.
const char *or_http_call_query(const or_http_call_t *call, const char *name);
const char *or_http_call_header(const or_http_call_t *call, const char *name);
// For `handle` and `then`, until they return or begin a task. NULL where `bytes` is 0.
const uint8_t *or_http_call_body(const or_http_call_t *call, size_t *bytes);
// `handle`, or the task that it begins, needs so much more memory than the body for a moment: it is the owner's until that is
// done. False: there is no room for it; the call was answered, and its body is gone.
bool or_http_call_take_room(or_http_call_t *call, size_t bytes);

// What takes long with a large body, and would hold up everybody's streams.
typedef struct {
    // On another thread where the body is large. Has nothing but its data, the body, and what never changes.
    void (*work)(void *data, const uint8_t *body, size_t bytes);
    // Then, on the server's: the call is to be answered, now or later. Left out where it is gone, or its key is.
    void (*then)(void *context, or_http_call_t *call, void *data);
    void (*drop)(void *data); // at the end, in any case, on the server's thread
} or_http_task_t;
// The last thing that `handle`, or `then`, does with a call that it does not answer: it may all happen before this returns. `task`
// is copied.
void or_http_call_begin(or_http_call_t *call, const or_http_task_t *task, void *data);

// Whose key it came with; "" without.
const char *or_http_call_owner(const or_http_call_t *call);
// What that key may do, as it was when the request came; all zero without.
const or_key_grant_t *or_http_call_grant(const or_http_call_t *call);
// Names it in logs: the client's X-Request-Id where it is short and printable, else one of our own. It is sent back.
const char *or_http_call_id(const or_http_call_t *call);
void or_http_call_set_data(or_http_call_t *call, void *data);
void *or_http_call_data(const or_http_call_t *call);

// A header of the answer; before it. Copied. Cache-Control is "no-store" unless it is set; X-Request-Id and those that keep
// browsers safe are set anyway.
void or_http_call_set_header(or_http_call_t *call, const char *name, const char *value);
// The whole answer; the body is copied.
void or_http_reply(or_http_call_t *call, unsigned status, const char *content_type,
                   const void *body, size_t bytes);
// The same of a body from malloc, which it takes.
void or_http_reply_taking(or_http_call_t *call, unsigned status, const char *content_type,
                          void *body, size_t bytes);
// An answer that is written bit by bit; events whole, each in one write. False from write: the reader is too slow, or
// gone, and has been dropped; `over` follows, in a later turn. Until then all of these may be called.
void or_http_begin_stream(or_http_call_t *call, unsigned status, const char *content_type);
bool or_http_write(or_http_call_t *call, const void *bytes, size_t count);
void or_http_end(or_http_call_t *call);
// Hang up: it can be seen that there is no more of what was written. As after a write that was false.
void or_http_drop(or_http_call_t *call);

// {"error": {"message", "type", "param", "code"}} as OpenAI's: `param` and `code` may be NULL. The type follows from
// the status.
void or_http_reply_error(or_http_call_t *call, unsigned status, const char *param, const char *code,
                         const char *format, ...) __attribute__((format(printf, 5, 6)));
