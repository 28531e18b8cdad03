#include "coordinator/peers/members.h"

#include <stdio.h>
#include <string.h>

#include "common/base/log/log.h"
#include "common/base/version.h"
#include "common/decode/methods.h"
#include "coordinator/clients/clients.h"
#include "coordinator/figures/figures.h"
#include "coordinator/hub.h"
#include "coordinator/peers/grants.h"
#include "coordinator/rounds/rounds.h"
#include "coordinator/vocab/vocabulary_match.h"

#define IGNORE_NS (60 * OR_NS_PER_S) // a drafter that was cut off is not heard for so long
#define REFRESH_NS OR_NS_PER_S       // between looks at the keyring
#define COMPLAIN_NS (60 * OR_NS_PER_S)

// Shares of the places for peers: one key's, the clients', that of clients without a key, and what is left for verifiers
// and our own HTTP face, so that nobody can keep the others out.
#define KEY_PLACES 64u
#define CLIENT_PLACES (OR_PEERS_MAX / 4 * 3)
#define NAMELESS_PLACES (OR_PEERS_MAX / 2)
#define VERIFIER_PLACES 16u

// ---- greetings ----

static void welcome(or_coordinator_t *c, const or_member_t *member)
{
    const or_member_t *verifier = c->verifier;
    const or_message_t message = {
        .type = OR_MSG_WELCOME,
        .body.welcome = {.software = "outrider " OR_VERSION,
                         .heartbeat_ms = c->config.heartbeat_ms,
                         .nodes_max = verifier != NULL ? verifier->nodes_max : 0,
                         .vocab_hash = or_vocab_hash(c->vocab),
                         .owner = member->owner,
                         .trusted = member->trusted,
                         .model = verifier != NULL ? verifier->model : "",
                         .arith_id = verifier != NULL ? verifier->arith_id : "",
                         .drafters = or_peers_count(c, OR_ROLE_DRAFTER)},
    };
    or_peers_send(c, member->peer, &message);
}

// A verifier with another target would write another text.
static bool same_target(or_coordinator_t *c, const or_hello_t *hello, char *text, size_t capacity)
{
    if (hello->role != OR_ROLE_VERIFIER || c->config.model_hash == 0 ||
        hello->model_hash == c->config.model_hash) {
        return true;
    }
    snprintf(text, capacity,
             "the verifier's %s is not the file %s of this coordinator: start both with the same "
             "-m file",
             hello->model, c->config.model_name);
    return false;
}

// A verifier whose tokens are not the target's cannot serve.
static bool same_vocabulary(or_coordinator_t *c, const or_hello_t *hello, char *text,
                            size_t capacity)
{
    if (hello->role != OR_ROLE_VERIFIER || (hello->vocab_hash == or_vocab_hash(c->vocab) &&
                                            hello->vocab_size == or_vocab_size(c->vocab))) {
        return true;
    }
    snprintf(text, capacity,
             "the verifier's model %s has another vocabulary (%u tokens) than the target %s (%u "
             "tokens): start coordinator and verifier with the same -m file",
             hello->model, hello->vocab_size, c->config.model_name, or_vocab_size(c->vocab));
    return false;
}

// Cut short, two owners could become one.
static bool names_an_owner(const or_hello_t *hello, char *text, size_t capacity)
{
    if (strlen(hello->owner) < OR_OWNER_BYTES) {
        return true;
    }
    snprintf(text, capacity, "an owner's name has at most %d bytes: choose a shorter --owner",
             OR_OWNER_BYTES - 1);
    return false;
}

static bool is_acceptable(or_coordinator_t *c, const or_hello_t *hello, char *text, size_t capacity)
{
    if (hello->role != OR_ROLE_CLIENT && hello->role != OR_ROLE_DRAFTER &&
        hello->role != OR_ROLE_VERIFIER) {
        snprintf(text, capacity, "a coordinator serves clients, drafters and verifiers");
        return false;
    }
    return same_vocabulary(c, hello, text, capacity) && same_target(c, hello, text, capacity) &&
           names_an_owner(hello, text, capacity);
}

// Note an event of a drafter or a verifier.
static void note_event(or_coordinator_t *c, const or_member_t *member, const char *drafters,
                       const char *verifiers)
{
    if (member->role == OR_ROLE_DRAFTER || member->role == OR_ROLE_VERIFIER) {
        or_counters_event(c, member->role == OR_ROLE_DRAFTER ? drafters : verifiers, NULL, "%s%s%s",
                          member->model, member->owner[0] != '\0' ? " of " : "", member->owner);
    }
}

