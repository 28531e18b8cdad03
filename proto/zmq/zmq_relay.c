#include "proto/zmq/zmq_relay.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log/log.h"
#include "common/base/math/rng.h"
#include "proto/zmq/listen.h"
#include "proto/zmq/zmtp_flow.h"

#define LISTENS_MAX 16
#define EVENTS 64
#define BULK_BYTES 65536 // at once inside a frame, and of what goes out
#define CURVE_BYTES 33   // around a body: "\7MESSAGE", nonce, authenticator, flags
#define AGAIN_MS 1       // while somebody waits for the hub or for libzmq
#define LATER_MS 100     // after the system had no descriptor left
#define ASK_MS 1000      // hosts that may have vanished
#define SAY_AGAIN_NS (60 * OR_NS_PER_S)
#define WELCOMED_BYTES                                                                             \
    (OR_ZMTP_GREETING_BYTES + 2 + 168) // what libzmq has said to who is not let in (RFC 26)
#define LINGER_NS OR_NS_PER_S
#define STUCK_NS OR_NS_PER_S
#define ASLEEP_NS (50 * OR_NS_PER_MS) // long enough for what there is to wake the hub
#define SLOW_MIN                                                                                   \
    (16u << 10) // a smaller part of a frame is not worth a cut: all of them fill half the room
#define SILENT_NS (10 * OR_NS_PER_S)  // of who makes room for another
#define STRANGER_NS (1 * OR_NS_PER_S) // of who never said anything sensible
#define DESCRIPTORS_PART 8 // of all descriptors for connections, each of which takes three
#define DESCRIPTORS_SPARE 32
// Hosts that vanished without a word: silent ones are asked after a while, and who acknowledges nothing is gone.
#define KEEPALIVE_IDLE_S 10
#define KEEPALIVE_INTERVAL_S 3
#define KEEPALIVE_COUNT 4
#define VANISHED_MS 20000

// Connections share with those of their sort.
typedef enum { ORDINARY, URGENT, SORTS } sort_t;

static const struct {
    uint64_t window, whole_max; // of one, of all
} bounds[SORTS] = {[ORDINARY] = {OR_ZMQ_RELAY_WINDOW, OR_ZMQ_RELAY_WHOLE_MAX},
                   [URGENT] = {OR_ZMQ_RELAY_URGENT_WINDOW, OR_ZMQ_RELAY_URGENT_WHOLE_MAX}};

// Bytes read at once between frames: few, so that few tiny ones overshoot the window.
static const size_t read_bytes[SORTS] = {[ORDINARY] = 512, [URGENT] = 4096};

// Bytes that one side has sent and the other could not take yet. No memory while there are none.
typedef struct {
    uint8_t *data;
    size_t begin, end;
} pending_t;

typedef struct {
    int peer, inner;                  // descriptors; inner -1: no connection yet
    uint32_t peer_wants, inner_wants; // what epoll looks for; 0: not looked at
    struct sockaddr_storage address;  // the peer's
    bool used, peer_ended, inner_ended, inner_shut, is_paused;
    or_zmq_exit_t exit;
    or_zmtp_flow_t flow;
    pending_t in, out; // to libzmq, to the peer
    uint64_t passed;   // cost of all whole frames
    uint64_t said;     // bytes that libzmq has said
    uint64_t taken_before, moved_empty;
    int64_t heard_ns; // when the peer has sent last
    int64_t moved_ns; // when the hub has taken last, or nothing waited for it
    int64_t frame_ns; // when the frame under way began
} connection_t;

typedef struct {
    int fd;
    bool encrypted;
} entrance_t;

