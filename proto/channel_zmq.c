#include "proto/channel_zmq.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zmq.h>

#include "common/base/clock.h"
#include "common/base/cpus.h"
#include "common/base/interrupt.h"
#include "proto/endpoint.h"
#include "proto/zmq_backlog.h"
#include "proto/zmq_frames.h"
#include "proto/zmq_guard.h"
#include "proto/zmq_inside.h"
#include "proto/zmq_peers.h"
#include "proto/zmq_watch.h"

#define QUEUE_FRAMES 1000
#define DOMAIN "outrider"  // of ZAP; any name, but one there must be
#define REFUSED_AT_ONCE 64 // frames dropped in one call

typedef struct {
    or_channel_t channel; // first
    void *context;
    void *socket;
    zmq_msg_t current; // what the last receive gave
    // Hub only.
    void *inside; // for edges of this process
    bool inside_next;
    int wake_fd; // -1: none
    or_zmq_peers_t peers;
    or_zmq_guard_t *guard; // NULL: nothing is encrypted
    uint16_t ports[OR_ZMQ_BACKLOG_PORTS];
    size_t port_count;
    or_zmq_backlog_t *backlog; // NULL: no TCP endpoint
    // Edge only.
    or_zmq_watch_t *watch;
    char server_key[OR_KEY_BYTES]; // "": not encrypted
} zmq_channel_t;

// The peer behind an identity frame, a new one if it is not known; `frame` is what it sent.
// OR_ERR_CANCELLED: its key has been revoked since it connected.
static or_status_t peer_of(zmq_channel_t *self, bool inside, zmq_msg_t *identity, zmq_msg_t *frame,
                           or_peer_t *peer)
{
    const char *key = or_zmq_guard_key_of(self->guard, frame);
    if (!inside && self->backlog != NULL) {
        or_zmq_backlog_take(self->backlog, frame, key[0] != '\0');
    }
    const or_zmq_peer_t *known = or_zmq_peers_recognise(&self->peers, inside, identity, frame, key);
    if (known != NULL) {
        *peer = known->peer;
        return OR_OK;
    }
    if (key[0] != '\0' && !or_zmq_guard_admits(self->guard, key)) {
        return OR_ERR_CANCELLED;
    }
    return or_zmq_peers_add(&self->peers, inside, identity, frame, key, peer);
}

static void hub_forget(or_channel_t *channel, or_peer_t peer)
{
    or_zmq_peers_forget(&((zmq_channel_t *)channel)->peers, peer);
}

static void edge_forget(or_channel_t *channel, or_peer_t peer)
{
    (void)channel;
    (void)peer;
}

static bool hub_is_local(const or_channel_t *channel, or_peer_t peer)
{
    const or_zmq_peer_t *known = or_zmq_peers_find(&((const zmq_channel_t *)channel)->peers, peer);
    return known != NULL && known->local;
}

static bool hub_is_inside(const or_channel_t *channel, or_peer_t peer)
{
    const or_zmq_peer_t *known = or_zmq_peers_find(&((const zmq_channel_t *)channel)->peers, peer);
    return known != NULL && known->inside;
}

static bool edge_is_none(const or_channel_t *channel, or_peer_t peer)
{
    (void)channel;
    (void)peer;
    return false;
}

static const char *hub_key_of(const or_channel_t *channel, or_peer_t peer)
{
    const or_zmq_peer_t *known = or_zmq_peers_find(&((const zmq_channel_t *)channel)->peers, peer);
    return known != NULL ? known->key : "";
}

static const char *edge_key_of(const or_channel_t *channel, or_peer_t peer)
{
    return peer.value == OR_PEER_HUB.value ? ((const zmq_channel_t *)channel)->server_key : "";
}

static uint64_t hub_connection(const or_channel_t *channel)
{
    (void)channel;
    return 0;
}

static uint64_t edge_connection(const or_channel_t *channel)
{
    return or_zmq_watch_connection(((const zmq_channel_t *)channel)->watch);
}

static or_status_t hub_send(or_channel_t *channel, or_peer_t to, const uint8_t *frame, size_t bytes)
{
    zmq_channel_t *self = (zmq_channel_t *)channel;
    const or_zmq_peer_t *known = or_zmq_peers_find(&self->peers, to);
    if (known == NULL) {
        return or_fail(OR_ERR_UNREACHABLE, "peer %" PRIu64 " is gone", to.value);
    }
    // The queue's bound is checked with the first part; the second goes where the first went.
    void *socket = known->inside ? self->inside : self->socket;
    or_status_t status = or_zmq_send_part(socket, known->identity, known->bytes, ZMQ_SNDMORE);
    if (status == OR_OK) {
        status = or_zmq_send_part(socket, frame, bytes, 0);
    }
    if (status == OR_ERR_UNREACHABLE) {
        hub_forget(channel, to);
    }
    return status;
}

