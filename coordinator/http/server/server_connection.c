// server_connection - a client's connection: how long it is waited for, and whether it is still there.
//
// While a call waits for something to send its connection is suspended, and the library looks at it no more. We look for
// one thing then: that the client is gone. A socket that was closed and one whose client merely has nothing more to send
// (shutdown of its write side) look the same until something is sent: both are EPOLLRDHUP. So:
//   - an event stream is sent an empty comment. A client that reads goes on reading; of one that is gone the kernel says so
//     (RST), which is EPOLLERR or EPOLLHUP.
//   - any other call that has nothing to send is taken for one whose client hung up, as most servers do.
// A client that half-closes and whose answer is ready gets it in any case. With TLS it is the socket, too, that tells.
//
// Where nearly all connections are taken, the oldest stranger's makes room for a new one: of those that are expecting a request
// and have never brought one that was let in. Who comes and asks is let in long before its turn to go.
//
// Where a request is waited for we look, too: the library overlooks an end that comes in one piece with what is before it,
// and such a client would wait for us to hang up. While bytes lie in the socket the library has to read them first, so that
// the connection is looked at again a moment later (`ending`), and never in the same turn: a loop over connections that
// stay as they are would not end.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "coordinator/http/server/server_internal.h"

#define SENT_BYTES (64 << 10)       // that the system may hold for a reader
#define LOOK_NS (20 * OR_NS_PER_MS) // until the rest of what came before an end is looked for again

// Watch the descriptor. Errors and a full hang-up are always reported; EPOLLRDHUP says that no more will come.
static void watch(or_http_connection_t *connection, uint32_t events)
{
    struct epoll_event event = {.events = events | EPOLLONESHOT, .data.ptr = connection};
    epoll_ctl(connection->server->epoll_fd, connection->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD,
              connection->fd, &event);
    connection->watched = true;
}

static void unwatch(or_http_connection_t *connection)
{
    if (connection->watched) {
        epoll_ctl(connection->server->epoll_fd, EPOLL_CTL_DEL, connection->fd, NULL);
        connection->watched = false;
    }
}

static void make_room(or_http_server_t *server)
{
    uint32_t most = server->config.connections_max;
    or_http_connection_t *connection;
    if (server->connections <= most - (most + OR_HTTP_SPARE_SHARE - 1) / OR_HTTP_SPARE_SHARE) {
        return;
    }
    TAILQ_FOREACH(connection, &server->expecting, links)
    {
        if (!connection->known && !connection->cut) {
            or_http_connection_cut(connection);
            return;
        }
    }
}

or_http_connection_t *or_http_connection_open(or_http_server_t *server, struct MHD_Connection *mhd)
{
    or_http_connection_t *connection = calloc(1, sizeof *connection);
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (connection == NULL || info == NULL) {
        free(connection);
        return NULL;
    }
    make_room(server);
    connection->server = server;
    connection->mhd = mhd;
    connection->fd = info->connect_fd;
    connection->expecting = true;
    TAILQ_INSERT_TAIL(&server->expecting, connection, links);
    or_http_connection_expect(connection);
    watch(connection, EPOLLRDHUP);
    server->connections++;
    // A network that swallows everything would otherwise keep a stream alive for a quarter of an hour.
    unsigned silence_ms = server->config.request_timeout_s * 1000;
    setsockopt(connection->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, sizeof silence_ms);
    // Bytes that wait for a reader wait with us, where they are counted; the system would take megabytes.
    int send_bytes = SENT_BYTES;
    setsockopt(connection->fd, SOL_SOCKET, SO_SNDBUF, &send_bytes, sizeof send_bytes);
    return connection;
}

static void leave_list(or_http_connection_t *connection)
{
    or_http_server_t *server = connection->server;
    if (connection->expecting) {
        TAILQ_REMOVE(&server->expecting, connection, links);
    } else {
        TAILQ_REMOVE(&server->answering, connection, links);
    }
}

static void leave_ending(or_http_connection_t *connection)
{
    if (connection->ending) {
        TAILQ_REMOVE(&connection->server->ending, connection, ending_links);
        connection->ending = false;
    }
}

