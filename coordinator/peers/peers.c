#include "coordinator/peers/peers.h"

#include <stdio.h>

#include "common/base/log/log.h"
#include "coordinator/figures/figures.h"
#include "coordinator/hub.h"

// Bytes that one peer has not read. A reader of one owner gets no more then until it has. What serves everybody gets
// no new texts, and what its texts need all the same: so more than this waits for it by what the texts at work come to.
#define UNREAD_MAX ((uint64_t)4 << 20)
// A drafter is not trusted to read: it can speak and so have its texts sent anew. A text goes on without it.
#define DRAFTER_UNREAD_MAX ((uint64_t)64 << 20)

// ---- the table ----

or_member_t *or_peers_find(or_coordinator_t *c, or_peer_t peer)
{
    for (uint32_t i = 0; i < OR_PEERS_MAX; i++) {
        if (c->peers.members[i].peer.value == peer.value) {
            return &c->peers.members[i];
        }
    }
    return NULL;
}

or_member_t *or_peers_next(or_peers_t *peers, uint32_t *at)
{
    while (*at < OR_PEERS_MAX) {
        or_member_t *member = &peers->members[(*at)++];
        if (member->peer.value != 0) {
            return member;
        }
    }
    return NULL;
}

uint32_t or_peers_count(const or_coordinator_t *c, or_role_t role)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < OR_PEERS_MAX; i++) {
        count += c->peers.members[i].peer.value != 0 && c->peers.members[i].role == role;
    }
    return count;
}

void or_peers_forget(or_member_t *member)
{
    or_hold_close(&member->unread);
    *member = (or_member_t){0};
}

// ---- sending ----

// The member whose reading counts. NULL: nobody, or a part of our own process, which is many readers and counts for itself.
static or_member_t *reader(or_coordinator_t *c, or_peer_t peer)
{
    or_member_t *member = or_peers_find(c, peer);
    return member != NULL && !member->inside ? member : NULL;
}

static bool serves_everybody(const or_member_t *member)
{
    return member->role == OR_ROLE_VERIFIER || member->serves_all;
}

static uint64_t unread_max(const or_member_t *member)
{
    if (member->role == OR_ROLE_VERIFIER) {
        return UINT64_MAX;
    }
    return serves_everybody(member) ? DRAFTER_UNREAD_MAX : UNREAD_MAX;
}

static bool may_send(or_coordinator_t *c, or_peer_t to)
{
    uint64_t unread = or_link_unread(c->link, to);
    or_member_t *member = unread > 0 ? reader(c, to) : NULL;
    if (member == NULL) {
        return true;
    }
    // Its owner must have room for one byte more: what is unread is in the account already.
    return unread <= unread_max(member) && or_hold_resize(&member->unread, unread + 1) == OR_OK;
}

static void note_sent(or_coordinator_t *c, or_peer_t to)
{
    uint64_t unread = or_link_unread(c->link, to);
    or_member_t *member = unread > 0 ? reader(c, to) : NULL;
    if (member != NULL) {
        or_hold_force(&member->unread, unread);
        c->peers.unread = true;
    }
}

void or_peers_send(or_coordinator_t *c, or_peer_t to, const or_message_t *message)
{
    if (!may_send(c, to)) {
        or_log(OR_LOG_DEBUG, "%s not sent: the peer does not read",
               or_message_type_name(message->type));
    } else if (or_link_send(c->link, to, message) != OR_OK) {
        or_log(OR_LOG_DEBUG, "%s not sent: %s", or_message_type_name(message->type),
               or_error_text());
    } else {
        note_sent(c, to);
    }
}

void or_peers_send_cancel(or_coordinator_t *c, const or_csession_t *session, or_peer_t to,
                          const char *reason)
{
    const or_message_t message = {
        .type = OR_MSG_CANCEL, .session = session->id, .body.cancel = {.reason = reason}};
    or_peers_send(c, to, &message);
}

void or_peers_send_failure(or_coordinator_t *c, or_peer_t client, uint64_t request,
                           or_wire_error_t code, uint32_t retry_ms, const char *text)
{
    const or_message_t message = {
        .type = OR_MSG_GENERATE_DELTA,
        .body.generate_delta = {.request = request,
                                .finish = OR_FINISH_ERROR,
                                .error = text,
                                .error_code = code,
                                .retry_ms = retry_ms,
                                .arith_id = ""},
    };
    or_peers_send(c, client, &message);
}

