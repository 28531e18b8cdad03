#include "proto/net/link.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log/log.h"
#include "common/base/math/rng.h"
#include "proto/net/link_internal.h"
#include "proto/net/padding.h"

// At most so many frames are looked at in one call, so that a flood of nonsense cannot hold the caller.
#define FRAMES_PER_RECEIVE 64
// Channels take turns among the peers whose frames wait. So after this many frames, which is far more than there are
// peers, every peer that had a frame waiting at the first of them has been heard.
#define LAP_FRAMES (16 * OR_LINK_PEERS_MAX)
#define HEARTBEAT_MIN_MS 10 // bounds of the interval in a Welcome
#define HEARTBEAT_MAX_MS 60000
#define ANSWERS_PER_S 10 // to nonsense and to repeated greetings, for each peer

// The answer of a hub to a peer that it does not know. An edge that reads it greets again: the hub was restarted.
#define SAY_HELLO "say Hello first"

// ---- sending ----

static or_status_t send_frame(or_link_t *link, or_link_peer_t *peer, const uint8_t *frame,
                              size_t bytes)
{
    or_status_t status = or_channel_send(link->channel, peer->id, frame, bytes);
    if (status == OR_OK) {
        peer->sent_ns = or_link_now(link);
        peer->bytes += bytes;
        peer->sent += bytes;
    } else if (status == OR_ERR_UNREACHABLE &&
               !or_link_is_edge(link)) { // an edge's hub may come back
        or_link_lose(link, peer, "unreachable");
    }
    return status;
}

// Send an encoded message, padded if its length would tell something. Takes the frame.
static or_status_t send_encoded(or_link_t *link, or_link_peer_t *peer, uint8_t *frame, size_t bytes)
{
    bool encrypted = or_channel_key_of(link->channel, peer->id)[0] != '\0';
    or_status_t status = encrypted && link->padding ? or_padding_apply(&frame, &bytes) : OR_OK;
    if (status == OR_OK) {
        status = send_frame(link, peer, frame, bytes);
    }
    free(frame);
    return status;
}

// An edge without a connection sends nothing but a Hello: on the next connection it is a stranger, whose frames are
// refused until it has greeted, and after a few of them it would not even be heard.
static or_status_t send_message(or_link_t *link, or_link_peer_t *peer, const or_message_t *message)
{
    uint8_t *frame;
    size_t bytes;
    if (or_link_is_edge(link) && or_channel_connection(link->channel) == 0) {
        return or_fail(OR_ERR_UNREACHABLE, "there is no connection to the coordinator");
    }
    or_status_t status = or_message_encode(message, &frame, &bytes);
    return status == OR_OK ? send_encoded(link, peer, frame, bytes) : status;
}

// A heartbeat that does not fit is late by one interval: the full queue holds better signs of life.
static void send_heartbeat(or_link_t *link, or_link_peer_t *peer, or_heartbeat_t heartbeat)
{
    or_message_t message = {.type = OR_MSG_HEARTBEAT, .body.heartbeat = heartbeat};
    send_message(link, peer, &message);
    peer->sent_ns = or_link_now(link);
}

// ---- questions and answers ----

// Ask the peer how far it has read; again, with the same number, when the question may have been lost.
static void send_question(or_link_t *link, or_link_peer_t *peer)
{
    peer->asked_ns = or_link_now(link);
    send_heartbeat(link, peer, (or_heartbeat_t){.reply = peer->question});
}

static void ask_how_far(or_link_t *link, or_link_peer_t *peer)
{
    if (or_link_is_edge(link) || peer->question != 0 ||
        peer->sent - peer->read < OR_LINK_UNREAD_ASKED ||
        or_channel_is_inside(link->channel, peer->id)) {
        return;
    }
    peer->question = (uint32_t)or_rng_system_seed() | 1;
    peer->sent_before_question = peer->sent;
    send_question(link, peer);
}

static void take_answer(or_link_t *link, or_link_peer_t *peer, uint32_t answer)
{
    if (answer == peer->question && answer != 0) {
        peer->read = peer->sent_before_question;
        peer->question = 0;
        ask_how_far(link, peer);
    }
}

// Return true if the peer has had its answers for this second, so that a flood is not doubled.
static bool has_had_its_answers(const or_link_t *link, const or_link_peer_t *peer)
{
    return peer->answers >= ANSWERS_PER_S &&
           or_link_now(link) - peer->answers_since_ns < OR_NS_PER_S;
}

