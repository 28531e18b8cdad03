// What keys allow: who a peer is when it greets, and what becomes of members and texts when the
// keyring changes under them.
#include <stdio.h>
#include <string.h>

#include "common/base/log/log.h"
#include "common/decode/methods.h"
#include "coordinator/coordinator_internal.h"

#define REFRESH_NS OR_NS_PER_S
#define COMPLAIN_NS (60 * OR_NS_PER_S)

// ---- refusals ----

void or_coordinator_note_refusal(or_coordinator_t *c, const char *key, const char *text)
{
    uint32_t unlogged;
    char who[9] = "no key";
    if (key[0] != '\0') {
        or_key_short(key, who);
    }
    or_coordinator_event(c, OR_EVENT_REFUSED, NULL, "%s: %s", who, text);
    if (!or_refusals_note(&c->refusals, key, or_clock_now(c->clock), &unlogged)) {
        return;
    }
    if (unlogged > 0) {
        or_log(OR_LOG_WARN, "peer turned away (%s, and %u times more since the last of it): %s",
               who, unlogged, text);
    } else {
        or_log(OR_LOG_WARN, "peer turned away (%s): %s", who, text);
    }
}

bool or_coordinator_admits(const or_coordinator_t *c, const char *public_key)
{
    return c->config.keyring != NULL && or_keyring_find(c->config.keyring, public_key) != NULL &&
           !or_refusals_is_banned(&c->refusals, public_key, or_clock_now(c->clock));
}

uint64_t or_coordinator_refused(const or_coordinator_t *c)
{
    return c->refusals.count + c->connections_refused;
}

void or_coordinator_set_refused_connections(or_coordinator_t *c, uint64_t count)
{
    c->connections_refused = count;
}

// ---- greetings ----

static uint32_t role_bit(or_role_t role)
{
    switch (role) {
    case OR_ROLE_CLIENT:
        return OR_KEY_CLIENT;
    case OR_ROLE_DRAFTER:
        return OR_KEY_DRAFTER;
    case OR_ROLE_VERIFIER:
        return OR_KEY_VERIFIER;
    default:
        return 0;
    }
}

static const or_key_grant_t *grant_of(const or_coordinator_t *c, const char *key)
{
    return c->config.keyring != NULL ? or_keyring_find(c->config.keyring, key) : NULL;
}

// May a peer with this grant (NULL: its key has none) be what it says it is?
static bool is_granted(const or_key_grant_t *grant, const or_hello_t *hello, char *text,
                       size_t capacity)
{
    if (grant == NULL) {
        snprintf(text, capacity,
                 "this key is not authorised here; the coordinator's operator can: outrider keys "
                 "authorize");
        return false;
    }
    if ((grant->roles & role_bit(hello->role)) == 0) {
        char names[32];
        or_key_roles_name(grant->roles, names);
        snprintf(text, capacity, "this key may be %s here, not %s", names,
                 or_role_name(hello->role));
        return false;
    }
    if (hello->owner[0] != '\0' && strcmp(hello->owner, grant->owner) != 0) {
        snprintf(text, capacity, "this key is %s's: it cannot write in another owner's name",
                 grant->owner);
        return false;
    }
    return true;
}

// A name is believed of a key, and from this machine.
bool or_grants_identify(or_coordinator_t *c, const or_hello_t *hello, or_member_t *member,
                        char *text, size_t capacity)
{
    const char *key = or_link_key_of(c->link, member->peer);
    if (key[0] == '\0') {
        bool local = or_link_is_local(c->link, member->peer);
        const char *owner = local ? hello->owner : "";
        member->trusted = c->config.trust_loopback && local;
        member->serves_all = local && owner[0] == '\0';
        snprintf(member->owner, sizeof member->owner, "%s", owner);
        return true;
    }
    if (or_refusals_is_banned(&c->refusals, key, or_clock_now(c->clock))) {
        snprintf(text, capacity, "this key is cut off for what was sent with it; try again later");
        return false;
    }
    const or_key_grant_t *grant = grant_of(c, key);
    if (!is_granted(grant, hello, text, capacity)) {
        return false;
    }
    member->grant = *grant;
    member->trusted = grant->trusted;
    snprintf(member->owner, sizeof member->owner, "%s", grant->owner);
    return true;
}

// ---- limits ----

