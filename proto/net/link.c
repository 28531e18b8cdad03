#include "proto/net/link.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log/log.h"
#include "common/base/math/rng.h"
#include "proto/net/padding.h"

#define PEERS_MAX 1024 // connections a hub watches
#define CAPACITY_LEAST 4
// Looked at in one call, so that a flood of nonsense cannot hold the caller
#define FRAMES_PER_RECEIVE 64
// Channels take turns among the peers whose frames wait. So after this many frames, which is far more than there are
// peers, everybody who had one waiting at the first of them has been heard.
#define LAP_FRAMES (16 * PEERS_MAX)
#define ANSWERS_PER_S 10    // to nonsense and to repeated greetings, per peer
#define HEARTBEAT_MIN_MS 10 // what a Welcome may ask for
#define HEARTBEAT_MAX_MS 60000
#define UNREAD_ASKED 65536                 // bytes, after which a peer is asked how far it has read
#define UNREAD_ANSWERED (4 * UNREAD_ASKED) // and beyond which it gets no answers to what it says

// A hub's answer to a peer it does not know; an edge that reads it greets again (the hub was
// restarted).
#define SAY_HELLO "say Hello first"

// alive ──silent or unreachable──▶ lost ──event given──▶ reported ──next receive──▶ dropped by a hub
//   ▲──────────────────────────────── any frame, on an edge ─────────┘
typedef enum { PEER_ALIVE, PEER_LOST, PEER_REPORTED } peer_state_t;

typedef struct {
    or_peer_t id;
    peer_state_t state;
    bool greeted;  // hub: it said Hello, so the owner knows it. An edge's hub always is
    bool welcomed; // heartbeats are due
    bool hurried;  // hub: heard before others
    int64_t heard_ns, sent_ns;
    uint64_t bytes;
    // Hub: bytes sent, those of them that the peer has read, and the question how far it has: its number (0: there is
    // none), when it was asked, and what had been sent before it.
    uint64_t sent, read;
    uint32_t question;
    int64_t asked_ns;
    uint64_t sent_before_question;
    int64_t answers_since_ns; // the second that `answers` counts in
    uint32_t answers;         // to what nobody needs an answer to
    int64_t ignored_until_ns; // hub
} peer_t;

struct or_link {
    or_channel_t *channel;   // borrowed
    const or_clock_t *clock; // borrowed
    int64_t heartbeat_ns;
    peer_t *peers; // an edge has one: the hub
    size_t count, capacity;
    bool losses; // some peer may be lost or reported
    bool padding;
    // Whatever waited at this time has been heard since: silence before is the peer's, after it may be ours. Moved
    // when the channel is empty and, so that a flood does not put off the judgement for ever, after each lap.
    int64_t drained_ns;
    int64_t lap_ns; // when the lap that goes on began
    uint32_t lap_frames;
    bool is_drained;
    int64_t held_until_ns; // hub: until then frames may wait that are not received
    or_link_gate_t gate;   // hub; NULL: open
    void *gate_context;
    // Edge only.
    uint8_t *hello; // encoded; NULL on a hub
    size_t hello_bytes;
    int64_t hello_due_ns;
    bool called;         // a Hello has been sent, or waits for a connection
    uint64_t connection; // the channel's, the last time that it had one
};

static int64_t now_of(const or_link_t *link)
{
    return or_clock_now(link->clock);
}

static bool is_edge(const or_link_t *link)
{
    return link->hello != NULL;
}

static int64_t silence_of(const or_link_t *link)
{
    return OR_LINK_SILENCE * link->heartbeat_ns;
}

static peer_t *find_peer(const or_link_t *link, or_peer_t id)
{
    for (size_t i = 0; i < link->count; i++) {
        if (link->peers[i].id.value == id.value) {
            return &link->peers[i];
        }
    }
    return NULL;
}

static bool resize(or_link_t *link, size_t capacity)
{
    peer_t *moved = realloc(link->peers, capacity * sizeof *moved);
    if (moved != NULL) {
        link->peers = moved;
        link->capacity = capacity;
    }
    return moved != NULL;
}

static void remove_peer(or_link_t *link, peer_t *peer)
{
    or_channel_forget(link->channel, peer->id);
    *peer = link->peers[--link->count];
    if (link->capacity > CAPACITY_LEAST && link->count < link->capacity / 4) {
        (void)resize(link, link->capacity / 2); // a crowd has left
    }
}