static or_status_t edge_send(or_channel_t *channel, or_peer_t to, const uint8_t *frame,
                             size_t bytes)
{
    if (to.value != OR_PEER_HUB.value) {
        return or_fail(OR_ERR_UNREACHABLE, "an edge knows the hub only");
    }
    zmq_channel_t *self = (zmq_channel_t *)channel;
    or_status_t status = or_zmq_send_part(self->socket, frame, bytes, 0);
    if (status == OR_ERR_FULL) { // so says ZeroMQ too where it has given the endpoint up
        (void)or_zmq_watch_look(self->watch);
        const char *trouble = or_zmq_watch_trouble(self->watch);
        return trouble[0] != '\0' ? or_fail(OR_ERR_UNREACHABLE, "%s", trouble) : status;
    }
    return status;
}

static or_status_t receive_from_peer(zmq_channel_t *self, bool inside, or_peer_t *from,
                                     const uint8_t **frame, size_t *bytes)
{
    void *socket = inside ? self->inside : self->socket;
    zmq_msg_t identity;
    zmq_msg_init(&identity);
    or_status_t status = or_zmq_receive_part(socket, &identity);
    if (status == OR_OK) { // even if the peer is not wanted: it is queued
        status = or_zmq_receive_frame(socket, &self->current, frame, bytes);
    }
    if (status == OR_OK) {
        status = peer_of(self, inside, &identity, &self->current, from);
    }
    zmq_msg_close(&identity);
    return status;
}

// Each socket in turn goes first, so that neither waits for the crowd at the other.
static or_status_t receive_from_any(zmq_channel_t *self, or_peer_t *from, const uint8_t **frame,
                                    size_t *bytes)
{
    bool inside = self->inside_next;
    self->inside_next = !inside;
    or_status_t status = receive_from_peer(self, inside, from, frame, bytes);
    return status == OR_ERR_AGAIN ? receive_from_peer(self, !inside, from, frame, bytes) : status;
}

static or_status_t hub_receive(or_channel_t *channel, or_peer_t *from, const uint8_t **frame,
                               size_t *bytes)
{
    zmq_channel_t *self = (zmq_channel_t *)channel;
    or_status_t status = OR_ERR_CANCELLED;
    if (self->guard != NULL) {
        or_zmq_guard_serve(self->guard); // also of an owner that never waits
    }
    for (int i = 0; status == OR_ERR_CANCELLED && i < REFUSED_AT_ONCE; i++) {
        status = receive_from_any(self, from, frame, bytes);
    }
    return status == OR_ERR_CANCELLED ? OR_ERR_AGAIN : status;
}

static or_status_t edge_receive(or_channel_t *channel, or_peer_t *from, const uint8_t **frame,
                                size_t *bytes)
{
    zmq_channel_t *self = (zmq_channel_t *)channel;
    (void)or_zmq_watch_look(self->watch);
    or_status_t status = or_zmq_receive_frame(self->socket, &self->current, frame, bytes);
    if (status == OR_OK) {
        *from = OR_PEER_HUB;
    }
    return status;
}

// What a channel polls: its sockets, what belongs to a hub or an edge, and the signals.
typedef struct {
    zmq_pollitem_t items[4 + OR_ZMQ_GUARD_ITEMS];
    int count;
    int sockets;  // the first items: there are frames, or the owner's other work
    bool signals; // the last item
} poll_t;

static poll_t fill_poll(const zmq_channel_t *self)
{
    poll_t poll = {.items = {{.socket = self->socket, .events = ZMQ_POLLIN}}, .count = 1};
    if (self->inside != NULL) {
        poll.items[poll.count++] = (zmq_pollitem_t){.socket = self->inside, .events = ZMQ_POLLIN};
    }
    if (self->wake_fd >= 0) {
        poll.items[poll.count++] = (zmq_pollitem_t){.fd = self->wake_fd, .events = ZMQ_POLLIN};
    }
    poll.sockets = poll.count;
    if (self->guard != NULL) {
        or_zmq_guard_fill(self->guard, &poll.items[poll.count]);
        poll.count += OR_ZMQ_GUARD_ITEMS;
    }
    if (self->watch != NULL) {
        or_zmq_watch_fill(self->watch, &poll.items[poll.count++]);
    }
    poll.signals = or_interrupt_fd() >= 0;
    if (poll.signals) {
        poll.items[poll.count++] = (zmq_pollitem_t){.fd = or_interrupt_fd(), .events = ZMQ_POLLIN};
    }
    return poll;
}