bool or_grants_allow_session(const or_coordinator_t *c, const or_member_t *client, char *why,
                             size_t capacity)
{
    uint32_t most = client->grant.sessions_max, live = 0;
    if (client->grant.key[0] == '\0' || most == 0) {
        return true;
    }
    for (uint32_t i = 0; i < c->places; i++) {
        const or_csession_t *session = c->sessions[i];
        live += session != NULL && session->phase != OR_PHASE_DONE &&
                session->phase != OR_PHASE_PARKED && strcmp(session->key, client->grant.key) == 0;
    }
    if (live < most) {
        return true;
    }
    snprintf(why, capacity, "busy: your key allows %u at a time; retry after %.1f s", most,
             (double)OR_GRANTS_RETRY_MS / 1000);
    return false;
}

bool or_grants_may_write(or_coordinator_t *c, or_csession_t *session)
{
    const or_key_grant_t *grant = or_drafting_grant(c, session);
    session->paced_ns = 0;
    return grant == NULL ||
           or_limits_may_write(c->limits, grant, or_clock_now(c->clock), &session->paced_ns);
}

// ---- changes ----

// A text ends when the key that asked for it does not stand for its owner any more, its client
// there or not.
static void check_session(or_coordinator_t *c, or_csession_t *session)
{
    if (session->phase == OR_PHASE_DONE || session->key[0] == '\0') {
        return;
    }
    const or_key_grant_t *grant = grant_of(c, session->key);
    bool allowed = grant != NULL && (grant->roles & OR_KEY_CLIENT) != 0 &&
                   strcmp(grant->owner, or_csession_owner(session)) == 0;
    if (!allowed) {
        or_csession_fail(session, OR_WIRE_REFUSED, "the key that asked for this text was revoked");
        or_round_finish(c, session);
    }
}

// Does the member's key still allow what it is here for?
static bool is_still_granted(const or_member_t *member, const or_key_grant_t *grant)
{
    return grant != NULL && (grant->roles & role_bit(member->role)) != 0 &&
           strcmp(grant->owner, member->owner) == 0;
}

// What the drafter says it drew is believed no more: it leaves the sessions that need that.
static void withdraw_trust(or_coordinator_t *c, or_peer_t drafter)
{
    for (uint32_t i = 0; i < c->places; i++) {
        or_csession_t *session = c->sessions[i];
        or_seat_t *seat = session != NULL ? or_csession_seat(session, drafter) : NULL;
        if (seat != NULL && or_accept_rule_needs_trust(session->terms.open.accept_rule)) {
            or_round_send_cancel(c, session, drafter, "this key is not trusted any more");
            or_round_on_drafter_lost(c, session, seat);
        }
    }
}

static void check_member(or_coordinator_t *c, or_member_t *member)
{
    const or_key_grant_t *grant = grant_of(c, member->grant.key);
    if (!is_still_granted(member, grant)) {
        or_members_expel(c, member, "this key was revoked");
        return;
    }
    bool withdrawn = member->trusted && !grant->trusted;
    member->grant = *grant;
    member->trusted = grant->trusted;
    if (withdrawn) {
        withdraw_trust(c, member->peer);
    }
}

// The keyring has changed: it holds for who is here already, too. Texts first: their clients hear
// why.
static void apply(or_coordinator_t *c)
{
    or_log(OR_LOG_INFO, "the keyring has changed: %u keys", or_keyring_count(c->config.keyring));
    or_coordinator_for_each_session(c, check_session);
    for (uint32_t i = 0; i < OR_PEERS_MAX; i++) {
        or_member_t *member = &c->members[i];
        if (member->peer.value != 0 && member->grant.key[0] != '\0') {
            check_member(c, member);
        }
    }
}

// A keyring that makes no sense says so once; one that cannot be read at each look.
static void complain(or_coordinator_t *c, or_status_t status, int64_t now)
{
    bool repeats = status != OR_ERR_INVALID;
    if (!repeats || c->keyring_told_ns == 0 || now - c->keyring_told_ns >= COMPLAIN_NS) {
        or_log(OR_LOG_ERROR, "%s; the keys stay as they were%s", or_error_text(),
               repeats ? " until it can be read" : "");
        c->keyring_told_ns = repeats ? now : c->keyring_told_ns;
    }
}

int64_t or_grants_tick(or_coordinator_t *c)
{
    int64_t now = or_clock_now(c->clock);
    bool changed;
    if (c->config.keyring == NULL) {
        return OR_TIME_NEVER;
    }
    if (now >= c->keyring_due_ns) {
        c->keyring_due_ns = now + REFRESH_NS;
        or_status_t status = or_keyring_refresh(c->config.keyring, &changed);
        if (status != OR_OK) {
            complain(c, status, now);
        } else if (changed) {
            apply(c);
        }
    }
    return c->keyring_due_ns;
}
