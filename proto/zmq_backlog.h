// zmq_backlog - bounds what libzmq holds of a hub's TCP connections before the hub gets it. For channel_zmq only.
//
//     peer ──▶ kernel ──▶ libzmq: parts of a message, whole messages ──▶ hub
//                         └─ backlog: bytes read from the connection, less bytes taken by the hub
//
// libzmq bounds none of this: no option limits a message of many parts, and a limit of whole messages must not be set
// (zmq_frames.h). A thread looks every few milliseconds at what each connection to our ports has brought (TCP_INFO). It
// cuts a connection whose backlog no honest peer has (one frame of the maximum and a little), the largest ones when all
// together are too many, and whoever has a backlog while the process holds far more memory than arrived as bytes, for
// parts of a few bytes cost thirty times that. Connections over a path (ipc) are not watched. Who is cut may come again.
#pragma once

#include <zmq.h>

#include "common/base/status.h"

typedef struct or_zmq_backlog or_zmq_backlog_t;

#define OR_ZMQ_BACKLOG_PORTS 16

// Watch the connections that were accepted at these ports, at most OR_ZMQ_BACKLOG_PORTS. OR_ERR_NO_MEMORY, OR_ERR_IO.
or_status_t or_zmq_backlog_create(const uint16_t *ports, size_t count,
                                  or_zmq_backlog_t **backlog_p);
void or_zmq_backlog_destroy(or_zmq_backlog_t **backlog_p);

// The hub has taken this frame out of its socket. On the hub's thread.
void or_zmq_backlog_take(or_zmq_backlog_t *backlog, zmq_msg_t *frame, bool encrypted);
