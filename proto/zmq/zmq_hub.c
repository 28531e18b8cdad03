// The hub's kind of channel: many peers through three sockets.
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zmq.h>

#include "common/base/clock.h"
#include "proto/net/endpoint.h"
#include "proto/zmq/zmq_channel_internal.h"
#include "proto/zmq/zmq_frames.h"

#define DOMAIN "outrider" // of ZAP, which wants a name; any will do
#define PLACE "inproc://outrider.inside"
#define INSIDE_FRAMES                                                                              \
    16384 // most frames that wait for a reader: one edge may carry thousands of texts

// ---- edges of this process, for other threads ----
//
//     peers from outside ──relay──▶ two ROUTERs ─┐
//                                                ├─ hub
//     edges of this process ──inproc──▶ ROUTER ──┘
//
// They have a socket of their own, whose endpoint the system does not know. So every frame that comes through it is
// from inside, whatever it says.

typedef struct {
    or_channel_t channel; // first
    void *socket;
    zmq_msg_t current; // what the last receive gave
    int wake_fd;       // -1: none
} inside_edge_t;

// Create the hub's socket for them, one for a context, on the hub's thread. OR_ERR_IO.
static or_status_t bind_inside(void *context, void **socket_p)
{
    void *socket;
    or_status_t status = or_zmq_open(context, ZMQ_ROUTER, INSIDE_FRAMES, INSIDE_FRAMES, &socket);
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
                                            .connection = inside_connection,
                                            .destroy = inside_destroy};