// The level at which it is said that a member came or went. Clients come and go, readiness probes every few seconds; and no
// key fills the log.
static or_log_level_t level_of(or_coordinator_t *c, const or_member_t *member, or_log_level_t level)
{
    bool told =
        member->role != OR_ROLE_CLIENT &&
        or_standings_may_log(&c->peers.standings, member->grant.key, or_clock_now(c->clock));
    return told ? level : OR_LOG_DEBUG;
}

// It can take part now.
static void joined(or_coordinator_t *c, or_member_t *member)
{
    or_csession_t *session;
    or_log(level_of(c, member, OR_LOG_INFO), "%s joined with %s", or_role_name(member->role),
           member->model[0] ? member->model : "no model");
    note_event(c, member, OR_EVENT_DRAFTER_JOINED, OR_EVENT_VERIFIER_JOINED);
    if (member->role == OR_ROLE_VERIFIER) {
        if (c->verifier != NULL && c->verifier != member) {
            or_log(OR_LOG_WARN, "a new verifier replaces the one before it");
        }
        c->verifier = member;
        for (uint32_t at = 0; (session = or_sessions_next(&c->sessions, &at)) != NULL;) {
            or_round_verifier_joined(c, session);
        }
    } else if (member->role == OR_ROLE_DRAFTER) {
        c->queue.drafter_seen = true;
    }
    or_budget_place(c);
    c->queue.due = true;
}

// The places that are taken of those that a newcomer would need one of.
typedef struct {
    uint32_t of_key, of_clients, of_nameless, of_all;
} taken_t;

static taken_t count_taken(or_coordinator_t *c, const char *key)
{
    taken_t taken = {0};
    const or_member_t *member;
    for (uint32_t at = 0; (member = or_peers_next(&c->peers, &at)) != NULL;) {
        bool client = member->role == OR_ROLE_CLIENT;
        taken.of_all++;
        taken.of_clients += client;
        taken.of_nameless += client && member->grant.key[0] == '\0';
        taken.of_key += key[0] != '\0' && strcmp(member->grant.key, key) == 0;
    }
    return taken;
}

static bool has_place(or_coordinator_t *c, const or_member_t *newcomer, char *text, size_t capacity)
{
    const taken_t taken = count_taken(c, newcomer->grant.key);
    bool client = newcomer->role == OR_ROLE_CLIENT && !newcomer->inside;
    bool nameless = client && newcomer->grant.key[0] == '\0';
    bool needed = newcomer->role == OR_ROLE_VERIFIER || newcomer->inside;
    uint32_t reserved = needed ? 0 : VERIFIER_PLACES;
    if (taken.of_key >= KEY_PLACES) {
        snprintf(text, capacity,
                 "busy: this key has %u connections here already, as many as it may", taken.of_key);
        return false;
    }
    if ((client && taken.of_clients >= CLIENT_PLACES) ||
        (nameless && taken.of_nameless >= NAMELESS_PLACES) ||
        taken.of_all + reserved >= OR_PEERS_MAX) {
        snprintf(text, capacity, "busy: this coordinator has no room for more %ss",
                 or_role_name(newcomer->role));
        return false;
    }
    return true;
}

static or_member_t new_member(or_coordinator_t *c, or_peer_t peer, const or_hello_t *hello)
{
    or_member_t member = {.peer = peer,
                          .role = hello->role,
                          .inside =
                              hello->role == OR_ROLE_CLIENT && or_link_is_inside(c->link, peer),
                          .number = ++c->peers.last_number,
                          .joined_ns = or_clock_now(c->clock),
                          .context_max = hello->context_max,
                          .nodes_max = hello->nodes_max,
                          .sessions_max = hello->sessions_max,
                          .machine = hello->machine};
    snprintf(member.model, sizeof member.model, "%s", hello->model);
    snprintf(member.arith_id, sizeof member.arith_id, "%s", hello->arith_id);
    or_conduct_init(&member.conduct, or_clock_now(c->clock));
    return member;
}

