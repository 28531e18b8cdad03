// zmq_frames - whole frames through ZeroMQ sockets. For the files of this folder only.
//
// Nothing here blocks. ZeroMQ's errors become statuses with the sentence that a user needs. One thread per socket.
#pragma once

#include <stdint.h>

#include <zmq.h>

#include "common/base/status.h"
#include "proto/zmq/relay/zmq_relay.h"

// Open a socket of this type (ZMQ_ROUTER, ZMQ_DEALER) that holds so many frames for each peer and from each; 0: no
// limit.
//
// If connections may be reset, `receive_frames` must be 0: a full queue stops the reading of a connection. If that
// is reset with a PING among the bytes already read, libzmq 4.3 aborts. zmq_relay bounds what strangers send to a
// hub.
//
// A lost connection is made again soon, a frame over the maximum ends its connection, and a ROUTER says that a peer
// is gone. OR_ERR_IO.
or_status_t or_zmq_open(void *context, int type, int send_frames, int receive_frames,
                        void **socket_p);

// Queue one part of a message; `more` is ZMQ_SNDMORE or 0. OR_ERR_FULL, OR_ERR_UNREACHABLE, OR_ERR_IO.
or_status_t or_zmq_send_part(void *socket, const void *data, size_t bytes, int more);
// Receive one part of a message. OR_ERR_AGAIN if nothing waits; OR_ERR_IO.
or_status_t or_zmq_receive_part(void *socket, zmq_msg_t *part);
// Receive a frame, which has one part. Further parts from a stranger are thrown away; `relay` (NULL: none) hears of
// them.
or_status_t or_zmq_receive_frame(void *socket, or_zmq_relay_t *relay, zmq_msg_t *frame);

// Return a time-out for zmq_poll: whole milliseconds, rounded up so that a short wait is not a busy one.
long or_zmq_poll_ms(int64_t timeout_ns);
