// The bytes of one connection, in both directions, and its end.
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "common/base/log/log.h"
#include "proto/zmq/relay/zmq_relay_internal.h"

// The bytes that libzmq has sent to a peer that is not let in (RFC 26).
#define WELCOMED_BYTES (OR_ZMTP_GREETING_BYTES + 2 + 168)

static const struct {
    uint64_t window;    // whole frames of one connection
    uint64_t whole_max; // whole frames of all
} bounds[SORTS] = {[ORDINARY] = {OR_ZMQ_RELAY_WINDOW, OR_ZMQ_RELAY_WHOLE_MAX},
                   [URGENT] = {OR_ZMQ_RELAY_URGENT_WINDOW, OR_ZMQ_RELAY_URGENT_WHOLE_MAX}};

// Bytes read at once between frames: few, so that few tiny ones overshoot the window.
static const size_t read_bytes[SORTS] = {[ORDINARY] = 512, [URGENT] = 4096};

static bool is_transient(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR || error == ENOBUFS;
}

void or_relay_want(or_zmq_relay_t *relay, int fd, uint64_t data, uint32_t *wants, uint32_t now)
{
    struct epoll_event event = {.events = now, .data.u64 = data};
    if (fd < 0 || now == *wants) {
        return;
    }
    // A descriptor without interest is taken out: epoll would report its end again and again.
    int how = now == 0 ? EPOLL_CTL_DEL : *wants == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    if (epoll_ctl(relay->epoll, how, fd, &event) == 0) {
        *wants = now;
    }
}

static void choose_wants(or_zmq_relay_t *relay, or_relay_connection_t *connection)
{
    size_t at = or_relay_place(relay, connection);
    uint32_t generation = atomic_load(&relay->generations[at]);
    bool in = or_relay_has_pending(&connection->in), out = or_relay_has_pending(&connection->out);
    bool reads = !connection->is_paused && !in && connection->inner >= 0;
    // A connection that is not read from is looked at for a reset. Its end in order waits behind what it sent.
    uint32_t peer_wants = connection->peer_ended ? 0 : reads ? EPOLLIN : EPOLLONESHOT;
    or_relay_want(relay, connection->peer, or_relay_tag(at, PEER, generation),
                  &connection->peer_wants, peer_wants | (out ? EPOLLOUT : 0u));
    or_relay_want(relay, connection->inner, or_relay_tag(at, INNER, generation),
                  &connection->inner_wants,
                  (!connection->inner_ended && !out ? EPOLLIN : 0u) | (in ? EPOLLOUT : 0u));
}

static void drop(or_relay_pending_t *pending)
{
    free(pending->data);
    *pending = (or_relay_pending_t){.data = NULL};
}

// Keep what could not be written. False: no memory.
static bool keep(or_relay_pending_t *pending, const uint8_t *data, size_t bytes)
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

void or_relay_forget(or_zmq_relay_t *relay, or_relay_connection_t *connection)
{
    size_t at = or_relay_place(relay, connection);
    relay->orphans += or_relay_whole(relay, connection);
    close(connection->peer);
    if (connection->inner >= 0) {
        close(connection->inner);
    }
    drop(&connection->in);
    drop(&connection->out);
    atomic_fetch_add(&relay->generations[at], 1);
    *connection = (or_relay_connection_t){.used = false};
    relay->count--;
}

// End libzmq's side in order, behind what came, if no more comes from the peer.
static void shut_inner(or_relay_connection_t *connection)
{
    if (connection->peer_ended && !or_relay_has_pending(&connection->in) &&
        !connection->inner_shut) {
        connection->inner_shut = true;
        if (connection->inner < 0 || shutdown(connection->inner, SHUT_WR) != 0) {
            connection->inner_ended = true;
        }
    }
}

void or_relay_cut(or_relay_connection_t *connection, const char *why)
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

// Return true if libzmq has ended its side, and the peer has what it said or cannot have it.
static bool is_over(const or_relay_connection_t *connection)
{
    return connection->inner_ended && !or_relay_has_pending(&connection->out);
}

void or_relay_settle(or_zmq_relay_t *relay, or_relay_connection_t *connection)
{
    shut_inner(connection);
    if (is_over(connection)) {
        or_relay_forget(relay, connection);
    } else {
        choose_wants(relay, connection);
    }
}

static void write_in(or_relay_connection_t *connection, const uint8_t *data, size_t bytes)
{
    ssize_t sent = write_some(connection->inner, data, bytes);
    if (sent < 0) {
        or_relay_cut(connection, "libzmq takes no more of it");
    } else if ((size_t)sent < bytes && !keep(&connection->in, data + sent, bytes - (size_t)sent)) {
        or_relay_cut(connection, "no memory");
    }
}

static void write_out(or_relay_connection_t *connection, const uint8_t *data, size_t bytes)
{
    ssize_t sent = write_some(connection->peer, data, bytes);
    if (sent < 0) { // what libzmq still says goes nowhere
        drop(&connection->out);
        connection->peer_ended = true;
    } else if ((size_t)sent < bytes && !keep(&connection->out, data + sent, bytes - (size_t)sent)) {
        or_relay_cut(connection, "no memory");
    }
}

// Write what is kept. A part that is written stays where it is.
static void flush(or_relay_pending_t *pending, int fd, or_relay_connection_t *connection)
{
    ssize_t sent = write_some(fd, pending->data + pending->begin, pending->end - pending->begin);
    if (sent < 0) {
        drop(pending);
        connection->peer_ended = true;
    } else {
        pending->begin += (size_t)sent;
        if (!or_relay_has_pending(pending)) {
            drop(pending);
        }
    }
}

