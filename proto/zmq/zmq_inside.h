// zmq_inside - edges of a hub inside its own process, for other threads. For channel_zmq only.
//
//     peers from outside ──relay──▶ two ROUTERs ─┐
//                                                ├─ hub
//     edges of this process ──inproc──▶ ROUTER ──┘
//
// A socket of their own, with no endpoint that the system knows: what comes through it is from inside, whatever
// it says.
#pragma once

#include "proto/net/channel.h"

#define OR_ZMQ_INSIDE_FRAMES 16384 // that wait for a reader: one edge may carry thousands of texts

// The hub's socket for them; one for a context, on the hub's thread. OR_ERR_IO.
or_status_t or_zmq_inside_bind(void *context, void **socket_p);
// An edge, as or_channel_zmq_connect_inside has it. Borrows the context, which is ended behind it.
// OR_ERR_IO, OR_ERR_NO_MEMORY.
or_status_t or_zmq_inside_connect(void *context, int wake_fd, or_channel_t **channel_p);
