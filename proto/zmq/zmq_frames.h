// zmq_frames - whole frames through ZeroMQ sockets. For channel_zmq and zmq_inside only.
//
// Nothing here blocks. ZeroMQ's errors become statuses with the sentence a user needs. One thread per socket.
#pragma once

#include <stdint.h>

#include <zmq.h>

#include "common/base/status.h"
#include "proto/zmq/zmq_relay.h"

// A socket of this type (ZMQ_ROUTER, ZMQ_DEALER) with our limits: it holds so many frames for each peer and from each. 0: no
// limit. Where connections may be reset `receive_frames` must be 0: a full queue stops the reading of a connection, and
// when it is reset then, a PING among what was read already makes libzmq 4.3 abort. What strangers send to a hub is bounded
// by zmq_relay. A connection that is lost is made again soon, frames over the maximum end their connection, and a ROUTER
// says so when a peer is gone. OR_ERR_IO.
or_status_t or_zmq_open(void *context, int type, int send_frames, int receive_frames,
                        void **socket_p);

// Queue one part of a message; `more`: ZMQ_SNDMORE or 0. OR_ERR_FULL, OR_ERR_UNREACHABLE, OR_ERR_IO.
or_status_t or_zmq_send_part(void *socket, const void *data, size_t bytes, int more);
// OR_ERR_AGAIN if nothing waits; OR_ERR_IO.
or_status_t or_zmq_receive_part(void *socket, zmq_msg_t *part);
// The one part that we send; whatever else a stranger adds to it is thrown away, of which `relay` (NULL: none) hears.
or_status_t or_zmq_receive_frame(void *socket, or_zmq_relay_t *relay, zmq_msg_t *frame);

// A time-out for zmq_poll: whole milliseconds, rounded up so that a short wait is not a busy one.
long or_zmq_poll_ms(int64_t timeout_ns);
