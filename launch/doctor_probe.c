#include "launch/doctor_probe.h"

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
#include "proto/channel_zmq.h"
#include "proto/message.h"

#define BEAT_PATIENCE_NS OR_NS_PER_S

static int64_t now(void)
{
    return or_clock_now(or_clock_monotonic());
}

// ---- does anybody listen? ZeroMQ tries again without end and tells nobody ----

typedef union {
    struct sockaddr any;
    struct sockaddr_in tcp;
    struct sockaddr_un path;
} address_t;

// The endpoint has passed or_channel_zmq_connect's checks.
static or_status_t resolve(const char *endpoint, address_t *address)
{
    char host[256];
    unsigned port;
    memset(address, 0, sizeof *address);
    if (strncmp(endpoint, "ipc://", 6) == 0) {
        address->path.sun_family = AF_UNIX;
        snprintf(address->path.sun_path, sizeof address->path.sun_path, "%s", endpoint + 6);
        return OR_OK;
    }
    const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    if (sscanf(endpoint, "tcp://%255[^:]:%u", host, &port) != 2) {
        return or_fail(OR_ERR_INVALID, "%s is not an endpoint (expected tcp://HOST:PORT)",
                       endpoint);
    }
    int error = getaddrinfo(host, NULL, &hints, &found);
    if (error != 0) {
        return or_fail(OR_ERR_INVALID, "cannot look up '%s': %s", host, gai_strerror(error));
    }
    memcpy(&address->tcp, found->ai_addr, sizeof address->tcp);
    freeaddrinfo(found);
    address->tcp.sin_port = htons((uint16_t)port);
    return OR_OK;
}

static bool is_loopback(const address_t *address)
{
    return address->any.sa_family == AF_UNIX ||
           ntohl(address->tcp.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

// The errno of a connection attempt; ETIMEDOUT once patience is over.
static int try_connect(const address_t *address)
{
    socklen_t bytes =
        address->any.sa_family == AF_UNIX ? sizeof address->path : sizeof address->tcp;
    int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return errno;
    }
    int error = connect(fd, &address->any, bytes) == 0 ? 0 : errno;
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

// The next message, the caller's to fini; OR_ERR_TIMEOUT, without a sentence, if none comes.
static or_status_t hear(or_probe_t *probe, int64_t deadline_ns, or_message_t *message)
{
    or_peer_t from;
    const uint8_t *frame;
    size_t bytes;
    or_status_t status;
    while ((status = or_channel_receive(probe->channel, &from, &frame, &bytes)) == OR_ERR_AGAIN) {
        int64_t left = deadline_ns - now();
        if (left <= 0) {
            return OR_ERR_TIMEOUT;
        }
        or_channel_wait(probe->channel, left);
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

static or_status_t greet(or_probe_t *probe, const char *endpoint)
{
    const or_message_t hello = {.type = OR_MSG_HELLO,
                                .body.hello = {.role = OR_ROLE_CLIENT,
                                               .software = "outrider " OR_VERSION,
                                               .arith_id = "",
                                               .model = "",
                                               .owner = ""}};
    int64_t deadline_ns = now() + OR_PROBE_PATIENCE_MS * OR_NS_PER_MS;
    or_status_t status = say(probe, &hello);
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
    return status == OR_ERR_TIMEOUT
               ? or_fail(OR_ERR_TIMEOUT,
                         "somebody listens at %s, but does not answer as an Outrider coordinator "
                         "within %d s",
                         endpoint, OR_PROBE_PATIENCE_MS / 1000)
               : status;
}

or_status_t or_probe_open(const char *endpoint, or_probe_t *probe)
{
    *probe = (or_probe_t){.channel = NULL};
    or_status_t status = or_channel_zmq_connect(endpoint, &probe->channel);
    if (status == OR_OK) {
        status = reach(endpoint, &probe->loopback);
    }
    return status == OR_OK ? greet(probe, endpoint) : status;
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
            // One of its own, sent at the same moment, would be taken for the answer: they are a
            // second apart, and any answer puts the next off.
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