void or_peers_open_account(or_coordinator_t *c, or_member_t *member)
{
    or_ledger_t *ledger = serves_everybody(member) ? NULL : c->config.ledger;
    // Without memory for an account nothing is counted: the bound of a peer still holds.
    (void)or_hold_open(&member->unread, ledger, member->owner, OR_HELD_UNSENT);
}

bool or_peers_has_read(const or_member_t *member)
{
    return member->unread.bytes <= UNREAD_MAX;
}

void or_peers_release_read(or_coordinator_t *c)
{
    or_member_t *member;
    if (!c->peers.unread) {
        return;
    }
    c->peers.unread = false;
    for (uint32_t at = 0; (member = or_peers_next(&c->peers, &at)) != NULL;) {
        if (member->unread.bytes > 0) {
            or_hold_force(&member->unread, or_link_unread(c->link, member->peer));
            c->peers.unread |= member->unread.bytes > 0;
        }
    }
}

// ---- misbehaviour ----

void or_peers_turn_away(or_coordinator_t *c, or_peer_t peer, const char *text)
{
    or_peers_note_refusal(c, or_link_key_of(c->link, peer), text);
    or_link_send_error(c->link, peer, (or_session_id_t){0}, OR_WIRE_REFUSED, "%s", text);
    or_link_forget(c->link, peer);
}

void or_peers_put_off(or_coordinator_t *c, or_peer_t peer, uint32_t retry_ms, const char *text)
{
    or_peers_note_refusal(c, or_link_key_of(c->link, peer), text);
    or_link_send_busy(c->link, peer, retry_ms, text);
    or_link_forget(c->link, peer);
}

void or_peers_note_refusal(or_coordinator_t *c, const char *key, const char *text)
{
    uint32_t unlogged;
    char who[9] = "no key";
    if (key[0] != '\0') {
        or_key_short(key, who);
    }
    or_counters_event(c, OR_EVENT_REFUSED, NULL, "%s: %s", who, text);
    if (!or_refusals_note(&c->peers.refusals, key, or_clock_now(c->clock), &unlogged)) {
        return;
    }
    if (unlogged > 0) {
        or_log(OR_LOG_WARN, "peer turned away (%s, and %u times more since the last of it): %s",
               who, unlogged, text);
    } else {
        or_log(OR_LOG_WARN, "peer turned away (%s): %s", who, text);
    }
}

uint64_t or_peers_refused(const or_coordinator_t *c)
{
    return c->peers.refusals.count + c->peers.connections_refused;
}

// The offence is its key's, or its connection's where it has none. Good-byes change neither.
static double count_offence(or_coordinator_t *c, const or_member_t *member, or_offence_t offence)
{
    char connection[OR_KEY_BYTES];
    const char *key = member->grant.key;
    snprintf(connection, sizeof connection, "#%llu", (unsigned long long)member->peer.value);
    return or_standings_offend(&c->peers.standings, key[0] != '\0' ? key : connection, offence,
                               or_clock_now(c->clock));
}

static void note_offence(or_coordinator_t *c, or_member_t *member, or_offence_t offence)
{
    if (member->role != OR_ROLE_DRAFTER || member->cut) {
        return;
    }
    member->conduct.points = count_offence(c, member, offence);
    if (member->conduct.points >= OR_CONDUCT_POINTS_MAX) {
        member->cut = true;
        member->offence = offence;
        c->peers.cuts++;
    }
}

void or_peers_offend(or_coordinator_t *c, or_peer_t peer, or_offence_t offence)
{
    or_member_t *member = or_peers_find(c, peer);
    if (member != NULL && peer.value != 0) {
        note_offence(c, member, offence);
    }
}

bool or_peers_gate(void *context, or_peer_t from, size_t bytes)
{
    or_coordinator_t *c = context;
    or_member_t *member = or_peers_find(c, from);
    if (member == NULL || member->inside || member->role == OR_ROLE_VERIFIER) {
        return true;
    }
    if (!member->cut && or_conduct_allows(&member->conduct, bytes, or_clock_now(c->clock))) {
        return true;
    }
    note_offence(c, member, OR_OFFENCE_FLOOD);
    return false;
}