void or_members_greet(or_coordinator_t *c, or_peer_t peer, const or_hello_t *hello)
{
    char text[512];
    or_member_t *member = or_peers_find(c, peer);
    if (member != NULL) { // it missed our Welcome, or came back from a silence
        welcome(c, member);
        return;
    }
    or_member_t newcomer = new_member(c, peer, hello);
    if (!is_acceptable(c, hello, text, sizeof text) ||
        !or_grants_identify(c, hello, &newcomer, text, sizeof text)) {
        or_peers_turn_away(c, peer, text);
        return;
    }
    if (!has_place(c, &newcomer, text, sizeof text)) {
        or_peers_put_off(c, peer, 0, text);
        return;
    }
    member = or_peers_find(c, (or_peer_t){0}); // there is one
    *member = newcomer;
    or_peers_open_account(c, member);
    if (member->role == OR_ROLE_VERIFIER) { // all texts wait for it; a drafter could flood
        or_link_hurry(c->link, peer);
    }
    welcome(c, member);
    if (member->role != OR_ROLE_DRAFTER || or_vocab_match_begin(c, member, hello)) {
        joined(c, member);
    }
}

void or_members_take_vocabulary(or_coordinator_t *c, or_member_t *member,
                                const or_vocabulary_t *vocabulary)
{
    if (or_vocab_match_take(c, member, vocabulary)) {
        joined(c, member);
    }
}

// ---- losses ----

// A verifier that is still here; NULL if there is none.
static or_member_t *any_verifier(or_coordinator_t *c)
{
    or_member_t *member;
    uint32_t at = 0;
    do {
        member = or_peers_next(&c->peers, &at);
    } while (member != NULL && member->role != OR_ROLE_VERIFIER);
    return member;
}

static void replace_verifier(or_coordinator_t *c)
{
    or_csession_t *session;
    c->verifier = any_verifier(c);
    for (uint32_t at = 0; (session = or_sessions_next(&c->sessions, &at)) != NULL;) {
        if (c->verifier != NULL) {
            or_round_verifier_joined(c, session);
        } else {
            or_round_verifier_lost(c, session);
        }
    }
    c->queue.due = true;
}

static void leave_sessions(or_coordinator_t *c, or_peer_t drafter)
{
    or_csession_t *session;
    for (uint32_t at = 0; (session = or_sessions_next(&c->sessions, &at)) != NULL;) {
        or_seat_t *seat = or_seats_find(session, drafter);
        if (seat != NULL) {
            or_round_drafter_lost(c, session, seat);
        }
    }
}

// It is gone: its sessions go on without it, or are kept for it if they were its own.
static void remove_member(or_coordinator_t *c, or_member_t *member)
{
    or_peer_t peer = member->peer;
    or_role_t role = member->role;
    bool served = member == c->verifier;
    or_vocab_match_forget(member);
    or_peers_forget(member); // first: its sessions look for others
    if (served) {
        replace_verifier(c);
    }
    or_budget_place(c);
    if (role == OR_ROLE_CLIENT) {
        or_parking_detach(c, peer);
    } else if (role == OR_ROLE_DRAFTER) {
        leave_sessions(c, peer);
    }
}

void or_members_lost(or_coordinator_t *c, or_peer_t peer)
{
    or_member_t *member = or_peers_find(c, peer);
    if (member != NULL && peer.value != 0) {
        or_log(level_of(c, member, OR_LOG_WARN), "%s lost", or_role_name(member->role));
        note_event(c, member, OR_EVENT_DRAFTER_LOST, OR_EVENT_VERIFIER_LOST);
        remove_member(c, member);
    }
}

void or_members_leave(or_coordinator_t *c, or_peer_t peer)
{
    or_parking_leave(c, peer);
    or_members_lost(c, peer);
    or_link_forget(c->link, peer); // last: its texts count what went over its link
}

// ---- misbehaviour ----

// Say why, end what it takes part in, and hear nothing from it for a while.
static void expel(or_coordinator_t *c, or_member_t *member, const char *text)
{
    or_peer_t peer = member->peer;
    or_peers_note_refusal(c, member->grant.key, text);
    or_link_send_error(c->link, peer, (or_session_id_t){0}, OR_WIRE_REFUSED, "%s", text);
    remove_member(c, member);
    or_link_ignore(c->link, peer, or_clock_now(c->clock) + IGNORE_NS);
}

// All connections of a key answer for what it did on one of them, and it comes in on no new one for as long.
static void cut_off(or_coordinator_t *c, const or_member_t *offender)
{
    char text[128], key[OR_KEY_BYTES];
    or_peer_t peer = offender->peer;
    int64_t now = or_clock_now(c->clock);
    snprintf(text, sizeof text, "cut off for %s", or_offence_name(offender->offence));
    memcpy(key, offender->grant.key, sizeof key);
    or_log(OR_LOG_WARN, "drafter with %s %s", offender->model, text);
    or_counters_event(c, OR_EVENT_CUT_OFF, NULL, "drafter with %s %s", offender->model, text);
    if (key[0] != '\0') {
        or_refusals_ban(&c->peers.refusals, key, now, now + IGNORE_NS);
    }
    for (uint32_t i = 0; i < OR_PEERS_MAX; i++) {
        or_member_t *member = &c->peers.members[i];
        bool same_key = key[0] != '\0' && strcmp(member->grant.key, key) == 0;
        if (member->peer.value == peer.value || (same_key && member->role == OR_ROLE_DRAFTER)) {
            expel(c, member, text);
        }
    }
    c->figures.cut_off++;
}

