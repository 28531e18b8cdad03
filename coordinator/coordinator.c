#include "coordinator/coordinator.h"

#include <stdlib.h>

#include "common/base/log/log.h"
#include "coordinator/coordinator_internal.h"

#define MESSAGES_A_TURN 256
#define DRAIN_NS (2 * OR_NS_PER_MS)
#define HOLD_NS_MAX (20 * OR_NS_PER_MS)

or_coordinator_config_t or_coordinator_config_default(void)
{
    return (or_coordinator_config_t){
        .sessions_max = 64,
        .waiting_max = 1024,
        .draft_timeout_ms = 1000,
        .retry_ms = 1000,
        .verifier_timeout_ms = 120000, // a cut of a minute ends no text
        .heartbeat_ms = OR_LINK_HEARTBEAT_MS,
        .model_name = "target",
        .chat_trouble = "no chat template is known of this model: ask with a prompt",
        .trust_loopback = true,
        .resume_ms = OR_RESUME_MS,
    };
}

static uint32_t owner_places_for(uint32_t sessions)
{
    uint32_t places = 2;
    while (places < 2 * sessions) {
        places *= 2;
    }
    return places;
}

or_status_t or_coordinator_create(const or_coordinator_config_t *config, const or_vocab_t *vocab,
                                  or_link_t *link, const or_clock_t *clock,
                                  or_coordinator_t **coordinator_p)
{
    or_coordinator_t *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the coordinator");
    }
    c->config = *config;
    c->vocab = vocab;
    c->target = (or_session_target_t){vocab, config->chat, config->chat_trouble};
    or_vocabularies_init(&c->vocabularies, vocab);
    c->link = link;
    c->clock = clock;
    or_session_ids_init(&c->ids);
    c->places = 2 * config->sessions_max + config->waiting_max;
    c->sessions = calloc(c->places, sizeof(or_csession_t *));
    c->owner_places = owner_places_for(c->places);
    c->owners = calloc(c->owner_places, sizeof *c->owners);
    or_status_t status = c->sessions != NULL && c->owners != NULL
                             ? or_token_tree_create(OR_TREE_NODES_MAX, &c->scratch)
                             : or_fail(OR_ERR_NO_MEMORY, "no memory for %u sessions", c->places);
    if (status == OR_OK) {
        status = or_limits_create(&c->limits);
    }
    if (status == OR_OK) {
        status = or_telemetry_create(config->model_name, &c->telemetry);
    }
    if (status != OR_OK) {
        or_coordinator_destroy(&c);
        return status;
    }
    or_link_set_gate(link, or_members_gate, c);
    if (config->journal != NULL) {
        or_journal_set_ledger(config->journal, config->ledger);
    }
    *coordinator_p = c;
    return OR_OK;
}

void or_coordinator_destroy(or_coordinator_t **coordinator_p)
{
    or_coordinator_t *c = *coordinator_p;
    if (c == NULL) {
        return;
    }
    or_link_set_gate(c->link, NULL, NULL);
    for (uint32_t i = 0; c->sessions != NULL && i < c->places; i++) {
        or_csession_destroy(&c->sessions[i]);
    }
    for (uint32_t i = 0; i < OR_PEERS_MAX; i++) {
        or_members_free(&c->members[i]);
    }
    free(c->owners);
    free(c->sessions);
    or_token_tree_destroy(&c->scratch);
    or_vocabularies_fini(&c->vocabularies);
    free(c->packed);
    or_limits_destroy(&c->limits);
    or_telemetry_destroy(&c->telemetry);
    free(c);
    *coordinator_p = NULL;
}

void or_coordinator_send(or_coordinator_t *c, or_peer_t to, const or_message_t *message)
{
    if (!or_charges_may_send(c, to)) {
        or_log(OR_LOG_DEBUG, "%s not sent: the peer does not read",
               or_message_type_name(message->type));
    } else if (or_link_send(c->link, to, message) != OR_OK) {
        or_log(OR_LOG_DEBUG, "%s not sent: %s", or_message_type_name(message->type),
               or_error_text());
    } else {
        or_charges_sent(c, to);
    }
}

void or_coordinator_send_prefix(or_coordinator_t *c, const or_csession_t *session, or_peer_t to,
                                uint32_t start)
{
    const or_message_t message = {
        .type = OR_MSG_PREFIX,
        .session = session->id,
        .body.prefix = or_token_log_prefix(&session->log, start, session->round),
    };
    or_coordinator_send(c, to, &message);
}

