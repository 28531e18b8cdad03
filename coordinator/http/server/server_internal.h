// server_internal - the state that the files of the HTTP server share: connections and calls.
//
//     connection ──▶ expecting ──headers──▶ (door) ──body──▶ whole ──▶ handle ──▶ answering ──sent──▶ expecting ...
//                        │ request_timeout_s                                       │ suspended: the descriptor is watched
//                        └──▶ cut                                                  └──▶ hung up: cut
//
// A connection is always in one of two lists. `expecting` holds those that wait for a request, in the order in which
// patience with them ends; `answering` holds the others. An expecting connection whose client has closed its side is
// in `ending`, too, in the order in which such connections are looked at again.
#pragma once

#include <sys/queue.h>
#include <sys/socket.h>

#include <microhttpd.h>

#include "coordinator/http/server/server.h"
#include "coordinator/peers/refusals.h"

#define OR_HTTP_DISCARDED_MAX                                                                      \
    ((size_t)64 << 20) // bytes read and dropped of a body that is too large

#define OR_HTTP_TASK_BYTES_MAX 16384u // bytes of a body that is handled at once: some 200 us

#define OR_HTTP_ID_BYTES 65  // bytes of a request's name, NUL included
#define OR_HTTP_KEPT_SHARE 8 // at most one in so many connections is kept for another request
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
    bool expecting;       // it is in the list `expecting`, else in `answering`
    bool suspended;       // we suspended it, and the library does not look at it
    bool watched;         // we watch it for a hang-up
    bool known;           // a request of it was let in, so it is no stranger
    bool cut;             // we cut it, and the library will notice
    bool half_closed;     // its client has closed its sending side, and may yet read
    bool ending;          // it is expecting and half closed, and in the list `ending`
    int64_t look_ns;      // if it is ending: when we look for the rest
    int64_t patience_ns;  // if it is expecting: when it is cut
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
    const char *method; // "GET" also for HEAD; the library leaves the body out
    const char *path;
    or_key_grant_t grant; // the rights of its key; all zero without one
    int64_t began_ns;

    or_http_buffer_t body;
    or_hold_t body_hold, unsent_hold;
    int64_t came_ns;       // when the last part of the body came
    size_t body_discarded; // bytes dropped of a request that is refused anyway
    bool whole;            // the whole request is here
    bool waiting;          // it waits to be handled (server_queue.c)
    uint64_t finish;       // its virtual finish time in that queue
    TAILQ_ENTRY(or_http_call) waiting_links;
    bool handed; // to the handler
    void *data;

    or_http_header_t *headers;     // the answer's headers, as the handler set them
    struct MHD_Response *response; // prepared, but not yet handed to the library
    unsigned status;               // 0: there is no answer yet
    bool queued;                   // the library has the answer
    bool streaming, events;        // the answer comes bit by bit; as server-sent events
    bool between_events;           // the last event was written whole
    bool ended;                    // the stream has ended
    bool last;                     // no other request follows on its connection
    bool gone;                     // its reader is gone or too slow, and it is to be cut
    or_http_buffer_t stream;
};

struct or_http_server {
    or_http_server_config_t config; // its strings point to the three below
    char *cors_origin;
    char *cert, *key; // PEM
    char address[80];
    bool loopback;
    struct MHD_Daemon *daemon;
    char trouble[256]; // the library's last error text
    int epoll_fd;      // holds the library's descriptor and the sockets of suspended connections
    uint32_t connections;
    struct or_http_connections expecting, answering, ending;
    struct or_http_calls waiting; // calls in the order in which they are handled
    uint64_t finish;              // the finish time of the last call taken from there
    int64_t handling_ns;          // time spent in handlers in this turn
    or_http_tasks_t *tasks;
    or_refusals_t refusals;
};

// ---- server_listen.c ----

// Open a listening socket at HOST:PORT and write the address back as it really is. `loopback` is set if only this
// machine reaches it. OR_ERR_INVALID; OR_ERR_IO.
or_status_t or_http_listen(const char *address, int *fd_p, char *bound, size_t bound_bytes,
                           bool *loopback);
// Raise the limit of descriptors for so many connections and what else a process holds. Returns how many connections
// the system allows.
uint32_t or_http_descriptors_allow(uint32_t connections_max);

