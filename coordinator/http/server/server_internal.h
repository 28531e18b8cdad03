// server_internal - what the files of the HTTP server share: connections and calls.
//
//     connection ──▶ expecting ──headers──▶ (door) ──body──▶ whole ──▶ handle ──▶ answering ──sent──▶ expecting ...
//                        │ request_timeout_s                                       │ suspended: the descriptor is watched
//                        └──▶ cut                                                  └──▶ hung up: cut
//
// A connection is always in one of two lists: `expecting` a request, in the order in which patience with it ends, or
// `answering` one. Of those that are expecting, the ones that will send no more than what lies in their socket are in `ending`,
// too, in the order in which they are looked at again.
#pragma once

#include <sys/queue.h>
#include <sys/socket.h>

#include <microhttpd.h>

#include "coordinator/http/server/server.h"
#include "coordinator/peers/refusals.h"

#define OR_HTTP_DISCARDED_MAX ((size_t)64 << 20) // of the body of a request that is too large

#define OR_HTTP_TASK_BYTES_MAX 16384u // of a body that is worked on at once: some 200 us

#define OR_HTTP_ID_BYTES 65  // of a request's name, NUL included
#define OR_HTTP_KEPT_SHARE 8 // one in so many connections is kept for another request
#define OR_HTTP_SPARE_SHARE                                                                        \
    16 // one in so many is free for who comes, as long as there are strangers

typedef struct or_http_connection or_http_connection_t;
typedef struct or_http_header or_http_header_t;
typedef struct or_http_tasks or_http_tasks_t;
TAILQ_HEAD(or_http_connections, or_http_connection);
TAILQ_HEAD(or_http_calls, or_http_call);

struct or_http_connection {
    or_http_server_t *server;
    struct MHD_Connection *mhd;
    int fd;
    bool expecting;       // which list it is in
    bool suspended;       // by us: the library does not look at it
    bool watched;         // by us: for a hang-up
    bool known;           // a request of it was let in: it is no stranger
    bool cut;             // by us: the library will notice
    bool half_closed;     // its client has sent all that it will send, and may yet read
    bool ending;          // the same of one that is expecting; it is in that list
    int64_t look_ns;      // of one that is ending: when the rest is looked for
    int64_t patience_ns;  // of one that is expecting: when it is cut
    or_http_call_t *call; // NULL between requests
    TAILQ_ENTRY(or_http_connection) links, ending_links;
};

// Bytes on their way to a reader: [start, end) of `bytes` wait.
typedef struct {
    uint8_t *bytes;
    size_t start, end, capacity;
} or_http_buffer_t;

struct or_http_call {
    or_http_server_t *server;
    or_http_connection_t *connection;
    char id[OR_HTTP_ID_BYTES];
    const char *method; // "GET" for HEAD, too: what is not sent is the library's business
    const char *path;
    or_key_grant_t grant; // what its key may do; all zero without
    int64_t began_ns;

    or_http_buffer_t body;
    or_hold_t body_hold, unsent_hold;
    int64_t came_ns;       // the last of the body
    size_t body_discarded; // of a request that is refused all the same
    bool whole;            // the request is
    bool waiting;          // to be handled (server_queue.c)
    uint64_t finish;       // its place among those
    TAILQ_ENTRY(or_http_call) waiting_links;
    bool handed; // to the handler
    void *data;

    or_http_header_t *headers;     // of the answer, as the handler set them
    struct MHD_Response *response; // prepared, and not with the library yet
    unsigned status;               // 0: there is no answer yet
    bool queued;                   // the library has the answer
    bool streaming, events;        // bit by bit; as server-sent events
    bool between_events;           // the last one is whole
    bool ended;                    // the stream is
    bool last;                     // no other request comes behind it on its connection
    bool gone;                     // nobody reads it, or it is too slow: to be cut
    or_http_buffer_t stream;
};

struct or_http_server {
    or_http_server_config_t config; // its strings are the three below
    char *cors_origin;
    char *cert, *key; // PEM
    char address[80];
    bool loopback;
    struct MHD_Daemon *daemon;
    char trouble[256]; // the library's last words
    int epoll_fd;      // holds the library's, and the sockets of those that are suspended
    uint32_t connections;
    struct or_http_connections expecting, answering, ending;
    struct or_http_calls waiting; // in the order in which they are handled
    uint64_t finish;              // of the last that was taken from there
    int64_t handling_ns;          // in this turn
    or_http_tasks_t *tasks;
    or_refusals_t refusals;
};

// ---- server_listen.c ----