struct or_zmq_relay {
    char exits[OR_ZMQ_EXITS][64];
    uint64_t secret; // in the names of our ends, so that none but ours is taken for one
    entrance_t entrances[LISTENS_MAX];
    size_t entrance_count;
    pthread_t thread;
    bool started;
    int epoll, stop_fd;
    _Atomic bool stopped;
    _Atomic uint64_t taken_of_ended; // connections
    _Atomic uint64_t empty_count;
    _Atomic int64_t asleep_ns;                              // since when; 0: not asleep
    _Atomic uint32_t generations[OR_ZMQ_RELAY_CONNECTIONS]; // of each place
    _Atomic uint64_t taken[OR_ZMQ_RELAY_CONNECTIONS];       // by the hub, as a cost
    _Atomic bool urgent[OR_ZMQ_RELAY_CONNECTIONS];
    // The thread's.
    connection_t *connections; // OR_ZMQ_RELAY_CONNECTIONS places
    size_t limit, top, count;  // places at most; all below top were used
    bool is_accepting;
    uint64_t whole[SORTS]; // cost of whole frames with the hub, of all of a sort
    int64_t accept_at_ns;
    uint64_t orphans, older_orphans, orphans_empty; // passed for connections that ended
    int64_t said_full_ns, said_refused_ns;
    int64_t asked_ns; // when hosts were last asked for
    uint8_t bytes[BULK_BYTES];
};

// What epoll tells us: which descriptor of which place.
typedef enum { PEER, INNER, ENTRANCE, STOP } kind_t;

static uint64_t tag(size_t at, kind_t kind, uint32_t generation)
{
    return (uint64_t)generation << 32 | (uint64_t)at << 2 | kind;
}

static bool is_transient(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR || error == ENOBUFS;
}

// ---- what the hub has taken ----

typedef struct {
    char zero; // no file
    char name[6];
    bool encrypted;
    uint64_t secret;
    uint32_t place, generation;
} end_name_t; // of our end of a path, which the other end can ask for

static void fill_name(struct sockaddr_un *address, socklen_t *bytes, const end_name_t *name)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path, name, sizeof *name);
    *bytes = offsetof(struct sockaddr_un, sun_path) + sizeof *name;
}

