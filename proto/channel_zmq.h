// channel_zmq - a channel over ZeroMQ: ROUTER for the hub, DEALER for an edge.
//
// Reconnects by itself; ZMTP heartbeats find dead hosts. The hub's send to a vanished peer is
// OR_ERR_UNREACHABLE (ZMQ_ROUTER_MANDATORY). Endpoints are ZeroMQ's: tcp://127.0.0.1:5555,
// tcp://127.0.0.1:* (any free port), ipc:///path.
#pragma once

#include "proto/channel.h"

// Listen. `bound` (may be NULL) receives the endpoint really used, with its port, cut to capacity.
// OR_ERR_IO with a sentence: port in use, no such address here, no permission. OR_ERR_INVALID: not
// an endpoint.
or_status_t or_channel_zmq_bind(const char *endpoint, char *bound, size_t capacity,
                                or_channel_t **channel_p);
// Connect, in the background and again after losses. OR_ERR_INVALID if the endpoint makes no sense.
or_status_t or_channel_zmq_connect(const char *endpoint, or_channel_t **channel_p);
