#include "proto/zmq/zmq_inside.h"

#include <errno.h>
#include <stdlib.h>

#include <zmq.h>

#include "common/base/clock.h"
#include "proto/zmq/zmq_frames.h"

#define PLACE "inproc://outrider.inside"

typedef struct {
    or_channel_t channel; // first
    void *socket;
    zmq_msg_t current; // what the last receive gave
    int wake_fd;       // -1: none
} inside_edge_t;

or_status_t or_zmq_inside_bind(void *context, void **socket_p)
{
    void *socket;
    or_status_t status =
        or_zmq_open(context, ZMQ_ROUTER, OR_ZMQ_INSIDE_FRAMES, OR_ZMQ_INSIDE_FRAMES, &socket);
    if (status != OR_OK) {
        return status;
    }
    if (zmq_bind(socket, PLACE) != 0) {
        status = or_fail(OR_ERR_IO, "cannot listen inside the process: %s", zmq_strerror(errno));
        zmq_close(socket);
        return status;
    }
    *socket_p = socket;
    return OR_OK;
}

static or_status_t inside_send(or_channel_t *channel, or_peer_t to, const uint8_t *frame,
                               size_t bytes)
{
    return to.value == OR_PEER_HUB.value
               ? or_zmq_send_part(((inside_edge_t *)channel)->socket, frame, bytes, 0)
               : or_fail(OR_ERR_UNREACHABLE, "an edge knows the hub only");
}

static or_status_t inside_receive(or_channel_t *channel, or_peer_t *from, const uint8_t **frame,
                                  size_t *bytes)
{
    inside_edge_t *self = (inside_edge_t *)channel;
    or_status_t status = or_zmq_receive_frame(self->socket, NULL, &self->current);
    if (status == OR_OK) {
        *frame = zmq_msg_data(&self->current);
        *bytes = zmq_msg_size(&self->current);
        *from = OR_PEER_HUB;
    }
    return status;
}

// Signals are the main thread's; here they only end a wait early, which does no harm.
static or_status_t inside_wait(or_channel_t *channel, int64_t timeout_ns)
{
    const inside_edge_t *self = (const inside_edge_t *)channel;
    zmq_pollitem_t items[] = {{.socket = self->socket, .events = ZMQ_POLLIN},
                              {.fd = self->wake_fd, .events = ZMQ_POLLIN}};
    int ready = zmq_poll(items, self->wake_fd >= 0 ? 2 : 1, or_zmq_poll_ms(timeout_ns));
    if (ready < 0 && errno != EINTR) {
        return or_fail(OR_ERR_IO, "cannot wait for frames: %s", zmq_strerror(errno));
    }
    return ready == 0 ? OR_ERR_TIMEOUT : OR_OK;
}

static void inside_forget(or_channel_t *channel, or_peer_t peer)
{
    (void)channel;
    (void)peer;
}

static bool inside_is_none(const or_channel_t *channel, or_peer_t peer)
{
    (void)channel;
    (void)peer;
    return false;
}

static const char *inside_key_of(const or_channel_t *channel, or_peer_t peer)
{
    (void)channel;
    (void)peer;
    return "";
}

static uint64_t inside_connection(const or_channel_t *channel)
{
    (void)channel;
    return 1; // from the beginning, and it is never lost
}

static void inside_destroy(or_channel_t *channel)
{
    inside_edge_t *self = (inside_edge_t *)channel;
    zmq_msg_close(&self->current);
    zmq_close(self->socket);
    free(self);
}

static const or_channel_ops_t inside_ops = {.send = inside_send,
                                            .receive = inside_receive,
                                            .wait = inside_wait,
                                            .forget = inside_forget,
                                            .is_local = inside_is_none,
                                            .is_inside = inside_is_none,
                                            .key_of = inside_key_of,
                                            .connection = inside_connection,
                                            .destroy = inside_destroy};

or_status_t or_zmq_inside_connect(void *context, int wake_fd, or_channel_t **channel_p)
{
    inside_edge_t *self = calloc(1, sizeof *self);
    if (self == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a channel");
    }
    or_status_t status =
        or_zmq_open(context, ZMQ_DEALER, OR_ZMQ_INSIDE_FRAMES, OR_ZMQ_INSIDE_FRAMES, &self->socket);
    if (status != OR_OK) {
        free(self);
        return status;
    }
    self->channel.ops = &inside_ops;
    self->wake_fd = wake_fd;
    zmq_msg_init(&self->current);
    if (zmq_connect(self->socket, PLACE) != 0) {
        status = or_fail(OR_ERR_IO, "cannot reach the hub: %s", zmq_strerror(errno));
        inside_destroy(&self->channel);
        return status;
    }
    *channel_p = &self->channel;
    return OR_OK;
}
