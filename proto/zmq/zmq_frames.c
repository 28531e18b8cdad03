#include "proto/zmq/zmq_frames.h"

#include <errno.h>
#include <limits.h>

#include "common/base/clock.h"
#include "proto/wire/message.h"

#define LINGER_MS                                                                                  \
    1000 // last messages get out also of a process that is not run for a while; shutdown never hangs
// A link that was cut is tried again soon, because a text that somebody reads waits for it.
#define RECONNECT_MS 50
#define RECONNECT_MAX_MS 400
// After this time another attempt begins with a new first packet: the system's own repeats come ever later.
#define CONNECT_TIMEOUT_MS 2000
#define HANDSHAKE_MS 10000 // whoever has not said who it is by then holds no connection of ours
#define CURVE_BYTES 64     // what encryption adds to a frame, at most
// The system finds hosts that vanished without closing the connection. It asks a silent host after KEEPALIVE_IDLE_S,
// and one that acknowledges nothing for VANISHED_MS is gone. ZeroMQ's own heartbeats must stay off: libzmq 4.3
// asserts when one is due on a connection that was reset while nothing more was read from it. The link looks after
// silent programs.
#define KEEPALIVE_IDLE_S 10
#define KEEPALIVE_INTERVAL_S 3
#define KEEPALIVE_COUNT 4
#define VANISHED_MS 20000

static or_status_t set_options(void *socket, bool hub, int send_frames, int receive_frames)
{
    const struct {
        int option, value;
    } settings[] = {
        {ZMQ_LINGER, LINGER_MS},
        {ZMQ_SNDHWM, send_frames},
        {ZMQ_RCVHWM, receive_frames},
        {ZMQ_RECONNECT_IVL, RECONNECT_MS},
        {ZMQ_RECONNECT_IVL_MAX, RECONNECT_MAX_MS},
        {ZMQ_CONNECT_TIMEOUT, CONNECT_TIMEOUT_MS},
        {ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS},
        {ZMQ_TCP_KEEPALIVE, 1},
        {ZMQ_TCP_KEEPALIVE_IDLE, KEEPALIVE_IDLE_S},
        {ZMQ_TCP_KEEPALIVE_INTVL, KEEPALIVE_INTERVAL_S},
        {ZMQ_TCP_KEEPALIVE_CNT, KEEPALIVE_COUNT},
        {ZMQ_TCP_MAXRT, VANISHED_MS},
        {ZMQ_ROUTER_MANDATORY, 1}, // a ROUTER's only; last
    };
    size_t count = sizeof settings / sizeof *settings - (hub ? 0 : 1);
    int failed = 0;
    for (size_t i = 0; i < count; i++) {
        failed |= zmq_setsockopt(socket, settings[i].option, &settings[i].value, sizeof(int));
    }
    int64_t bytes_max = OR_FRAME_BYTES_MAX + CURVE_BYTES; // the codec looks at the rest
    failed |= zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &bytes_max, sizeof bytes_max);
    return failed ? or_fail(OR_ERR_IO, "cannot set up a socket: %s", zmq_strerror(errno)) : OR_OK;
}

or_status_t or_zmq_open(void *context, int type, int send_frames, int receive_frames,
                        void **socket_p)
{
    void *socket = zmq_socket(context, type);
    if (socket == NULL) {
        return or_fail(OR_ERR_IO, "cannot open a socket: %s", zmq_strerror(errno));
    }
    or_status_t status = set_options(socket, type == ZMQ_ROUTER, send_frames, receive_frames);
    if (status != OR_OK) {
        zmq_close(socket);
        return status;
    }
    *socket_p = socket;
    return OR_OK;
}

or_status_t or_zmq_send_part(void *socket, const void *data, size_t bytes, int more)
{
    while (zmq_send(socket, data, bytes, ZMQ_DONTWAIT | more) < 0) {
        switch (errno) {
        case EINTR:
            break;
        case EAGAIN:
            return or_fail(OR_ERR_FULL, "too many frames wait already for the peer");
        case EHOSTUNREACH:
            return or_fail(OR_ERR_UNREACHABLE, "the peer has closed its connection");
        default:
            return or_fail(OR_ERR_IO, "cannot send: %s", zmq_strerror(errno));
        }
    }
    return OR_OK;
}

or_status_t or_zmq_receive_part(void *socket, zmq_msg_t *part)
{
    while (zmq_msg_recv(part, socket, ZMQ_DONTWAIT) < 0) {
        if (errno == EAGAIN) {
            return OR_ERR_AGAIN;
        }
        if (errno != EINTR) {
            return or_fail(OR_ERR_IO, "cannot receive: %s", zmq_strerror(errno));
        }
    }
    return OR_OK;
}

static or_status_t skip_rest(void *socket, or_zmq_relay_t *relay, const zmq_msg_t *part)
{
    bool more = zmq_msg_more(part) != 0;
    or_status_t status = OR_OK;
    while (more && status == OR_OK) {
        zmq_msg_t rest;
        zmq_msg_init(&rest);
        status = or_zmq_receive_part(socket, &rest);
        if (status == OR_OK && relay != NULL) {
            or_zmq_relay_take(relay, &rest, false);
        }
        more = status == OR_OK && zmq_msg_more(&rest) != 0;
        zmq_msg_close(&rest);
    }
    return status;
}

or_status_t or_zmq_receive_frame(void *socket, or_zmq_relay_t *relay, zmq_msg_t *frame)
{
    or_status_t status = or_zmq_receive_part(socket, frame);
    return status == OR_OK ? skip_rest(socket, relay, frame) : status;
}

long or_zmq_poll_ms(int64_t timeout_ns)
{
    if (timeout_ns <= 0) {
        return 0;
    }
    int64_t ms = (timeout_ns - 1) / OR_NS_PER_MS + 1;
    return ms < INT_MAX ? (long)ms : INT_MAX;
}
