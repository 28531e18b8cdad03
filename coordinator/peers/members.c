// Who is here: greetings, losses, and what becomes of a drafter that misbehaves.
#include <stdio.h>
#include <string.h>

#include "common/base/log/log.h"
#include "common/base/version.h"
#include "coordinator/coordinator_internal.h"

// A drafter that was cut off is not heard for so long.
#define IGNORE_NS (60 * OR_NS_PER_S)

// Of the places for peers: what one key may take, what clients may, what those of them without a key may, and
// what is left for verifiers and our own HTTP face, so that nobody can keep the others out.
#define KEY_PLACES 64u
#define CLIENT_PLACES (OR_PEERS_MAX / 4 * 3)
#define NAMELESS_PLACES (OR_PEERS_MAX / 2)
#define VERIFIER_PLACES 16u

or_member_t *or_coordinator_member(or_coordinator_t *c, or_peer_t peer)
{
    for (uint32_t i = 0; i < OR_PEERS_MAX; i++) {
        if (c->members[i].peer.value == peer.value) {
            return &c->members[i];
        }
    }
    return NULL;
}

uint32_t or_coordinator_count(const or_coordinator_t *c, or_role_t role)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < OR_PEERS_MAX; i++) {
        count += c->members[i].peer.value != 0 && c->members[i].role == role;
    }
    return count;
}

void or_coordinator_turn_away(or_coordinator_t *c, or_peer_t peer, or_wire_error_t code,
                              const char *text)
{
    or_coordinator_note_refusal(c, or_link_key_of(c->link, peer), text);
    or_link_send_error(c->link, peer, (or_session_id_t){0}, code, "%s", text);
    or_link_forget(c->link, peer);
}

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
                         .drafters = or_coordinator_count(c, OR_ROLE_DRAFTER)},
    };
    or_coordinator_send(c, member->peer, &message);
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

// Of drafters and verifiers.
static void note_event(or_coordinator_t *c, const or_member_t *member, const char *drafters,
                       const char *verifiers)
{
    if (member->role == OR_ROLE_DRAFTER || member->role == OR_ROLE_VERIFIER) {
        or_coordinator_event(c, member->role == OR_ROLE_DRAFTER ? drafters : verifiers, NULL,
                             "%s%s%s", member->model, member->owner[0] != '\0' ? " of " : "",
                             member->owner);
    }
}

void or_members_joined(or_coordinator_t *c, or_member_t *member)
{
    // Clients come and go, readiness probes every few seconds.
    or_log(member->role == OR_ROLE_CLIENT ? OR_LOG_DEBUG : OR_LOG_INFO, "%s joined with %s",
           or_role_name(member->role), member->model[0] ? member->model : "no model");
    note_event(c, member, OR_EVENT_DRAFTER_JOINED, OR_EVENT_VERIFIER_JOINED);
    if (member->role == OR_ROLE_VERIFIER) {
        if (c->verifier != NULL && c->verifier != member) {
            or_log(OR_LOG_WARN, "a new verifier replaces the one before it");
        }
        c->verifier = member;
        or_coordinator_for_each_session(c, or_round_on_verifier);
    } else if (member->role == OR_ROLE_DRAFTER) {
        c->drafter_seen = true;
    }
    or_waiting_begin_all(c);
}

// What is taken of the places that a newcomer would need one of.
typedef struct {
    uint32_t of_key, of_clients, of_nameless, of_all;
} taken_t;

static taken_t count_taken(const or_coordinator_t *c, const char *key)
{
    taken_t taken = {0};
    for (uint32_t i = 0; i < OR_PEERS_MAX; i++) {
        const or_member_t *member = &c->members[i];
        bool here = member->peer.value != 0, client = here && member->role == OR_ROLE_CLIENT;
        taken.of_all += here;
        taken.of_clients += client;
        taken.of_nameless += client && member->grant.key[0] == '\0';
        taken.of_key += here && key[0] != '\0' && strcmp(member->grant.key, key) == 0;
    }
    return taken;
}

static bool has_place(const or_coordinator_t *c, const or_member_t *newcomer, char *text,
                      size_t capacity)
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
                          .number = ++c->last_number,
                          .joined_ns = or_clock_now(c->clock),
                          .context_max = hello->context_max,
                          .nodes_max = hello->nodes_max,
                          .sessions_max = hello->sessions_max};
    snprintf(member.model, sizeof member.model, "%s", hello->model);
    snprintf(member.arith_id, sizeof member.arith_id, "%s", hello->arith_id);
    or_conduct_init(&member.conduct, or_clock_now(c->clock));
    return member;
}

void or_members_greet(or_coordinator_t *c, or_peer_t peer, const or_hello_t *hello)
{
    char text[512];
    or_member_t *member = or_coordinator_member(c, peer);
    if (member != NULL) { // it missed our Welcome, or came back from a silence
        welcome(c, member);
        return;
    }
    or_member_t newcomer = new_member(c, peer, hello);
    if (!is_acceptable(c, hello, text, sizeof text) ||
        !or_grants_identify(c, hello, &newcomer, text, sizeof text)) {
        or_coordinator_turn_away(c, peer, OR_WIRE_REFUSED, text);
        return;
    }
    if (!has_place(c, &newcomer, text, sizeof text)) {
        or_coordinator_turn_away(c, peer, OR_WIRE_BUSY, text);
        return;
    }
    member = or_coordinator_member(c, (or_peer_t){0}); // there is one
    *member = newcomer;
    or_charges_greet(c, member);
    if (member->role == OR_ROLE_VERIFIER) { // all texts wait for it; a drafter could flood
        or_link_hurry(c->link, peer);
    }
    welcome(c, member);
    if (member->role != OR_ROLE_DRAFTER || or_vocab_match_begin(c, member, hello)) {
        or_members_joined(c, member);
    }
}