// Serve what is not for the owner; true if the owner is to have a look all the same.
static bool serve(zmq_channel_t *self)
{
    if (self->guard != NULL) {
        or_zmq_guard_serve(self->guard);
    }
    return self->watch != NULL && or_zmq_watch_look(self->watch);
}

// One sleep of a wait, which may last until `end_ns`; OR_ERR_AGAIN if what ended it was not for the owner.
static or_status_t sleep_once(zmq_channel_t *self, int64_t now, int64_t end_ns)
{
    poll_t poll = fill_poll(self);
    int64_t due = self->watch != NULL ? or_zmq_watch_due(self->watch) : OR_TIME_NEVER;
    int ready =
        zmq_poll(poll.items, poll.count, or_zmq_poll_ms((due < end_ns ? due : end_ns) - now));
    if (ready < 0) {
        return errno == EINTR
                   ? OR_OK
                   : or_fail(OR_ERR_IO, "cannot wait for frames: %s", zmq_strerror(errno));
    }
    bool signalled = poll.signals && poll.items[poll.count - 1].revents != 0;
    if (signalled) {
        or_interrupt_drain();
    }
    bool frames = false;
    for (int i = 0; i < poll.sockets; i++) {
        frames |= poll.items[i].revents != 0;
    }
    bool connected = serve(self);
    if (signalled || connected || frames) {
        return OR_OK;
    }
    return ready == 0 && end_ns <= due ? OR_ERR_TIMEOUT : OR_ERR_AGAIN;
}

static or_status_t channel_wait(or_channel_t *channel, int64_t timeout_ns)
{
    const or_clock_t *clock = or_clock_monotonic();
    int64_t now = or_clock_now(clock);
    int64_t end_ns = timeout_ns < OR_TIME_NEVER - now ? now + timeout_ns : OR_TIME_NEVER;
    or_status_t status;
    while ((status = sleep_once((zmq_channel_t *)channel, now, end_ns)) == OR_ERR_AGAIN) {
        now = or_clock_now(clock);
    }
    return status;
}

static void channel_destroy(or_channel_t *channel)
{
    zmq_channel_t *self = (zmq_channel_t *)channel;
    zmq_msg_close(&self->current);
    or_zmq_backlog_destroy(&self->backlog);
    if (self->socket != NULL) {
        zmq_close(self->socket);
    }
    if (self->inside != NULL) {
        zmq_close(self->inside);
    }
    or_zmq_guard_destroy(&self->guard);
    or_zmq_watch_destroy(&self->watch);
    while (zmq_ctx_term(self->context) < 0 && errno == EINTR) {
    }
    or_zmq_peers_fini(&self->peers);
    free(self);
}

static const or_channel_ops_t hub_ops = {.send = hub_send,
                                         .receive = hub_receive,
                                         .wait = channel_wait,
                                         .forget = hub_forget,
                                         .is_local = hub_is_local,
                                         .is_inside = hub_is_inside,
                                         .key_of = hub_key_of,
                                         .connection = hub_connection,
                                         .destroy = channel_destroy};
static const or_channel_ops_t edge_ops = {.send = edge_send,
                                          .receive = edge_receive,
                                          .wait = channel_wait,
                                          .forget = edge_forget,
                                          .is_local = edge_is_none,
                                          .is_inside = edge_is_none,
                                          .key_of = edge_key_of,
                                          .connection = edge_connection,
                                          .destroy = channel_destroy};

// ZeroMQ's own threads would inherit the CPU of a caller that computes, and wait behind its passes.
static void spread_threads(void *context)
{
    or_cpus_t cpus;
    if (!or_cpus_before_pin(&cpus)) {
        return;
    }
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &cpus.set)) {
            zmq_ctx_set(context, ZMQ_THREAD_AFFINITY_CPU_ADD, i);
        }
    }
}

