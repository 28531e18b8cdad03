// The peers of a link: who they are, what is sent to them, and how far they have read it.
#include <inttypes.h>
#include <stdlib.h>

#include "common/base/log/log.h"
#include "common/base/math/rng.h"
#include "proto/net/link_internal.h"
#include "proto/net/padding.h"

#define CAPACITY_LEAST 4
#define ANSWERS_PER_S 10 // to nonsense and to repeated greetings, for each peer

or_link_peer_t *or_link_find(const or_link_t *link, or_peer_t id)
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
    or_link_peer_t *moved = realloc(link->peers, capacity * sizeof *moved);
    if (moved != NULL) {
        link->peers = moved;
        link->capacity = capacity;
    }
    return moved != NULL;
}

void or_link_remove(or_link_t *link, or_link_peer_t *peer)
{
    or_channel_forget(link->channel, peer->id);
    *peer = link->peers[--link->count];
    if (link->capacity > CAPACITY_LEAST && link->count < link->capacity / 4) {
        (void)resize(link, link->capacity / 2); // a crowd has left
    }
}

// Return true if `a` is to be forgotten before `b`: an ignored peer is kept, or it would be heard again; of others the
// one that was silent for longer goes first.
static bool is_nearer_oblivion(const or_link_peer_t *a, const or_link_peer_t *b, int64_t now)
{
    bool a_ignored = now < a->ignored_until_ns, b_ignored = now < b->ignored_until_ns;
    return a_ignored != b_ignored ? b_ignored : a->heard_ns < b->heard_ns;
}

// Return the peer to forget first among those that have not greeted; NULL if all have.
static or_link_peer_t *oldest_stranger(or_link_t *link)
{
    int64_t now = or_link_now(link);
    or_link_peer_t *oldest = NULL;
    for (size_t i = 0; i < link->count; i++) {
        or_link_peer_t *peer = &link->peers[i];
        if (!peer->greeted && (oldest == NULL || is_nearer_oblivion(peer, oldest, now))) {
            oldest = peer;
        }
    }
    return oldest;
}

static bool make_room(or_link_t *link)
{
    if (link->count == OR_LINK_PEERS_MAX) {
        or_link_peer_t *stranger = oldest_stranger(link);
        if (stranger == NULL) {
            return false;
        }
        or_link_remove(link, stranger);
    }
    return link->count < link->capacity ||
           resize(link, link->capacity > 0 ? 2 * link->capacity : CAPACITY_LEAST);
}

or_link_peer_t *or_link_add(or_link_t *link, or_peer_t id)
{
    if (!make_room(link)) {
        return NULL;
    }
    or_link_peer_t *peer = &link->peers[link->count++];
    int64_t now = or_link_now(link);
    *peer = (or_link_peer_t){.id = id, .heard_ns = now, .sent_ns = now, .answers_since_ns = now};
    return peer;
}

void or_link_lose(or_link_t *link, or_link_peer_t *peer, const char *why)
{
    or_log(OR_LOG_DEBUG, "peer %" PRIu64 " lost %s", peer->id.value, why);
    peer->state = PEER_LOST;
    peer->welcomed = false;
    link->losses = true;
}

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

or_status_t or_link_send_encoded(or_link_t *link, or_link_peer_t *peer, uint8_t *frame,
                                 size_t bytes)
{
    bool encrypted = or_channel_key_of(link->channel, peer->id)[0] != '\0';
    or_status_t status = encrypted && link->padding ? or_padding_apply(&frame, &bytes) : OR_OK;
    if (status == OR_OK) {
        status = send_frame(link, peer, frame, bytes);
    }
    free(frame);
    return status;
}

or_status_t or_link_send_message(or_link_t *link, or_link_peer_t *peer, const or_message_t *message)
{
    uint8_t *frame;
    size_t bytes;
    if (or_link_is_edge(link) && or_channel_connection(link->channel) == 0) {
        return or_fail(OR_ERR_UNREACHABLE, "there is no connection to the coordinator");
    }
    or_status_t status = or_message_encode(message, &frame, &bytes);
    return status == OR_OK ? or_link_send_encoded(link, peer, frame, bytes) : status;
}

