#include "proto/zmq/zmq_monitor.h"

#include <errno.h>
#include <string.h>

#include <zmq.h>

#define PLACE "inproc://outrider.monitor"

or_status_t or_zmq_monitor_open(void *context, void *socket, int events, void **monitor_p)
{
    // ZeroMQ's thread would wait, and all connections with it, for a reader that is behind: no limit.
    int no_limit = 0, no_linger = 0;
    if (zmq_socket_monitor(socket, PLACE, events) != 0) {
        return or_fail(OR_ERR_IO, "cannot watch a socket: %s", zmq_strerror(errno));
    }
    void *monitor = zmq_socket(context, ZMQ_PAIR);
    if (monitor == NULL) {
        return or_fail(OR_ERR_IO, "cannot open a socket: %s", zmq_strerror(errno));
    }
    if (zmq_setsockopt(monitor, ZMQ_RCVHWM, &no_limit, sizeof no_limit) != 0 ||
        zmq_setsockopt(monitor, ZMQ_LINGER, &no_linger, sizeof no_linger) != 0 ||
        zmq_connect(monitor, PLACE) != 0) {
        or_status_t status = or_fail(OR_ERR_IO, "cannot watch a socket: %s", zmq_strerror(errno));
        zmq_close(monitor);
        return status;
    }
    *monitor_p = monitor;
    return OR_OK;
}

void or_zmq_monitor_end(void *socket)
{
    (void)zmq_socket_monitor(socket, NULL, 0);
}

// One part of an event into `data`, cut to `capacity`; its whole length, -1 if there is none.
static int take_part(void *monitor, void *data, size_t capacity)
{
    int bytes;
    do {
        bytes = zmq_recv(monitor, data, capacity, ZMQ_DONTWAIT);
    } while (bytes < 0 && errno == EINTR);
    return bytes;
}

bool or_zmq_monitor_next(void *monitor, or_zmq_event_t *event)
{
    uint8_t head[6]; // 16 bits of event, 32 of value, as this machine has them
    uint16_t what;
    if (take_part(monitor, head, sizeof head) != (int)sizeof head) {
        return false;
    }
    memcpy(&what, head, sizeof what);
    memcpy(&event->value, head + sizeof what, sizeof event->value);
    event->what = what;
    int length = take_part(monitor, event->endpoint, sizeof event->endpoint - 1);
    int kept = length < (int)sizeof event->endpoint - 1 ? length : (int)sizeof event->endpoint - 1;
    event->endpoint[kept > 0 ? kept : 0] = '\0';
    return true;
}
