#include "proto/zmq/zmq_guard.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log/log.h"
#include "common/base/math/rng.h"
#include "proto/zmq/zmq_monitor.h"

#define ZAP_PLACE "inproc://zeromq.zap.01" // RFC 27's
#define ZAP_VERSION "1.0"
#define SERVED_AT_ONCE 32
#define NOTICES 64
#define NOTICE_NS (60 * OR_NS_PER_S)
#define CURVE_KEY_BYTES 32
#define STAMP_CHARS 32
#define GREETING_MAX                                                                               \
    1024 // connections that have not said who they are; of more the oldest are let be

// A refusal: of a key, or of a kind of failure at an endpoint.
typedef struct {
    char what[160];
    int64_t said_ns; // 0: free
    uint64_t since;  // refusals that were not said
} notice_t;

struct or_zmq_guard {
    void *zap;     // REP
    void *monitor; // PAIR
    or_channel_admit_t admit;
    void *context;
    char stamp[STAMP_CHARS + 1];
    uint64_t refusals;
    notice_t notices[NOTICES];
    int greeting[GREETING_MAX]; // descriptors, the oldest first
    size_t greeting_count;
};

// ---- refusals ----

// Return the notice of this name, else the one that was logged the longest ago.
static notice_t *find_notice(or_zmq_guard_t *guard, const char *what)
{
    notice_t *oldest = &guard->notices[0];
    for (size_t i = 0; i < NOTICES; i++) {
        notice_t *notice = &guard->notices[i];
        if (strcmp(notice->what, what) == 0) {
            return notice;
        }
        if (notice->said_ns < oldest->said_ns) {
            oldest = notice;
        }
    }
    return oldest;
}

// Count a refusal, and log it unless that was done less than a minute ago.
static void refuse(or_zmq_guard_t *guard, const char *what, const char *why)
{
    int64_t now = or_clock_now(or_clock_monotonic());
    notice_t *notice = find_notice(guard, what);
    bool known = strcmp(notice->what, what) == 0;
    guard->refusals++;
    if (notice->said_ns != 0 && now - notice->said_ns < NOTICE_NS) {
        // With more of them than there is room for, new ones are only counted.
        notice->since += known;
        return;
    }
    uint64_t since = known ? notice->since : 0;
    if (since > 0) {
        or_log(OR_LOG_WARN, "refused %s: %s (and %" PRIu64 " times since that was said last)", what,
               why, since);
    } else {
        or_log(OR_LOG_WARN, "refused %s: %s", what, why);
    }
    *notice = (notice_t){.said_ns = now};
    snprintf(notice->what, sizeof notice->what, "%s", what);
}

static void refuse_key(or_zmq_guard_t *guard, const char *public_key, const char *why)
{
    char what[32], name[9];
    or_key_short(public_key, name);
    snprintf(what, sizeof what, "key %s...", name);
    refuse(guard, what, why);
}

bool or_zmq_guard_admits(or_zmq_guard_t *guard, const char *public_key)
{
    bool admitted = guard->admit(guard->context, public_key);
    if (!admitted) {
        refuse_key(guard, public_key, "it is authorized no longer");
    }
    return admitted;
}

uint64_t or_zmq_guard_refusals(const or_zmq_guard_t *guard)
{
    return guard->refusals;
}

// ---- keys ----

// A question of ZAP. A part that is too long for its place is not from libzmq.
typedef struct {
    char version[8];
    uint8_t id[64];
    size_t id_bytes;

    char mechanism[16];
    uint8_t key[CURVE_KEY_BYTES];
    size_t key_bytes;
} question_t;

// Take the next part, ended by a zero if it is cut to fit; false if the message has no further part.
static bool take_part(void *zap, void *data, size_t capacity, size_t *bytes)
{
    int more = 0;
    size_t more_bytes = sizeof more;
    if (zmq_getsockopt(zap, ZMQ_RCVMORE, &more, &more_bytes) != 0 || more == 0) {
        return false;
    }
    int length = zmq_recv(zap, data, capacity, ZMQ_DONTWAIT);
    *bytes = length < 0 ? 0 : (size_t)length;
    return length >= 0;
}

