#include "proto/zmq/relay/zmq_relay.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/log/log.h"
#include "common/base/math/rng.h"
#include "proto/net/endpoint.h"
#include "proto/zmq/relay/zmq_relay_internal.h"

#define EVENTS 64
#define CURVE_BYTES 33 // around an encrypted body: "\7MESSAGE", nonce, authenticator, flags
#define AGAIN_MS                                                                                   \
    1 // the next look while a connection waits for libzmq, or an urgent one for the hub
#define PAUSE_MS 5   // the next look while others wait for the hub: a flood is looked at seldom
#define LATER_MS 100 // the next look while frames are with the hub
#define ASK_MS 1000  // the next look for hosts that may have vanished
#define LINGER_NS OR_NS_PER_S
#define STUCK_NS OR_NS_PER_S
#define MARKS_NS OR_NS_PER_S          // between two marks of a frame
#define ASLEEP_NS (50 * OR_NS_PER_MS) // long enough for what there is to wake the hub
// A smaller part of a frame is not worth a cut: all of that size fill half the room.
#define SLOW_MIN (16u << 10)
#define DESCRIPTORS_PART 8 // connections may have this part of all descriptors; each takes three

void or_zmq_relay_take(or_zmq_relay_t *relay, zmq_msg_t *part, bool urgent)
{
    struct sockaddr_un address;
    socklen_t bytes = sizeof address;
    or_relay_name_t name;
    int fd = zmq_msg_get(part, ZMQ_SRCFD);
    uint64_t cost = or_zmtp_cost(zmq_msg_size(part));
    // A frame of a connection that has ended may be counted for the next one with this descriptor, which then gets
    // more, once.
    if (fd < 0 || getpeername(fd, (struct sockaddr *)&address, &bytes) != 0 ||
        address.sun_family != AF_UNIX ||
        bytes != offsetof(struct sockaddr_un, sun_path) + sizeof name) {
        atomic_fetch_add(&relay->taken_of_ended, cost);
        return;
    }
    memcpy(&name, address.sun_path, sizeof name);
    cost += name.encrypted ? CURVE_BYTES : 0;
    bool lives = name.secret == relay->secret && name.place < OR_ZMQ_RELAY_CONNECTIONS &&
                 atomic_load(&relay->generations[name.place]) == name.generation;
    atomic_fetch_add(lives ? &relay->taken[name.place] : &relay->taken_of_ended, cost);
    if (lives) {
        atomic_store(&relay->urgent[name.place], urgent);
    }
}

void or_zmq_relay_note_empty(or_zmq_relay_t *relay)
{
    atomic_fetch_add(&relay->empty_count, 1);
}

void or_zmq_relay_note_sleep(or_zmq_relay_t *relay, int64_t since_ns)
{
    atomic_store(&relay->asleep_ns, since_ns);
}

static bool hub_sleeps(const or_zmq_relay_t *relay, int64_t now)
{
    int64_t since = atomic_load(&relay->asleep_ns);
    return since != 0 && now - since > ASLEEP_NS;
}

// ---- the look at all of them ----

typedef struct {
    uint64_t whole[SORTS], parts;   // cost of whole frames, and of those under way
    or_relay_connection_t *slowest; // of those with a large part
    size_t paused[SORTS], unconnected;
} sums_t;

static void note_mark(or_relay_connection_t *connection, int64_t now)
{
    if (now - connection->newer.at_ns >= MARKS_NS) {
        connection->older = connection->newer;
        connection->newer = (or_relay_mark_t){now, connection->flow.begun};
    }
}

// Return the bytes a second of the frame under way in its last seconds: who has sent much at once and holds it with a
// byte now and then gives way to who sends steadily.
static double speed_of(const or_relay_connection_t *connection, int64_t now)
{
    return (double)(connection->flow.begun - connection->older.begun) /
           (double)(now - connection->older.at_ns + OR_NS_PER_MS);
}

// Of two that are equally slow the one that holds more is the worse.
static bool is_worse(const or_relay_connection_t *a, const or_relay_connection_t *b, int64_t now)
{
    const double of_a = speed_of(a, now), of_b = speed_of(b, now);
    return of_a < of_b || (of_a == of_b && a->flow.begun > b->flow.begun);
}