// Who is to be forgotten first: not who is ignored, or it would be heard again; then the one silent for
// longer.
static bool is_nearer_oblivion(const peer_t *a, const peer_t *b, int64_t now)
{
    bool a_ignored = now < a->ignored_until_ns, b_ignored = now < b->ignored_until_ns;
    return a_ignored != b_ignored ? b_ignored : a->heard_ns < b->heard_ns;
}

// Of the peers that have not greeted, the one to forget first; NULL if all have.
static peer_t *oldest_stranger(or_link_t *link)
{
    int64_t now = now_of(link);
    peer_t *oldest = NULL;
    for (size_t i = 0; i < link->count; i++) {
        peer_t *peer = &link->peers[i];
        if (!peer->greeted && (oldest == NULL || is_nearer_oblivion(peer, oldest, now))) {
            oldest = peer;
        }
    }
    return oldest;
}

static bool make_room(or_link_t *link)
{
    if (link->count == PEERS_MAX) {
        peer_t *stranger = oldest_stranger(link);
        if (stranger == NULL) {
            return false;
        }
        remove_peer(link, stranger);
    }
    return link->count < link->capacity ||
           resize(link, link->capacity > 0 ? 2 * link->capacity : CAPACITY_LEAST);
}

// NULL if there is no room.
static peer_t *add_peer(or_link_t *link, or_peer_t id)
{
    if (!make_room(link)) {
        return NULL;
    }
    peer_t *peer = &link->peers[link->count++];
    int64_t now = now_of(link);
    *peer = (peer_t){.id = id, .heard_ns = now, .sent_ns = now, .answers_since_ns = now};
    return peer;
}

static void lose_peer(or_link_t *link, peer_t *peer, const char *why)
{
    or_log(OR_LOG_DEBUG, "peer %" PRIu64 " lost %s", peer->id.value, why);
    peer->state = PEER_LOST;
    peer->welcomed = false;
    link->losses = true;
}

static or_status_t send_frame(or_link_t *link, peer_t *peer, const uint8_t *frame, size_t bytes)
{
    or_status_t status = or_channel_send(link->channel, peer->id, frame, bytes);
    if (status == OR_OK) {
        peer->sent_ns = now_of(link);
        peer->bytes += bytes;
        peer->sent += bytes;
    } else if (status == OR_ERR_UNREACHABLE && !is_edge(link)) { // an edge's hub may come back
        lose_peer(link, peer, "unreachable");
    }
    return status;
}

// Send an encoded message, longer where its length would tell something, and free it.
static or_status_t send_encoded(or_link_t *link, peer_t *peer, uint8_t *frame, size_t bytes)
{
    bool encrypted = or_channel_key_of(link->channel, peer->id)[0] != '\0';
    or_status_t status = encrypted && link->padding ? or_padding_apply(&frame, &bytes) : OR_OK;
    if (status == OR_OK) {
        status = send_frame(link, peer, frame, bytes);
    }
    free(frame);
    return status;
}

// Without a connection nothing but a Hello waits for one: on the next we are a stranger, whose frames are refused
// until it has greeted, and after a few of them it would not even be heard.
static or_status_t send_message(or_link_t *link, peer_t *peer, const or_message_t *message)
{
    uint8_t *frame;
    size_t bytes;
    if (is_edge(link) && or_channel_connection(link->channel) == 0) {
        return or_fail(OR_ERR_UNREACHABLE, "there is no connection to the coordinator");
    }
    or_status_t status = or_message_encode(message, &frame, &bytes);
    return status == OR_OK ? send_encoded(link, peer, frame, bytes) : status;
}

// A heartbeat that does not fit is late by one interval: the queue is full of better signs of life.
static void send_heartbeat(or_link_t *link, peer_t *peer, or_heartbeat_t heartbeat)
{
    or_message_t message = {.type = OR_MSG_HEARTBEAT, .body.heartbeat = heartbeat};
    send_message(link, peer, &message);
    peer->sent_ns = now_of(link);
}

// Ask the peer how far it has read; again, with the same number, when the question may be lost.
static void send_question(or_link_t *link, peer_t *peer)
{
    peer->asked_ns = now_of(link);
    send_heartbeat(link, peer, (or_heartbeat_t){.reply = peer->question});
}

