#include "proto/zmq/zmq_watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log/log.h"
#include "proto/zmq/zmq_monitor.h"

#define SAY_AGAIN_NS (60 * OR_NS_PER_S)
// ZeroMQ says within moments that it tries again; where it has given up, we do, less and less often.
#define REVIVE_NS (200 * OR_NS_PER_MS)
#define REVIVE_MAX_NS (2 * OR_NS_PER_S)

// From the vaguest to the surest: each is said in place of those before it.
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

// Attempts go on, several a second: each trouble is logged when it is new, and now and then.
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

// A connection has ended. ZeroMQ makes another, unless bytes made no sense to it: then it gives the endpoint
// up and says nothing.
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

uint64_t or_zmq_watch_connection(const or_zmq_watch_t *watch)
{
    return watch->up ? watch->made : 0;
}

const char *or_zmq_watch_trouble(const or_zmq_watch_t *watch)
{
    return watch->text;
}

bool or_zmq_watch_is_refused(const or_zmq_watch_t *watch)
{
    return watch->trouble == TROUBLE_UNWELCOME;
}

or_status_t or_zmq_watch_create(void *context, void *socket, const char *endpoint,
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
    // Where frames are encrypted this one must not be asked for: see zmq_guard.c.
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
