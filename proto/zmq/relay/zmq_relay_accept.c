// New connections: accepted from a peer, connected to libzmq.
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/log/log.h"
#include "proto/zmq/relay/zmq_relay_internal.h"

#define LATER_MS 100 // after the system had no descriptor left
#define SILENT_NS                                                                                  \
    (10 * OR_NS_PER_S) // a connection that was silent for so long may make room for another
#define STRANGER_NS (1 * OR_NS_PER_S) // the same of one that never said anything sensible
#define DESCRIPTORS_SPARE 32
// Hosts may vanish without a word. TCP asks a silent host after a while, and one that acknowledges nothing is gone.
#define KEEPALIVE_IDLE_S 10
#define KEEPALIVE_INTERVAL_S 3
#define KEEPALIVE_COUNT 4

static void fill_name(struct sockaddr_un *address, socklen_t *bytes, const or_relay_name_t *name)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path, name, sizeof *name);
    *bytes = offsetof(struct sockaddr_un, sun_path) + sizeof *name;
}

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
                   {IPPROTO_TCP, TCP_USER_TIMEOUT, OR_RELAY_VANISHED_MS}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int));
    }
}

bool or_relay_connect_inner(or_zmq_relay_t *relay, or_relay_connection_t *connection)
{
    struct sockaddr_un address;
    socklen_t bytes;
    size_t at = or_relay_place(relay, connection);
    const or_relay_name_t name = {.name = "relay",
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

static bool never_spoke(or_zmq_relay_t *relay, const or_relay_connection_t *connection)
{
    return atomic_load(&relay->taken[or_relay_place(relay, connection)]) == 0;
}

// Return the connection that makes room for another one; NULL if none has to.
static or_relay_connection_t *find_dispensable(or_zmq_relay_t *relay, int64_t now)
{
    or_relay_connection_t *found = NULL;
    bool found_stranger = false;
    for (size_t i = 0; i < relay->top; i++) {
        or_relay_connection_t *each = &relay->connections[i];
        bool stranger = each->used && never_spoke(relay, each);
        bool lingers =
            each->peer_ended && or_relay_has_pending(&each->out); // its peer reads nothing
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

static or_relay_connection_t *free_place(or_zmq_relay_t *relay)
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
    if (now - relay->said_full_ns >= OR_RELAY_SAY_AGAIN_NS) {
        relay->said_full_ns = now;
        or_log(OR_LOG_WARN, "%zu connections are open, and no more can be: a new one is refused",
               relay->count);
    }
}

static void begin(or_zmq_relay_t *relay, int fd, const struct sockaddr_storage *address,
                  or_zmq_exit_t exit, int64_t now)
{
    or_relay_connection_t *connection = free_place(relay);
    if (connection == NULL) {
        or_relay_connection_t *least = find_dispensable(relay, now);
        if (least != NULL) {
            or_relay_cut(least, "another one needs its place");
            or_relay_settle(relay, least);
        }
        say_full(relay, now);
        close(fd);
        return;
    }
    *connection = (or_relay_connection_t){
        .used = true, .peer = fd, .inner = -1, .exit = exit, .address = *address};
    connection->flow.commands = exit == OR_ZMQ_CURVE ? 2 : 1;
    connection->heard_ns = connection->moved_ns = now;
    atomic_store(&relay->taken[or_relay_place(relay, connection)], 0);
    atomic_store(&relay->urgent[or_relay_place(relay, connection)], false);
    relay->count++;
    if (!or_relay_connect_inner(relay, connection)) {
        relay->is_accepting = false; // until libzmq has caught up
    }
    or_relay_settle(relay, connection);
}

// libzmq 4.3.4 aborts when it accepts a path and there is no descriptor for it. The system gives the lowest free number.
static bool is_among_the_last(int fd)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) != 0 || (rlim_t)fd + DESCRIPTORS_SPARE > limit.rlim_cur;
}

void or_relay_accept(or_zmq_relay_t *relay, const or_relay_entrance_t *entrance, int64_t now)
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

void or_relay_set_accepting(or_zmq_relay_t *relay, bool accepting)
{
    for (size_t i = 0; i < relay->entrance_count; i++) {
        uint32_t wants = accepting ? 0 : EPOLLIN;
        or_relay_want(relay, relay->entrances[i].fd, or_relay_tag(i, ENTRANCE, 0), &wants,
                      accepting ? EPOLLIN : 0);
    }
    relay->is_accepting = accepting;
}
