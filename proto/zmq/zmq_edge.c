// The edge's kind of channel: one hub, and what is known of the connection to it.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log/log.h"
#include "proto/net/endpoint.h"
#include "proto/zmq/zmq_channel_internal.h"
#include "proto/zmq/zmq_frames.h"
#include "proto/zmq/zmq_monitor.h"

#define SAY_AGAIN_NS (60 * OR_NS_PER_S)
// ZeroMQ says within moments that it tries again. If it has given up, we try, less and less often.
#define REVIVE_NS (200 * OR_NS_PER_MS)
#define REVIVE_MAX_NS (2 * OR_NS_PER_S)

// The reasons from the vaguest to the surest: each is reported in place of those before it.
typedef enum {
    TROUBLE_NONE,
    TROUBLE_CLOSED,    // the hub closed the connection while we greeted it
    TROUBLE_GREETING,  // we did, for what it said: one encrypts, the other does not
    TROUBLE_UNWELCOME, // it knows who we are, and does not want us
} trouble_t;

struct or_zmq_watch {
    void *socket;  // borrowed
    void *monitor; // PAIR
    bool up;
    uint64_t made;        // connections so far
    bool closed;          // the hub has ended the greeting that goes on
    int64_t revive_at_ns; // connect anew then, unless ZeroMQ does; OR_TIME_NEVER
    int64_t revive_ns;
    char endpoint[512];
    bool encrypted;
    char own_key[OR_KEY_BYTES], server_key[OR_KEY_BYTES]; // public ones
    trouble_t trouble;
    int64_t said_ns; // 0: not yet
    char text[1024];
};

static void describe(or_zmq_watch_t *watch)
{
    char *text = watch->text;
    size_t capacity = sizeof watch->text;
    switch (watch->trouble) {
    case TROUBLE_NONE:
        text[0] = '\0';
        break;
    case TROUBLE_CLOSED:
        snprintf(text, capacity,
                 "%s closes the connection when it is greeted: the coordinator there has another "
                 "key than the one we expect (%.8s...), does not encrypt, or is none",
                 watch->endpoint, watch->server_key);
        break;
    case TROUBLE_GREETING:
        snprintf(text, capacity,
                 watch->encrypted
                     ? "what is at %s does not encrypt, and we do: a coordinator must listen there "
                       "with encryption, or we come with --encrypt off"
                     : "the coordinator at %s encrypts, and we do not: say --encrypt on",
                 watch->endpoint);
        break;
    case TROUBLE_UNWELCOME:
        snprintf(text, capacity,
                 "the coordinator at %s does not know our key: run `outrider keys authorize '%s'` "
                 "on its machine",
                 watch->endpoint, watch->own_key);
        break;
    }
}

// Note a reason. Attempts go on, several a second, so a reason is logged when it is new, and now and then.
static void note_trouble(or_zmq_watch_t *watch, trouble_t trouble)
{
    int64_t now = or_clock_now(or_clock_monotonic());
    bool is_new = trouble > watch->trouble;
    if (is_new) {
        watch->trouble = trouble;
        describe(watch);
    }
    if (is_new || now - watch->said_ns >= SAY_AGAIN_NS) {
        watch->said_ns = now;
        // A connection that is closed once may be a coordinator that is just stopping.
        or_log(watch->trouble == TROUBLE_CLOSED && is_new ? OR_LOG_DEBUG : OR_LOG_WARN, "%s",
               watch->text);
    }
}

// Take the end of a connection. ZeroMQ makes another, unless bytes made no sense to it: then it gives the endpoint up
// and says nothing.
static void take_end(or_zmq_watch_t *watch)
{
    if (!watch->up && !watch->closed && watch->encrypted) {
        note_trouble(watch, TROUBLE_GREETING);
    }
    watch->up = watch->closed = false;
    watch->revive_at_ns = or_clock_now(or_clock_monotonic()) + watch->revive_ns;
}

static void take_connection(or_zmq_watch_t *watch)
{
    watch->up = true;
    watch->made++;
    watch->revive_ns = REVIVE_NS;
    watch->trouble = TROUBLE_NONE;
    describe(watch);
}

static void take(or_zmq_watch_t *watch, const or_zmq_event_t *event)
{
    switch (event->what) {
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        take_connection(watch);
        break;
    case ZMQ_EVENT_CONNECT_RETRIED:
        watch->revive_at_ns = OR_TIME_NEVER;
        break;
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
        watch->closed = true;
        note_trouble(watch, TROUBLE_UNWELCOME);
        break;
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
        if (event->value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH) {
            note_trouble(watch, TROUBLE_GREETING);
        }
        break;
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
        watch->closed = true;
        if (watch->encrypted) {
            note_trouble(watch, TROUBLE_CLOSED);
        }
        break;
    default:
        take_end(watch);
    }
}