static void add(or_zmq_relay_t *relay, or_relay_connection_t *connection, int64_t now, sums_t *sums)
{
    uint64_t whole = or_relay_whole(relay, connection);
    or_relay_sort_t sort = or_relay_sort(relay, connection);
    uint64_t part = connection->peer_ended ? 0 : connection->flow.begun; // libzmq drops it then
    or_relay_note_progress(relay, connection, now);
    note_mark(connection, now);
    sums->whole[sort] += whole;
    sums->parts += part;
    sums->paused[sort] += connection->is_paused;
    sums->unconnected += connection->inner < 0;
    if (part >= SLOW_MIN && (sums->slowest == NULL || is_worse(connection, sums->slowest, now))) {
        sums->slowest = connection;
    }
}

// Return true if the rest is parts of a message without an end: libzmq has read all that was passed, and the hub has
// taken nothing since its sockets were empty twice, or it sleeps.
static bool is_stuck(or_zmq_relay_t *relay, const or_relay_connection_t *connection, int64_t now)
{
    int unread = 0;
    return connection->inner >= 0 && !connection->peer_ended &&
           or_relay_whole(relay, connection) > 0 && now - connection->moved_ns > STUCK_NS &&
           (hub_sleeps(relay, now) ||
            atomic_load(&relay->empty_count) >= connection->moved_empty + 2) &&
           ioctl(connection->inner, TIOCOUTQ, &unread) == 0 && unread == 0;
}

