// zmq_relay - stands between strangers and libzmq, and passes on no more than the hub keeps up with. For channel_zmq only.
//
//     peer ──tcp, ipc──▶ relay ──path inside this process──▶ libzmq ──frames──▶ hub
//                          │                                                    │
//                          └── waits while what was passed, less what ◀─taken───┘
//                              the hub has taken, exceeds a window
//
// libzmq alone would read whatever comes. It has no limit for a message of many parts, and its limit of whole
// messages counts frames, not bytes. With that limit set, libzmq 4.3.4 aborts the process when a connection is reset
// whose reading it has stopped (libzmq issue 4364). Through the relay no reset reaches libzmq: a connection that
// ended ends there in order. The relay sees where frames begin and end (zmtp_flow.h), not their content; encryption
// passes through.
//
// Each connection may have whole frames under way up to the part of OR_ZMQ_RELAY_WHOLE_MAX that is free, so that a
// newcomer gets a share (dynamic thresholds, as in coordinator/clients/ledger.h). It may always have one frame, and
// never more than OR_ZMQ_RELAY_WINDOW. More waits in the kernel, and so with its sender. The cost of a frame covers
// memory and the hub's time (zmtp_flow.h), so that few frames wait before a newcomer's. Peers that the hub calls
// urgent have larger bounds of their own.
//
// All unfinished frames together may hold OR_ZMQ_RELAY_PARTS_MAX. Beyond that the one is cut whose frame came slowest
// in the last seconds. A message of so many parts that the hub can never take it is cut as well. When all places for
// connections are taken, a connection that never said anything makes room, else the one that was silent for longest.
//
// The relay has a thread of its own. All calls are for the hub's thread.
#pragma once

#include <stdbool.h>

#include <zmq.h>

#include "common/base/status.h"

#define OR_ZMQ_RELAY_WINDOW (256u << 10)
#define OR_ZMQ_RELAY_WHOLE_MAX (8u << 20)
#define OR_ZMQ_RELAY_URGENT_WINDOW (4u << 20)
#define OR_ZMQ_RELAY_URGENT_WHOLE_MAX (32u << 20)
#define OR_ZMQ_RELAY_PARTS_MAX (48u << 20)
#define OR_ZMQ_RELAY_CONNECTIONS 1536 // or an eighth of the descriptors that this process may have

typedef struct or_zmq_relay or_zmq_relay_t;

// The exits of connections inside this process: each is an endpoint for zmq_bind.
typedef enum {
    OR_ZMQ_NEAR,  // not encrypted, from this machine: loopback or a path
    OR_ZMQ_FAR,   // not encrypted, from elsewhere
    OR_ZMQ_CURVE, // encrypted
    OR_ZMQ_EXITS
} or_zmq_exit_t;

// Create a relay. OR_ERR_NO_MEMORY, OR_ERR_IO.
or_status_t or_zmq_relay_create(or_zmq_relay_t **relay_p);
// Destroy the relay, after the ZeroMQ context has ended. What libzmq still sent is passed on, for at most a second.
void or_zmq_relay_destroy(or_zmq_relay_t **relay_p);

// Return the endpoint to bind, for this process alone.
const char *or_zmq_relay_exit(const or_zmq_relay_t *relay, or_zmq_exit_t exit);
// Accept connections at this endpoint (proto/net/endpoint.h). `bound` receives the endpoint as it really is.
or_status_t or_zmq_relay_listen(or_zmq_relay_t *relay, const char *endpoint, bool encrypted,
                                char *bound, size_t capacity);
// Begin to pass on, once the exits are bound. OR_ERR_IO.
or_status_t or_zmq_relay_start(or_zmq_relay_t *relay);

// Note that the hub handles this part of a message or has thrown it away. `urgent`: its sender is urgent from now on,
// or not.
void or_zmq_relay_take(or_zmq_relay_t *relay, zmq_msg_t *part, bool urgent);
// Note that the hub has found all of its sockets empty, and has handled what was in them.
void or_zmq_relay_note_empty(or_zmq_relay_t *relay);
// Note that the hub sleeps since this time (or_clock_monotonic) until one of its sockets has something; 0: it is
// awake.
void or_zmq_relay_note_sleep(or_zmq_relay_t *relay, int64_t since_ns);