void or_zmq_relay_take(or_zmq_relay_t *relay, zmq_msg_t *part, bool urgent)
{
    struct sockaddr_un address;
    socklen_t bytes = sizeof address;
    end_name_t name;
    int fd = zmq_msg_get(part, ZMQ_SRCFD);
    uint64_t cost = or_zmtp_cost(zmq_msg_size(part));
    // A frame of a connection that has ended may be counted for the next one with this descriptor: it gets more, once.
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

static size_t place_of(const or_zmq_relay_t *relay, const connection_t *connection)
{
    return (size_t)(connection - relay->connections);
}

static sort_t sort_of(const or_zmq_relay_t *relay, const connection_t *connection)
{
    return atomic_load(&relay->urgent[place_of(relay, connection)]) ? URGENT : ORDINARY;
}

// The cost of whole frames that the hub has not taken.
static uint64_t whole_of(or_zmq_relay_t *relay, const connection_t *connection)
{
    uint64_t taken = atomic_load(&relay->taken[place_of(relay, connection)]);
    return connection->passed > taken ? connection->passed - taken : 0;
}

// ---- descriptors and epoll ----

static void want(or_zmq_relay_t *relay, int fd, uint64_t data, uint32_t *wants, uint32_t now)
{
    struct epoll_event event = {.events = now, .data.u64 = data};
    if (fd < 0 || now == *wants) {
        return;
    }
    // Without interest it is not looked at at all, for epoll would tell of its end again and again.
    int how = now == 0 ? EPOLL_CTL_DEL : *wants == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    if (epoll_ctl(relay->epoll, how, fd, &event) == 0) {
        *wants = now;
    }
}

static bool has_pending(const pending_t *pending)
{
    return pending->begin < pending->end;
}

static void choose_wants(or_zmq_relay_t *relay, connection_t *connection)
{
    size_t at = place_of(relay, connection);
    uint32_t generation = atomic_load(&relay->generations[at]);
    bool in = has_pending(&connection->in), out = has_pending(&connection->out);
    bool reads = !connection->is_paused && !in && connection->inner >= 0;
    // Who is not read from is looked at for a reset. Its end in order waits behind what it sent.
    uint32_t peer_wants = connection->peer_ended ? 0 : reads ? EPOLLIN : EPOLLONESHOT;
    want(relay, connection->peer, tag(at, PEER, generation), &connection->peer_wants,
         peer_wants | (out ? EPOLLOUT : 0u));
    want(relay, connection->inner, tag(at, INNER, generation), &connection->inner_wants,
         (!connection->inner_ended && !out ? EPOLLIN : 0u) | (in ? EPOLLOUT : 0u));
}

static void drop(pending_t *pending)
{
    free(pending->data);
    *pending = (pending_t){.data = NULL};
}

// Keep what could not be written. False: no memory.
static bool keep(pending_t *pending, const uint8_t *data, size_t bytes)
{
    drop(pending);
    pending->data = malloc(bytes);
    if (pending->data == NULL) {
        return false;
    }
    memcpy(pending->data, data, bytes);
    pending->end = bytes;
    return true;
}

// Bytes written now, or -1 if the other side takes none any more.
static ssize_t write_some(int fd, const uint8_t *data, size_t bytes)
{
    ssize_t sent = send(fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent < 0 && is_transient(errno) ? 0 : sent;
}

// ---- the end of connections ----

static void forget(or_zmq_relay_t *relay, connection_t *connection)
{
    size_t at = place_of(relay, connection);
    relay->orphans += whole_of(relay, connection);
    close(connection->peer);
    if (connection->inner >= 0) {
        close(connection->inner);
    }
    drop(&connection->in);
    drop(&connection->out);
    atomic_fetch_add(&relay->generations[at], 1);
    *connection = (connection_t){.used = false};
    relay->count--;
}

// No more comes from the peer: libzmq hears so behind what came, and ends its side in order.
static void shut_inner(connection_t *connection)
{
    if (connection->peer_ended && !has_pending(&connection->in) && !connection->inner_shut) {
        connection->inner_shut = true;
        if (connection->inner < 0 || shutdown(connection->inner, SHUT_WR) != 0) {
            connection->inner_ended = true;
        }
    }
}

static void cut(connection_t *connection, const char *why)
{
    if (!connection->peer_ended) {
        or_log(OR_LOG_DEBUG, "a connection is cut: %s", why);
    }
    shutdown(connection->peer, SHUT_RDWR);
    connection->peer_ended = true;
    drop(&connection->in);
    drop(&connection->out);
    shut_inner(connection);
}

// libzmq has ended its side, and the peer has what it said, or cannot have it.
static bool is_over(const connection_t *connection)
{
    return connection->inner_ended && !has_pending(&connection->out);
}

static void settle(or_zmq_relay_t *relay, connection_t *connection)
{
    shut_inner(connection);
    if (is_over(connection)) {
        forget(relay, connection);
    } else {
        choose_wants(relay, connection);
    }
}

// ---- bytes ----

static void write_in(connection_t *connection, const uint8_t *data, size_t bytes)
{
    ssize_t sent = write_some(connection->inner, data, bytes);
    if (sent < 0) {
        cut(connection, "libzmq takes no more of it");
    } else if ((size_t)sent < bytes && !keep(&connection->in, data + sent, bytes - (size_t)sent)) {
        cut(connection, "no memory");
    }
}

static void write_out(connection_t *connection, const uint8_t *data, size_t bytes)
{
    ssize_t sent = write_some(connection->peer, data, bytes);
    if (sent < 0) { // what libzmq still says goes nowhere
        drop(&connection->out);
        connection->peer_ended = true;
    } else if ((size_t)sent < bytes && !keep(&connection->out, data + sent, bytes - (size_t)sent)) {
        cut(connection, "no memory");
    }
}

// Write what is kept. A part that is written stays where it is.
static void flush(pending_t *pending, int fd, connection_t *connection)
{
    ssize_t sent = write_some(fd, pending->data + pending->begin, pending->end - pending->begin);
    if (sent < 0) {
        drop(pending);
        connection->peer_ended = true;
    } else {
        pending->begin += (size_t)sent;
        if (!has_pending(pending)) {
            drop(pending);
        }
    }
}

// How much of whole frames a connection may have with the hub.
static uint64_t window(const or_zmq_relay_t *relay, sort_t sort)
{
    uint64_t most = bounds[sort].whole_max, whole = relay->whole[sort];
    uint64_t free = whole < most ? most - whole : 0;
    return free < bounds[sort].window ? free : bounds[sort].window;
}

// How one side encrypts is not told to libzmq before it has told its own: it hangs up at once where the two differ, and
// the peer would not learn why.
static size_t greeting_size(const connection_t *connection)
{
    uint64_t most =
        connection->said < OR_ZMTP_GREETING_BYTES ? OR_ZMTP_VERSION_BYTES : OR_ZMTP_GREETING_BYTES;
    return most > connection->flow.greeted ? (size_t)(most - connection->flow.greeted) : 0;
}

static size_t at_most(uint64_t bytes, size_t most)
{
    return bytes < most ? (size_t)bytes : most;
}

// To the end of the frame under way and not beyond, or the first byte of the next.
static size_t one_frame(const connection_t *connection)
{
    uint64_t wanted = or_zmtp_flow_wanted(&connection->flow);
    return wanted > 0 ? at_most(wanted, BULK_BYTES) : 1;
}

// 0: nothing may be read for now.
static size_t read_size(or_zmq_relay_t *relay, const connection_t *connection)
{
    const or_zmtp_flow_t *flow = &connection->flow;
    sort_t sort = sort_of(relay, connection);
    uint64_t wanted = or_zmtp_flow_wanted(flow), waits = whole_of(relay, connection);
    if (flow->greeted < OR_ZMTP_GREETING_BYTES) {
        return greeting_size(connection);
    }
    if (connection->said <=
        OR_ZMTP_GREETING_BYTES) { // libzmq answers the first frame before it takes another
        return flow->frames == 0 ? one_frame(connection) : 0;
    }
    uint64_t room = window(relay, sort);
    if (room == 0 && flow->left > OR_ZMQ_RELAY_WINDOW && flow->begun == OR_ZMTP_FRAME_COST) {
        return 0; // a large frame begins where there is room
    }
    if (waits >= room) { // whoever has no frame with the hub may begin one
        return wanted > 0 || waits == 0 ? one_frame(connection) : 0;
    }
    size_t least = read_bytes[sort];
    return at_most(wanted > least ? wanted : least, BULK_BYTES);
}

// The hub has taken something of it, or nothing of it waits.
static void note_progress(or_zmq_relay_t *relay, connection_t *connection, int64_t now)
{
    uint64_t taken = atomic_load(&relay->taken[place_of(relay, connection)]);
    if (taken != connection->taken_before || whole_of(relay, connection) == 0) {
        connection->taken_before = taken;
        connection->moved_ns = now;
        connection->moved_empty = atomic_load(&relay->empty_count);
    }
}

static void read_peer(or_zmq_relay_t *relay, connection_t *connection, int64_t now)
{
    uint64_t whole;
    size_t most = read_size(relay, connection);
    if (most == 0) {
        connection->is_paused = true;
        return;
    }
    ssize_t got = recv(connection->peer, relay->bytes, most, MSG_DONTWAIT);
    if (got < 0 && is_transient(errno)) {
        return;
    }
    if (got <= 0) {
        connection->peer_ended = true;
        return;
    }
    connection->heard_ns = now;
    if (connection->flow.begun == 0) {
        connection->frame_ns = now;
    }
    if (!or_zmtp_flow_pass(&connection->flow, relay->bytes, (size_t)got, &whole)) {
        cut(connection, "it does not speak as we do");
        return;
    }
    note_progress(relay, connection, now); // before this waits, too
    connection->passed += whole;
    relay->whole[sort_of(relay, connection)] += whole;
    write_in(connection, relay->bytes, (size_t)got);
}

// Who is not authorized is told of by its key (zmq_guard.h); this is where it came from.
static void say_refused(or_zmq_relay_t *relay, const connection_t *connection)
{
    int64_t now = or_clock_now(or_clock_monotonic());
    char host[NI_MAXHOST];
    if (connection->exit == OR_ZMQ_CURVE && !connection->peer_ended &&
        connection->said <= WELCOMED_BYTES && now - relay->said_refused_ns >= SAY_AGAIN_NS &&
        getnameinfo((const struct sockaddr *)&connection->address, sizeof connection->address, host,
                    sizeof host, NULL, 0, NI_NUMERICHOST) == 0) {
        relay->said_refused_ns = now;
        or_log(OR_LOG_INFO, "a connection that was not let in came from %s", host);
    }
}

static void read_inner(or_zmq_relay_t *relay, connection_t *connection)
{
    ssize_t got = recv(connection->inner, relay->bytes, sizeof relay->bytes, MSG_DONTWAIT);
    if (got < 0 && is_transient(errno)) {
        return;
    }
    if (got <= 0) {
        connection->inner_ended = true;
        say_refused(relay, connection);
        return;
    }
    if (connection->said <= OR_ZMTP_GREETING_BYTES) {
        connection->is_paused = false; // it may have waited for this
    }
    connection->said += (uint64_t)got;
    if (!connection->peer_ended) {
        write_out(connection, relay->bytes, (size_t)got);
    }
}

static void serve_peer(or_zmq_relay_t *relay, connection_t *connection, uint32_t events,
                       int64_t now)
{
    if ((events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0 && has_pending(&connection->out)) {
        flush(&connection->out, connection->peer, connection);
    }
    bool once = (connection->peer_wants & EPOLLONESHOT) != 0;
    if (once && (events & EPOLLERR) != 0) { // a reset: nothing can be read or written any more
        connection->peer_ended = true;
        drop(&connection->out);
    } else if (once && has_pending(&connection->out)) {
        connection->peer_wants = UINT32_MAX; // to be looked at again
    } else if (!once && !connection->peer_ended && !has_pending(&connection->in)) {
        read_peer(relay, connection, now);
    }
    settle(relay, connection);
}

static void serve_inner(or_zmq_relay_t *relay, connection_t *connection, uint32_t events)
{
    if ((events & (EPOLLOUT | EPOLLERR)) != 0 && has_pending(&connection->in)) {
        flush(&connection->in, connection->inner, connection);
    }
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && !has_pending(&connection->out)) {
        read_inner(relay, connection);
    }
    settle(relay, connection);
}

// ---- new connections ----

static bool is_loopback(const struct sockaddr_storage *address)
{
    static const uint8_t mapped[13] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127};
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    switch (address->ss_family) {
    case AF_UNIX:
        return true;
    case AF_INET:
        memcpy(&v4, address, sizeof v4);
        return ntohl(v4.sin_addr.s_addr) >> 24 == 127;
    case AF_INET6:
        memcpy(&v6, address, sizeof v6);
        return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) ||
               memcmp(&v6.sin6_addr, mapped, sizeof mapped) == 0;
    default:
        return false;
    }
}

