#include "proto/channel_zmq.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zmq.h>

#include "common/base/clock.h"
#include "common/base/interrupt.h"
#include "common/base/log.h"
#include "proto/message.h"

#define LINGER_MS 200 // last messages get out, shutdown never hangs
#define QUEUE_FRAMES 1000
#define RECONNECT_MS 50
#define RECONNECT_MAX_MS 1000
#define HEARTBEAT_MS 1000 // ZMTP's own: finds hosts that vanished without closing the connection
// ZeroMQ takes only whole frames for a sign of life, and a large one on a slow line lets no other
// through meanwhile: longer than a link is patient, which notices silence earlier anyway.
#define HEARTBEAT_TIMEOUT_MS 20000
#define IDENTITY_BYTES_MAX 255 // ZeroMQ's limit

// A connection as ROUTER names it.
typedef struct {
    or_peer_t peer;
    bool local;
    size_t bytes;
    uint8_t identity[IDENTITY_BYTES_MAX];
} connection_t;

typedef struct {
    or_channel_t channel; // first
    void *context;
    void *socket;
    zmq_msg_t current; // what the last receive gave
    // Hub only. Peers ascend: new ones go to the end.
    connection_t *connections;
    size_t count, capacity;
    uint64_t last_peer;
} zmq_channel_t;

static connection_t *find_peer(const zmq_channel_t *self, or_peer_t peer)
{
    size_t low = 0, high = self->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (self->connections[middle].peer.value < peer.value) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool found = low < self->count && self->connections[low].peer.value == peer.value;
    return found ? &self->connections[low] : NULL;
}

static const connection_t *find_identity(const zmq_channel_t *self, const void *identity,
                                         size_t bytes)
{
    for (size_t i = 0; i < self->count; i++) {
        const connection_t *connection = &self->connections[i];
        if (connection->bytes == bytes && memcmp(connection->identity, identity, bytes) == 0) {
            return connection;
        }
    }
    return NULL;
}

// Did this frame come over loopback? ZeroMQ knows the address of every frame's sender; over a path
// it has none, and only this machine can use one.
static bool came_locally(zmq_msg_t *frame)
{
    const char *address = zmq_msg_gets(frame, "Peer-Address");
    return address == NULL || strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0 ||
           strncmp(address, "::ffff:127.", 11) == 0;
}

// The peer behind an identity frame, a new one if it is not known; `frame` is what it sent.
static or_status_t peer_of(zmq_channel_t *self, zmq_msg_t *identity, zmq_msg_t *frame,
                           or_peer_t *peer)
{
    const void *data = zmq_msg_data(identity);
    size_t bytes = zmq_msg_size(identity);
    assert(bytes <= IDENTITY_BYTES_MAX); // ROUTER's promise
    const connection_t *known = find_identity(self, data, bytes);
    if (known != NULL) {
        *peer = known->peer;
        return OR_OK;
    }
    if (self->count == self->capacity) {
        size_t capacity = self->capacity > 0 ? 2 * self->capacity : 8;
        connection_t *larger = realloc(self->connections, capacity * sizeof *larger);
        if (larger == NULL) {
            return or_fail(OR_ERR_NO_MEMORY, "no memory for connection %zu", self->count + 1);
        }
        self->connections = larger;
        self->capacity = capacity;
    }
    connection_t *connection = &self->connections[self->count++];
    connection->peer.value = ++self->last_peer;
    connection->local = came_locally(frame);
    connection->bytes = bytes;
    memcpy(connection->identity, data, bytes);
    *peer = connection->peer;
    return OR_OK;
}

static void hub_forget(or_channel_t *channel, or_peer_t peer)
{
    zmq_channel_t *self = (zmq_channel_t *)channel;
    connection_t *connection = find_peer(self, peer);
    if (connection != NULL) {
        size_t behind = (size_t)(self->connections + --self->count - connection);
        memmove(connection, connection + 1, behind * sizeof *connection);
    }
}

static bool hub_is_local(const or_channel_t *channel, or_peer_t peer)
{
    const connection_t *connection = find_peer((const zmq_channel_t *)channel, peer);
    return connection != NULL && connection->local;
}

