#include "launch/doctor/doctor_probe.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/version.h"
#include "proto/wire/message.h"
#include "proto/zmq/channel_zmq.h"

#define BEAT_PATIENCE_NS OR_NS_PER_S
#define LOOK_NS (20 * OR_NS_PER_MS)
// Connections may end before we are let in for so long: a key that was authorised just now is let in within a second.
#define TROUBLE_NS (3 * OR_NS_PER_S / 2)

static int64_t now(void)
{
    return or_clock_now(or_clock_monotonic());
}

// ---- does anybody listen? ZeroMQ tries again without end and tells nobody ----

typedef union {
    struct sockaddr any;
    struct sockaddr_in tcp;
    struct sockaddr_in6 tcp6;
    struct sockaddr_un path;
} address_t;

// getaddrinfo's error.
static int look_up(const char *host, const char *port, int family, address_t *address)
{
    const struct addrinfo hints = {.ai_family = family, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int error = getaddrinfo(host, port, &hints, &found);
    if (error == 0) {
        memcpy(address, found->ai_addr, found->ai_addrlen);
        freeaddrinfo(found);
    }
    return error;
}

// The endpoint has passed or_channel_zmq_connect's checks. Names are looked up as it does: IPv4 first.
static or_status_t resolve(const char *endpoint, address_t *address)
{
    char host[256], port[8];
    memset(address, 0, sizeof *address);
    if (strncmp(endpoint, "ipc://", 6) == 0) {
        address->path.sun_family = AF_UNIX;
        snprintf(address->path.sun_path, sizeof address->path.sun_path, "%s", endpoint + 6);
        return OR_OK;
    }
    bool ipv6 = sscanf(endpoint, "tcp://[%255[^]]]:%7[0-9]", host, port) == 2;
    if (!ipv6 && sscanf(endpoint, "tcp://%255[^:]:%7[0-9]", host, port) != 2) {
        return or_fail(OR_ERR_INVALID, "%s is not an endpoint (expected tcp://HOST:PORT)",
                       endpoint);
    }
    int error = look_up(host, port, ipv6 ? AF_INET6 : AF_INET, address);
    if (error == 0 || (!ipv6 && look_up(host, port, AF_INET6, address) == 0)) {
        return OR_OK;
    }
    return or_fail(OR_ERR_INVALID, "cannot look up '%s': %s", host, gai_strerror(error));
}

static bool is_loopback(const address_t *address)
{
    if (address->any.sa_family == AF_INET6) {
        return IN6_IS_ADDR_LOOPBACK(&address->tcp6.sin6_addr);
    }
    return address->any.sa_family == AF_UNIX ||
           ntohl(address->tcp.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

static socklen_t length_of(const address_t *address)
{
    switch (address->any.sa_family) {
    case AF_UNIX:
        return sizeof address->path;
    case AF_INET6:
        return sizeof address->tcp6;
    default:
        return sizeof address->tcp;
    }
}

// The errno of a connection attempt; ETIMEDOUT once patience is over.
static int try_connect(const address_t *address)
{
    int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return errno;
    }
    int error = connect(fd, &address->any, length_of(address)) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
        struct pollfd waiting = {fd, POLLOUT, 0};
        socklen_t size = sizeof error;
        if (poll(&waiting, 1, OR_PROBE_PATIENCE_MS) != 1) {
            error = ETIMEDOUT;
        } else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
            error = errno;
        }
    }
    close(fd);
    return error;
}

static or_status_t reach(const char *endpoint, bool *loopback)
{
    address_t address;
    or_status_t status = resolve(endpoint, &address);
    if (status != OR_OK) {
        return status;
    }
    int error = try_connect(&address);
    switch (error) {
    case 0:
        *loopback = is_loopback(&address);
        return OR_OK;
    case ECONNREFUSED:
    case ENOENT:
        return or_fail(OR_ERR_UNREACHABLE, "nobody listens at %s", endpoint);
    case ETIMEDOUT:
        return or_fail(OR_ERR_UNREACHABLE, "no connection to %s within %d s", endpoint,
                       OR_PROBE_PATIENCE_MS / 1000);
    default:
        return or_fail(OR_ERR_UNREACHABLE, "no connection to %s: %s", endpoint, strerror(error));
    }
}

// ---- talking ----

static or_status_t say(or_probe_t *probe, const or_message_t *message)
{
    uint8_t *frame;
    size_t bytes;
    or_status_t status = or_message_encode(message, &frame, &bytes);
    if (status == OR_OK) {
        status = or_channel_send(probe->channel, OR_PEER_HUB, frame, bytes);
        free(frame);
    }
    return status;
}

