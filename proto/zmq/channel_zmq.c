#include "proto/zmq/channel_zmq.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/cpus.h"
#include "common/base/interrupt.h"
#include "proto/zmq/zmq_channel_internal.h"
#include "proto/zmq/zmq_frames.h"
#include "proto/zmq/zmq_monitor.h"

// The items that a channel polls: its sockets, those of a hub or an edge, and the signals.
typedef struct {
    zmq_pollitem_t items[OR_DOORS + 3 + OR_ZMQ_GUARD_ITEMS];
    int count;
    int sockets;  // the first items: there are frames
    bool wake;    // the item behind them: the owner has other work
    bool signals; // the last item
} poll_t;

// While other frames are held, the socket of our own process is not read, so polling it would end each wait.
static poll_t fill_poll(const or_zmq_channel_t *self, bool held)
{
    poll_t poll = {.count = 0};
    int doors = held ? OR_DOOR_INSIDE : OR_DOORS;
    for (int i = 0; i < doors && self->sockets[i] != NULL; i++) {
        poll.items[poll.count++] =
            (zmq_pollitem_t){.socket = self->sockets[i], .events = ZMQ_POLLIN};
    }
    poll.sockets = poll.count;
    poll.wake = self->wake_fd >= 0;
    if (poll.wake) {
        poll.items[poll.count++] = (zmq_pollitem_t){.fd = self->wake_fd, .events = ZMQ_POLLIN};
    }
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

// Serve what is not for the owner; return true if the owner is to have a look all the same.
static bool serve(or_zmq_channel_t *self)
{
    if (self->guard != NULL) {
        or_zmq_guard_serve(self->guard);
    }
    return self->watch != NULL && or_zmq_watch_look(self->watch);
}

static void note_sleep(or_zmq_channel_t *self, int64_t since_ns)
{
    if (self->relay != NULL) {
        or_zmq_relay_note_sleep(self->relay, since_ns);
    }
}

// Return when to look up at the latest, even if nothing comes.
static int64_t due_of(const or_zmq_channel_t *self, bool held)
{
    if (self->watch != NULL) {
        return or_zmq_watch_due(self->watch);
    }
    return held ? self->held_until_ns : OR_TIME_NEVER;
}

// Return true if frames came that the owner may have now. While others are held, theirs are put aside: they end no wait.
static bool has_frames(or_zmq_channel_t *self, const poll_t *poll, bool held)
{
    bool came = false;
    for (int i = 0; i < poll->sockets; i++) {
        came |= poll->items[i].revents != 0;
    }
    if (came && held && or_zmq_look_through(self) == OR_OK) {
        return or_zmq_queue_has_urgent(self->queue);
    }
    return came;
}

// Sleep once, until `end_ns` at most. OR_ERR_AGAIN: it ended for a reason that does not concern the owner.
static or_status_t sleep_once(or_zmq_channel_t *self, int64_t now, int64_t end_ns)
{
    bool held = or_zmq_check_hold(self),
         waiting = self->queue != NULL && !or_zmq_queue_is_empty(self->queue);
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
    frames |= has_frames(self, &poll, held);
    bool woken = poll.wake && poll.items[poll.sockets].revents != 0;
    bool connected = serve(self);
    if (signalled || connected || woken || frames) {
        return OR_OK;
    }
    return ready == 0 && end_ns <= due ? OR_ERR_TIMEOUT : OR_ERR_AGAIN;
}

or_status_t or_zmq_channel_wait(or_channel_t *channel, int64_t timeout_ns)
{
    const or_clock_t *clock = or_clock_monotonic();
    int64_t now = or_clock_now(clock);
    int64_t end_ns = timeout_ns < OR_TIME_NEVER - now ? now + timeout_ns : OR_TIME_NEVER;
    or_status_t status;
    while ((status = sleep_once((or_zmq_channel_t *)channel, now, end_ns)) == OR_ERR_AGAIN) {
        now = or_clock_now(clock);
    }
    return status;
}

void or_zmq_channel_destroy(or_channel_t *channel)
{
    or_zmq_channel_t *self = (or_zmq_channel_t *)channel;
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

or_status_t or_zmq_channel_create(const or_channel_ops_t *ops, int type, or_zmq_channel_t **self_p)
{
    or_zmq_channel_t *self = calloc(1, sizeof *self);
    if (self == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a channel");
    }
    self->context = zmq_ctx_new();
    if (self->context == NULL) {
        free(self);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a ZeroMQ context");
    }
    spread_threads(self->context);
    self->channel.ops = ops;
    self->wake_fd = -1;
    or_zmq_peers_init(&self->peers);
    zmq_msg_init(&self->current);
    or_status_t status =
        or_zmq_open(self->context, type, OR_ZMQ_SEND_FRAMES, 0, &self->sockets[OR_DOOR_FAR]);
    if (status != OR_OK) {
        or_zmq_channel_destroy(&self->channel);
        return status;
    }
    *self_p = self;
    return OR_OK;
}

or_status_t or_zmq_check_curve(void)
{
    return zmq_has("curve") ? OR_OK
                            : or_fail(OR_ERR_UNSUPPORTED,
                                      "this libzmq was built without CURVE, so nothing can be "
                                      "encrypted: install one with libsodium");
}

or_status_t or_zmq_fail_keys(void)
{
    return or_fail(OR_ERR_INVALID, "cannot encrypt with these keys: %s", zmq_strerror(errno));
}