static bool edge_is_local(const or_channel_t *channel, or_peer_t peer)
{
    (void)channel;
    (void)peer;
    return false;
}

static void edge_forget(or_channel_t *channel, or_peer_t peer)
{
    (void)channel;
    (void)peer;
}

// Queue one part of a message.
static or_status_t send_part(zmq_channel_t *self, const void *data, size_t bytes, int more)
{
    while (zmq_send(self->socket, data, bytes, ZMQ_DONTWAIT | more) < 0) {
        switch (errno) {
        case EINTR:
            break;
        case EAGAIN:
            return or_fail(OR_ERR_FULL, "%d frames wait already for the peer", QUEUE_FRAMES);
        case EHOSTUNREACH:
            return or_fail(OR_ERR_UNREACHABLE, "the peer has closed its connection");
        default:
            return or_fail(OR_ERR_IO, "cannot send: %s", zmq_strerror(errno));
        }
    }
    return OR_OK;
}

static or_status_t hub_send(or_channel_t *channel, or_peer_t to, const uint8_t *frame, size_t bytes)
{
    zmq_channel_t *self = (zmq_channel_t *)channel;
    const connection_t *connection = find_peer(self, to);
    if (connection == NULL) {
        return or_fail(OR_ERR_UNREACHABLE, "peer %" PRIu64 " is gone", to.value);
    }
    // The queue's bound is checked with the first part; the second goes where the first went.
    or_status_t status = send_part(self, connection->identity, connection->bytes, ZMQ_SNDMORE);
    if (status == OR_OK) {
        status = send_part(self, frame, bytes, 0);
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
    return send_part((zmq_channel_t *)channel, frame, bytes, 0);
}

static or_status_t receive_part(zmq_channel_t *self, zmq_msg_t *part)
{
    while (zmq_msg_recv(part, self->socket, ZMQ_DONTWAIT) < 0) {
        if (errno == EAGAIN) {
            return OR_ERR_AGAIN;
        }
        if (errno != EINTR) {
            return or_fail(OR_ERR_IO, "cannot receive: %s", zmq_strerror(errno));
        }
    }
    return OR_OK;
}

// We send one part; whatever else a stranger adds to it is thrown away.
static or_status_t skip_rest(zmq_channel_t *self, const zmq_msg_t *part)
{
    bool more = zmq_msg_more(part) != 0;
    or_status_t status = OR_OK;
    while (more && status == OR_OK) {
        zmq_msg_t rest;
        zmq_msg_init(&rest);
        status = receive_part(self, &rest);
        more = status == OR_OK && zmq_msg_more(&rest) != 0;
        zmq_msg_close(&rest);
    }
    return status;
}

static or_status_t receive_frame(zmq_channel_t *self, const uint8_t **frame, size_t *bytes)
{
    or_status_t status = receive_part(self, &self->current);
    if (status == OR_OK) {
        status = skip_rest(self, &self->current);
    }
    if (status == OR_OK) {
        *frame = zmq_msg_data(&self->current);
        *bytes = zmq_msg_size(&self->current);
    }
    return status;
}

static or_status_t hub_receive(or_channel_t *channel, or_peer_t *from, const uint8_t **frame,
                               size_t *bytes)
{
    zmq_channel_t *self = (zmq_channel_t *)channel;
    zmq_msg_t identity;
    zmq_msg_init(&identity);
    or_status_t status = receive_part(self, &identity);
    if (status == OR_OK) {
        status = receive_frame(self, frame, bytes); // even if the peer is not wanted: it is queued
    }
    if (status == OR_OK) {
        status = peer_of(self, &identity, &self->current, from);
    }
    zmq_msg_close(&identity);
    return status;
}

static or_status_t edge_receive(or_channel_t *channel, or_peer_t *from, const uint8_t **frame,
                                size_t *bytes)
{
    or_status_t status = receive_frame((zmq_channel_t *)channel, frame, bytes);
    if (status == OR_OK) {
        *from = OR_PEER_HUB;
    }
    return status;
}

// Whole milliseconds, rounded up so that a short wait is not a busy one.
static long to_ms(int64_t timeout_ns)
{
    if (timeout_ns <= 0) {
        return 0;
    }
    int64_t ms = (timeout_ns - 1) / OR_NS_PER_MS + 1;
    return ms < INT_MAX ? (long)ms : INT_MAX;
}

static or_status_t channel_wait(or_channel_t *channel, int64_t timeout_ns)
{
    zmq_pollitem_t items[2] = {
        {.socket = ((zmq_channel_t *)channel)->socket, .events = ZMQ_POLLIN},
        {.fd = or_interrupt_fd(), .events = ZMQ_POLLIN},
    };
    int ready = zmq_poll(items, items[1].fd >= 0 ? 2 : 1, to_ms(timeout_ns));
    if (ready < 0 && errno != EINTR) {
        return or_fail(OR_ERR_IO, "cannot wait for frames: %s", zmq_strerror(errno));
    }
    if (items[1].revents != 0) {
        or_interrupt_drain();
    }
    return ready == 0 ? OR_ERR_TIMEOUT : OR_OK;
}

static void channel_destroy(or_channel_t *channel)
{
    zmq_channel_t *self = (zmq_channel_t *)channel;
    zmq_msg_close(&self->current);
    if (self->socket != NULL) {
        zmq_close(self->socket);
    }
    while (zmq_ctx_term(self->context) < 0 && errno == EINTR) {
    }
    free(self->connections);
    free(self);
}

static const or_channel_ops_t hub_ops = {hub_send,   hub_receive,  channel_wait,
                                         hub_forget, hub_is_local, channel_destroy};
static const or_channel_ops_t edge_ops = {edge_send,   edge_receive,  channel_wait,
                                          edge_forget, edge_is_local, channel_destroy};

static or_status_t set_options(void *socket, bool hub)
{
    const struct {
        int option, value;
    } settings[] = {
        {ZMQ_LINGER, LINGER_MS},
        {ZMQ_SNDHWM, QUEUE_FRAMES},
        {ZMQ_RCVHWM, QUEUE_FRAMES},
        {ZMQ_RECONNECT_IVL, RECONNECT_MS},
        {ZMQ_RECONNECT_IVL_MAX, RECONNECT_MAX_MS},
        {ZMQ_HEARTBEAT_IVL, HEARTBEAT_MS},
        {ZMQ_HEARTBEAT_TIMEOUT, HEARTBEAT_TIMEOUT_MS},
        {ZMQ_HEARTBEAT_TTL, HEARTBEAT_TIMEOUT_MS},
        {ZMQ_ROUTER_MANDATORY, 1}, // the hub's only; last
    };
    size_t count = sizeof settings / sizeof *settings - (hub ? 0 : 1);
    int failed = 0;
    for (size_t i = 0; i < count; i++) {
        failed |= zmq_setsockopt(socket, settings[i].option, &settings[i].value, sizeof(int));
    }
    int64_t bytes_max = OR_FRAME_BYTES_MAX;
    failed |= zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &bytes_max, sizeof bytes_max);
    return failed ? or_fail(OR_ERR_IO, "cannot set up a socket: %s", zmq_strerror(errno)) : OR_OK;
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
    self->channel.ops = hub ? &hub_ops : &edge_ops;
    self->last_peer = OR_PEER_HUB.value;
    zmq_msg_init(&self->current);
    self->socket = zmq_socket(self->context, hub ? ZMQ_ROUTER : ZMQ_DEALER);
    or_status_t status = self->socket != NULL
                             ? set_options(self->socket, hub)
                             : or_fail(OR_ERR_IO, "cannot open a socket: %s", zmq_strerror(errno));
    if (status != OR_OK) {
        channel_destroy(&self->channel);
        return status;
    }
    *self_p = self;
    return OR_OK;
}

