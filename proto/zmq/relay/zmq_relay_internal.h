// zmq_relay_internal - what the parts of the relay share: zmq_relay.c has the thread and looks at all connections,
// zmq_relay_accept.c makes connections, zmq_relay_connection.c moves the bytes of one.
//
// All of it is the relay's thread's, but for the atomic fields, which the hub's thread writes.
#pragma once

#include <stdatomic.h>
#include <sys/socket.h>

#include <pthread.h>

#include "common/base/clock.h"
#include "proto/zmq/relay/zmq_relay.h"
#include "proto/zmq/relay/zmtp_flow.h"

#define OR_RELAY_LISTENS_MAX 16
#define OR_RELAY_BULK_BYTES 65536 // read at once inside a frame, and of what libzmq says
#define OR_RELAY_SAY_AGAIN_NS (60 * OR_NS_PER_S) // between log lines that say the same
#define OR_RELAY_VANISHED_MS 20000 // a host that acknowledges nothing for so long is gone

// Connections share their bounds with those of their sort.
typedef enum { ORDINARY, URGENT, SORTS } or_relay_sort_t;

// Bytes that one side has sent and the other could not take yet. It has no memory while there are none.
typedef struct {
    uint8_t *data;
    size_t begin, end;
} or_relay_pending_t;

// How far the frame under way had come.
typedef struct {
    int64_t at_ns;
    uint64_t begun; // as in or_zmtp_flow_t
} or_relay_mark_t;

typedef struct {
    int peer, inner;                  // descriptors; inner -1: no connection yet
    uint32_t peer_wants, inner_wants; // the events that epoll looks for; 0: none
    struct sockaddr_storage address;  // the peer's
    bool used, peer_ended, inner_ended, inner_shut, is_paused;
    or_zmq_exit_t exit;
    or_zmtp_flow_t flow;
    or_relay_pending_t in, out; // bytes for libzmq, bytes for the peer
    uint64_t passed;            // the cost of all whole frames so far
    uint64_t said;              // bytes that libzmq has sent
    uint64_t taken_before, moved_empty;
    int64_t heard_ns;             // when the peer sent last
    int64_t moved_ns;             // when the hub last took a frame, or none waited
    or_relay_mark_t older, newer; // a second or more apart, or where the frame under way began
} or_relay_connection_t;

typedef struct {
    int fd;
    bool encrypted;
} or_relay_entrance_t;

// Which descriptor of a place an event of epoll is about.
typedef enum { PEER, INNER, ENTRANCE, STOP } or_relay_kind_t;

// The name of our end of a path inside this process. The other end can ask for it, and so a frame leads to its place.
typedef struct {
    char zero; // no file
    char name[6];
    bool encrypted;
    uint64_t secret;
    uint32_t place, generation;
} or_relay_name_t;

struct or_zmq_relay {
    char exits[OR_ZMQ_EXITS][64];
    uint64_t secret; // in the names of our ends, so that none but ours is taken for one
    or_relay_entrance_t entrances[OR_RELAY_LISTENS_MAX];
    size_t entrance_count;
    pthread_t thread;
    bool started;
    int epoll, stop_fd;
    _Atomic bool stopped;
    _Atomic uint64_t taken_of_ended; // connections
    _Atomic uint64_t empty_count;
    _Atomic int64_t asleep_ns;                              // since when; 0: not asleep
    _Atomic uint32_t generations[OR_ZMQ_RELAY_CONNECTIONS]; // of each place
    _Atomic uint64_t taken[OR_ZMQ_RELAY_CONNECTIONS];       // by the hub, as a cost
    _Atomic bool urgent[OR_ZMQ_RELAY_CONNECTIONS];
    // The thread's.
    or_relay_connection_t *connections; // OR_ZMQ_RELAY_CONNECTIONS places
    size_t limit, top, count;           // places at most; all below top were used
    bool is_accepting;
    uint64_t whole[SORTS]; // cost of whole frames with the hub, of all of a sort
    int64_t accept_at_ns;
    uint64_t orphans, older_orphans, orphans_empty; // passed for connections that ended
    int64_t said_full_ns, said_refused_ns;
    int64_t asked_ns; // when hosts were last asked for
    uint8_t bytes[OR_RELAY_BULK_BYTES];
};

static inline uint64_t or_relay_tag(size_t at, or_relay_kind_t kind, uint32_t generation)
{
    return (uint64_t)generation << 32 | (uint64_t)at << 2 | kind;
}

static inline size_t or_relay_place(const or_zmq_relay_t *relay,
                                    const or_relay_connection_t *connection)
{
    return (size_t)(connection - relay->connections);
}

static inline or_relay_sort_t or_relay_sort(const or_zmq_relay_t *relay,
                                            const or_relay_connection_t *connection)
{
    return atomic_load(&relay->urgent[or_relay_place(relay, connection)]) ? URGENT : ORDINARY;
}

// The cost of whole frames that the hub has not taken.
static inline uint64_t or_relay_whole(or_zmq_relay_t *relay,
                                      const or_relay_connection_t *connection)
{
    uint64_t taken = atomic_load(&relay->taken[or_relay_place(relay, connection)]);
    return connection->passed > taken ? connection->passed - taken : 0;
}

static inline bool or_relay_has_pending(const or_relay_pending_t *pending)
{
    return pending->begin < pending->end;
}

// ---- one connection (zmq_relay_connection.c) ----

// Let epoll look at this descriptor for the events `now`; *wants holds those it looks for.
void or_relay_want(or_zmq_relay_t *relay, int fd, uint64_t data, uint32_t *wants, uint32_t now);
// Close both descriptors and free the place.
void or_relay_forget(or_zmq_relay_t *relay, or_relay_connection_t *connection);
// End the peer's side at once. The caller settles the connection afterwards.
void or_relay_cut(or_relay_connection_t *connection, const char *why);
// Do what follows from the connection's state: end it, or look for the events that matter now.
void or_relay_settle(or_zmq_relay_t *relay, or_relay_connection_t *connection);
// Return how many bytes may be read of the peer; 0: none for now.
size_t or_relay_read_size(or_zmq_relay_t *relay, const or_relay_connection_t *connection);
// Note the time if the hub has taken a frame of this connection, or if none waits.
void or_relay_note_progress(or_zmq_relay_t *relay, or_relay_connection_t *connection, int64_t now);
// Handle epoll's events for the peer's descriptor, or for libzmq's.
void or_relay_serve_peer(or_zmq_relay_t *relay, or_relay_connection_t *connection, uint32_t events,
                         int64_t now);
void or_relay_serve_inner(or_zmq_relay_t *relay, or_relay_connection_t *connection,
                          uint32_t events);

// ---- new connections (zmq_relay_accept.c) ----

void or_relay_accept(or_zmq_relay_t *relay, const or_relay_entrance_t *entrance, int64_t now);
void or_relay_set_accepting(or_zmq_relay_t *relay, bool accepting);
// Connect to libzmq. Returns false if that is to be tried later, because libzmq accepts too slowly just now.
bool or_relay_connect_inner(or_zmq_relay_t *relay, or_relay_connection_t *connection);
