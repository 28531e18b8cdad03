// zmq_guard - who may connect to the encrypted endpoints of a hub. For channel_zmq only.
//
//     peer ──greeting──▶ ZeroMQ ──its key──▶ guard: admit? ──200, User-Id = stamp, key──▶ a peer
//                           │                          └───400──▶ refused
//                           └─ no CURVE, another server key, bytes that were changed: refused
//
// A peer that connects without encryption may write what it likes into its greeting, a User-Id too. So the guard
// marks its own with a random stamp that no one else knows.
//
// The guard answers by RFC 27 (ZAP) on the thread that owns the hub, so a peer waits until that thread serves.
// Refusals are counted, and logged once a minute for each key and each kind of failure. One thread.
#pragma once

#include <zmq.h>

#include "proto/zmq/channel_zmq.h"

typedef struct or_zmq_guard or_zmq_guard_t;

// Create the guard of the encrypted endpoints of `socket`, before they are bound. It copies nothing of the server's
// secret. OR_ERR_IO, OR_ERR_NO_MEMORY.
or_status_t or_zmq_guard_create(void *context, void *socket, const or_channel_server_t *server,
                                or_zmq_guard_t **guard_p);
// Destroy the guard, after the socket has been closed.
void or_zmq_guard_destroy(or_zmq_guard_t **guard_p);

#define OR_ZMQ_GUARD_ITEMS 2
// Set what to poll besides the hub's socket.
void or_zmq_guard_fill(const or_zmq_guard_t *guard, zmq_pollitem_t items[OR_ZMQ_GUARD_ITEMS]);
// Answer a bounded number of waiting peers. Never blocks.
void or_zmq_guard_serve(or_zmq_guard_t *guard);

// Return the key that the sender of a frame has proved to have; "" if it has none, or `guard` is NULL. It is good as
// long as the frame.
const char *or_zmq_guard_key_of(const or_zmq_guard_t *guard, zmq_msg_t *frame);
// Return true if this key, which came in earlier, may still become a peer. A refusal is counted and logged.
bool or_zmq_guard_admits(or_zmq_guard_t *guard, const char *public_key);
uint64_t or_zmq_guard_refusals(const or_zmq_guard_t *guard);