static or_status_t create(bool hub, zmq_channel_t **self_p)
{
    zmq_channel_t *self = calloc(1, sizeof *self);
    if (self == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a channel");
    }
    self->context = zmq_ctx_new();
    if (self->context == NULL) {
        free(self);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a ZeroMQ context");
    }
    spread_threads(self->context);
    self->channel.ops = hub ? &hub_ops : &edge_ops;
    self->wake_fd = -1;
    or_zmq_peers_init(&self->peers);
    zmq_msg_init(&self->current);
    or_status_t status =
        or_zmq_open(self->context, hub ? ZMQ_ROUTER : ZMQ_DEALER, QUEUE_FRAMES, 0, &self->socket);
    if (status == OR_OK && hub) {
        status = or_zmq_inside_bind(self->context, &self->inside);
    }
    if (status != OR_OK) {
        channel_destroy(&self->channel);
        return status;
    }
    *self_p = self;
    return OR_OK;
}

// For what is bound or connected next. Not always: ZeroMQ would then look names up by IPv6 first, and
// localhost would be ::1, where nobody may listen.
static or_status_t use_ipv6(zmq_channel_t *self, bool ipv6)
{
    const int value = ipv6;
    return zmq_setsockopt(self->socket, ZMQ_IPV6, &value, sizeof value) == 0
               ? OR_OK
               : or_fail(OR_ERR_IO, "cannot set up a socket: %s", zmq_strerror(errno));
}

static or_status_t check_curve(void)
{
    return zmq_has("curve") ? OR_OK
                            : or_fail(OR_ERR_UNSUPPORTED,
                                      "this libzmq was built without CURVE, so nothing can be "
                                      "encrypted: install one with libsodium");
}

static or_status_t fail_keys(void)
{
    return or_fail(OR_ERR_INVALID, "cannot encrypt with these keys: %s", zmq_strerror(errno));
}

// ---- a hub ----

static or_status_t report_bound(const zmq_channel_t *self, char *bound, size_t capacity)
{
    char endpoint[1024];
    size_t bytes = sizeof endpoint;
    if (zmq_getsockopt(self->socket, ZMQ_LAST_ENDPOINT, endpoint, &bytes) != 0) {
        return or_fail(OR_ERR_IO, "cannot find out the endpoint: %s", zmq_strerror(errno));
    }
    snprintf(bound, capacity, "%s", endpoint);
    return OR_OK;
}

// From here on what is bound is encrypted: ZeroMQ gives each listener the options of that moment.
static or_status_t encrypt_hub(zmq_channel_t *self, const or_channel_server_t *server)
{
    const int on = 1;
    or_status_t status = check_curve();
    if (status == OR_OK) {
        status = or_zmq_guard_create(self->context, self->socket, server, &self->guard);
    }
    if (status == OR_OK &&
        (zmq_setsockopt(self->socket, ZMQ_CURVE_SERVER, &on, sizeof on) != 0 ||
         zmq_setsockopt(self->socket, ZMQ_CURVE_SECRETKEY, server->own->secret_key, OR_KEY_BYTES) !=
             0 ||
         zmq_setsockopt(self->socket, ZMQ_ZAP_DOMAIN, DOMAIN, strlen(DOMAIN)) != 0)) {
        status = fail_keys();
    }
    return status;
}

// A place that was just bound, if it has a port.
static void note_port(zmq_channel_t *self)
{
    char endpoint[1024];
    size_t bytes = sizeof endpoint;
    if (self->port_count < OR_ZMQ_BACKLOG_PORTS &&
        zmq_getsockopt(self->socket, ZMQ_LAST_ENDPOINT, endpoint, &bytes) == 0 &&
        strncmp(endpoint, "tcp://", strlen("tcp://")) == 0) {
        self->ports[self->port_count++] = (uint16_t)strtoul(strrchr(endpoint, ':') + 1, NULL, 10);
    }
}

static or_status_t watch_backlog(zmq_channel_t *self)
{
    return self->port_count > 0
               ? or_zmq_backlog_create(self->ports, self->port_count, &self->backlog)
               : OR_OK;
}

