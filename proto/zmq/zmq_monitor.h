// zmq_monitor - what ZeroMQ says of the connections of a socket. For channel_zmq and zmq_guard only.
//
// ZeroMQ's own thread tells, and waits for nobody: what is not asked for piles up. One thread asks.
#pragma once

#include <stdint.h>

#include "common/base/status.h"

typedef struct {
    int what;       // ZMQ_EVENT_*
    uint32_t value; // what it means depends on that
    char endpoint[256];
} or_zmq_event_t;

// Watch `socket` for `events`, a sum of ZMQ_EVENT_*, before it is bound or connected. The monitor is a
// socket to poll; zmq_close it. One for a context. OR_ERR_IO.
or_status_t or_zmq_monitor_open(void *context, void *socket, int events, void **monitor_p);
// Nothing more is told of `socket`. Before it is closed: libzmq 4.3 leaks the event that it cannot tell any more.
void or_zmq_monitor_end(void *socket);
// False if there is none now.
bool or_zmq_monitor_next(void *monitor, or_zmq_event_t *event);