void or_http_connection_close(or_http_connection_t **connection_p)
{
    or_http_connection_t *connection = *connection_p;
    if (connection == NULL) {
        return;
    }
    // The library closes the descriptor next, and another connection may have its number at once.
    unwatch(connection);
    leave_ending(connection);
    leave_list(connection);
    connection->server->connections--;
    free(connection);
    *connection_p = NULL;
}

void or_http_connection_expect(or_http_connection_t *connection)
{
    or_http_server_t *server = connection->server;
    leave_list(connection);
    connection->expecting = true;
    // All have the same patience, so that the list is in order of its end.
    connection->patience_ns = or_clock_now(or_clock_monotonic()) +
                              (int64_t)server->config.request_timeout_s * OR_NS_PER_S;
    TAILQ_INSERT_TAIL(&server->expecting, connection, links);
}

void or_http_connection_answer(or_http_connection_t *connection)
{
    unwatch(connection);
    leave_ending(connection);
    leave_list(connection);
    connection->expecting = false;
    TAILQ_INSERT_TAIL(&connection->server->answering, connection, links);
}

void or_http_connection_finish(or_http_connection_t *connection)
{
    or_http_connection_expect(connection);
    watch(connection, EPOLLRDHUP);
}

void or_http_connection_suspend(or_http_connection_t *connection)
{
    MHD_suspend_connection(connection->mhd);
    connection->suspended = true;
    watch(connection, connection->half_closed ? 0 : EPOLLRDHUP);
}

void or_http_connection_resume(or_http_connection_t *connection)
{
    if (connection->suspended) {
        connection->suspended = false;
        unwatch(connection);
        MHD_resume_connection(connection->mhd);
    }
}

void or_http_connection_cut(or_http_connection_t *connection)
{
    leave_ending(connection);
    connection->cut = true;
    if (connection->call != NULL) {
        connection->call->gone = true;
    }
    // The library finds the socket closed, wherever it stands with it.
    shutdown(connection->fd, SHUT_RDWR);
    or_http_connection_resume(connection);
}

// Note that nothing more will come of an expected request. Bytes that came may still lie in the socket.
static void notice_the_end(or_http_connection_t *connection)
{
    char byte;
    leave_ending(connection);
    if (connection->call != NULL && connection->call->queued) {
        return; // refused before it was whole: the library hangs up
    }
    if (recv(connection->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0) {
        or_http_connection_cut(connection);
        return;
    }
    connection->ending = true;
    connection->look_ns = or_clock_now(or_clock_monotonic()) + LOOK_NS;
    TAILQ_INSERT_TAIL(&connection->server->ending, connection, ending_links);
}

void or_http_connections_look(or_http_server_t *server, int64_t now_ns)
{
    or_http_connection_t *first = TAILQ_FIRST(&server->ending);
    while (first != NULL && first->look_ns <= now_ns) {
        notice_the_end(first); // to the end of the list, or out of it
        first = TAILQ_FIRST(&server->ending);
    }
}

void or_http_connection_notice(or_http_connection_t *connection, uint32_t events)
{
    or_http_call_t *call = connection->call;
    if (!connection->watched) {
        return; // it was resumed since
    }
    if (connection->expecting) {
        notice_the_end(connection);
        return;
    }
    if ((events & (EPOLLERR | EPOLLHUP)) != 0 || !call->events || !call->queued) {
        or_http_connection_cut(connection);
        return;
    }
    connection->half_closed = true;
    if (call->between_events) {
        or_http_write(call, ":\n\n", 3);
    } else {
        or_http_connection_resume(connection); // the rest of the event will tell
    }
}

void or_http_connection_address(const or_http_connection_t *connection, char *text, size_t bytes)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = info != NULL ? info->client_addr : NULL;
    const char *written = NULL;
    if (address != NULL && address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)address;
        written = inet_ntop(AF_INET, &v4->sin_addr, text, (socklen_t)bytes);
    } else if (address != NULL && address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)address;
        written = inet_ntop(AF_INET6, &v6->sin6_addr, text, (socklen_t)bytes);
    }
    if (written == NULL) {
        snprintf(text, bytes, "?");
    }
}