// Count an answer to this peer; return false if it has had its answers for this second.
static bool takes_an_answer(or_link_t *link, or_link_peer_t *peer)
{
    int64_t now = or_link_now(link);
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

// ---- receiving ----

static int64_t silence_of(const or_link_t *link)
{
    return OR_LINK_SILENCE * link->heartbeat_ns;
}

static void answer_error(or_link_t *link, or_link_peer_t *peer, or_wire_error_t code,
                         const char *text)
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

static void take_welcome(or_link_t *link, or_link_peer_t *hub, const or_welcome_t *welcome)
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

// Return true if the peer gets answers. Small frames would make unread answers pile up that are in no account.
static bool is_answered(const or_link_t *link, or_peer_t peer)
{
    return or_link_is_edge(link) || or_link_unread(link, peer) <= OR_LINK_UNREAD_ANSWERED;
}

static void take_heartbeat(or_link_t *link, or_link_peer_t *peer, const or_heartbeat_t *heartbeat)
{
    if (heartbeat->reply != 0 && is_answered(link, peer->id)) {
        send_heartbeat(link, peer, (or_heartbeat_t){.answer = heartbeat->reply});
    }
    take_answer(link, peer, heartbeat->answer);
}

// Return true if the owner of this edge gets the message.
static bool edge_takes(or_link_t *link, or_link_peer_t *hub, const or_message_t *message)
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

// Return true if the owner of this hub gets the message.
static bool hub_takes(or_link_t *link, or_link_peer_t *peer, const or_message_t *message)
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

// Return true if a frame is to be decoded. A hub reads nothing from ignored peers, from strangers that have had their
// answers for this second, and from peers that its owner's gate stops.
static bool is_read(const or_link_t *link, const or_link_peer_t *peer, size_t bytes)
{
    if (or_link_is_edge(link)) {
        return true;
    }
    if (or_link_now(link) < peer->ignored_until_ns) {
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
    or_link_peer_t *peer = or_link_find(link, from);
    if (peer == NULL) {
        peer = or_link_add(link, from);
    }
    if (peer == NULL) {
        or_log(OR_LOG_DEBUG, "peer %" PRIu64 " turned away: no room", from.value);
        or_channel_forget(link->channel, from);
        return false;
    }
    peer->heard_ns = or_link_now(link);
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
        return known && !or_link_is_edge(link);
    }
    bool wanted =
        or_link_is_edge(link) ? edge_takes(link, peer, message) : hub_takes(link, peer, message);
    if (!wanted) {
        or_message_fini(message);
    }
    *event = OR_LINK_MESSAGE;
    return wanted;
}

static void note_empty(or_link_t *link)
{
    if (or_link_now(link) < link->held_until_ns) {
        return; // others' frames may wait
    }
    link->drained_ns = link->lap_ns = or_link_now(link);
    link->lap_frames = 0;
}

// Count a frame of a peer that is heard in turn.
static void note_frame(or_link_t *link)
{
    if (++link->lap_frames == LAP_FRAMES) {
        link->drained_ns = link->lap_ns;
        link->lap_ns = or_link_now(link);
        link->lap_frames = 0;
    }
}

or_status_t or_link_receive(or_link_t *link, or_link_event_t *event, or_peer_t *from,
                            or_message_t *message)
{
    if (or_link_report_loss(link, from)) {
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
    or_link_peer_t *peer = or_link_find(link, to);
    if (peer == NULL || (peer->state != PEER_ALIVE && !or_link_is_edge(link))) {
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

static or_status_t send_error(or_link_t *link, or_peer_t to, or_session_id_t session,
                              or_error_t error)
{
    if (!is_answered(link, to)) {
        return OR_ERR_FULL; // without a sentence: the caller's own stays, which it may need again
    }
    const or_message_t message = {.type = OR_MSG_ERROR, .session = session, .body.error = error};
    return or_link_send(link, to, &message);
}

or_status_t or_link_send_busy(or_link_t *link, or_peer_t to, uint32_t retry_ms, const char *text)
{
    return send_error(link, to, (or_session_id_t){0},
                      (or_error_t){.code = OR_WIRE_BUSY, .text = text, .retry_ms = retry_ms});
}

or_status_t or_link_send_error(or_link_t *link, or_peer_t to, or_session_id_t session,
                               or_wire_error_t code, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return send_error(link, to, session, (or_error_t){.code = code, .text = text});
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// Do what is due with one peer; return when the next thing is due.
static int64_t tick_peer(or_link_t *link, or_link_peer_t *peer, int64_t now)
{
    // Frames that wait unread are not silence, so a peer is judged by a time since when all waiting frames were
    // heard. An ignored peer is kept in mind, silent or not.
    if (now < peer->ignored_until_ns) {
        return peer->ignored_until_ns;
    }
    // An edge of our own process is late, not gone: its texts are other people's.
    if (peer->state == PEER_ALIVE && !or_channel_is_inside(link->channel, peer->id) &&
        link->drained_ns - peer->heard_ns >= silence_of(link)) {
        or_link_lose(link, peer, "silent");
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
static void send_hello(or_link_t *link, or_link_peer_t *hub)
{
    uint8_t *frame = malloc(link->hello_bytes);
    if (frame != NULL) {
        memcpy(frame, link->hello, link->hello_bytes);
        (void)send_encoded(link, hub, frame, link->hello_bytes);
    }
}

// To the hub another connection is another peer, so it is greeted at once, not when the hub complains.
static void notice_connection(or_link_t *link, or_link_peer_t *hub, uint64_t connection,
                              int64_t now)
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
    or_link_peer_t *hub = &link->peers[0];
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

void or_link_beat(or_link_t *link)
{
    or_link_peer_t *hub = &link->peers[0];
    if (hub->welcomed && or_link_now(link) - hub->sent_ns >= link->heartbeat_ns) {
        send_heartbeat(link, hub, (or_heartbeat_t){0});
    }
}

int64_t or_link_tick(or_link_t *link)
{
    int64_t now = or_link_now(link);
    int64_t due = OR_TIME_NEVER;
    for (size_t i = 0; i < link->count; i++) {
        due = earlier(due, tick_peer(link, &link->peers[i], now));
    }
    if (or_link_is_edge(link)) {
        due = earlier(due, tick_hello(link, now));
    }
    return link->losses ? now : due;
}

void or_link_wait(or_link_t *link, int64_t deadline_ns)
{
    int64_t now = or_link_now(link);
    if (deadline_ns > now) {
        or_channel_wait(link->channel, deadline_ns - now);
    }
}