// Listen where `encrypted` is asked for or, before that, where it is not.
static or_status_t listen_where(zmq_channel_t *self, const or_channel_listen_t *listens,
                                uint32_t count, bool encrypted, char *bound, size_t capacity)
{
    or_status_t status = OR_OK;
    for (uint32_t i = 0; status == OR_OK && i < count; i++) {
        if (listens[i].encrypted != encrypted) {
            continue;
        }
        status = use_ipv6(self, or_endpoint_is_ipv6(listens[i].endpoint));
        if (status == OR_OK && zmq_bind(self->socket, listens[i].endpoint) != 0) {
            status = or_endpoint_fail_listening(listens[i].endpoint, errno);
        } else if (status == OR_OK) {
            note_port(self);
            status = i == 0 && bound != NULL ? report_bound(self, bound, capacity) : OR_OK;
        }
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
    zmq_channel_t *self;
    bool encrypted;
    or_status_t status = check_listens(listens, count, &encrypted);
    assert(!encrypted || server != NULL);
    if (status == OR_OK) {
        status = create(true, &self);
    }
    if (status != OR_OK) {
        return status;
    }
    status = listen_where(self, listens, count, false, bound, capacity);
    if (status == OR_OK && encrypted) {
        status = encrypt_hub(self, server);
    }
    if (status == OR_OK) {
        status = listen_where(self, listens, count, true, bound, capacity);
    }
    if (status == OR_OK) {
        status = watch_backlog(self);
    }
    if (status != OR_OK) {
        channel_destroy(&self->channel);
        return status;
    }
    *channel_p = &self->channel;
    return OR_OK;
}

or_status_t or_channel_zmq_connect_inside(or_channel_t *hub, int wake_fd, or_channel_t **channel_p)
{
    assert(hub->ops == &hub_ops);
    return or_zmq_inside_connect(((zmq_channel_t *)hub)->context, wake_fd, channel_p);
}

uint64_t or_channel_zmq_refusals(const or_channel_t *channel)
{
    const zmq_channel_t *self = (const zmq_channel_t *)channel;
    bool guarded = channel->ops == &hub_ops && self->guard != NULL;
    return guarded ? or_zmq_guard_refusals(self->guard) : 0;
}

void or_channel_zmq_set_wake(or_channel_t *hub, int wake_fd)
{
    ((zmq_channel_t *)hub)->wake_fd = wake_fd;
}

// ---- an edge ----

static or_status_t encrypt_edge(zmq_channel_t *self, const or_connect_keys_t *keys)
{
    or_status_t status = check_curve();
    if (status == OR_OK &&
        (zmq_setsockopt(self->socket, ZMQ_CURVE_SERVERKEY, keys->server_key, OR_KEY_BYTES) != 0 ||
         zmq_setsockopt(self->socket, ZMQ_CURVE_PUBLICKEY, keys->own.public_key, OR_KEY_BYTES) !=
             0 ||
         zmq_setsockopt(self->socket, ZMQ_CURVE_SECRETKEY, keys->own.secret_key, OR_KEY_BYTES) !=
             0)) {
        status = fail_keys();
    }
    if (status == OR_OK) {
        memcpy(self->server_key, keys->server_key, sizeof self->server_key);
    }
    return status;
}

or_status_t or_channel_zmq_connect(const char *endpoint, const or_connect_keys_t *keys,
                                   or_channel_t **channel_p)
{
    zmq_channel_t *self;
    bool encrypted = keys != NULL && keys->encrypted, ipv6 = false;
    or_status_t status = or_endpoint_check(endpoint, false);
    if (status == OR_OK) {
        status = or_endpoint_look_up(endpoint, &ipv6);
    }
    if (status == OR_OK) {
        status = create(false, &self);
    }
    if (status != OR_OK) {
        return status;
    }
    status = encrypted ? encrypt_edge(self, keys) : OR_OK;
    if (status == OR_OK) {
        status = use_ipv6(self, ipv6);
    }
    if (status == OR_OK) {
        status = or_zmq_watch_create(self->context, self->socket, endpoint, encrypted ? keys : NULL,
                                     &self->watch);
    }
    if (status == OR_OK && zmq_connect(self->socket, endpoint) != 0) {
        status = or_fail(OR_ERR_INVALID, "cannot connect to %s: %s (expected tcp://HOST:PORT)",
                         endpoint, zmq_strerror(errno));
    }
    if (status != OR_OK) {
        channel_destroy(&self->channel);
        return status;
    }
    *channel_p = &self->channel;
    return OR_OK;
}

const char *or_channel_zmq_trouble(const or_channel_t *channel)
{
    const zmq_channel_t *self = (const zmq_channel_t *)channel;
    return channel->ops == &edge_ops ? or_zmq_watch_trouble(self->watch) : "";
}

bool or_channel_zmq_is_refused(const or_channel_t *channel)
{
    const zmq_channel_t *self = (const zmq_channel_t *)channel;
    return channel->ops == &edge_ops && or_zmq_watch_is_refused(self->watch);
}