static bool take_text(void *zap, char *text, size_t capacity)
{
    size_t bytes;
    memset(text, 0, capacity);
    return take_part(zap, text, capacity - 1, &bytes) && bytes < capacity;
}

// Take a question; false if there is none. A part that cannot be read is left empty, and so refused.
static bool take_question(void *zap, question_t *question)
{
    char unused[256];
    size_t bytes;
    *question = (question_t){.id_bytes = 0};
    if (zmq_recv(zap, question->version, sizeof question->version - 1, ZMQ_DONTWAIT) < 0) {
        return false;
    }
    bool good = take_part(zap, question->id, sizeof question->id, &question->id_bytes) &&
                take_text(zap, unused, sizeof unused) &&         // the domain: we have one
                take_part(zap, unused, sizeof unused, &bytes) && // a path of the relay
                take_part(zap, unused, sizeof unused, &bytes) && // its routing id
                take_text(zap, question->mechanism, sizeof question->mechanism) &&
                take_part(zap, question->key, sizeof question->key, &question->key_bytes);
    if (!good || question->id_bytes > sizeof question->id) {
        question->id_bytes = 0;
    }
    while (take_part(zap, unused, sizeof unused, &bytes)) {
    }
    return true;
}

static bool is_let_in(or_zmq_guard_t *guard, const question_t *question, char key[OR_KEY_BYTES])
{
    bool curve = strcmp(question->version, ZAP_VERSION) == 0 &&
                 strcmp(question->mechanism, "CURVE") == 0 &&
                 question->key_bytes == CURVE_KEY_BYTES;
    if (!curve || zmq_z85_encode(key, question->key, CURVE_KEY_BYTES) == NULL) {
        refuse(guard, "a connection", "it showed no key");
        return false;
    }
    if (!guard->admit(guard->context, key)) {
        refuse_key(guard, key, "it is not authorized (outrider keys authorize)");
        return false;
    }
    return true;
}

static void answer(or_zmq_guard_t *guard, const question_t *question)
{
    char key[OR_KEY_BYTES] = "", name[STAMP_CHARS + OR_KEY_BYTES];
    bool in = is_let_in(guard, question, key);
    snprintf(name, sizeof name, "%s%s", guard->stamp, key);
    const struct {
        const void *data;
        size_t bytes;
    } parts[] = {{ZAP_VERSION, strlen(ZAP_VERSION)},
                 {question->id, question->id_bytes},
                 {in ? "200" : "400", 3},
                 {in ? "OK" : "not authorized", in ? 2 : 14},
                 {name, in ? strlen(name) : 0},
                 {"", 0}};
    size_t last = sizeof parts / sizeof *parts - 1;
    for (size_t i = 0; i <= last; i++) {
        if (zmq_send(guard->zap, parts[i].data, parts[i].bytes, i < last ? ZMQ_SNDMORE : 0) < 0) {
            or_log(OR_LOG_DEBUG, "a connection is left without an answer: %s", zmq_strerror(errno));
        }
    }
}

const char *or_zmq_guard_key_of(const or_zmq_guard_t *guard, zmq_msg_t *frame)
{
    const char *name = guard != NULL ? zmq_msg_gets(frame, "User-Id") : NULL;
    bool ours = name != NULL && strncmp(name, guard->stamp, STAMP_CHARS) == 0 &&
                strlen(name + STAMP_CHARS) == OR_KEY_CHARS;
    return ours ? name + STAMP_CHARS : "";
}

// ---- connections that do not come so far ----
//
// ZeroMQ would tell why (HANDSHAKE_FAILED_PROTOCOL), but 4.3.4 forgets to close a connection whose frames do not
// decode while somebody listens to that. So: who was accepted and ends before it is settled who it is. When one is
// settled we are not told which; it is taken to be the oldest, so that the count comes out right.

static void drop_greeting(or_zmq_guard_t *guard, size_t at)
{
    memmove(&guard->greeting[at], &guard->greeting[at + 1],
            (--guard->greeting_count - at) * sizeof *guard->greeting);
}

