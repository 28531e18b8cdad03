#include "proto/zmq/channel_zmq.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zmq.h>

#include "common/base/clock.h"
#include "common/base/cpus.h"
#include "common/base/interrupt.h"
#include "proto/net/endpoint.h"
#include "proto/zmq/zmq_frames.h"
#include "proto/zmq/zmq_guard.h"
#include "proto/zmq/zmq_inside.h"
#include "proto/zmq/zmq_monitor.h"
#include "proto/zmq/zmq_peers.h"
#include "proto/zmq/zmq_queue.h"
#include "proto/zmq/zmq_relay.h"
#include "proto/zmq/zmq_watch.h"

#define QUEUE_FRAMES 1000
#define DOMAIN "outrider" // of ZAP; any name, but one there must be
#define LOOK_EVERY 16     // frames handled, after which new ones that are urgent are looked for
#define URGENT_RUN 32     // urgent frames, after which another has its turn

typedef struct {
    or_channel_t channel; // first
    void *context;
    void *sockets[OR_DOORS]; // an edge has the first alone
    zmq_msg_t current;       // what the last receive gave
    // Hub only.
    or_zmq_queue_t *queue;
    uint32_t handled;      // frames since the sockets were looked through
    uint32_t urgent_run;   // urgent frames received since the last other one
    bool inside_first;     // in the last choice among the others
    int64_t held_until_ns; // 0: what is not urgent is received, too
    int wake_fd;           // -1: none
    or_zmq_peers_t peers;
    or_zmq_guard_t *guard; // NULL: nothing is encrypted
    or_zmq_relay_t *relay;
    // Edge only.
    or_zmq_watch_t *watch;
    char server_key[OR_KEY_BYTES]; // "": not encrypted
} zmq_channel_t;

// The peer behind an identity frame, a new one if it is not known; `frame` is what it sent.
// OR_ERR_CANCELLED: its key has been revoked since it connected.
static or_status_t peer_of(zmq_channel_t *self, or_door_t door, zmq_msg_t *identity,
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
    or_zmq_peers_forget(&((zmq_channel_t *)channel)->peers, peer);
}

static void hub_set_urgent(or_channel_t *channel, or_peer_t peer, bool urgent)
{
    zmq_channel_t *self = (zmq_channel_t *)channel;
    const or_zmq_peer_t *known = or_zmq_peers_find(&self->peers, peer);
    or_zmq_peers_set_urgent(&self->peers, peer, urgent);
    if (known != NULL && urgent) {
        or_zmq_queue_hurry(self->queue, known); // or its later frames would overtake these
    }
}

static void hub_hold(or_channel_t *channel, int64_t until_ns)
{
    ((zmq_channel_t *)channel)->held_until_ns = until_ns;
}

// Only urgent frames are received now.
static bool is_held(zmq_channel_t *self)
{
    if (self->held_until_ns != 0 && or_clock_now(or_clock_monotonic()) >= self->held_until_ns) {
        self->held_until_ns = 0;
    }
    return self->held_until_ns != 0;
}

static void edge_forget(or_channel_t *channel, or_peer_t peer)
{
    (void)channel;
    (void)peer;
}

static bool hub_is_local(const or_channel_t *channel, or_peer_t peer)
{
    const or_zmq_peer_t *known = or_zmq_peers_find(&((const zmq_channel_t *)channel)->peers, peer);
    return known != NULL && known->door != OR_DOOR_FAR;
}