int64_t or_coordinator_after_ms(const or_coordinator_t *c, uint32_t ms)
{
    return or_clock_now(c->clock) + ms * OR_NS_PER_MS;
}

void or_coordinator_drop_session(or_coordinator_t *c, or_csession_t **place)
{
    or_coordinator_journal_release(c, *place);
    or_csession_destroy(place);
}

void or_coordinator_for_each_session(or_coordinator_t *c,
                                     void (*visit)(or_coordinator_t *, or_csession_t *))
{
    for (uint32_t i = 0; i < c->places; i++) {
        if (c->sessions[i] != NULL) {
            visit(c, c->sessions[i]);
        }
    }
}

// ---- messages ----

or_csession_t *or_coordinator_session(or_coordinator_t *c, or_session_id_t id)
{
    for (uint32_t i = 0; i < c->places; i++) {
        if (c->sessions[i] != NULL && c->sessions[i]->id.value == id.value) {
            return c->sessions[i];
        }
    }
    return NULL;
}

// About vocabularies: true if that is what it was.
static bool on_vocabulary(or_coordinator_t *c, or_peer_t from, const or_message_t *message)
{
    or_member_t *member = or_coordinator_member(c, from);
    if (message->type == OR_MSG_VOCAB_REQUEST) {
        or_vocab_match_send_target(c, member, message->session, &message->body.vocab_request);
    } else if (message->type == OR_MSG_VOCABULARY) {
        if (or_vocab_match_take(c, member, &message->body.vocabulary)) {
            or_members_joined(c, member);
        }
    } else {
        return false;
    }
    return true;
}

static void on_drafter(or_coordinator_t *c, or_peer_t from, const or_message_t *message)
{
    if (on_vocabulary(c, from, message)) {
        return;
    }
    if (message->type == OR_MSG_STATS) {
        or_figures_report(c, or_coordinator_member(c, from), &message->body.stats);
        return;
    }
    or_csession_t *session = or_coordinator_session(c, message->session);
    or_seat_t *seat = session != NULL ? or_csession_seat(session, from) : NULL;
    if (seat == NULL) { // a session that is over, or is no longer this drafter's
        if (message->type != OR_MSG_ERROR && !or_session_ids_was(&c->ids, message->session)) {
            or_coordinator_offend(c, from, OR_OFFENCE_NO_SESSION);
        }
        return;
    }
    if (message->type == OR_MSG_DRAFT_TREE) {
        or_round_on_tree(c, session, seat, &message->body.draft_tree);
    } else if (message->type == OR_MSG_ERROR) {
        or_round_on_drafter_error(c, session, seat, &message->body.error);
    } else if (message->type == OR_MSG_PSI_REPLY) {
        or_questions_answer(c, session, seat, &message->body.psi_reply);
    } else {
        or_coordinator_offend(c, from, OR_OFFENCE_MALFORMED);
        or_link_send_error(c->link, from, message->session, OR_WIRE_INVALID,
                           "a drafter does not send %s", or_message_type_name(message->type));
    }
}

static void on_verifier(or_coordinator_t *c, or_peer_t from, const or_message_t *message)
{
    or_csession_t *session = or_coordinator_session(c, message->session);
    if (c->verifier == NULL || c->verifier->peer.value != from.value) {
        return; // replaced
    }
    if (message->type == OR_MSG_STATS) {
        or_budget_load(c, &message->body.stats);
        or_figures_report(c, c->verifier, &message->body.stats);
        return;
    }
    if (session == NULL) {
        return;
    }
    if (message->type == OR_MSG_VERDICT) {
        or_round_on_verdict(c, session, &message->body.verdict);
    } else if (message->type == OR_MSG_ERROR) {
        or_round_on_verifier_error(c, session, &message->body.error);
    } else if (message->type == OR_MSG_PSI_REQUEST) {
        or_questions_ask(c, session, &message->body.psi_request);
    } else if (message->type == OR_MSG_KV_EVICTED) {
        or_round_on_evicted(session, &message->body.kv_evicted);
    } else {
        or_link_send_error(c->link, from, message->session, OR_WIRE_INVALID,
                           "a verifier does not send %s", or_message_type_name(message->type));
    }
}

static void on_message(or_coordinator_t *c, or_peer_t from, const or_message_t *message)
{
    if (message->type == OR_MSG_HELLO) {
        or_members_greet(c, from, &message->body.hello);
        return;
    }
    const or_member_t *member = or_coordinator_member(c, from);
    if (member == NULL) { // turned away before, or never greeted
        return;
    }
    if (message->type == OR_MSG_CANCEL && message->session.value == 0) { // good-bye
        or_link_forget(c->link, from);
        or_clients_leave(c, from);
        or_members_lost(c, from);
        return;
    }
    switch (member->role) {
    case OR_ROLE_CLIENT:
        or_clients_take(c, from, message);
        break;
    case OR_ROLE_DRAFTER:
        on_drafter(c, from, message);
        break;
    default:
        on_verifier(c, from, message);
    }
}

