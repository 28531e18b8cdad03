#include "coordinator/coordinator.h"

#include <stdlib.h>

#include "coordinator/clients/clients.h"
#include "coordinator/drafters/drafters.h"
#include "coordinator/figures/figures.h"
#include "coordinator/hub.h"
#include "coordinator/peers/members.h"
#include "coordinator/rounds/rounds.h"
#include "coordinator/vocab/vocabulary_match.h"

#define MESSAGES_A_TURN 256
#define DRAIN_NS (2 * OR_NS_PER_MS)
#define HOLD_TIMES 3 // others get a quarter of the time, at most
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
    c->target =
        (or_session_target_t){vocab, config->chat, config->chat_trouble, &c->sessions.marked};
    or_vocabularies_init(&c->vocabularies, vocab);
    c->link = link;
    c->clock = clock;
    uint32_t places = 2 * config->sessions_max + config->waiting_max;
    or_status_t status = or_sessions_init(&c->sessions, places);
    if (status == OR_OK) {
        status = or_queue_init(&c->queue, places);
    }
    if (status == OR_OK) {
        status = or_token_tree_create(OR_TREE_NODES_MAX, &c->scratch);
    }
    if (status == OR_OK) {
        status = or_limits_create(&c->peers.limits);
    }
    if (status == OR_OK) {
        status = or_telemetry_create(config->model_name, &c->telemetry);
    }
    if (status != OR_OK) {
        or_coordinator_destroy(&c);
        return status;
    }
    or_link_set_gate(link, or_peers_gate, c);
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
    or_sessions_fini(&c->sessions);
    for (uint32_t i = 0; i < OR_PEERS_MAX; i++) {
        or_peers_forget(&c->peers.members[i]);
    }
    or_queue_fini(&c->queue);
    or_token_tree_destroy(&c->scratch);
    or_vocabularies_fini(&c->vocabularies);
    free(c->packed.bytes);
    or_limits_destroy(&c->peers.limits);
    or_telemetry_destroy(&c->telemetry);
    free(c);
    *coordinator_p = NULL;
}

bool or_coordinator_admits(const or_coordinator_t *c, const char *public_key)
{
    return c->config.keyring != NULL && or_keyring_find(c->config.keyring, public_key) != NULL &&
           !or_refusals_is_banned(&c->peers.refusals, public_key, or_clock_now(c->clock));
}

void or_coordinator_set_refused_connections(or_coordinator_t *c, uint64_t count)
{
    c->peers.connections_refused = count;
}

// ---- settling ----

// Settle what was marked: sessions first, then those that can begin in the places that became free.
static void settle(or_coordinator_t *c)
{
    do {
        or_csession_t *session;
        while ((session = or_sessions_take_marked(&c->sessions)) != NULL) {
            or_round_settle(c, session);
            or_clients_settle(c, session);
        }
        or_queue_settle(c);
    } while (c->queue.due || !TAILQ_EMPTY(&c->sessions.marked));
}

// ---- messages ----

// Handle a message about vocabularies; false: it is about something else.
static bool on_vocabulary(or_coordinator_t *c, or_peer_t from, const or_message_t *message)
{
    or_member_t *member = or_peers_find(c, from);
    if (message->type == OR_MSG_VOCAB_REQUEST) {
        or_vocab_match_send_target(c, member, message->session, &message->body.vocab_request);
    } else if (message->type == OR_MSG_VOCABULARY) {
        or_members_take_vocabulary(c, member, &message->body.vocabulary);
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
        or_figures_report(c, or_peers_find(c, from), &message->body.stats);
        return;
    }
    or_peers_find(c, from)->late_ns = 0; // it works, even if the text is over
    or_csession_t *session = or_sessions_find(&c->sessions, message->session);
    or_seat_t *seat = session != NULL ? or_seats_find(session, from) : NULL;
    if (seat == NULL) { // a session that is over, or is no longer this drafter's
        if (message->type != OR_MSG_ERROR &&
            !or_session_ids_was(&c->sessions.ids, message->session)) {
            or_peers_offend(c, from, OR_OFFENCE_NO_SESSION);
        }
        return;
    }
    if (message->type == OR_MSG_DRAFT_TREE) {
        or_round_drafter_tree(c, session, seat, &message->body.draft_tree);
    } else if (message->type == OR_MSG_ERROR) {
        or_round_drafter_error(c, session, seat, &message->body.error);
    } else if (message->type == OR_MSG_PSI_REPLY) {
        or_round_drafter_psi(c, session, seat, &message->body.psi_reply);
    } else {
        or_peers_offend(c, from, OR_OFFENCE_MALFORMED);
        or_link_send_error(c->link, from, message->session, OR_WIRE_INVALID,
                           "a drafter does not send %s", or_message_type_name(message->type));
    }
}