static void set_up_tcp(int fd)
{
    const struct {
        int level, name, value;
    } options[] = {{IPPROTO_TCP, TCP_NODELAY, 1},
                   {SOL_SOCKET, SO_KEEPALIVE, 1},
                   {IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S},
                   {IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S},
                   {IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_COUNT},
                   {IPPROTO_TCP, TCP_USER_TIMEOUT, VANISHED_MS}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int));
    }
}

// Connect to libzmq. True if that is settled, either way; false: later, for libzmq accepts too slowly just now.
static bool connect_inner(or_zmq_relay_t *relay, connection_t *connection)
{
    struct sockaddr_un address;
    socklen_t bytes;
    size_t at = place_of(relay, connection);
    const end_name_t name = {.name = "relay",
                             .encrypted = connection->exit == OR_ZMQ_CURVE,
                             .secret = relay->secret,
                             .place = (uint32_t)at,
                             .generation = atomic_load(&relay->generations[at])};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool good = fd >= 0;
    if (good) {
        fill_name(&address, &bytes, &name);
        good = bind(fd, (struct sockaddr *)&address, bytes) == 0;
    }
    if (good) {
        const char *exit = relay->exits[connection->exit] + strlen("ipc://@");
        address = (struct sockaddr_un){.sun_family = AF_UNIX};
        memcpy(address.sun_path + 1, exit, strlen(exit));
        bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(exit));
        good = connect(fd, (struct sockaddr *)&address, bytes) == 0;
    }
    if (good) {
        connection->inner = fd;
        return true;
    }
    bool later = fd >= 0 && errno == EAGAIN;
    if (fd >= 0) {
        close(fd);
    }
    if (!later) {
        connection->inner_ended = true;
    }
    return !later;
}