// Return when a connection that is not let in need not be waited for any longer.
static int64_t end_of_trouble(or_probe_t *probe)
{
    if (or_channel_zmq_trouble(probe->channel)[0] == '\0') {
        probe->trouble_ns = 0;
        return OR_TIME_NEVER;
    }
    probe->trouble_ns = probe->trouble_ns != 0 ? probe->trouble_ns : now();
    return probe->trouble_ns + TROUBLE_NS;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// The next message, the caller's to fini; OR_ERR_TIMEOUT, without a sentence, if none comes.
static or_status_t hear(or_probe_t *probe, int64_t deadline_ns, or_message_t *message)
{
    or_peer_t from;
    const uint8_t *frame;
    size_t bytes;
    or_status_t status;
    while ((status = or_channel_receive(probe->channel, &from, &frame, &bytes)) == OR_ERR_AGAIN) {
        int64_t left = earlier(deadline_ns, end_of_trouble(probe)) - now();
        if (left <= 0) {
            return OR_ERR_TIMEOUT;
        }
        or_channel_wait(probe->channel, earlier(left, LOOK_NS)); // trouble wakes nobody
    }
    return status == OR_OK ? or_message_decode(frame, bytes, message) : status;
}

static void take_welcome(or_probe_t *probe, const or_welcome_t *welcome)
{
    snprintf(probe->software, sizeof probe->software, "%s", welcome->software);
    snprintf(probe->model, sizeof probe->model, "%s", welcome->model);
    snprintf(probe->arith_id, sizeof probe->arith_id, "%s", welcome->arith_id);
    probe->vocab_hash = welcome->vocab_hash;
    probe->nodes_max = welcome->nodes_max;
    probe->drafters = welcome->drafters;
    probe->trusted = welcome->trusted;
}

static or_status_t greet(or_probe_t *probe, const char *endpoint, const char *owner)
{
    const or_message_t hello = {.type = OR_MSG_HELLO,
                                .body.hello = {.role = OR_ROLE_CLIENT,
                                               .software = "outrider " OR_VERSION,
                                               .arith_id = "",
                                               .model = "",
                                               .owner = owner}};
    int64_t deadline_ns = now() + OR_PROBE_PATIENCE_MS * OR_NS_PER_MS;
    or_status_t status = say(probe, &hello);
    status = status == OR_ERR_UNREACHABLE ? OR_OK : status; // the greeting failed already: hear why
    bool welcomed = false;
    while (status == OR_OK && !welcomed) {
        or_message_t message;
        status = hear(probe, deadline_ns, &message);
        if (status != OR_OK) {
            break;
        }
        welcomed = message.type == OR_MSG_WELCOME;
        if (welcomed) {
            take_welcome(probe, &message.body.welcome);
        } else if (message.type == OR_MSG_ERROR) {
            status = or_fail(OR_ERR_MISMATCH, "the coordinator at %s says: %s", endpoint,
                             message.body.error.text);
        }
        or_message_fini(&message);
    }
    if (status != OR_ERR_TIMEOUT) {
        return status;
    }
    const char *trouble = or_channel_zmq_trouble(probe->channel);
    probe->keyed = trouble[0] != '\0';
    return probe->keyed
               ? or_fail(OR_ERR_TIMEOUT, "%s", trouble)
               : or_fail(OR_ERR_TIMEOUT,
                         "somebody listens at %s, but does not answer as an Outrider coordinator "
                         "within %d s",
                         endpoint, OR_PROBE_PATIENCE_MS / 1000);
}

or_status_t or_probe_open(const char *endpoint, const or_connect_keys_t *keys, const char *owner,
                          or_probe_t *probe)
{
    *probe = (or_probe_t){.channel = NULL};
    or_status_t status = or_channel_zmq_connect(endpoint, keys, &probe->channel);
    // A connection that says nothing is an attempt without a key to a coordinator that encrypts: there it is only
    // looked for when it does not answer.
    bool encrypted = keys != NULL && keys->encrypted;
    if (status == OR_OK && !encrypted) {
        status = reach(endpoint, &probe->loopback);
    }
    if (status == OR_OK) {
        status = greet(probe, endpoint, owner);
    }
    if (status == OR_ERR_TIMEOUT && encrypted && !probe->keyed &&
        reach(endpoint, &probe->loopback) != OR_OK) {
        return OR_ERR_UNREACHABLE;
    }
    return status;
}

void or_probe_close(or_probe_t *probe)
{
    or_channel_destroy(&probe->channel);
}

static int ascending(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static or_status_t beat(or_probe_t *probe, int64_t *trip_ns)
{
    const or_message_t ask = {.type = OR_MSG_HEARTBEAT, .body.heartbeat = {.reply = 1}};
    int64_t begun = now();
    or_status_t status = say(probe, &ask);
    bool answered = false;
    while (status == OR_OK && !answered) {
        or_message_t message;
        status = hear(probe, begun + BEAT_PATIENCE_NS, &message);
        if (status == OR_OK) {
            // A heartbeat of the coordinator's own, sent at the same moment, would be taken for the answer. They
            // are a second apart, and any answer puts the next one off.
            answered = message.type == OR_MSG_HEARTBEAT;
            or_message_fini(&message);
        }
    }
    if (status == OR_ERR_TIMEOUT) {
        return or_fail(OR_ERR_TIMEOUT, "a heartbeat was not answered within %d s",
                       (int)(BEAT_PATIENCE_NS / OR_NS_PER_S));
    }
    *trip_ns = now() - begun;
    return status;
}

or_status_t or_probe_round_trips(or_probe_t *probe, int64_t *trips_ns, size_t count)
{
    or_status_t status = OR_OK;
    for (size_t i = 0; i < count && status == OR_OK; i++) {
        status = beat(probe, &trips_ns[i]);
    }
    if (status == OR_OK) {
        qsort(trips_ns, count, sizeof *trips_ns, ascending);
    }
    return status;
}
