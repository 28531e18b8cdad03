// zmq_inside - edges of a hub inside its own process, for other threads. For zmq_hub only.
//
//     peers from outside ──relay──▶ two ROUTERs ─┐
//                                                ├─ hub
//     edges of this process ──inproc──▶ ROUTER ──┘
//
// They have a socket of their own, whose endpoint the system does not know. So every frame that comes through it is
// from inside, whatever it says.
#pragma once

#include "proto/net/channel.h"

#define OR_ZMQ_INSIDE_FRAMES                                                                       \
    16384 // most frames that wait for a reader: one edge may carry thousands of texts

// Create the hub's socket for them, one for a context, on the hub's thread. OR_ERR_IO.
or_status_t or_zmq_inside_bind(void *context, void **socket_p);
// Create an edge as or_channel_zmq_connect_inside does. Borrows the context, which must outlive it. OR_ERR_IO,
// OR_ERR_NO_MEMORY.
or_status_t or_zmq_inside_connect(void *context, int wake_fd, or_channel_t **channel_p);