static void on_verifier(or_coordinator_t *c, or_peer_t from, const or_message_t *message)
{
    or_csession_t *session = or_sessions_find(&c->sessions, message->session);
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
        or_round_verifier_verdict(c, session, &message->body.verdict);
    } else if (message->type == OR_MSG_ERROR) {
        or_round_verifier_error(c, session, &message->body.error);
    } else if (message->type == OR_MSG_PSI_REQUEST) {
        or_round_verifier_asks_psi(c, session, &message->body.psi_request);
    } else if (message->type == OR_MSG_KV_EVICTED) {
        or_round_verifier_evicted(session, &message->body.kv_evicted);
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
    const or_member_t *member = or_peers_find(c, from);
    if (member == NULL) { // turned away before, or never greeted
        return;
    }
    if (message->type == OR_MSG_CANCEL && message->session.value == 0) { // good-bye
        or_members_leave(c, from);
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
        break;
    case OR_LINK_MALFORMED:
        or_peers_offend(c, from, OR_OFFENCE_MALFORMED);
        break;
    case OR_LINK_PEER_LOST:
        or_members_lost(c, from);
        break;
    }
    settle(c);
    if (event == OR_LINK_MESSAGE) { // a verdict is borrowed until it is settled
        or_message_fini(message);
    }
}

static bool has_live_texts(const or_coordinator_t *c)
{
    const or_csession_t *session;
    uint32_t at = 0;
    do {
        session = or_sessions_next(&c->sessions, &at);
    } while (session != NULL && !or_csession_is_live(session));
    return session != NULL;
}

// Handle the messages that wait, up to a bound: the sessions' timers must have their turn. Channels take their peers in turn, and the gate
// bounds each of them. Where more waits, texts under way get HOLD_TIMES as much time as others' frames took from them.
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
        int64_t hold_ns = HOLD_TIMES * others_ns;
        or_link_hold(c->link, now + (hold_ns < HOLD_NS_MAX ? hold_ns : HOLD_NS_MAX));
    }
    return false;
}

// A text in the journal goes on with the next coordinator.
static void shut_down(or_coordinator_t *c, or_csession_t *session)
{
    if (session->phase != OR_PHASE_DONE && !session->journal.kept) {
        or_csession_fail(session, OR_WIRE_FAILED, "the coordinator is shutting down");
    } else if (or_csession_is_live(session)) {
        or_round_park(c, session);
    }
}

void or_coordinator_shutdown(or_coordinator_t *c)
{
    or_csession_t *session;
    for (uint32_t at = 0; (session = or_sessions_next(&c->sessions, &at)) != NULL;) {
        shut_down(c, session);
    }
    settle(c);
    for (int i = 0; i < 2; i++) { // tokens, and an end behind them
        or_journaling_flush(c);
        settle(c);
    }
}

// ---- timers ----

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// A timer of this session is due.
static void tick(or_coordinator_t *c, or_csession_t **place)
{
    or_csession_t *session = *place;
    switch (session->phase) {
    case OR_PHASE_DONE:
        or_charges_drop(c, place);
        break;
    case OR_PHASE_PARKED:
        or_parking_cancel(c, session);
        break;
    case OR_PHASE_WAITING:
        or_queue_tick(c, session);
        break;
    default:
        or_round_verifier_tick(c, session);
        if (session->finish == OR_FINISH_NONE) {
            or_round_tick(c, session);
        }
    }
}

static int64_t next_due(const or_coordinator_t *c)
{
    const or_csession_t *session;
    int64_t due = OR_TIME_NEVER;
    for (uint32_t at = 0; (session = or_sessions_next(&c->sessions, &at)) != NULL;) {
        due = sooner(due, or_csession_due(session));
    }
    return due;
}

// Most sessions are at rest, a crowd that waits above all: those have few timers.
static int64_t tick_all(or_coordinator_t *c)
{
    int64_t now = or_clock_now(c->clock), due = OR_TIME_NEVER;
    bool ticked = false;
    for (uint32_t i = 0; i < c->sessions.places; i++) {
        or_csession_t **place = &c->sessions.all[i];
        int64_t due_ns = *place != NULL ? or_csession_due(*place) : OR_TIME_NEVER;
        if (now >= due_ns) {
            tick(c, place);
            ticked = true;
        }
        due = sooner(due, due_ns);
    }
    settle(c);
    return ticked ? next_due(c) : due;
}

int64_t or_coordinator_turn(or_coordinator_t *c)
{
    bool empty = drain(c);
    or_peers_release_read(c);
    int64_t due = sooner(or_members_tick(c), or_vocab_match_tick(c));
    due = sooner(due, or_journaling_tick(c));
    settle(c);
    or_members_cut_off(c);
    settle(c);
    due = sooner(due, or_queue_share(c));
    due = sooner(due, tick_all(c));
    due = sooner(due, or_link_tick(c->link)); // last: it knows of peers that our sends found gone
    return empty ? due : or_clock_now(c->clock);
}