// tcp://HOST:PORT or ipc://PATH. ZeroMQ would take a port modulo 65536, and transports that reach
// no other process.
static or_status_t check_endpoint(const char *endpoint, bool listening)
{
    static const char tcp[] = "tcp://", ipc[] = "ipc://";
    const char *host =
        strncmp(endpoint, tcp, sizeof tcp - 1) == 0 ? endpoint + sizeof tcp - 1 : NULL;
    const char *colon = host != NULL ? strrchr(host, ':') : NULL;
    if (strncmp(endpoint, ipc, sizeof ipc - 1) == 0 && endpoint[sizeof ipc - 1] != '\0') {
        return OR_OK;
    }
    if (colon == NULL || colon == host) {
        return or_fail(OR_ERR_INVALID,
                       "%s is not an endpoint (expected tcp://%s:PORT or ipc://PATH)", endpoint,
                       listening ? "ADDRESS" : "HOST");
    }
    const char *port = colon + 1;
    if (listening && strcmp(port, "*") == 0) {
        return OR_OK;
    }
    size_t digits = strspn(port, "0123456789");
    long number = digits > 0 && digits < 10 && port[digits] == '\0' ? strtol(port, NULL, 10) : -1;
    if (number < (listening ? 0 : 1) || number > UINT16_MAX) {
        return or_fail(OR_ERR_INVALID, "%s: the port is not a number from %s", endpoint,
                       listening ? "0 to 65535, or * for any free one" : "1 to 65535");
    }
    return OR_OK;
}