void or_link_send_heartbeat(or_link_t *link, or_link_peer_t *peer, or_heartbeat_t heartbeat)
{
    or_message_t message = {.type = OR_MSG_HEARTBEAT, .body.heartbeat = heartbeat};
    or_link_send_message(link, peer, &message);
    peer->sent_ns = or_link_now(link);
}

// ---- questions and answers ----

void or_link_send_question(or_link_t *link, or_link_peer_t *peer)
{
    peer->asked_ns = or_link_now(link);
    or_link_send_heartbeat(link, peer, (or_heartbeat_t){.reply = peer->question});
}

void or_link_ask_how_far(or_link_t *link, or_link_peer_t *peer)
{
    if (or_link_is_edge(link) || peer->question != 0 ||
        peer->sent - peer->read < OR_LINK_UNREAD_ASKED ||
        or_channel_is_inside(link->channel, peer->id)) {
        return;
    }
    peer->question = (uint32_t)or_rng_system_seed() | 1;
    peer->sent_before_question = peer->sent;
    or_link_send_question(link, peer);
}

void or_link_take_answer(or_link_t *link, or_link_peer_t *peer, uint32_t answer)
{
    if (answer == peer->question && answer != 0) {
        peer->read = peer->sent_before_question;
        peer->question = 0;
        or_link_ask_how_far(link, peer);
    }
}

bool or_link_has_answered(const or_link_t *link, const or_link_peer_t *peer)
{
    return peer->answers >= ANSWERS_PER_S &&
           or_link_now(link) - peer->answers_since_ns < OR_NS_PER_S;
}

bool or_link_count_answer(or_link_t *link, or_link_peer_t *peer)
{
    int64_t now = or_link_now(link);
    if (or_link_has_answered(link, peer)) {
        return false;
    }
    if (now - peer->answers_since_ns >= OR_NS_PER_S) {
        peer->answers_since_ns = now;
        peer->answers = 0;
    }
    peer->answers++;
    return true;
}

// ---- for the owner ----

uint64_t or_link_bytes(const or_link_t *link, or_peer_t peer)
{
    const or_link_peer_t *known = or_link_find(link, peer);
    return known != NULL ? known->bytes : 0;
}

uint64_t or_link_unread(const or_link_t *link, or_peer_t peer)
{
    const or_link_peer_t *known = or_link_find(link, peer);
    bool counted = known != NULL && !or_channel_is_inside(link->channel, peer);
    uint64_t unread = counted ? known->sent - known->read : 0;
    return unread >= OR_LINK_UNREAD_ASKED ? unread : 0; // of less nobody has asked
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

void or_link_ignore(or_link_t *link, or_peer_t peer, int64_t until_ns)
{
    or_link_peer_t *known = or_link_find(link, peer);
    if (known != NULL && !or_link_is_edge(link)) {
        known->greeted = known->welcomed = known->hurried = false;
        known->ignored_until_ns = until_ns;
        or_channel_set_urgent(link->channel, peer, false);
    }
}

void or_link_hold(or_link_t *link, int64_t until_ns)
{
    if (or_link_now(link) >= link->held_until_ns) {
        link->held_until_ns = until_ns;
        or_channel_hold(link->channel, until_ns);
    }
}

void or_link_hurry(or_link_t *link, or_peer_t peer)
{
    or_link_peer_t *known = or_link_find(link, peer);
    if (known != NULL) {
        known->hurried = true;
        or_channel_set_urgent(link->channel, peer, true);
    }
}

bool or_link_is_hurried(const or_link_t *link, or_peer_t peer)
{
    const or_link_peer_t *known = or_link_find(link, peer);
    return known != NULL && known->hurried;
}

void or_link_forget(or_link_t *link, or_peer_t peer)
{
    or_link_peer_t *known = or_link_find(link, peer);
    if (known != NULL && !or_link_is_edge(link)) {
        or_link_remove(link, known);
    }
}

const or_clock_t *or_link_clock(const or_link_t *link)
{
    return link->clock;
}

bool or_link_welcomed(const or_link_t *link)
{
    return or_link_is_edge(link) && link->peers[0].welcomed;
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
