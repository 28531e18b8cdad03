// zmq_monitor - ZeroMQ's events about the connections of a socket. For zmq_edge and zmq_guard only.
//
// ZeroMQ's own thread sends them and waits for nobody: events that are not read pile up. One thread reads.
#pragma once

#include <stdint.h>

#include "common/base/status.h"

typedef struct {
    int what;       // ZMQ_EVENT_*
    uint32_t value; // its meaning depends on the event
    char endpoint[256];
} or_zmq_event_t;

// Watch `socket` for `events`, a sum of ZMQ_EVENT_*, before it is bound or connected. The monitor is a socket to
// poll; end it with zmq_close. There is one for a context. OR_ERR_IO.
or_status_t or_zmq_monitor_open(void *context, void *socket, int events, void **monitor_p);
// Stop the events of `socket`, before it is closed: libzmq 4.3 leaks an event that it cannot deliver.
void or_zmq_monitor_end(void *socket);
// Read the next event; false if there is none now.
bool or_zmq_monitor_next(void *monitor, or_zmq_event_t *event);