static bool never_spoke(or_zmq_relay_t *relay, const connection_t *connection)
{
    return atomic_load(&relay->taken[place_of(relay, connection)]) == 0;
}

// Who makes room for another one, if anybody has to.
static connection_t *find_dispensable(or_zmq_relay_t *relay, int64_t now)
{
    connection_t *found = NULL;
    bool found_stranger = false;
    for (size_t i = 0; i < relay->top; i++) {
        connection_t *each = &relay->connections[i];
        bool stranger = each->used && never_spoke(relay, each);
        bool lingers = each->peer_ended && has_pending(&each->out); // its peer reads nothing
        if (each->used && (!each->peer_ended || lingers) &&
            now - each->heard_ns > (stranger ? STRANGER_NS : SILENT_NS) &&
            (found == NULL || stranger > found_stranger ||
             (stranger == found_stranger && each->heard_ns < found->heard_ns))) {
            found = each;
            found_stranger = stranger;
        }
    }
    return found;
}

static connection_t *free_place(or_zmq_relay_t *relay)
{
    for (size_t i = 0; i < relay->top; i++) {
        if (!relay->connections[i].used) {
            return &relay->connections[i];
        }
    }
    return relay->top < relay->limit ? &relay->connections[relay->top++] : NULL;
}

static void say_full(or_zmq_relay_t *relay, int64_t now)
{
    if (now - relay->said_full_ns >= SAY_AGAIN_NS) {
        relay->said_full_ns = now;
        or_log(OR_LOG_WARN, "%zu connections are open, and no more can be: a new one is refused",
               relay->count);
    }
}

