// The peers of a link, what its owner may ask of them and set, and the link's beginning and end.
#include <inttypes.h>
#include <stdlib.h>

#include "common/base/log/log.h"
#include "proto/net/link_internal.h"

#define CAPACITY_LEAST 4

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

static void remove_peer(or_link_t *link, or_link_peer_t *peer)
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
        remove_peer(link, stranger);
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

static void drop_reported(or_link_t *link)
{
    for (size_t i = link->count; i-- > 0;) {
        or_link_peer_t *peer = &link->peers[i];
        if (peer->state == PEER_REPORTED || (peer->state == PEER_LOST && !peer->greeted)) {
            remove_peer(link, peer);
        }
    }
}

bool or_link_report_loss(or_link_t *link, or_peer_t *from)
{
    if (!link->losses) {
        return false;
    }
    if (!or_link_is_edge(link)) {
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
        remove_peer(link, known);
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

// ---- life ----

static or_status_t become_edge(or_link_t *link, const or_hello_t *hello)
{
    or_message_t message = {.type = OR_MSG_HELLO};
    message.body.hello = *hello;
    or_status_t status = or_message_encode(&message, &link->hello, &link->hello_bytes);
    if (status != OR_OK) {
        return status;
    }
    or_link_peer_t *hub = or_link_add(link, OR_PEER_HUB);
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
    link->hello_due_ns = link->drained_ns = link->lap_ns = or_link_now(link);
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