static void revive(or_zmq_watch_t *watch)
{
    watch->revive_at_ns = OR_TIME_NEVER;
    watch->revive_ns = watch->revive_ns < REVIVE_MAX_NS ? 2 * watch->revive_ns : REVIVE_MAX_NS;
    (void)zmq_disconnect(watch->socket, watch->endpoint); // what is left of it
    if (zmq_connect(watch->socket, watch->endpoint) != 0) {
        or_log(OR_LOG_WARN, "cannot connect to %s: %s", watch->endpoint, zmq_strerror(errno));
        watch->revive_at_ns = or_clock_now(or_clock_monotonic()) + watch->revive_ns;
    }
}

bool or_zmq_watch_look(or_zmq_watch_t *watch)
{
    or_zmq_event_t event;
    uint64_t before = watch->made;
    while (or_zmq_monitor_next(watch->monitor, &event)) {
        take(watch, &event);
    }
    if (or_clock_now(or_clock_monotonic()) >= watch->revive_at_ns) {
        revive(watch);
    }
    return watch->made > before && watch->made > 1;
}

int64_t or_zmq_watch_due(const or_zmq_watch_t *watch)
{
    return watch->revive_at_ns;
}

void or_zmq_watch_fill(const or_zmq_watch_t *watch, zmq_pollitem_t *item)
{
    *item = (zmq_pollitem_t){.socket = watch->monitor, .events = ZMQ_POLLIN};
}

static uint64_t watch_connection(const or_zmq_watch_t *watch)
{
    return watch->up ? watch->made : 0;
}

static const char *watch_trouble(const or_zmq_watch_t *watch)
{
    return watch->text;
}

static bool watch_is_refused(const or_zmq_watch_t *watch)
{
    return watch->trouble == TROUBLE_UNWELCOME;
}

static or_status_t watch_create(void *context, void *socket, const char *endpoint,
                                const or_connect_keys_t *keys, or_zmq_watch_t **watch_p)
{
    or_zmq_watch_t *watch = calloc(1, sizeof *watch);
    if (watch == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a channel");
    }
    snprintf(watch->endpoint, sizeof watch->endpoint, "%s", endpoint);
    watch->socket = socket;
    watch->revive_at_ns = OR_TIME_NEVER;
    watch->revive_ns = REVIVE_NS;
    watch->encrypted = keys != NULL;
    if (keys != NULL) {
        memcpy(watch->own_key, keys->own.public_key, OR_KEY_BYTES);
        memcpy(watch->server_key, keys->server_key, OR_KEY_BYTES);
    }
    int events = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED |
                 ZMQ_EVENT_CONNECT_RETRIED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                 ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
    // If frames are encrypted, this event must not be asked for: see zmq_guard.c.
    events |= keys == NULL ? ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL : 0;
    or_status_t status = or_zmq_monitor_open(context, socket, events, &watch->monitor);
    if (status != OR_OK) {
        free(watch);
        return status;
    }
    *watch_p = watch;
    return OR_OK;
}

void or_zmq_watch_destroy(or_zmq_watch_t **watch_p)
{
    or_zmq_watch_t *watch = *watch_p;
    if (watch != NULL) {
        zmq_close(watch->monitor);
        free(watch);
        *watch_p = NULL;
    }
}

// ---- the channel ----

static const char *edge_key_of(const or_channel_t *channel, or_peer_t peer)
{
    return peer.value == OR_PEER_HUB.value ? ((const or_zmq_channel_t *)channel)->server_key : "";
}

static uint64_t edge_connection(const or_channel_t *channel)
{
    return watch_connection(((const or_zmq_channel_t *)channel)->watch);
}

static or_status_t edge_send(or_channel_t *channel, or_peer_t to, const uint8_t *frame,
                             size_t bytes)
{
    if (to.value != OR_PEER_HUB.value) {
        return or_fail(OR_ERR_UNREACHABLE, "an edge knows the hub only");
    }
    or_zmq_channel_t *self = (or_zmq_channel_t *)channel;
    or_status_t status = or_zmq_send_part(self->sockets[OR_DOOR_FAR], frame, bytes, 0);
    if (status == OR_ERR_FULL) { // so says ZeroMQ too where it has given the endpoint up
        (void)or_zmq_watch_look(self->watch);
        const char *trouble = watch_trouble(self->watch);
        return trouble[0] != '\0' ? or_fail(OR_ERR_UNREACHABLE, "%s", trouble) : status;
    }
    return status;
}