static void begin(or_zmq_relay_t *relay, int fd, const struct sockaddr_storage *address,
                  or_zmq_exit_t exit, int64_t now)
{
    connection_t *connection = free_place(relay);
    if (connection == NULL) {
        connection_t *least = find_dispensable(relay, now);
        if (least != NULL) {
            cut(least, "another one needs its place");
            settle(relay, least);
        }
        say_full(relay, now);
        close(fd);
        return;
    }
    *connection =
        (connection_t){.used = true, .peer = fd, .inner = -1, .exit = exit, .address = *address};
    connection->flow.commands = exit == OR_ZMQ_CURVE ? 2 : 1;
    connection->heard_ns = connection->moved_ns = connection->frame_ns = now;
    atomic_store(&relay->taken[place_of(relay, connection)], 0);
    atomic_store(&relay->urgent[place_of(relay, connection)], false);
    relay->count++;
    if (!connect_inner(relay, connection)) {
        relay->is_accepting = false; // until libzmq has caught up
    }
    settle(relay, connection);
}

// libzmq 4.3.4 aborts when it accepts a path and there is no descriptor for it. The system gives the lowest free number.
static bool is_among_the_last(int fd)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) != 0 || (rlim_t)fd + DESCRIPTORS_SPARE > limit.rlim_cur;
}