// Return true if the host has vanished: a living one acknowledges what it is sent, and is asked if nothing is sent.
static bool has_vanished(const or_relay_connection_t *connection)
{
    struct tcp_info info = {0};
    socklen_t bytes = sizeof info;
    return connection->address.ss_family != AF_UNIX && !connection->peer_ended &&
           getsockopt(connection->peer, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0 &&
           info.tcpi_last_ack_recv > OR_RELAY_VANISHED_MS &&
           info.tcpi_last_data_recv > OR_RELAY_VANISHED_MS;
}

// Cut the connections that are stuck or whose host has vanished.
static void cut_hopeless(or_zmq_relay_t *relay, int64_t now)
{
    bool asks = now - relay->asked_ns >= OR_NS_PER_S;
    for (size_t i = 0; i < relay->top; i++) {
        or_relay_connection_t *each = &relay->connections[i];
        const char *why = !each->used                  ? NULL
                          : is_stuck(relay, each, now) ? "its message has no end"
                          : asks && has_vanished(each) ? "its host has vanished"
                                                       : NULL;
        if (why != NULL) {
            or_relay_cut(each, why);
            or_relay_settle(relay, each);
        }
    }
    relay->asked_ns = asks ? now : relay->asked_ns;
}

// Count the frames of ended connections that the hub has: until it takes them, or has found its sockets empty.
static void count_orphans(or_zmq_relay_t *relay, int64_t now)
{
    uint64_t empty = atomic_load(&relay->empty_count);
    if (hub_sleeps(relay, now)) {
        relay->orphans = relay->older_orphans = 0;
    } else if (empty != relay->orphans_empty) {
        relay->orphans_empty = empty;
        relay->older_orphans = relay->orphans;
        relay->orphans = 0;
    }
    uint64_t taken = atomic_exchange(&relay->taken_of_ended, 0);
    uint64_t older = taken < relay->older_orphans ? taken : relay->older_orphans;
    relay->older_orphans -= older;
    taken -= older;
    relay->orphans -= taken < relay->orphans ? taken : relay->orphans;
}

static void judge(or_zmq_relay_t *relay, const sums_t *sums)
{
    relay->whole[ORDINARY] = sums->whole[ORDINARY] + relay->orphans + relay->older_orphans;
    relay->whole[URGENT] = sums->whole[URGENT];
    if (sums->parts > OR_ZMQ_RELAY_PARTS_MAX && sums->slowest != NULL) {
        or_relay_cut(sums->slowest,
                     "its frame comes slowly, and there is no room for the frames of others");
        or_relay_settle(relay, sums->slowest);
    }
}

static void resume(or_zmq_relay_t *relay, or_relay_connection_t *connection)
{
    if (connection->inner < 0 && !connection->inner_ended) {
        (void)or_relay_connect_inner(relay, connection);
    }
    if (connection->is_paused) {
        connection->is_paused = or_relay_read_size(relay, connection) == 0;
    }
    or_relay_settle(relay, connection);
}

// Look at all connections; return how long epoll may wait afterwards, in milliseconds.
static int look(or_zmq_relay_t *relay, int64_t now)
{
    sums_t sums = {.parts = 0};
    count_orphans(relay, now);
    for (size_t i = 0; i < relay->top; i++) {
        if (relay->connections[i].used) {
            add(relay, &relay->connections[i], now, &sums);
        }
    }
    judge(relay, &sums);
    cut_hopeless(relay, now);
    size_t paused = sums.paused[ORDINARY] + sums.paused[URGENT];
    for (size_t i = 0; i < relay->top && paused + sums.unconnected > 0; i++) {
        or_relay_connection_t *each = &relay->connections[i];
        if (each->used && (each->is_paused || each->inner < 0)) {
            resume(relay, each);
        }
    }
    if (!relay->is_accepting && sums.unconnected == 0 && now >= relay->accept_at_ns) {
        or_relay_set_accepting(relay, true);
    }
    if (sums.paused[URGENT] + sums.unconnected > 0) {
        return AGAIN_MS;
    }
    if (paused > 0) {
        return PAUSE_MS;
    }
    bool quiet =
        relay->is_accepting && relay->whole[ORDINARY] + relay->whole[URGENT] + sums.parts == 0;
    return !quiet ? LATER_MS : relay->count > 0 ? ASK_MS : -1;
}

// ---- the thread ----

static void serve(or_zmq_relay_t *relay, const struct epoll_event *event, int64_t now)
{
    size_t at = (uint32_t)event->data.u64 >> 2;
    or_relay_kind_t kind = (or_relay_kind_t)(event->data.u64 & 3);
    uint64_t count;
    if (kind == STOP) {
        (void)!read(relay->stop_fd, &count, sizeof count);
    } else if (kind == ENTRANCE) {
        if (relay->is_accepting) {
            or_relay_accept(relay, &relay->entrances[at], now);
        }
    } else if (!relay->connections[at].used ||
               atomic_load(&relay->generations[at]) != event->data.u64 >> 32) {
        return; // it was for the connection that had this place before
    } else if (kind == PEER) {
        or_relay_serve_peer(relay, &relay->connections[at], event->events, now);
    } else {
        or_relay_serve_inner(relay, &relay->connections[at], event->events);
    }
}

// Wait once, and serve what comes.
static void turn(or_zmq_relay_t *relay, int timeout_ms)
{
    struct epoll_event events[EVENTS];
    int count = epoll_wait(relay->epoll, events, EVENTS, timeout_ms);
    int64_t now = or_clock_now(or_clock_monotonic());
    bool was_accepting = relay->is_accepting;
    for (int i = 0; i < count; i++) {
        serve(relay, &events[i], now);
    }
    if (was_accepting && !relay->is_accepting) {
        or_relay_set_accepting(relay, false);
    }
}

static void *pass(void *context)
{
    or_zmq_relay_t *relay = context;
    while (!atomic_load(&relay->stopped)) {
        turn(relay, look(relay, or_clock_now(or_clock_monotonic())));
    }
    // libzmq has ended: its last words go out, and nothing more comes in.
    int64_t end_ns = or_clock_now(or_clock_monotonic()) + LINGER_NS;
    or_relay_set_accepting(relay, false);
    while (relay->count > 0 && or_clock_now(or_clock_monotonic()) < end_ns) {
        for (size_t i = 0; i < relay->top; i++) {
            or_relay_connection_t *each = &relay->connections[i];
            if (each->used) {
                each->is_paused = true; // nothing more is read of the peer
                or_relay_settle(relay, each);
            }
        }
        turn(relay, AGAIN_MS);
    }
    return NULL;
}

// Signals are for the hub's thread.
or_status_t or_zmq_relay_start(or_zmq_relay_t *relay)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    or_relay_set_accepting(relay, true);
    relay->started = pthread_create(&relay->thread, NULL, pass, relay) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return relay->started ? OR_OK
                          : or_fail(OR_ERR_IO, "cannot pass connections on: no thread to be had");
}