// ZeroMQ looks names up in the background, where nobody hears that there is no such name.
static or_status_t check_host(const char *endpoint)
{
    const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char host[256];
    if (sscanf(endpoint, "tcp://%255[^:[]:", host) != 1) {
        return OR_OK; // a path, or an address in brackets
    }
    int error = getaddrinfo(host, NULL, &hints, &found);
    if (error == 0) {
        freeaddrinfo(found);
        return OR_OK;
    }
    if (error == EAI_NONAME) {
        return or_fail(OR_ERR_INVALID, "cannot connect to %s: there is no host '%s'", endpoint,
                       host);
    }
    or_log(OR_LOG_WARN, "cannot look up '%s' for now: %s", host, gai_strerror(error));
    return OR_OK;
}

static or_status_t fail_bind(const char *endpoint, int error)
{
    switch (error) {
    case EADDRINUSE:
        return or_fail(OR_ERR_IO,
                       "cannot listen on %s: address already in use (another coordinator? choose "
                       "another port with --listen)",
                       endpoint);
    case EACCES:
        return or_fail(OR_ERR_IO,
                       "cannot listen on %s: permission denied (ports below 1024 need privileges)",
                       endpoint);
    case ENODEV:
    case EADDRNOTAVAIL:
        return or_fail(OR_ERR_IO, "cannot listen on %s: this machine has no such address",
                       endpoint);
    case EINVAL:
    case EPROTONOSUPPORT:
        return or_fail(OR_ERR_IO,
                       "cannot listen on %s: not an endpoint (expected tcp://ADDRESS:PORT or "
                       "ipc://PATH)",
                       endpoint);
    default:
        return or_fail(OR_ERR_IO, "cannot listen on %s: %s", endpoint, zmq_strerror(error));
    }
}

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

or_status_t or_channel_zmq_bind(const char *endpoint, char *bound, size_t capacity,
                                or_channel_t **channel_p)
{
    zmq_channel_t *self;
    or_status_t status = check_endpoint(endpoint, true);
    if (status == OR_OK) {
        status = create(true, &self);
    }
    if (status != OR_OK) {
        return status;
    }
    if (zmq_bind(self->socket, endpoint) != 0) {
        status = fail_bind(endpoint, errno);
    } else if (bound != NULL) {
        status = report_bound(self, bound, capacity);
    }
    if (status != OR_OK) {
        channel_destroy(&self->channel);
        return status;
    }
    *channel_p = &self->channel;
    return OR_OK;
}

or_status_t or_channel_zmq_connect(const char *endpoint, or_channel_t **channel_p)
{
    zmq_channel_t *self;
    or_status_t status = check_endpoint(endpoint, false);
    if (status == OR_OK) {
        status = check_host(endpoint);
    }
    if (status == OR_OK) {
        status = create(false, &self);
    }
    if (status != OR_OK) {
        return status;
    }
    if (zmq_connect(self->socket, endpoint) != 0) {
        status = or_fail(OR_ERR_INVALID, "cannot connect to %s: %s (expected tcp://HOST:PORT)",
                         endpoint, zmq_strerror(errno));
        channel_destroy(&self->channel);
        return status;
    }
    *channel_p = &self->channel;
    return OR_OK;
}