// Return how much of whole frames a connection may have with the hub.
static uint64_t window(const or_zmq_relay_t *relay, or_relay_sort_t sort)
{
    uint64_t most = bounds[sort].whole_max, whole = relay->whole[sort];
    uint64_t free = whole < most ? most - whole : 0;
    return free < bounds[sort].window ? free : bounds[sort].window;
}

// Return how many bytes of the greeting may be read. libzmq is not told how the peer encrypts before it has said how
// it does: it hangs up at once if the two differ, and the peer would not learn why.
static size_t greeting_size(const or_relay_connection_t *connection)
{
    uint64_t most =
        connection->said < OR_ZMTP_GREETING_BYTES ? OR_ZMTP_VERSION_BYTES : OR_ZMTP_GREETING_BYTES;
    return most > connection->flow.greeted ? (size_t)(most - connection->flow.greeted) : 0;
}

static size_t at_most(uint64_t bytes, size_t most)
{
    return bytes < most ? (size_t)bytes : most;
}

// Return the bytes to the end of the frame under way and not beyond, or 1 for the first byte of the next frame.
static size_t one_frame(const or_relay_connection_t *connection)
{
    uint64_t wanted = or_zmtp_flow_wanted(&connection->flow);
    return wanted > 0 ? at_most(wanted, OR_RELAY_BULK_BYTES) : 1;
}

size_t or_relay_read_size(or_zmq_relay_t *relay, const or_relay_connection_t *connection)
{
    const or_zmtp_flow_t *flow = &connection->flow;
    or_relay_sort_t sort = or_relay_sort(relay, connection);
    uint64_t wanted = or_zmtp_flow_wanted(flow), waits = or_relay_whole(relay, connection);
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
    return at_most(wanted > least ? wanted : least, OR_RELAY_BULK_BYTES);
}

void or_relay_note_progress(or_zmq_relay_t *relay, or_relay_connection_t *connection, int64_t now)
{
    uint64_t taken = atomic_load(&relay->taken[or_relay_place(relay, connection)]);
    if (taken != connection->taken_before || or_relay_whole(relay, connection) == 0) {
        connection->taken_before = taken;
        connection->moved_ns = now;
        connection->moved_empty = atomic_load(&relay->empty_count);
    }
}

static void read_peer(or_zmq_relay_t *relay, or_relay_connection_t *connection, int64_t now)
{
    uint64_t whole;
    size_t most = or_relay_read_size(relay, connection);
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
    const uint64_t frames = connection->flow.frames;
    const bool begins = connection->flow.begun == 0;
    connection->heard_ns = now;
    if (!or_zmtp_flow_pass(&connection->flow, relay->bytes, (size_t)got, &whole)) {
        or_relay_cut(connection, "it does not speak as we do");
        return;
    }
    if (begins || connection->flow.frames != frames) {
        connection->older = connection->newer = (or_relay_mark_t){.at_ns = now};
    }
    or_relay_note_progress(relay, connection, now); // before this waits, too
    connection->passed += whole;
    relay->whole[or_relay_sort(relay, connection)] += whole;
    write_in(connection, relay->bytes, (size_t)got);
}

// Log where a refused connection came from. zmq_guard logs its key.
static void say_refused(or_zmq_relay_t *relay, const or_relay_connection_t *connection)
{
    int64_t now = or_clock_now(or_clock_monotonic());
    char host[NI_MAXHOST];
    if (connection->exit == OR_ZMQ_CURVE && !connection->peer_ended &&
        connection->said <= WELCOMED_BYTES &&
        now - relay->said_refused_ns >= OR_RELAY_SAY_AGAIN_NS &&
        getnameinfo((const struct sockaddr *)&connection->address, sizeof connection->address, host,
                    sizeof host, NULL, 0, NI_NUMERICHOST) == 0) {
        relay->said_refused_ns = now;
        or_log(OR_LOG_INFO, "a connection that was not let in came from %s", host);
    }
}

static void read_inner(or_zmq_relay_t *relay, or_relay_connection_t *connection)
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

void or_relay_serve_peer(or_zmq_relay_t *relay, or_relay_connection_t *connection, uint32_t events,
                         int64_t now)
{
    if ((events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0 &&
        or_relay_has_pending(&connection->out)) {
        flush(&connection->out, connection->peer, connection);
    }
    bool once = (connection->peer_wants & EPOLLONESHOT) != 0;
    if (once && (events & EPOLLERR) != 0) { // a reset: nothing can be read or written any more
        connection->peer_ended = true;
        drop(&connection->out);
    } else if (once && or_relay_has_pending(&connection->out)) {
        connection->peer_wants = UINT32_MAX; // to be looked at again
    } else if (!once && !connection->peer_ended && !or_relay_has_pending(&connection->in)) {
        read_peer(relay, connection, now);
    }
    or_relay_settle(relay, connection);
}

void or_relay_serve_inner(or_zmq_relay_t *relay, or_relay_connection_t *connection, uint32_t events)
{
    if ((events & (EPOLLOUT | EPOLLERR)) != 0 && or_relay_has_pending(&connection->in)) {
        flush(&connection->in, connection->inner, connection);
    }
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 &&
        !or_relay_has_pending(&connection->out)) {
        read_inner(relay, connection);
    }
    or_relay_settle(relay, connection);
}