// A listening socket at HOST:PORT, which is written back as it really is. `loopback`: from this machine only.
or_status_t or_http_listen(const char *address, int *fd_p, char *bound, size_t bound_bytes,
                           bool *loopback);
// Room for so many descriptors and what else a process holds; less where the system allows less.
uint32_t or_http_descriptors_allow(uint32_t connections_max);

// ---- server_door.c ----

// Everything that can be said when the headers are here. Who may not come in has an answer then. `framing`: what is wrong
// with the request's outer form, or NULL.
void or_http_door_check(or_http_call_t *call, const char *framing);
// Is its key still what it came with? Else it has an answer.
void or_http_door_check_again(or_http_call_t *call);
// The headers that every answer has.
void or_http_door_add_headers(or_http_call_t *call, const char *content_type,
                              struct MHD_Response *response);

// ---- server_framing.c ----

// Why it is not beyond doubt where the request ends or for whom it is; NULL: it is. `method` and `version` as the library
// gives them.
const char *or_http_framing_trouble(struct MHD_Connection *mhd, const char *method,
                                    const char *version);

// ---- server_call.c ----

or_http_call_t *or_http_call_create(or_http_connection_t *connection, const char *method,
                                    const char *path);
void or_http_call_destroy(or_http_call_t **call_p);
// A part of the body. False: it is no use to go on reading.
bool or_http_call_take(or_http_call_t *call, const void *bytes, size_t count);
// It has been read: others may use its share of the memory for bodies.
void or_http_call_forget_body(or_http_call_t *call);
// The answer that was prepared goes to the library.
enum MHD_Result or_http_call_queue(or_http_call_t *call);

// ---- server_queue.c ----

// The request is whole: it is handled now, or waits for its turn.
void or_http_queue_add(or_http_call_t *call);
// It waits no more, if it did.
void or_http_queue_leave(or_http_call_t *call);
// A new turn: those whose turn it is are handled.
void or_http_queue_turn(or_http_server_t *server);
// Could one that waits be handled now?
bool or_http_queue_is_ready(const or_http_server_t *server);

// ---- server_task.c ----

// The server has its epoll_fd by then. What was begun has its memory until the end.
or_status_t or_http_tasks_start(or_http_server_t *server);
void or_http_tasks_end(or_http_server_t *server);
// What is done is answered.
void or_http_tasks_turn(or_http_server_t *server);
// Could a task of this call's begin? Those of small bodies always can.
bool or_http_tasks_have_room(const or_http_call_t *call);
// It ends: nothing comes of its task.
void or_http_tasks_leave(or_http_call_t *call);

// ---- server_room.c ----

// The body may grow by so much; else the call has an answer, unless others of its owner's had to go for it.
bool or_http_room_for_body(or_http_call_t *call, size_t count);
// The same of what reading it takes.
bool or_http_room_to_read(or_http_call_t *call, size_t bytes);
// So many bytes of memory wait for the call's reader from now on. False: they may not; the reader is the slowest of its owner's.
bool or_http_room_for_reader(or_http_call_t *call, size_t bytes);

// ---- server_connection.c ----

or_http_connection_t *or_http_connection_open(or_http_server_t *server, struct MHD_Connection *mhd);
void or_http_connection_close(or_http_connection_t **connection_p);
// A request, or the rest of it, is waited for, from now; it is whole; its answer is sent.
void or_http_connection_expect(or_http_connection_t *connection);
void or_http_connection_answer(or_http_connection_t *connection);
void or_http_connection_finish(or_http_connection_t *connection);
// Nothing to send: let it be, and watch for a hang-up.
void or_http_connection_suspend(or_http_connection_t *connection);
void or_http_connection_resume(or_http_connection_t *connection);
// End it in the next turn, whatever it is doing.
void or_http_connection_cut(or_http_connection_t *connection);
// Something has happened to the socket of one that is watched (epoll's events).
void or_http_connection_notice(or_http_connection_t *connection, uint32_t events);
// Those that are ending and due: cut where the library has read all that came.
void or_http_connections_look(or_http_server_t *server, int64_t now_ns);
// The client's, as text, without the port.
void or_http_connection_address(const or_http_connection_t *connection, char *text, size_t bytes);

// ---- server_buffer.c ----

// What it holds when so many more are added.
size_t or_http_buffer_capacity(const or_http_buffer_t *buffer, size_t count);
// False: no memory.
bool or_http_buffer_add(or_http_buffer_t *buffer, const void *bytes, size_t count);
size_t or_http_buffer_take(or_http_buffer_t *buffer, void *bytes, size_t count);
static inline size_t or_http_buffer_waiting(const or_http_buffer_t *buffer)
{
    return buffer->end - buffer->start;
}