static or_status_t connect_inside(void *context, int wake_fd, or_channel_t **channel_p)
{
    inside_edge_t *self = calloc(1, sizeof *self);
    if (self == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a channel");
    }
    or_status_t status =
        or_zmq_open(context, ZMQ_DEALER, INSIDE_FRAMES, INSIDE_FRAMES, &self->socket);
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

// ---- the hub ----

// Return the peer behind an identity frame, a new one if it is not known; `frame` is what it sent. OR_ERR_CANCELLED:
// its key has been revoked since it connected.
static or_status_t peer_of(or_zmq_channel_t *self, or_door_t door, zmq_msg_t *identity,
                           zmq_msg_t *frame, or_peer_t *peer)
{
    const char *key = door == OR_DOOR_FAR ? or_zmq_guard_key_of(self->guard, frame) : "";
    const or_zmq_peer_t *known = or_zmq_peers_recognise(&self->peers, door, identity, key);
    if (known != NULL) {
        *peer = known->peer;
        return OR_OK;
    }
    if (key[0] != '\0' && !or_zmq_guard_admits(self->guard, key)) {
        return OR_ERR_CANCELLED;
    }
    return or_zmq_peers_add(&self->peers, door, identity, key, peer);
}

static void hub_forget(or_channel_t *channel, or_peer_t peer)
{
    or_zmq_peers_forget(&((or_zmq_channel_t *)channel)->peers, peer);
}

static void hub_set_urgent(or_channel_t *channel, or_peer_t peer, bool urgent)
{
    or_zmq_channel_t *self = (or_zmq_channel_t *)channel;
    const or_zmq_peer_t *known = or_zmq_peers_find(&self->peers, peer);
    or_zmq_peers_set_urgent(&self->peers, peer, urgent);
    if (known != NULL && urgent) {
        or_zmq_queue_hurry(self->queue, known); // or its later frames would overtake these
    }
}

static void hub_hold(or_channel_t *channel, int64_t until_ns)
{
    ((or_zmq_channel_t *)channel)->held_until_ns = until_ns;
}

static bool hub_is_local(const or_channel_t *channel, or_peer_t peer)
{
    const or_zmq_peer_t *known =
        or_zmq_peers_find(&((const or_zmq_channel_t *)channel)->peers, peer);
    return known != NULL && known->door != OR_DOOR_FAR;
}

static bool hub_is_inside(const or_channel_t *channel, or_peer_t peer)
{
    const or_zmq_peer_t *known =
        or_zmq_peers_find(&((const or_zmq_channel_t *)channel)->peers, peer);
    return known != NULL && known->door == OR_DOOR_INSIDE;
}

static const char *hub_key_of(const or_channel_t *channel, or_peer_t peer)
{
    const or_zmq_peer_t *known =
        or_zmq_peers_find(&((const or_zmq_channel_t *)channel)->peers, peer);
    return known != NULL ? known->key : "";
}

static or_status_t hub_send(or_channel_t *channel, or_peer_t to, const uint8_t *frame, size_t bytes)
{
    or_zmq_channel_t *self = (or_zmq_channel_t *)channel;
    const or_zmq_peer_t *known = or_zmq_peers_find(&self->peers, to);
    if (known == NULL) {
        return or_fail(OR_ERR_UNREACHABLE, "peer %" PRIu64 " is gone", to.value);
    }
    // The queue's bound is checked with the first part; the second goes where the first went.
    void *socket = self->sockets[known->door];
    or_status_t status = or_zmq_send_part(socket, known->identity, known->bytes, ZMQ_SNDMORE);
    if (status == OR_OK) {
        status = or_zmq_send_part(socket, frame, bytes, 0);
    }
    if (status == OR_ERR_UNREACHABLE) {
        hub_forget(channel, to);
    }
    return status;
}

static or_status_t receive_from_any(or_zmq_channel_t *self, or_peer_t *from)
{
    or_zmq_waiting_t *waiting = NULL;
    or_status_t status = or_zmq_choose(self, &waiting);
    if (status == OR_OK) {
        zmq_msg_move(&self->current, &waiting->frame);
        status = peer_of(self, waiting->door, &waiting->identity, &self->current, from);
        const or_zmq_peer_t *known =
            status == OR_OK ? or_zmq_peers_find(&self->peers, *from) : NULL;
        if (waiting->door != OR_DOOR_INSIDE) { // even if the peer is not wanted: it was queued
            or_zmq_relay_take(self->relay, &self->current, known != NULL && known->is_urgent);
        }
    }
    or_zmq_waiting_destroy(&waiting);
    return status;
}

static or_status_t hub_receive(or_channel_t *channel, or_peer_t *from, const uint8_t **frame,
                               size_t *bytes)
{
    or_zmq_channel_t *self = (or_zmq_channel_t *)channel;
    or_status_t status = receive_from_any(self, from);
    if (status == OR_OK) {
        *frame = zmq_msg_data(&self->current);
        *bytes = zmq_msg_size(&self->current);
    }
    return status;
}

static const or_channel_ops_t hub_ops = {.send = hub_send,
                                         .receive = hub_receive,
                                         .wait = or_zmq_channel_wait,
                                         .forget = hub_forget,
                                         .set_urgent = hub_set_urgent,
                                         .hold = hub_hold,
                                         .is_local = hub_is_local,
                                         .is_inside = hub_is_inside,
                                         .key_of = hub_key_of,
                                         .destroy = or_zmq_channel_destroy};

// ---- binding ----

// Open the other sockets of a hub, and what belongs to them.
static or_status_t open_doors(or_zmq_channel_t *self)
{
    or_status_t status =
        or_zmq_open(self->context, ZMQ_ROUTER, OR_ZMQ_SEND_FRAMES, 0, &self->sockets[OR_DOOR_NEAR]);
    if (status == OR_OK) {
        status = bind_inside(self->context, &self->sockets[OR_DOOR_INSIDE]);
    }
    if (status == OR_OK) {
        status = or_zmq_queue_create(&self->queue);
    }
    return status == OR_OK ? or_zmq_relay_create(&self->relay) : status;
}

static or_status_t create_hub(or_zmq_channel_t **self_p)
{
    or_zmq_channel_t *self;
    or_status_t status = or_zmq_channel_create(&hub_ops, ZMQ_ROUTER, &self);
    if (status == OR_OK) {
        status = open_doors(self);
        if (status == OR_OK) {
            *self_p = self;
        } else {
            or_zmq_channel_destroy(&self->channel);
        }
    }
    return status;
}

// From here on what is bound is encrypted: ZeroMQ gives each listener the options of that moment.
static or_status_t encrypt_hub(or_zmq_channel_t *self, const or_channel_server_t *server)
{
    const int on = 1;
    void *socket = self->sockets[OR_DOOR_FAR];
    or_status_t status = or_zmq_check_curve();
    if (status == OR_OK) {
        status = or_zmq_guard_create(self->context, socket, server, &self->guard);
    }
    if (status == OR_OK &&
        (zmq_setsockopt(socket, ZMQ_CURVE_SERVER, &on, sizeof on) != 0 ||
         zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, server->own->secret_key, OR_KEY_BYTES) != 0 ||
         zmq_setsockopt(socket, ZMQ_ZAP_DOMAIN, DOMAIN, strlen(DOMAIN)) != 0)) {
        status = or_zmq_fail_keys();
    }
    return status;
}

