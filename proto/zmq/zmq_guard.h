// zmq_guard - who may connect to the encrypted endpoints of a hub. For channel_zmq only.
//
//     peer ──greeting──▶ ZeroMQ ──its key──▶ guard: admit? ──200, User-Id = stamp, key──▶ a peer
//                           │                          └───400──▶ refused
//                           └─ no CURVE, another server key, bytes that were changed: refused
//
// Who connects without encryption may write what it likes into its greeting, a User-Id too: the stamp, random and
// known to the guard alone, tells the guard's own.
//
// The answer of RFC 27 (ZAP), on the thread that owns the hub: whoever asks waits until that thread serves.
// Refusals are counted, and logged once a minute for each key and each kind of failure. One thread.
#pragma once

#include <zmq.h>

#include "proto/zmq/channel_zmq.h"

typedef struct or_zmq_guard or_zmq_guard_t;

// For the encrypted endpoints of `socket`, before they are bound. Copies nothing of the server's secret.
// OR_ERR_IO, OR_ERR_NO_MEMORY.
or_status_t or_zmq_guard_create(void *context, void *socket, const or_channel_server_t *server,
                                or_zmq_guard_t **guard_p);
// After the socket has been closed.
void or_zmq_guard_destroy(or_zmq_guard_t **guard_p);

#define OR_ZMQ_GUARD_ITEMS 2
// What to poll besides the hub's socket.
void or_zmq_guard_fill(const or_zmq_guard_t *guard, zmq_pollitem_t items[OR_ZMQ_GUARD_ITEMS]);
// Answer those that wait, at most a bounded number; never blocks.
void or_zmq_guard_serve(or_zmq_guard_t *guard);

// The key that the sender of a frame has proved to have; "" if it has none, or `guard` is NULL. Good as long
// as the frame.
const char *or_zmq_guard_key_of(const or_zmq_guard_t *guard, zmq_msg_t *frame);
// May this key, which came in earlier, (still) become a peer? Counted and logged if not.
bool or_zmq_guard_admits(or_zmq_guard_t *guard, const char *public_key);
uint64_t or_zmq_guard_refusals(const or_zmq_guard_t *guard);