static void settle(or_zmq_guard_t *guard)
{
    if (guard->greeting_count > 0) {
        drop_greeting(guard, 0);
    }
}

static void begin_greeting(or_zmq_guard_t *guard, int fd)
{
    if (guard->greeting_count == GREETING_MAX) {
        drop_greeting(guard, 0);
    }
    guard->greeting[guard->greeting_count++] = fd;
}

static void end_greeting(or_zmq_guard_t *guard, int fd)
{
    for (size_t i = 0; i < guard->greeting_count; i++) {
        if (guard->greeting[i] == fd) {
            drop_greeting(guard, i);
            refuse(guard, "a connection",
                   "it ended without a key: it does not encrypt, or expects another server key, "
                   "or is no Outrider");
            return;
        }
    }
}

static void take_event(or_zmq_guard_t *guard, const or_zmq_event_t *event)
{
    switch (event->what) {
    case ZMQ_EVENT_ACCEPTED:
        begin_greeting(guard, (int)event->value);
        break;
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH: // refused already, by its key
        settle(guard);
        break;
    default:
        end_greeting(guard, (int)event->value);
    }
}

// ---- the guard ----

void or_zmq_guard_serve(or_zmq_guard_t *guard)
{
    question_t question;
    or_zmq_event_t event;
    for (int i = 0; i < SERVED_AT_ONCE && take_question(guard->zap, &question); i++) {
        answer(guard, &question);
    }
    for (int i = 0; i < SERVED_AT_ONCE && or_zmq_monitor_next(guard->monitor, &event); i++) {
        take_event(guard, &event);
    }
}

void or_zmq_guard_fill(const or_zmq_guard_t *guard, zmq_pollitem_t items[OR_ZMQ_GUARD_ITEMS])
{
    items[0] = (zmq_pollitem_t){.socket = guard->zap, .events = ZMQ_POLLIN};
    items[1] = (zmq_pollitem_t){.socket = guard->monitor, .events = ZMQ_POLLIN};
}

static or_status_t open_zap(void *context, void **zap_p)
{
    int no_limit = 0, no_linger = 0;
    void *zap = zmq_socket(context, ZMQ_REP);
    if (zap == NULL) {
        return or_fail(OR_ERR_IO, "cannot open a socket: %s", zmq_strerror(errno));
    }
    if (zmq_setsockopt(zap, ZMQ_LINGER, &no_linger, sizeof no_linger) != 0 ||
        zmq_setsockopt(zap, ZMQ_RCVHWM, &no_limit, sizeof no_limit) != 0 ||
        zmq_bind(zap, ZAP_PLACE) != 0) {
        or_status_t status = or_fail(OR_ERR_IO, "cannot answer for keys: %s", zmq_strerror(errno));
        zmq_close(zap);
        return status;
    }
    *zap_p = zap;
    return OR_OK;
}

or_status_t or_zmq_guard_create(void *context, void *socket, const or_channel_server_t *server,
                                or_zmq_guard_t **guard_p)
{
    or_zmq_guard_t *guard = calloc(1, sizeof *guard);
    if (guard == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a guard");
    }
    snprintf(guard->stamp, sizeof guard->stamp, "%016" PRIx64 "%016" PRIx64, or_rng_system_seed(),
             or_rng_system_seed());
    guard->admit = server->admit;
    guard->context = server->context;
    or_status_t status = open_zap(context, &guard->zap);
    if (status == OR_OK) {
        status = or_zmq_monitor_open(context, socket,
                                     ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                                         ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_DISCONNECTED,
                                     &guard->monitor);
    }
    if (status != OR_OK) {
        or_zmq_guard_destroy(&guard);
        return status;
    }
    *guard_p = guard;
    return OR_OK;
}

void or_zmq_guard_destroy(or_zmq_guard_t **guard_p)
{
    or_zmq_guard_t *guard = *guard_p;
    if (guard != NULL) {
        if (guard->zap != NULL) {
            zmq_close(guard->zap);
        }
        if (guard->monitor != NULL) {
            zmq_close(guard->monitor);
        }
        free(guard);
        *guard_p = NULL;
    }
}