static void ask_how_far(or_link_t *link, peer_t *peer)
{
    if (is_edge(link) || peer->question != 0 || peer->sent - peer->read < UNREAD_ASKED ||
        or_channel_is_inside(link->channel, peer->id)) {
        return;
    }
    peer->question = (uint32_t)or_rng_system_seed() | 1;
    peer->sent_before_question = peer->sent;
    send_question(link, peer);
}

static void take_answer(or_link_t *link, peer_t *peer, uint32_t answer)
{
    if (answer == peer->question && answer != 0) {
        peer->read = peer->sent_before_question;
        peer->question = 0;
        ask_how_far(link, peer);
    }
}

// So that a flood is not doubled.
static bool has_had_its_answers(const or_link_t *link, const peer_t *peer)
{
    return peer->answers >= ANSWERS_PER_S && now_of(link) - peer->answers_since_ns < OR_NS_PER_S;
}

static bool takes_an_answer(or_link_t *link, peer_t *peer)
{
    int64_t now = now_of(link);
    if (has_had_its_answers(link, peer)) {
        return false;
    }
    if (now - peer->answers_since_ns >= OR_NS_PER_S) {
        peer->answers_since_ns = now;
        peer->answers = 0;
    }
    peer->answers++;
    return true;
}

static void answer_error(or_link_t *link, peer_t *peer, or_wire_error_t code, const char *text)
{
    if (!takes_an_answer(link, peer)) {
        return;
    }
    or_log(OR_LOG_DEBUG, "peer %" PRIu64 " refused a frame: %s", peer->id.value, text);
    or_message_t message = {.type = OR_MSG_ERROR};
    message.body.error = (or_error_t){.code = code, .text = text};
    send_message(link, peer, &message);
}

static bool says_hello_first(const or_message_t *message)
{
    const or_error_t *error = &message->body.error;
    return message->session.value == 0 && error->code == OR_WIRE_INVALID &&
           strcmp(error->text, SAY_HELLO) == 0;
}

static void take_welcome(or_link_t *link, peer_t *hub, const or_welcome_t *welcome)
{
    hub->welcomed = true;
    uint32_t ms = welcome->heartbeat_ms;
    if (ms != 0) {
        ms = ms < HEARTBEAT_MIN_MS ? HEARTBEAT_MIN_MS : ms;
        ms = ms > HEARTBEAT_MAX_MS ? HEARTBEAT_MAX_MS : ms;
        link->heartbeat_ns = ms * OR_NS_PER_MS;
    }
    or_log(OR_LOG_DEBUG, "welcomed by %s heartbeat_ms %" PRIu32, welcome->software, ms);
}

// Small frames would have answers pile up that are in no account.
static bool is_answered(const or_link_t *link, or_peer_t peer)
{
    return is_edge(link) || or_link_unread(link, peer) <= UNREAD_ANSWERED;
}

static void take_heartbeat(or_link_t *link, peer_t *peer, const or_heartbeat_t *heartbeat)
{
    if (heartbeat->reply != 0 && is_answered(link, peer->id)) {
        send_heartbeat(link, peer, (or_heartbeat_t){.answer = heartbeat->reply});
    }
    take_answer(link, peer, heartbeat->answer);
}

// Does the owner of this edge get the message?
static bool edge_takes(or_link_t *link, peer_t *hub, const or_message_t *message)
{
    switch (message->type) {
    case OR_MSG_WELCOME:
        take_welcome(link, hub, &message->body.welcome);
        return true;
    case OR_MSG_HEARTBEAT:
        take_heartbeat(link, hub, &message->body.heartbeat);
        return false;
    case OR_MSG_ERROR:
        if (says_hello_first(message)) {
            hub->welcomed = false;
            return false;
        }
        return true;
    default:
        return true;
    }
}

// Does the owner of this hub get the message?
static bool hub_takes(or_link_t *link, peer_t *peer, const or_message_t *message)
{
    if (message->type == OR_MSG_HELLO) {
        if (peer->greeted && !takes_an_answer(link, peer)) {
            return false;
        }
        peer->greeted = true;
        peer->welcomed = false; // until the owner says so (again)
        return true;
    }
    if (!peer->greeted) {
        if (message->type != OR_MSG_ERROR) {
            answer_error(link, peer, OR_WIRE_INVALID, SAY_HELLO);
        }
        return false;
    }
    if (message->type == OR_MSG_HEARTBEAT) {
        take_heartbeat(link, peer, &message->body.heartbeat);
        return false;
    }
    return true;
}