static void accept_one(or_zmq_relay_t *relay, const entrance_t *entrance, int64_t now)
{
    struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
    socklen_t bytes = sizeof address;
    int fd =
        accept4(entrance->fd, (struct sockaddr *)&address, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        bool none_left = errno == EMFILE || errno == ENFILE || errno == ENOMEM;
        relay->accept_at_ns = none_left ? now + LATER_MS * OR_NS_PER_MS : 0;
        relay->is_accepting = relay->is_accepting && !none_left;
        return;
    }
    if (is_among_the_last(fd)) {
        say_full(relay, now);
        close(fd);
        return;
    }
    if (address.ss_family != AF_UNIX) {
        set_up_tcp(fd);
    }
    begin(relay, fd, &address,
          entrance->encrypted     ? OR_ZMQ_CURVE
          : is_loopback(&address) ? OR_ZMQ_NEAR
                                  : OR_ZMQ_FAR,
          now);
}

static void set_accepting(or_zmq_relay_t *relay, bool accepting)
{
    for (size_t i = 0; i < relay->entrance_count; i++) {
        uint32_t wants = accepting ? 0 : EPOLLIN;
        want(relay, relay->entrances[i].fd, tag(i, ENTRANCE, 0), &wants, accepting ? EPOLLIN : 0);
    }
    relay->is_accepting = accepting;
}

// ---- the look at all of them ----

typedef struct {
    uint64_t whole[SORTS], parts; // cost of whole frames, and of those under way
    connection_t *slowest;        // of those with a large part
    size_t paused, unconnected;
} sums_t;

// Bytes a second of the frame under way.
static double speed_of(const connection_t *connection, int64_t now)
{
    return (double)connection->flow.begun / (double)(now - connection->frame_ns + OR_NS_PER_MS);
}

static void add(or_zmq_relay_t *relay, connection_t *connection, int64_t now, sums_t *sums)
{
    uint64_t whole = whole_of(relay, connection);
    uint64_t part = connection->peer_ended ? 0 : connection->flow.begun; // libzmq drops it then
    note_progress(relay, connection, now);
    sums->whole[sort_of(relay, connection)] += whole;
    sums->parts += part;
    sums->paused += connection->is_paused;
    sums->unconnected += connection->inner < 0;
    if (part >= SLOW_MIN &&
        (sums->slowest == NULL || speed_of(connection, now) < speed_of(sums->slowest, now))) {
        sums->slowest = connection;
    }
}

// The hub's sockets were empty twice since it has last taken anything of this one, or it sleeps, and libzmq has read all
// that was passed: what is left are parts of a message that has no end.
static bool is_stuck(or_zmq_relay_t *relay, const connection_t *connection, int64_t now)
{
    int unread = 0;
    return connection->inner >= 0 && !connection->peer_ended && whole_of(relay, connection) > 0 &&
           now - connection->moved_ns > STUCK_NS &&
           (hub_sleeps(relay, now) ||
            atomic_load(&relay->empty_count) >= connection->moved_empty + 2) &&
           ioctl(connection->inner, TIOCOUTQ, &unread) == 0 && unread == 0;
}

// A living host acknowledges what it is sent, and is asked where it is sent nothing.
static bool has_vanished(const connection_t *connection)
{
    struct tcp_info info = {0};
    socklen_t bytes = sizeof info;
    return connection->address.ss_family != AF_UNIX && !connection->peer_ended &&
           getsockopt(connection->peer, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0 &&
           info.tcpi_last_ack_recv > VANISHED_MS && info.tcpi_last_data_recv > VANISHED_MS;
}

// Cut whoever nothing good can come of.
static void cut_hopeless(or_zmq_relay_t *relay, int64_t now)
{
    bool asks = now - relay->asked_ns >= OR_NS_PER_S;
    for (size_t i = 0; i < relay->top; i++) {
        connection_t *each = &relay->connections[i];
        const char *why = !each->used                  ? NULL
                          : is_stuck(relay, each, now) ? "its message has no end"
                          : asks && has_vanished(each) ? "its host has vanished"
                                                       : NULL;
        if (why != NULL) {
            cut(each, why);
            settle(relay, each);
        }
    }
    relay->asked_ns = asks ? now : relay->asked_ns;
}

// Frames of connections that ended are with the hub until it takes them, or has found its sockets empty.
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
        cut(sums->slowest, "its frame comes slowly, and there is no room for the frames of others");
        settle(relay, sums->slowest);
    }
}