static bool hub_is_inside(const or_channel_t *channel, or_peer_t peer)
{
    const or_zmq_peer_t *known = or_zmq_peers_find(&((const zmq_channel_t *)channel)->peers, peer);
    return known != NULL && known->door == OR_DOOR_INSIDE;
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

static or_status_t edge_send(or_channel_t *channel, or_peer_t to, const uint8_t *frame,
                             size_t bytes)
{
    if (to.value != OR_PEER_HUB.value) {
        return or_fail(OR_ERR_UNREACHABLE, "an edge knows the hub only");
    }
    zmq_channel_t *self = (zmq_channel_t *)channel;
    or_status_t status = or_zmq_send_part(self->sockets[OR_DOOR_FAR], frame, bytes, 0);
    if (status == OR_ERR_FULL) { // so says ZeroMQ too where it has given the endpoint up
        (void)or_zmq_watch_look(self->watch);
        const char *trouble = or_zmq_watch_trouble(self->watch);
        return trouble[0] != '\0' ? or_fail(OR_ERR_UNREACHABLE, "%s", trouble) : status;
    }
    return status;
}

// One frame of this socket into `waiting`, whose messages are empty.
static or_status_t take_out(zmq_channel_t *self, or_door_t door, or_zmq_waiting_t *waiting)
{
    void *socket = self->sockets[door];
    or_zmq_relay_t *relay = door != OR_DOOR_INSIDE ? self->relay : NULL;
    waiting->door = door;
    or_status_t status = or_zmq_receive_part(socket, &waiting->identity);
    return status == OR_OK ? or_zmq_receive_frame(socket, relay, &waiting->frame) : status;
}

static bool is_urgent(zmq_channel_t *self, or_zmq_waiting_t *waiting)
{
    const char *key =
        waiting->door == OR_DOOR_FAR ? or_zmq_guard_key_of(self->guard, &waiting->frame) : "";
    const or_zmq_peer_t *known =
        or_zmq_peers_recognise(&self->peers, waiting->door, &waiting->identity, key);
    return known != NULL && known->is_urgent;
}

// All that waits in the sockets of strangers, so that what is urgent of it is known.
static or_status_t look_through(zmq_channel_t *self)
{
    or_status_t status = OR_OK;
    for (or_door_t door = 0; status == OR_OK && door < OR_DOOR_INSIDE; door++) {
        while (status == OR_OK && or_zmq_queue_has_room(self->queue)) {
            or_zmq_waiting_t *waiting = or_zmq_waiting_create();
            if (waiting == NULL) {
                return OR_OK; // it waits where it is
            }
            status = take_out(self, door, waiting);
            if (status == OR_OK) {
                or_zmq_queue_push(self->queue, waiting, is_urgent(self, waiting));
            } else {
                or_zmq_waiting_destroy(&waiting);
            }
        }
        status = status == OR_ERR_AGAIN ? OR_OK : status;
    }
    return status;
}

static or_status_t take_out_inside(zmq_channel_t *self, or_zmq_waiting_t **waiting_p)
{
    or_zmq_waiting_t *waiting = or_zmq_waiting_create();
    or_status_t status = waiting != NULL ? take_out(self, OR_DOOR_INSIDE, waiting) : OR_ERR_AGAIN;
    if (status != OR_OK) {
        or_zmq_waiting_destroy(&waiting);
    }
    *waiting_p = waiting;
    return status;
}

// Strangers and our own process have their turns.
static or_status_t choose_other(zmq_channel_t *self, or_zmq_waiting_t **waiting_p)
{
    self->inside_first = !self->inside_first;
    *waiting_p = self->inside_first ? NULL : or_zmq_queue_pop(self->queue, false);
    if (*waiting_p != NULL) {
        return OR_OK;
    }
    or_status_t status = take_out_inside(self, waiting_p);
    if (status == OR_ERR_AGAIN) {
        *waiting_p = or_zmq_queue_pop(self->queue, false);
    }
    return *waiting_p != NULL ? OR_OK : status;
}

// The frame to handle next: an urgent one, unless after many of them it is another's turn.
static or_status_t choose(zmq_channel_t *self, or_zmq_waiting_t **waiting_p)
{
    or_status_t status = OR_OK;
    bool held = is_held(self);
    if (or_zmq_queue_is_empty(self->queue) || held || ++self->handled >= LOOK_EVERY) {
        self->handled = 0;
        status = look_through(self);
    }
    if (status != OR_OK) {
        return status;
    }
    bool others_turn = !held && self->urgent_run >= URGENT_RUN;
    *waiting_p = others_turn ? NULL : or_zmq_queue_pop(self->queue, true);
    if (*waiting_p != NULL) {
        self->urgent_run++;
        return OR_OK;
    }
    if (held) {
        return OR_ERR_AGAIN;
    }
    self->urgent_run = 0;
    status = choose_other(self, waiting_p);
    if (status == OR_ERR_AGAIN) {
        *waiting_p = or_zmq_queue_pop(self->queue, true);
    }
    if (*waiting_p != NULL) {
        return OR_OK;
    }
    if (status == OR_ERR_AGAIN) {
        or_zmq_relay_note_empty(self->relay);
    }
    return status;
}

static or_status_t receive_from_any(zmq_channel_t *self, or_peer_t *from)
{
    or_zmq_waiting_t *waiting = NULL;
    or_status_t status = choose(self, &waiting);
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
    zmq_channel_t *self = (zmq_channel_t *)channel;
    if (self->guard != NULL) {
        or_zmq_guard_serve(self->guard); // also of an owner that never waits
    }
    or_status_t status = receive_from_any(self, from);
    if (status == OR_OK) {
        *frame = zmq_msg_data(&self->current);
        *bytes = zmq_msg_size(&self->current);
    }
    return status;
}

static or_status_t edge_receive(or_channel_t *channel, or_peer_t *from, const uint8_t **frame,
                                size_t *bytes)
{
    zmq_channel_t *self = (zmq_channel_t *)channel;
    (void)or_zmq_watch_look(self->watch);
    or_status_t status = or_zmq_receive_frame(self->sockets[OR_DOOR_FAR], NULL, &self->current);
    if (status == OR_OK) {
        *from = OR_PEER_HUB;
        *frame = zmq_msg_data(&self->current);
        *bytes = zmq_msg_size(&self->current);
    }
    return status;
}

// What a channel polls: its sockets, what belongs to a hub or an edge, and the signals.
typedef struct {
    zmq_pollitem_t items[OR_DOORS + 3 + OR_ZMQ_GUARD_ITEMS];
    int count;
    int sockets;  // the first items: there are frames, or the owner's other work
    bool signals; // the last item
} poll_t;

// While others are held nothing is taken out of the own process's socket, so it would end each wait.
static poll_t fill_poll(const zmq_channel_t *self, bool held)
{
    poll_t poll = {.count = 0};
    int doors = held ? OR_DOOR_INSIDE : OR_DOORS;
    for (int i = 0; i < doors && self->sockets[i] != NULL; i++) {
        poll.items[poll.count++] =
            (zmq_pollitem_t){.socket = self->sockets[i], .events = ZMQ_POLLIN};
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

static void note_sleep(zmq_channel_t *self, int64_t since_ns)
{
    if (self->relay != NULL) {
        or_zmq_relay_note_sleep(self->relay, since_ns);
    }
}

// When to look up at the latest, unless something comes.
static int64_t due_of(const zmq_channel_t *self, bool held)
{
    if (self->watch != NULL) {
        return or_zmq_watch_due(self->watch);
    }
    return held ? self->held_until_ns : OR_TIME_NEVER;
}

// One sleep of a wait, which may last until `end_ns`; OR_ERR_AGAIN if what ended it was not for the owner.
static or_status_t sleep_once(zmq_channel_t *self, int64_t now, int64_t end_ns)
{
    bool held = is_held(self), waiting = self->queue != NULL && !or_zmq_queue_is_empty(self->queue);
    bool frames = waiting && (!held || or_zmq_queue_has_urgent(self->queue));
    poll_t poll = fill_poll(self, held);
    int64_t due = due_of(self, held);
    int64_t sleep_ns = frames ? 0 : (due < end_ns ? due : end_ns) - now;
    note_sleep(self, waiting ? 0 : now);
    int ready = zmq_poll(poll.items, poll.count, or_zmq_poll_ms(sleep_ns));
    note_sleep(self, 0);
    if (ready < 0) {
        return errno == EINTR
                   ? OR_OK
                   : or_fail(OR_ERR_IO, "cannot wait for frames: %s", zmq_strerror(errno));
    }
    bool signalled = poll.signals && poll.items[poll.count - 1].revents != 0;
    if (signalled) {
        or_interrupt_drain();
    }
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
    or_zmq_queue_destroy(&self->queue);
    for (int i = 0; i < OR_DOORS; i++) {
        if (self->sockets[i] != NULL) {
            or_zmq_monitor_end(self->sockets[i]);
            zmq_close(self->sockets[i]);
        }
    }
    or_zmq_guard_destroy(&self->guard);
    or_zmq_watch_destroy(&self->watch);
    while (zmq_ctx_term(self->context) < 0 && errno == EINTR) {
    }
    or_zmq_relay_destroy(&self->relay);
    or_zmq_peers_fini(&self->peers);
    free(self);
}

static const or_channel_ops_t hub_ops = {.send = hub_send,
                                         .receive = hub_receive,
                                         .wait = channel_wait,
                                         .forget = hub_forget,
                                         .set_urgent = hub_set_urgent,
                                         .hold = hub_hold,
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

// The other sockets of a hub.
static or_status_t open_doors(zmq_channel_t *self)
{
    or_status_t status =
        or_zmq_open(self->context, ZMQ_ROUTER, QUEUE_FRAMES, 0, &self->sockets[OR_DOOR_NEAR]);
    if (status == OR_OK) {
        status = or_zmq_inside_bind(self->context, &self->sockets[OR_DOOR_INSIDE]);
    }
    if (status == OR_OK) {
        status = or_zmq_queue_create(&self->queue);
    }
    return status == OR_OK ? or_zmq_relay_create(&self->relay) : status;
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
    or_status_t status = or_zmq_open(self->context, hub ? ZMQ_ROUTER : ZMQ_DEALER, QUEUE_FRAMES, 0,
                                     &self->sockets[OR_DOOR_FAR]);
    if (status == OR_OK && hub) {
        status = open_doors(self);
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
    return zmq_setsockopt(self->sockets[OR_DOOR_FAR], ZMQ_IPV6, &value, sizeof value) == 0
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

// From here on what is bound is encrypted: ZeroMQ gives each listener the options of that moment.
static or_status_t encrypt_hub(zmq_channel_t *self, const or_channel_server_t *server)
{
    const int on = 1;
    void *socket = self->sockets[OR_DOOR_FAR];
    or_status_t status = check_curve();
    if (status == OR_OK) {
        status = or_zmq_guard_create(self->context, socket, server, &self->guard);
    }
    if (status == OR_OK &&
        (zmq_setsockopt(socket, ZMQ_CURVE_SERVER, &on, sizeof on) != 0 ||
         zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, server->own->secret_key, OR_KEY_BYTES) != 0 ||
         zmq_setsockopt(socket, ZMQ_ZAP_DOMAIN, DOMAIN, strlen(DOMAIN)) != 0)) {
        status = fail_keys();
    }
    return status;
}

// Where the relay brings connections out. Nobody but this process gets through.
static or_status_t bind_exit(const zmq_channel_t *self, or_door_t door, or_zmq_exit_t exit)
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
static or_status_t bind_exits(zmq_channel_t *self, const or_channel_server_t *server)
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
static or_status_t listen_everywhere(zmq_channel_t *self, const or_channel_listen_t *listens,
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
    status = bind_exits(self, encrypted ? server : NULL);
    if (status == OR_OK) {
        status = listen_everywhere(self, listens, count, bound, capacity);
    }
    if (status == OR_OK) {
        status = or_zmq_relay_start(self->relay);
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
    if (status == OR_OK && (zmq_setsockopt(self->sockets[OR_DOOR_FAR], ZMQ_CURVE_SERVERKEY,
                                           keys->server_key, OR_KEY_BYTES) != 0 ||
                            zmq_setsockopt(self->sockets[OR_DOOR_FAR], ZMQ_CURVE_PUBLICKEY,
                                           keys->own.public_key, OR_KEY_BYTES) != 0 ||
                            zmq_setsockopt(self->sockets[OR_DOOR_FAR], ZMQ_CURVE_SECRETKEY,
                                           keys->own.secret_key, OR_KEY_BYTES) != 0)) {
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
        status = or_zmq_watch_create(self->context, self->sockets[OR_DOOR_FAR], endpoint,
                                     encrypted ? keys : NULL, &self->watch);
    }
    if (status == OR_OK && zmq_connect(self->sockets[OR_DOOR_FAR], endpoint) != 0) {
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