// A hub reads nothing from whom it ignores, from strangers that have had their answers for this second,
// and from peers that its owner's gate stops.
static bool is_read(const or_link_t *link, const peer_t *peer, size_t bytes)
{
    if (is_edge(link)) {
        return true;
    }
    if (now_of(link) < peer->ignored_until_ns) {
        return false;
    }
    if (!peer->greeted) {
        return !has_had_its_answers(link, peer);
    }
    return link->gate == NULL || link->gate(link->gate_context, peer->id, bytes);
}

// Account for a frame; true if it is an event for the owner.
static bool take_frame(or_link_t *link, or_peer_t from, const uint8_t *frame, size_t bytes,
                       or_link_event_t *event, or_message_t *message)
{
    peer_t *peer = find_peer(link, from);
    if (peer == NULL) {
        peer = add_peer(link, from);
    }
    if (peer == NULL) {
        or_log(OR_LOG_DEBUG, "peer %" PRIu64 " turned away: no room", from.value);
        or_channel_forget(link->channel, from);
        return false;
    }
    peer->heard_ns = now_of(link);
    peer->bytes += bytes;
    peer->state = PEER_ALIVE;
    if (!is_read(link, peer, bytes)) {
        return false;
    }
    or_status_t status = or_message_decode(frame, bytes, message);
    if (status == OR_ERR_NO_MEMORY) { // as if it was lost on its way: what matters is repeated
        or_log(OR_LOG_DEBUG, "peer %" PRIu64 ": %s", from.value, or_error_text());
        return false;
    }
    if (status != OR_OK) {
        or_wire_error_t code = status == OR_ERR_MISMATCH ? OR_WIRE_VERSION : OR_WIRE_INVALID;
        bool known = peer->greeted;
        answer_error(link, peer, code, or_error_text());
        *event = OR_LINK_MALFORMED;
        return known && !is_edge(link);
    }
    bool wanted = is_edge(link) ? edge_takes(link, peer, message) : hub_takes(link, peer, message);
    if (!wanted) {
        or_message_fini(message);
    }
    *event = OR_LINK_MESSAGE;
    return wanted;
}

static void drop_reported(or_link_t *link)
{
    for (size_t i = link->count; i-- > 0;) {
        peer_t *peer = &link->peers[i];
        if (peer->state == PEER_REPORTED || (peer->state == PEER_LOST && !peer->greeted)) {
            remove_peer(link, peer);
        }
    }
}

// The next loss that the owner does not know of.
static bool report_loss(or_link_t *link, or_peer_t *from)
{
    if (!link->losses) {
        return false;
    }
    if (!is_edge(link)) {
        drop_reported(link);
    }
    for (size_t i = 0; i < link->count; i++) {
        if (link->peers[i].state == PEER_LOST) {
            link->peers[i].state = PEER_REPORTED;
            *from = link->peers[i].id;
            return true;
        }
    }
    link->losses = false;
    return false;
}

static void note_empty(or_link_t *link)
{
    if (now_of(link) < link->held_until_ns) {
        return; // others' frames may wait
    }
    link->drained_ns = link->lap_ns = now_of(link);
    link->lap_frames = 0;
}

// Of those who are heard in turn.
static void note_frame(or_link_t *link)
{
    if (++link->lap_frames == LAP_FRAMES) {
        link->drained_ns = link->lap_ns;
        link->lap_ns = now_of(link);
        link->lap_frames = 0;
    }
}

or_status_t or_link_receive(or_link_t *link, or_link_event_t *event, or_peer_t *from,
                            or_message_t *message)
{
    if (report_loss(link, from)) {
        *event = OR_LINK_PEER_LOST;
        return OR_OK;
    }
    for (int i = 0; i < FRAMES_PER_RECEIVE; i++) {
        or_peer_t sender;
        const uint8_t *frame;
        size_t bytes;
        or_status_t status = or_channel_receive(link->channel, &sender, &frame, &bytes);
        link->is_drained = status == OR_ERR_AGAIN;
        if (link->is_drained) {
            note_empty(link);
        }
        if (status == OR_ERR_CANCELLED) {
            note_frame(link);
            continue;
        }
        if (status != OR_OK) {
            return status;
        }
        if (!or_link_is_hurried(link, sender)) {
            note_frame(link);
        }
        if (take_frame(link, sender, frame, bytes, event, message)) {
            *from = sender;
            return OR_OK;
        }
    }
    return OR_ERR_AGAIN;
}