static void resume(or_zmq_relay_t *relay, connection_t *connection)
{
    if (connection->inner < 0 && !connection->inner_ended) {
        (void)connect_inner(relay, connection);
    }
    if (connection->is_paused) {
        connection->is_paused = read_size(relay, connection) == 0;
    }
    settle(relay, connection);
}

// What epoll may wait for after this, in milliseconds.
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
    for (size_t i = 0; i < relay->top && sums.paused + sums.unconnected > 0; i++) {
        connection_t *each = &relay->connections[i];
        if (each->used && (each->is_paused || each->inner < 0)) {
            resume(relay, each);
        }
    }
    if (!relay->is_accepting && sums.unconnected == 0 && now >= relay->accept_at_ns) {
        set_accepting(relay, true);
    }
    if (sums.paused + sums.unconnected > 0) {
        return AGAIN_MS;
    }
    bool quiet =
        relay->is_accepting && relay->whole[ORDINARY] + relay->whole[URGENT] + sums.parts == 0;
    return !quiet ? LATER_MS : relay->count > 0 ? ASK_MS : -1;
}

// ---- the thread ----

static void serve(or_zmq_relay_t *relay, const struct epoll_event *event, int64_t now)
{
    size_t at = (uint32_t)event->data.u64 >> 2;
    kind_t kind = (kind_t)(event->data.u64 & 3);
    uint64_t count;
    if (kind == STOP) {
        (void)!read(relay->stop_fd, &count, sizeof count);
    } else if (kind == ENTRANCE) {
        if (relay->is_accepting) {
            accept_one(relay, &relay->entrances[at], now);
        }
    } else if (!relay->connections[at].used ||
               atomic_load(&relay->generations[at]) != event->data.u64 >> 32) {
        return; // it was for the connection that had this place before
    } else if (kind == PEER) {
        serve_peer(relay, &relay->connections[at], event->events, now);
    } else {
        serve_inner(relay, &relay->connections[at], event->events);
    }
}

// One wait, and what it brings.
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
        set_accepting(relay, false);
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
    set_accepting(relay, false);
    while (relay->count > 0 && or_clock_now(or_clock_monotonic()) < end_ns) {
        for (size_t i = 0; i < relay->top; i++) {
            connection_t *each = &relay->connections[i];
            if (each->used) {
                each->is_paused = true; // nothing more is read of the peer
                settle(relay, each);
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
    set_accepting(relay, true);
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
    connection_t *connections = calloc(OR_ZMQ_RELAY_CONNECTIONS, sizeof *connections);
    if (relay == NULL || connections == NULL) {
        free(relay);
        free(connections);
        return or_fail(OR_ERR_NO_MEMORY, "no memory to pass connections on");
    }
    relay->connections = connections;
    relay->secret = or_rng_system_seed();
    relay->said_full_ns = relay->said_refused_ns = -SAY_AGAIN_NS;
    relay->limit = connections_max();
    for (int i = 0; i < OR_ZMQ_EXITS; i++) {
        snprintf(relay->exits[i], sizeof relay->exits[i], "ipc://@outrider.%016" PRIx64 ".%s",
                 relay->secret, names[i]);
    }
    relay->epoll = epoll_create1(EPOLL_CLOEXEC);
    relay->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = tag(0, STOP, 0)};
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
    if (relay->entrance_count == LISTENS_MAX) {
        return or_fail(OR_ERR_INVALID, "cannot listen on %s: at most %d places", endpoint,
                       LISTENS_MAX);
    }
    entrance_t *entrance = &relay->entrances[relay->entrance_count];
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
            forget(relay, &relay->connections[i]);
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