// Bind an exit of the relay. Only this process gets through.
static or_status_t bind_exit(const or_zmq_channel_t *self, or_door_t door, or_zmq_exit_t exit)
{
    const pid_t own = getpid();
    void *socket = self->sockets[door];
    if (zmq_setsockopt(socket, ZMQ_IPC_FILTER_PID, &own, sizeof own) != 0 ||
        zmq_bind(socket, or_zmq_relay_exit(self->relay, exit)) != 0) {
        return or_fail(OR_ERR_IO, "cannot set up a socket: %s", zmq_strerror(errno));
    }
    return OR_OK;
}

// `server` NULL: nothing is encrypted.
static or_status_t bind_exits(or_zmq_channel_t *self, const or_channel_server_t *server)
{
    or_status_t status = bind_exit(self, OR_DOOR_NEAR, OR_ZMQ_NEAR);
    if (status == OR_OK) {
        status = bind_exit(self, OR_DOOR_FAR, OR_ZMQ_FAR);
    }
    if (status == OR_OK && server != NULL) {
        status = encrypt_hub(self, server);
        status = status == OR_OK ? bind_exit(self, OR_DOOR_FAR, OR_ZMQ_CURVE) : status;
    }
    return status;
}

// `bound` is told of the first place alone.
static or_status_t listen_everywhere(or_zmq_channel_t *self, const or_channel_listen_t *listens,
                                     uint32_t count, char *bound, size_t capacity)
{
    or_status_t status = OR_OK;
    char unused[1];
    for (uint32_t i = 0; status == OR_OK && i < count; i++) {
        bool told = i == 0 && bound != NULL;
        status = or_zmq_relay_listen(self->relay, listens[i].endpoint, listens[i].encrypted,
                                     told ? bound : unused, told ? capacity : sizeof unused);
    }
    return status;
}

static or_status_t check_listens(const or_channel_listen_t *listens, uint32_t count,
                                 bool *encrypted)
{
    or_status_t status = count > 0 ? OR_OK : or_fail(OR_ERR_INVALID, "nowhere to listen");
    *encrypted = false;
    for (uint32_t i = 0; status == OR_OK && i < count; i++) {
        *encrypted |= listens[i].encrypted;
        status = or_endpoint_check(listens[i].endpoint, true);
    }
    return status;
}

or_status_t or_channel_zmq_bind(const or_channel_listen_t *listens, uint32_t count,
                                const or_channel_server_t *server, char *bound, size_t capacity,
                                or_channel_t **channel_p)
{
    or_zmq_channel_t *self;
    bool encrypted;
    or_status_t status = check_listens(listens, count, &encrypted);
    assert(!encrypted || server != NULL);
    if (status == OR_OK) {
        status = create_hub(&self);
    }
    if (status != OR_OK) {
        return status;
    }
    status = bind_exits(self, encrypted ? server : NULL);
    if (status == OR_OK) {
        status = listen_everywhere(self, listens, count, bound, capacity);
    }
    if (status == OR_OK) {
        status = or_zmq_relay_start(self->relay);
    }
    if (status != OR_OK) {
        or_zmq_channel_destroy(&self->channel);
        return status;
    }
    *channel_p = &self->channel;
    return OR_OK;
}

or_status_t or_channel_zmq_connect_inside(or_channel_t *hub, int wake_fd, or_channel_t **channel_p)
{
    assert(hub->ops == &hub_ops);
    return connect_inside(((or_zmq_channel_t *)hub)->context, wake_fd, channel_p);
}

uint64_t or_channel_zmq_refusals(const or_channel_t *channel)
{
    const or_zmq_channel_t *self = (const or_zmq_channel_t *)channel;
    bool guarded = channel->ops == &hub_ops && self->guard != NULL;
    return guarded ? or_zmq_guard_refusals(self->guard) : 0;
}

void or_channel_zmq_set_wake(or_channel_t *hub, int wake_fd)
{
    ((or_zmq_channel_t *)hub)->wake_fd = wake_fd;
}