static size_t connections_max(void)
{
    struct rlimit limit;
    size_t most = OR_ZMQ_RELAY_CONNECTIONS;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur / DESCRIPTORS_PART < most) {
        most = limit.rlim_cur / DESCRIPTORS_PART;
    }
    return most > 0 ? most : 1;
}

or_status_t or_zmq_relay_create(or_zmq_relay_t **relay_p)
{
    static const char *const names[OR_ZMQ_EXITS] = {"near", "far", "curve"};
    or_zmq_relay_t *relay = calloc(1, sizeof *relay);
    or_relay_connection_t *connections = calloc(OR_ZMQ_RELAY_CONNECTIONS, sizeof *connections);
    if (relay == NULL || connections == NULL) {
        free(relay);
        free(connections);
        return or_fail(OR_ERR_NO_MEMORY, "no memory to pass connections on");
    }
    relay->connections = connections;
    relay->secret = or_rng_system_seed();
    relay->said_full_ns = relay->said_refused_ns = -OR_RELAY_SAY_AGAIN_NS;
    relay->limit = connections_max();
    for (int i = 0; i < OR_ZMQ_EXITS; i++) {
        snprintf(relay->exits[i], sizeof relay->exits[i], "ipc://@outrider.%016" PRIx64 ".%s",
                 relay->secret, names[i]);
    }
    relay->epoll = epoll_create1(EPOLL_CLOEXEC);
    relay->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = or_relay_tag(0, STOP, 0)};
    if (relay->epoll < 0 || relay->stop_fd < 0 ||
        epoll_ctl(relay->epoll, EPOLL_CTL_ADD, relay->stop_fd, &event) != 0) {
        or_status_t status = or_fail(OR_ERR_IO, "cannot pass connections on: %s", strerror(errno));
        or_zmq_relay_destroy(&relay);
        return status;
    }
    *relay_p = relay;
    return OR_OK;
}

const char *or_zmq_relay_exit(const or_zmq_relay_t *relay, or_zmq_exit_t exit)
{
    return relay->exits[exit];
}

or_status_t or_zmq_relay_listen(or_zmq_relay_t *relay, const char *endpoint, bool encrypted,
                                char *bound, size_t capacity)
{
    if (relay->entrance_count == OR_RELAY_LISTENS_MAX) {
        return or_fail(OR_ERR_INVALID, "cannot listen on %s: at most %d places", endpoint,
                       OR_RELAY_LISTENS_MAX);
    }
    or_relay_entrance_t *entrance = &relay->entrances[relay->entrance_count];
    or_status_t status = or_listen(endpoint, &entrance->fd, bound, capacity);
    if (status == OR_OK) {
        entrance->encrypted = encrypted;
        relay->entrance_count++;
    }
    return status;
}

static void stop(or_zmq_relay_t *relay)
{
    const uint64_t one = 1;
    atomic_store(&relay->stopped, true);
    while (write(relay->stop_fd, &one, sizeof one) < 0 && errno == EINTR) {
    }
    pthread_join(relay->thread, NULL);
}

void or_zmq_relay_destroy(or_zmq_relay_t **relay_p)
{
    or_zmq_relay_t *relay = *relay_p;
    if (relay == NULL) {
        return;
    }
    if (relay->started) {
        stop(relay);
    }
    for (size_t i = 0; i < relay->top; i++) {
        if (relay->connections[i].used) {
            or_relay_forget(relay, &relay->connections[i]);
        }
    }
    for (size_t i = 0; i < relay->entrance_count; i++) {
        or_listen_end(relay->entrances[i].fd);
    }
    if (relay->epoll >= 0) {
        close(relay->epoll);
    }
    if (relay->stop_fd >= 0) {
        close(relay->stop_fd);
    }
    free(relay->connections);
    free(relay);
    *relay_p = NULL;
}