// ---- server_door.c ----

// Check all that can be checked when the headers are here. A request that may not come in has an answer then.
// `method` and `version` are the library's own strings.
void or_http_door_check(or_http_call_t *call, const char *method, const char *version);
// Check whether the call's key still has the rights that it came with; if not, the call has an answer.
void or_http_door_check_again(or_http_call_t *call);
// Add the headers that every answer has.
void or_http_door_add_headers(or_http_call_t *call, const char *content_type,
                              struct MHD_Response *response);

// ---- server_call.c ----

or_http_call_t *or_http_call_create(or_http_connection_t *connection, const char *method,
                                    const char *path);
// Destroy a call that has left the queue and the tasks.
void or_http_call_destroy(or_http_call_t **call_p);
// Take a part of the body. Returns false if it is no use to read on.
bool or_http_call_take(or_http_call_t *call, const void *bytes, size_t count);
// Forget the body, which has been read, so that others may use its share of the memory for bodies.
void or_http_call_forget_body(or_http_call_t *call);
// Hand the prepared answer to the library.
enum MHD_Result or_http_call_queue(or_http_call_t *call);

// Return the capacity of the buffer after `count` more bytes are added.
size_t or_http_buffer_capacity(const or_http_buffer_t *buffer, size_t count);
static inline size_t or_http_buffer_waiting(const or_http_buffer_t *buffer)
{
    return buffer->end - buffer->start;
}

// ---- server_queue.c ----

// Handle the call, whose request is whole, now or when its turn comes.
void or_http_queue_add(or_http_call_t *call);
// Take the call out of the queue, if it is there.
void or_http_queue_leave(or_http_call_t *call);
// Begin a new turn: handle the calls whose turn it is.
void or_http_queue_turn(or_http_server_t *server);
// Return true if a waiting call could be handled now.
bool or_http_queue_is_ready(const or_http_server_t *server);

// ---- server_task.c ----

// Start the second thread. The server has its epoll_fd by then. A task that has begun keeps its memory until the end.
or_status_t or_http_tasks_start(or_http_server_t *server);
void or_http_tasks_end(or_http_server_t *server);
// Let the calls whose tasks are done be answered.
void or_http_tasks_turn(or_http_server_t *server);
// Return true if a task of this call could begin. Tasks of small bodies always can.
bool or_http_tasks_have_room(const or_http_call_t *call);
// Leave the call's task without a result: the call ends.
void or_http_tasks_leave(or_http_call_t *call);

// ---- server_room.c ----

// Charge the owner for a body that grows by `count`. Returns false if the call has an answer instead, because not
// even the owner's stalled bodies made room.
bool or_http_room_for_body(or_http_call_t *call, size_t count);
// Charge the owner the same way for the memory that reading a body takes.
bool or_http_room_to_read(or_http_call_t *call, size_t bytes);
// Charge the owner for bytes that wait for the call's reader. Returns false if they may not wait: this reader has the
// most unread of its owner's.
bool or_http_room_for_reader(or_http_call_t *call, size_t bytes);

// ---- server_connection.c ----

or_http_connection_t *or_http_connection_open(or_http_server_t *server, struct MHD_Connection *mhd);
void or_http_connection_close(or_http_connection_t **connection_p);
// Note the state of a connection: it waits for a request, or the rest of one, from now; its request is whole; its
// answer is sent.
void or_http_connection_expect(or_http_connection_t *connection);
void or_http_connection_answer(or_http_connection_t *connection);
void or_http_connection_finish(or_http_connection_t *connection);
// Suspend a connection that has nothing to send, and watch it for a hang-up.
void or_http_connection_suspend(or_http_connection_t *connection);
void or_http_connection_resume(or_http_connection_t *connection);
// Cut the connection in the next turn, whatever it is doing.
void or_http_connection_cut(or_http_connection_t *connection);
// Handle epoll's events of a watched connection.
void or_http_connection_notice(or_http_connection_t *connection, uint32_t events);
// Look at the ending connections that are due, and cut those of which the library has read all that came.
void or_http_connections_look(or_http_server_t *server, int64_t now_ns);
// Write the client's address as text, without the port.
void or_http_connection_address(const or_http_connection_t *connection, char *text, size_t bytes);