// ---- changes of the keyring ----

// A text ends when the key that asked for it does not stand for its owner any more, its client
// there or not.
static void check_session(or_csession_t *session, const or_key_grant_t *grant)
{
    if (!or_grants_allow_role(grant, OR_ROLE_CLIENT, or_csession_owner(session))) {
        or_csession_fail(session, OR_WIRE_REFUSED, "the key that asked for this text was revoked");
    }
}

// The drafter's word for what it drew is believed no more: it leaves the sessions that need that.
static void withdraw_trust(or_coordinator_t *c, or_peer_t drafter)
{
    or_csession_t *session;
    for (uint32_t at = 0; (session = or_sessions_next(&c->sessions, &at)) != NULL;) {
        or_seat_t *seat = or_seats_find(session, drafter);
        if (seat != NULL && or_accept_rule_needs_trust(session->terms.open.accept_rule)) {
            or_peers_send_cancel(c, session, drafter, "this key is not trusted any more");
            or_round_drafter_lost(c, session, seat);
        }
    }
}

static void check_member(or_coordinator_t *c, or_member_t *member)
{
    const or_key_grant_t *grant = or_grants_find(c, member->grant.key);
    if (!or_grants_allow_role(grant, member->role, member->owner)) {
        expel(c, member, "this key was revoked");
        return;
    }
    bool withdrawn = member->trusted && !grant->trusted;
    member->grant = *grant;
    member->trusted = grant->trusted;
    if (withdrawn) {
        withdraw_trust(c, member->peer);
    }
}

// The keyring has changed: it holds for who is here already, too. Texts first, so that their clients hear why: members
// are looked at when those ends are settled.
static void apply(or_coordinator_t *c)
{
    or_csession_t *session;
    or_log(OR_LOG_INFO, "the keyring has changed: %u keys", or_keyring_count(c->config.keyring));
    for (uint32_t at = 0; (session = or_sessions_next(&c->sessions, &at)) != NULL;) {
        if (session->phase != OR_PHASE_DONE && session->key[0] != '\0') {
            check_session(session, or_grants_find(c, session->key));
        }
    }
    c->peers.keyring_changed = true;
}

static void check_members(or_coordinator_t *c)
{
    or_member_t *member;
    for (uint32_t at = 0; (member = or_peers_next(&c->peers, &at)) != NULL;) {
        if (member->grant.key[0] != '\0') {
            check_member(c, member);
        }
    }
}

// A keyring that makes no sense says so once; one that cannot be read at each look.
static void complain(or_coordinator_t *c, or_status_t status, int64_t now)
{
    bool repeats = status != OR_ERR_INVALID;
    if (!repeats || c->peers.keyring_told_ns == 0 ||
        now - c->peers.keyring_told_ns >= COMPLAIN_NS) {
        or_log(OR_LOG_ERROR, "%s; the keys stay as they were%s", or_error_text(),
               repeats ? " until it can be read" : "");
        c->peers.keyring_told_ns = repeats ? now : c->peers.keyring_told_ns;
    }
}

int64_t or_members_tick(or_coordinator_t *c)
{
    int64_t now = or_clock_now(c->clock);
    bool changed;
    if (c->config.keyring == NULL) {
        return OR_TIME_NEVER;
    }
    if (now >= c->peers.keyring_due_ns) {
        c->peers.keyring_due_ns = now + REFRESH_NS;
        or_status_t status = or_keyring_refresh(c->config.keyring, &changed);
        if (status != OR_OK) {
            complain(c, status, now);
        } else if (changed) {
            apply(c);
        }
    }
    return c->peers.keyring_due_ns;
}

void or_members_cut_off(or_coordinator_t *c)
{
    for (uint32_t i = 0; c->peers.cuts > 0 && i < OR_PEERS_MAX; i++) {
        if (c->peers.members[i].cut) {
            cut_off(c, &c->peers.members[i]);
        }
    }
    c->peers.cuts = 0;
    if (c->peers.keyring_changed) {
        c->peers.keyring_changed = false;
        check_members(c);
    }
}