static void on_event(or_coordinator_t *c, or_link_event_t event, or_peer_t from,
                     or_message_t *message)
{
    switch (event) {
    case OR_LINK_MESSAGE:
        on_message(c, from, message);
        or_message_fini(message);
        break;
    case OR_LINK_MALFORMED:
        or_coordinator_offend(c, from, OR_OFFENCE_MALFORMED);
        break;
    case OR_LINK_PEER_LOST:
        or_members_lost(c, from);
        break;
    }
}

static bool has_live_texts(const or_coordinator_t *c)
{
    for (uint32_t i = 0; i < c->places; i++) {
        if (c->sessions[i] != NULL && or_csession_is_live(c->sessions[i])) {
            return true;
        }
    }
    return false;
}

// What waits, up to a bound: the sessions' timers must have their turn. Channels take their peers in turn, and the gate
// bounds each of them. Where more waits, texts under way get as much time as others' frames took from them.
static bool drain(or_coordinator_t *c)
{
    int64_t begin_ns = or_clock_now(c->clock), now = begin_ns, others_ns = 0;
    for (int i = 0; i < MESSAGES_A_TURN && now - begin_ns < DRAIN_NS; i++) {
        or_link_event_t event;
        or_peer_t from;
        or_message_t message = {0};
        or_status_t status = or_link_receive(c->link, &event, &from, &message);
        bool hurried = status == OR_OK && or_link_is_hurried(c->link, from);
        if (status == OR_OK) {
            on_event(c, event, from, &message);
        } else if (status != OR_ERR_AGAIN || or_link_is_drained(c->link)) {
            return true;
        }
        int64_t before_ns = now;
        now = or_clock_now(c->clock);
        others_ns += hurried ? 0 : now - before_ns;
    }
    if (others_ns > 0 && has_live_texts(c)) {
        or_link_hold(c->link, now + (others_ns < HOLD_NS_MAX ? others_ns : HOLD_NS_MAX));
    }
    return false;
}

// What is in the journal goes on with the next coordinator.
static void shut_down(or_coordinator_t *c, or_csession_t *session)
{
    if (session->phase == OR_PHASE_DONE) {
        return;
    }
    if (!session->journal.kept) {
        or_csession_fail(session, OR_WIRE_FAILED, "the coordinator is shutting down");
        or_round_finish(c, session);
    } else if (or_csession_is_live(session)) {
        or_round_park(c, session);
    }
}

void or_coordinator_shutdown(or_coordinator_t *c)
{
    or_coordinator_for_each_session(c, shut_down);
    or_coordinator_journal_flush(c);
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// Returns when it is to be looked at next. Most are at rest, a crowd that waits above all: those have few timers.
static int64_t tick(or_coordinator_t *c, or_csession_t **place, int64_t now)
{
    or_csession_t *session = *place;
    if (!or_csession_is_live(session) && now < or_csession_due(session)) {
        return or_csession_due(session);
    }
    switch (session->phase) {
    case OR_PHASE_DONE:
        or_coordinator_drop_session(c, place);
        return OR_TIME_NEVER;
    case OR_PHASE_PARKED:
        return or_parking_tick(c, session);
    default:
        return or_round_tick(c, session);
    }
}

static int64_t tick_all(or_coordinator_t *c)
{
    int64_t now = or_clock_now(c->clock);
    int64_t due = OR_TIME_NEVER;
    for (uint32_t i = 0; i < c->places; i++) {
        int64_t next = c->sessions[i] != NULL ? tick(c, &c->sessions[i], now) : OR_TIME_NEVER;
        due = sooner(due, next);
    }
    return due;
}

int64_t or_coordinator_turn(or_coordinator_t *c)
{
    bool empty = drain(c);
    or_members_cut_off(c);
    or_charges_settle(c);
    int64_t due = sooner(or_waiting_share(c), or_grants_tick(c));
    due = sooner(due, sooner(or_vocab_match_tick(c), or_coordinator_journal_tick(c)));
    due = sooner(due, tick_all(c));
    due = sooner(due, or_link_tick(c->link)); // last: it knows of peers that our sends found gone
    return empty ? due : or_clock_now(c->clock);
}