// ---- losses ----

void or_members_free(or_member_t *member)
{
    or_hold_close(&member->unread);
    *member = (or_member_t){0};
}

// A verifier that is still here; NULL if there is none.
static or_member_t *any_verifier(or_coordinator_t *c)
{
    for (uint32_t i = 0; i < OR_PEERS_MAX; i++) {
        if (c->members[i].peer.value != 0 && c->members[i].role == OR_ROLE_VERIFIER) {
            return &c->members[i];
        }
    }
    return NULL;
}

static void replace_verifier(or_coordinator_t *c)
{
    c->verifier = any_verifier(c);
    or_coordinator_for_each_session(c, c->verifier != NULL ? or_round_on_verifier
                                                           : or_round_on_verifier_lost);
    or_waiting_begin_all(c);
}

static void leave_sessions(or_coordinator_t *c, or_peer_t drafter)
{
    for (uint32_t i = 0; i < c->places; i++) {
        or_csession_t *session = c->sessions[i];
        or_seat_t *seat = session != NULL ? or_csession_seat(session, drafter) : NULL;
        if (seat != NULL) {
            or_round_on_drafter_lost(c, session, seat);
        }
    }
}

// It is gone: its sessions go on without it, or end if they were its own.
static void remove_member(or_coordinator_t *c, or_member_t *member)
{
    or_peer_t peer = member->peer;
    or_role_t role = member->role;
    bool served = member == c->verifier;
    or_vocab_match_forget(member);
    or_members_free(member); // first: its sessions look for others
    if (served) {
        replace_verifier(c);
    }
    if (role == OR_ROLE_CLIENT) {
        or_clients_detach(c, peer);
    } else if (role == OR_ROLE_DRAFTER) {
        leave_sessions(c, peer);
    }
}

void or_members_lost(or_coordinator_t *c, or_peer_t peer)
{
    or_member_t *member = or_coordinator_member(c, peer);
    if (member != NULL && peer.value != 0) {
        or_log(member->role == OR_ROLE_CLIENT ? OR_LOG_DEBUG : OR_LOG_WARN, "%s lost",
               or_role_name(member->role));
        note_event(c, member, OR_EVENT_DRAFTER_LOST, OR_EVENT_VERIFIER_LOST);
        remove_member(c, member);
    }
}

void or_coordinator_refuse_drafter(or_coordinator_t *c, const or_refused_drafter_t *refused)
{
    c->refused = *refused;
    or_coordinator_for_each_session(c, or_waiting_begin);
}

// ---- misbehaviour ----

static void note_offence(or_coordinator_t *c, or_member_t *member, or_offence_t offence)
{
    if (member->role == OR_ROLE_DRAFTER && !member->cut &&
        or_conduct_offend(&member->conduct, offence, or_clock_now(c->clock))) {
        member->cut = true;
        member->offence = offence;
        c->cuts++;
    }
}

void or_coordinator_offend(or_coordinator_t *c, or_peer_t peer, or_offence_t offence)
{
    or_member_t *member = or_coordinator_member(c, peer);
    if (member != NULL && peer.value != 0) {
        note_offence(c, member, offence);
    }
}

bool or_members_gate(void *context, or_peer_t from, size_t bytes)
{
    or_coordinator_t *c = context;
    or_member_t *member = or_coordinator_member(c, from);
    if (member == NULL || member->inside || member->role == OR_ROLE_VERIFIER) {
        return true;
    }
    if (!member->cut && or_conduct_allows(&member->conduct, bytes, or_clock_now(c->clock))) {
        return true;
    }
    note_offence(c, member, OR_OFFENCE_FLOOD);
    return false;
}

void or_members_expel(or_coordinator_t *c, or_member_t *member, const char *text)
{
    or_peer_t peer = member->peer;
    or_coordinator_note_refusal(c, member->grant.key, text);
    or_link_send_error(c->link, peer, (or_session_id_t){0}, OR_WIRE_REFUSED, "%s", text);
    remove_member(c, member);
    or_link_ignore(c->link, peer, or_clock_now(c->clock) + IGNORE_NS);
}

// What a key did on one connection its others answer for, and it comes in on no new one for as
// long.
static void cut_off(or_coordinator_t *c, const or_member_t *offender)
{
    char text[128], key[OR_KEY_BYTES];
    or_peer_t peer = offender->peer;
    int64_t now = or_clock_now(c->clock);
    snprintf(text, sizeof text, "cut off for %s", or_offence_name(offender->offence));
    memcpy(key, offender->grant.key, sizeof key);
    or_log(OR_LOG_WARN, "drafter with %s %s", offender->model, text);
    or_coordinator_event(c, OR_EVENT_CUT_OFF, NULL, "drafter with %s %s", offender->model, text);
    if (key[0] != '\0') {
        or_refusals_ban(&c->refusals, key, now, now + IGNORE_NS);
    }
    for (uint32_t i = 0; i < OR_PEERS_MAX; i++) {
        or_member_t *member = &c->members[i];
        bool same_key = key[0] != '\0' && strcmp(member->grant.key, key) == 0;
        if (member->peer.value == peer.value || (same_key && member->role == OR_ROLE_DRAFTER)) {
            or_members_expel(c, member, text);
        }
    }
    c->figures.cut_off++;
}

void or_members_cut_off(or_coordinator_t *c)
{
    for (uint32_t i = 0; c->cuts > 0 && i < OR_PEERS_MAX; i++) {
        if (c->members[i].cut) {
            cut_off(c, &c->members[i]);
        }
    }
    c->cuts = 0;
}