bool or_link_is_drained(const or_link_t *link)
{
    return link->is_drained;
}

or_status_t or_link_send(or_link_t *link, or_peer_t to, const or_message_t *message)
{
    peer_t *peer = find_peer(link, to);
    if (peer == NULL || (peer->state != PEER_ALIVE && !is_edge(link))) {
        return or_fail(OR_ERR_UNREACHABLE, "peer %" PRIu64 " is gone", to.value);
    }
    or_status_t status = send_message(link, peer, message);
    if (status == OR_OK && message->type == OR_MSG_WELCOME) {
        peer->welcomed = true;
    }
    if (status == OR_OK && peer->greeted) {
        ask_how_far(link, peer);
    }
    return status;
}

or_status_t or_link_send_error(or_link_t *link, or_peer_t to, or_session_id_t session,
                               or_wire_error_t code, const char *format, ...)
{
    char text[512];
    va_list args;
    if (!is_answered(link, to)) {
        return OR_ERR_FULL; // without a sentence: the caller's own stays, which it may need again
    }
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    or_message_t message = {.type = OR_MSG_ERROR, .session = session};
    message.body.error = (or_error_t){.code = code, .text = text};
    return or_link_send(link, to, &message);
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// Do what is due with one peer; when the next thing is.
static int64_t tick_peer(or_link_t *link, peer_t *peer, int64_t now)
{
    // Frames that wait unread are not silence: judge by a time since when all that waited was heard. Who is
    // ignored is kept in mind, silent or not.
    if (now < peer->ignored_until_ns) {
        return peer->ignored_until_ns;
    }
    // An edge of our own process is late, not gone: its texts are other people's.
    if (peer->state == PEER_ALIVE && !or_channel_is_inside(link->channel, peer->id) &&
        link->drained_ns - peer->heard_ns >= silence_of(link)) {
        lose_peer(link, peer, "silent");
    }
    if (peer->welcomed && now - peer->sent_ns >= link->heartbeat_ns) {
        send_heartbeat(link, peer, (or_heartbeat_t){0});
    }
    if (peer->question != 0 && now - peer->asked_ns >= link->heartbeat_ns) {
        send_question(link, peer);
    }
    int64_t due = OR_TIME_NEVER;
    if (peer->state == PEER_ALIVE && !or_channel_is_inside(link->channel, peer->id)) {
        due = peer->heard_ns + silence_of(link);
    }
    return peer->welcomed ? earlier(due, peer->sent_ns + link->heartbeat_ns) : due;
}

// If it cannot be sent now, the next one will.
static void send_hello(or_link_t *link, peer_t *hub)
{
    uint8_t *frame = malloc(link->hello_bytes);
    if (frame != NULL) {
        memcpy(frame, link->hello, link->hello_bytes);
        (void)send_encoded(link, hub, frame, link->hello_bytes);
    }
}

// To the hub another connection is another peer: it is greeted on it at once, not when it complains.
static void notice_connection(or_link_t *link, peer_t *hub, uint64_t connection, int64_t now)
{
    if (connection > link->connection && link->connection > 0) {
        hub->welcomed = false;
        link->hello_due_ns = now;
    }
    if (connection > 0) {
        link->connection = connection;
    }
}

// Greet the hub until it welcomes us. Without a connection one Hello waits for it; more would pile up.
static int64_t tick_hello(or_link_t *link, int64_t now)
{
    peer_t *hub = &link->peers[0];
    uint64_t connection = or_channel_connection(link->channel);
    notice_connection(link, hub, connection, now);
    if (hub->welcomed) {
        return OR_TIME_NEVER;
    }
    if (now >= link->hello_due_ns) {
        if (connection > 0 || !link->called) {
            send_hello(link, hub);
            link->called = true;
        }
        link->hello_due_ns = now + link->heartbeat_ns / 2;
    }
    return link->hello_due_ns;
}

int64_t or_link_tick(or_link_t *link)
{
    int64_t now = now_of(link);
    int64_t due = OR_TIME_NEVER;
    for (size_t i = 0; i < link->count; i++) {
        due = earlier(due, tick_peer(link, &link->peers[i], now));
    }
    if (is_edge(link)) {
        due = earlier(due, tick_hello(link, now));
    }
    return link->losses ? now : due;
}

void or_link_wait(or_link_t *link, int64_t deadline_ns)
{
    int64_t now = now_of(link);
    if (deadline_ns > now) {
        or_channel_wait(link->channel, deadline_ns - now);
    }
}

bool or_link_welcomed(const or_link_t *link)
{
    return is_edge(link) && link->peers[0].welcomed;
}

uint64_t or_link_bytes(const or_link_t *link, or_peer_t peer)
{
    const peer_t *known = find_peer(link, peer);
    return known != NULL ? known->bytes : 0;
}

uint64_t or_link_unread(const or_link_t *link, or_peer_t peer)
{
    const peer_t *known = find_peer(link, peer);
    bool counted = known != NULL && !or_channel_is_inside(link->channel, peer);
    uint64_t unread = counted ? known->sent - known->read : 0;
    return unread >= UNREAD_ASKED ? unread : 0; // of less nobody has asked
}

const or_clock_t *or_link_clock(const or_link_t *link)
{
    return link->clock;
}

bool or_link_is_local(const or_link_t *link, or_peer_t peer)
{
    return or_channel_is_local(link->channel, peer);
}

bool or_link_is_inside(const or_link_t *link, or_peer_t peer)
{
    return or_channel_is_inside(link->channel, peer);
}

const char *or_link_key_of(const or_link_t *link, or_peer_t peer)
{
    return or_channel_key_of(link->channel, peer);
}

void or_link_set_padding(or_link_t *link, bool padding)
{
    link->padding = padding;
}

void or_link_set_gate(or_link_t *link, or_link_gate_t gate, void *context)
{
    link->gate = gate;
    link->gate_context = context;
}

void or_link_ignore(or_link_t *link, or_peer_t peer, int64_t until_ns)
{
    peer_t *known = find_peer(link, peer);
    if (known != NULL && !is_edge(link)) {
        known->greeted = known->welcomed = known->hurried = false;
        known->ignored_until_ns = until_ns;
        or_channel_set_urgent(link->channel, peer, false);
    }
}

void or_link_hold(or_link_t *link, int64_t until_ns)
{
    if (now_of(link) >= link->held_until_ns) {
        link->held_until_ns = until_ns;
        or_channel_hold(link->channel, until_ns);
    }
}

void or_link_hurry(or_link_t *link, or_peer_t peer)
{
    peer_t *known = find_peer(link, peer);
    if (known != NULL) {
        known->hurried = true;
        or_channel_set_urgent(link->channel, peer, true);
    }
}

bool or_link_is_hurried(const or_link_t *link, or_peer_t peer)
{
    const peer_t *known = find_peer(link, peer);
    return known != NULL && known->hurried;
}

void or_link_forget(or_link_t *link, or_peer_t peer)
{
    peer_t *known = find_peer(link, peer);
    if (known != NULL && !is_edge(link)) {
        remove_peer(link, known);
    }
}

static or_status_t become_edge(or_link_t *link, const or_hello_t *hello)
{
    or_message_t message = {.type = OR_MSG_HELLO};
    message.body.hello = *hello;
    or_status_t status = or_message_encode(&message, &link->hello, &link->hello_bytes);
    if (status != OR_OK) {
        return status;
    }
    peer_t *hub = add_peer(link, OR_PEER_HUB);
    if (hub == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a link");
    }
    hub->greeted = true;
    return OR_OK;
}

or_status_t or_link_create(or_channel_t *channel, const or_clock_t *clock, const or_hello_t *hello,
                           uint32_t heartbeat_ms, or_link_t **link_p)
{
    if (heartbeat_ms == 0) {
        return or_fail(OR_ERR_INVALID, "the heartbeat interval must be at least 1 ms");
    }
    or_link_t *link = calloc(1, sizeof *link);
    if (link == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a link");
    }
    link->channel = channel;
    link->padding = true;
    link->clock = clock;
    link->heartbeat_ns = heartbeat_ms * OR_NS_PER_MS;
    link->hello_due_ns = link->drained_ns = link->lap_ns = now_of(link);
    or_status_t status = hello != NULL ? become_edge(link, hello) : OR_OK;
    if (status != OR_OK) {
        or_link_destroy(&link);
        return status;
    }
    *link_p = link;
    return OR_OK;
}

void or_link_destroy(or_link_t **link_p)
{
    or_link_t *link = *link_p;
    if (link != NULL) {
        free(link->hello);
        free(link->peers);
        free(link);
        *link_p = NULL;
    }
}