static or_status_t edge_receive(or_channel_t *channel, or_peer_t *from, const uint8_t **frame,
                                size_t *bytes)
{
    or_zmq_channel_t *self = (or_zmq_channel_t *)channel;
    (void)or_zmq_watch_look(self->watch);
    or_status_t status = or_zmq_receive_frame(self->sockets[OR_DOOR_FAR], NULL, &self->current);
    if (status == OR_OK) {
        *from = OR_PEER_HUB;
        *frame = zmq_msg_data(&self->current);
        *bytes = zmq_msg_size(&self->current);
    }
    return status;
}

static const or_channel_ops_t edge_ops = {.send = edge_send,
                                          .receive = edge_receive,
                                          .wait = or_zmq_channel_wait,
                                          .key_of = edge_key_of,
                                          .connection = edge_connection,
                                          .destroy = or_zmq_channel_destroy};

// For what is bound or connected next. Not always: ZeroMQ would then look names up by IPv6 first, and
// localhost would be ::1, where nobody may listen.
static or_status_t use_ipv6(or_zmq_channel_t *self, bool ipv6)
{
    const int value = ipv6;
    return zmq_setsockopt(self->sockets[OR_DOOR_FAR], ZMQ_IPV6, &value, sizeof value) == 0
               ? OR_OK
               : or_fail(OR_ERR_IO, "cannot set up a socket: %s", zmq_strerror(errno));
}

static or_status_t encrypt_edge(or_zmq_channel_t *self, const or_connect_keys_t *keys)
{
    or_status_t status = or_zmq_check_curve();
    if (status == OR_OK && (zmq_setsockopt(self->sockets[OR_DOOR_FAR], ZMQ_CURVE_SERVERKEY,
                                           keys->server_key, OR_KEY_BYTES) != 0 ||
                            zmq_setsockopt(self->sockets[OR_DOOR_FAR], ZMQ_CURVE_PUBLICKEY,
                                           keys->own.public_key, OR_KEY_BYTES) != 0 ||
                            zmq_setsockopt(self->sockets[OR_DOOR_FAR], ZMQ_CURVE_SECRETKEY,
                                           keys->own.secret_key, OR_KEY_BYTES) != 0)) {
        status = or_zmq_fail_keys();
    }
    if (status == OR_OK) {
        memcpy(self->server_key, keys->server_key, sizeof self->server_key);
    }
    return status;
}

or_status_t or_channel_zmq_connect(const char *endpoint, const or_connect_keys_t *keys,
                                   or_channel_t **channel_p)
{
    or_zmq_channel_t *self;
    bool encrypted = keys != NULL && keys->encrypted, ipv6 = false;
    or_status_t status = or_endpoint_check(endpoint, false);
    if (status == OR_OK) {
        status = or_endpoint_look_up(endpoint, &ipv6);
    }
    if (status == OR_OK) {
        status = or_zmq_channel_create(&edge_ops, ZMQ_DEALER, &self);
    }
    if (status != OR_OK) {
        return status;
    }
    status = encrypted ? encrypt_edge(self, keys) : OR_OK;
    if (status == OR_OK) {
        status = use_ipv6(self, ipv6);
    }
    if (status == OR_OK) {
        status = watch_create(self->context, self->sockets[OR_DOOR_FAR], endpoint,
                              encrypted ? keys : NULL, &self->watch);
    }
    if (status == OR_OK && zmq_connect(self->sockets[OR_DOOR_FAR], endpoint) != 0) {
        status = or_fail(OR_ERR_INVALID, "cannot connect to %s: %s (expected tcp://HOST:PORT)",
                         endpoint, zmq_strerror(errno));
    }
    if (status != OR_OK) {
        or_zmq_channel_destroy(&self->channel);
        return status;
    }
    *channel_p = &self->channel;
    return OR_OK;
}

const char *or_channel_zmq_trouble(const or_channel_t *channel)
{
    const or_zmq_channel_t *self = (const or_zmq_channel_t *)channel;
    return channel->ops == &edge_ops ? watch_trouble(self->watch) : "";
}

bool or_channel_zmq_is_refused(const or_channel_t *channel)
{
    const or_zmq_channel_t *self = (const or_zmq_channel_t *)channel;
    return channel->ops == &edge_ops && watch_is_refused(self->watch);
}
