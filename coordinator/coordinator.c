#include "coordinator/coordinator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/rng.h"
#include "common/base/version.h"
#include "coordinator/coordinator_internal.h"

#define MESSAGES_A_TURN 256

or_coordinator_config_t or_coordinator_config_default(void)
{
    return (or_coordinator_config_t){
        .sessions_max = 64,
        .draft_timeout_ms = 1000,
        .retry_ms = 1000,
        .verifier_timeout_ms = 30000,
        .heartbeat_ms = OR_LINK_HEARTBEAT_MS,
        .model_name = "target",
        .trust_loopback = true,
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
    or_vocabularies_init(&c->vocabularies, vocab);
    c->link = link;
    c->clock = clock;
    c->next_id = or_rng_system_seed() |
                 1; // so that a restarted coordinator's sessions are not taken for old ones
    c->sessions = calloc(config->sessions_max, sizeof(or_csession_t *));
    or_status_t status =
        c->sessions != NULL
            ? or_token_tree_create(OR_TREE_NODES_MAX, &c->scratch)
            : or_fail(OR_ERR_NO_MEMORY, "no memory for %u sessions", config->sessions_max);
    if (status != OR_OK) {
        or_coordinator_destroy(&c);
        return status;
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
    for (uint32_t i = 0; c->sessions != NULL && i < c->config.sessions_max; i++) {
        or_csession_destroy(&c->sessions[i]);
    }
    free(c->sessions);
    or_token_tree_destroy(&c->scratch);
    or_vocabularies_fini(&c->vocabularies);
    free(c->packed);
    free(c);
    *coordinator_p = NULL;
}

void or_coordinator_send(or_coordinator_t *c, or_peer_t to, const or_message_t *message)
{
    if (or_link_send(c->link, to, message) != OR_OK) {
        or_log(OR_LOG_DEBUG, "%s not sent: %s", or_message_type_name(message->type),
               or_error_text());
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

// ---- members ----

or_member_t *or_coordinator_member(or_coordinator_t *c, or_peer_t peer)
{
    for (uint32_t i = 0; i < OR_PEERS_MAX; i++) {
        if (c->members[i].peer.value == peer.value) {
            return &c->members[i];
        }
    }
    return NULL;
}

void or_coordinator_turn_away(or_coordinator_t *c, or_peer_t peer, or_wire_error_t code,
                              const char *text)
{
    or_log(OR_LOG_WARN, "peer turned away: %s", text);
    or_link_send_error(c->link, peer, (or_session_id_t){0}, code, "%s", text);
    or_link_forget(c->link, peer);
}

static uint32_t count_drafters(const or_coordinator_t *c)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < OR_PEERS_MAX; i++) {
        count += c->members[i].peer.value != 0 && c->members[i].role == OR_ROLE_DRAFTER;
    }
    return count;
}

static void welcome(or_coordinator_t *c, const or_member_t *member)
{
    const or_member_t *verifier = c->verifier;
    const or_message_t message = {
        .type = OR_MSG_WELCOME,
        .body.welcome = {.software = "outrider " OR_VERSION,
                         .heartbeat_ms = c->config.heartbeat_ms,
                         .nodes_max = verifier != NULL ? verifier->nodes_max : 0,
                         .vocab_hash = or_vocab_hash(c->vocab),
                         .owner = "",
                         .trusted = member->trusted,
                         .model = verifier != NULL ? verifier->model : "",
                         .arith_id = verifier != NULL ? verifier->arith_id : "",
                         .drafters = count_drafters(c)},
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

int64_t or_coordinator_after_ms(const or_coordinator_t *c, uint32_t ms)
{
    return or_clock_now(c->clock) + ms * OR_NS_PER_MS;
}

static void for_each_session(or_coordinator_t *c,
                             void (*visit)(or_coordinator_t *, or_csession_t *))
{
    for (uint32_t i = 0; i < c->config.sessions_max; i++) {
        if (c->sessions[i] != NULL) {
            visit(c, c->sessions[i]);
        }
    }
}

static void begin_if_waiting(or_coordinator_t *c, or_csession_t *session)
{
    if (session->phase == OR_PHASE_WAITING) {
        or_round_begin(c, session);
    }
}

void or_coordinator_refuse_drafter(or_coordinator_t *c, const char *text)
{
    snprintf(c->refusal, sizeof c->refusal, "%s", text);
    for_each_session(c, begin_if_waiting);
}

static void on_joined(or_coordinator_t *c, or_member_t *member)
{
    or_log(OR_LOG_INFO, "%s joined with %s", or_role_name(member->role),
           member->model[0] ? member->model : "no model");
    if (member->role == OR_ROLE_VERIFIER) {
        if (c->verifier != NULL && c->verifier != member) {
            or_log(OR_LOG_WARN, "a new verifier replaces the one before it");
        }
        c->verifier = member;
        for_each_session(c, or_round_on_verifier);
    } else if (member->role == OR_ROLE_DRAFTER) {
        c->drafter_seen = true;
    }
    or_round_begin_waiting(c);
}

static void on_hello(or_coordinator_t *c, or_peer_t peer, const or_hello_t *hello)
{
    char text[512];
    or_member_t *member = or_coordinator_member(c, peer);
    if (member != NULL) { // it missed our Welcome, or came back from a silence
        welcome(c, member);
        return;
    }
    if (hello->role != OR_ROLE_CLIENT && hello->role != OR_ROLE_DRAFTER &&
        hello->role != OR_ROLE_VERIFIER) {
        or_coordinator_turn_away(c, peer, OR_WIRE_REFUSED,
                                 "a coordinator serves clients, drafters and verifiers");
        return;
    }
    if (!same_vocabulary(c, hello, text, sizeof text) ||
        !same_target(c, hello, text, sizeof text)) {
        or_coordinator_turn_away(c, peer, OR_WIRE_REFUSED, text);
        return;
    }
    member = or_coordinator_member(c, (or_peer_t){0});
    if (member == NULL) {
        or_coordinator_turn_away(c, peer, OR_WIRE_BUSY,
                                 "this coordinator has no room for more peers");
        return;
    }
    *member = (or_member_t){.peer = peer,
                            .role = hello->role,
                            .context_max = hello->context_max,
                            .nodes_max = hello->nodes_max,
                            .sessions_max = hello->sessions_max,
                            .trusted = c->config.trust_loopback && or_link_is_local(c->link, peer)};
    snprintf(member->model, sizeof member->model, "%s", hello->model);
    snprintf(member->arith_id, sizeof member->arith_id, "%s", hello->arith_id);
    welcome(c, member);
    if (member->role != OR_ROLE_DRAFTER || or_meeting_begin(c, member, hello)) {
        on_joined(c, member);
    }
}

static void cancel_session(or_coordinator_t *c, or_csession_t *session)
{
    if (session->phase != OR_PHASE_DONE) {
        session->finish = OR_FINISH_CANCELLED;
        or_round_finish(c, session);
    }
    session->deadline_ns = 0; // nobody will ask for it again
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

static void on_lost(or_coordinator_t *c, or_peer_t peer)
{
    or_member_t *member = or_coordinator_member(c, peer);
    if (member == NULL || peer.value == 0) {
        return;
    }
    or_role_t role = member->role;
    bool served = member == c->verifier;
    or_meeting_forget(member);
    or_log(role == OR_ROLE_CLIENT ? OR_LOG_DEBUG : OR_LOG_WARN, "%s lost", or_role_name(role));
    *member = (or_member_t){0}; // first: its sessions look for others
    if (served) {
        c->verifier = any_verifier(c);
        for_each_session(c, c->verifier != NULL ? or_round_on_verifier : or_round_on_verifier_lost);
        or_round_begin_waiting(c);
    }
    for (uint32_t i = 0; i < c->config.sessions_max; i++) {
        or_csession_t *session = c->sessions[i];
        if (session == NULL) {
            continue;
        }
        or_seat_t *seat = or_csession_seat(session, peer);
        if (seat != NULL) {
            or_round_on_drafter_lost(c, session, seat);
        } else if (role == OR_ROLE_CLIENT && session->client.value == peer.value) {
            cancel_session(c, session);
        }
    }
}

// ---- clients ----

void or_coordinator_tell_client(or_coordinator_t *c, or_csession_t *session)
{
    uint32_t written = or_csession_written(session);
    const or_message_t message = {
        .type = OR_MSG_GENERATE_DELTA,
        .session = session->id,
        .body.generate_delta =
            {
                .request = session->request,
                .offset = session->sent_tokens,
                .tokens = (const uint32_t *)session->log.tokens + session->prompt_length +
                          session->sent_tokens,
                .count = written - session->sent_tokens,
                .text = (const uint8_t *)session->text.bytes + session->sent_text,
                .text_bytes = (uint32_t)(session->text.released - session->sent_text),
                .text_offset = session->sent_text,
                .finish = session->finish,
                .error = session->error,
                .error_code = session->error_code,
                .seed = session->seed,
                .arith_id = session->arith_id,
                .stats = session->stats,
                .note = session->note,
                .vocab_map = session->vocab_map,
                .vocab_why = session->vocab_why,
            },
    };
    session->sent_tokens = written;
    session->sent_text = session->text.released;
    or_coordinator_send(c, session->client, &message);
}

static void tell_failure(or_coordinator_t *c, or_peer_t client, uint64_t request,
                         or_wire_error_t code, const char *text)
{
    const or_message_t message = {
        .type = OR_MSG_GENERATE_DELTA,
        .body.generate_delta = {.request = request,
                                .finish = OR_FINISH_ERROR,
                                .error = text,
                                .error_code = code,
                                .arith_id = ""},
    };
    or_coordinator_send(c, client, &message);
}

static or_csession_t *find_request(or_coordinator_t *c, or_peer_t client, uint64_t request)
{
    for (uint32_t i = 0; i < c->config.sessions_max; i++) {
        or_csession_t *session = c->sessions[i];
        if (session != NULL && session->client.value == client.value &&
            session->request == request) {
            return session;
        }
    }
    return NULL;
}

// A place for one more session; finished ones make room before anybody is turned away.
static or_csession_t **free_place(or_coordinator_t *c)
{
    or_csession_t **done = NULL;
    for (uint32_t i = 0; i < c->config.sessions_max; i++) {
        if (c->sessions[i] == NULL) {
            return &c->sessions[i];
        }
        if (c->sessions[i]->phase == OR_PHASE_DONE &&
            (done == NULL || c->sessions[i]->deadline_ns < (*done)->deadline_ns)) {
            done = &c->sessions[i];
        }
    }
    if (done != NULL) {
        or_csession_destroy(done);
    }
    return done;
}

static void on_generate(or_coordinator_t *c, or_peer_t client, const or_generate_request_t *request)
{
    or_csession_t *known = find_request(c, client, request->request);
    if (known != NULL) { // asked again: the answer from its beginning
        known->sent_tokens = 0;
        known->sent_text = 0;
        or_coordinator_tell_client(c, known);
        return;
    }
    or_csession_t **place = free_place(c);
    if (place == NULL) {
        tell_failure(c, client, request->request, OR_WIRE_BUSY,
                     "every session is taken; try again later");
        return;
    }
    or_status_t status =
        or_csession_create(c->vocab, (or_session_id_t){c->next_id}, client, request, place);
    if (status != OR_OK) {
        tell_failure(c, client, request->request, OR_WIRE_INVALID, or_error_text());
        return;
    }
    c->next_id += 2; // stays odd: never 0
    or_csession_t *session = *place;
    session->started_ns = or_clock_now(c->clock);
    session->deadline_ns = session->started_ns + c->config.verifier_timeout_ms * OR_NS_PER_MS;
    or_coordinator_tell_client(c, session); // "accepted": the client stops repeating its request
    or_round_begin(c, session);
}

static void on_resume(or_coordinator_t *c, or_peer_t client, const or_resume_t *resume)
{
    or_csession_t *session = find_request(c, client, resume->request);
    if (session == NULL || resume->offset > or_csession_written(session) ||
        resume->text_offset > session->text.released) {
        tell_failure(
            c, client, resume->request, OR_WIRE_UNKNOWN_SESSION,
            "this coordinator does not know the request (was it restarted?): run it again");
        return;
    }
    session->sent_tokens = resume->offset;
    session->sent_text = resume->text_offset;
    or_coordinator_tell_client(c, session);
}

// ---- messages ----

or_csession_t *or_coordinator_session(or_coordinator_t *c, or_session_id_t id)
{
    for (uint32_t i = 0; i < c->config.sessions_max; i++) {
        if (c->sessions[i] != NULL && c->sessions[i]->id.value == id.value) {
            return c->sessions[i];
        }
    }
    return NULL;
}

static void on_client(or_coordinator_t *c, or_peer_t from, const or_message_t *message)
{
    or_csession_t *session = or_coordinator_session(c, message->session);
    switch (message->type) {
    case OR_MSG_GENERATE_REQUEST:
        on_generate(c, from, &message->body.generate_request);
        break;
    case OR_MSG_RESUME:
        on_resume(c, from, &message->body.resume);
        break;
    case OR_MSG_CANCEL:
        if (session != NULL && session->client.value == from.value) {
            cancel_session(c, session);
        }
        break;
    default:
        or_link_send_error(c->link, from, message->session, OR_WIRE_INVALID,
                           "a client does not send %s", or_message_type_name(message->type));
    }
}

// About vocabularies: true if that is what it was.
static bool on_vocabulary(or_coordinator_t *c, or_peer_t from, const or_message_t *message)
{
    or_member_t *member = or_coordinator_member(c, from);
    if (message->type == OR_MSG_VOCAB_REQUEST) {
        or_meeting_send_target(c, member, message->session, &message->body.vocab_request);
    } else if (message->type == OR_MSG_VOCABULARY) {
        if (or_meeting_take(c, member, &message->body.vocabulary)) {
            on_joined(c, member);
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
    or_csession_t *session = or_coordinator_session(c, message->session);
    or_seat_t *seat = session != NULL ? or_csession_seat(session, from) : NULL;
    if (seat == NULL) {
        return; // a session that is over, or is no longer this drafter's
    }
    if (message->type == OR_MSG_DRAFT_TREE) {
        or_round_on_tree(c, session, seat, &message->body.draft_tree);
    } else if (message->type == OR_MSG_ERROR) {
        or_round_on_drafter_error(c, session, seat, &message->body.error);
    } else if (message->type == OR_MSG_PSI_REPLY) {
        or_questions_answer(c, session, seat, &message->body.psi_reply);
    } else {
        or_link_send_error(c->link, from, message->session, OR_WIRE_INVALID,
                           "a drafter does not send %s", or_message_type_name(message->type));
    }
}

static void on_verifier(or_coordinator_t *c, or_peer_t from, const or_message_t *message)
{
    or_csession_t *session = or_coordinator_session(c, message->session);
    if (session == NULL || c->verifier == NULL || c->verifier->peer.value != from.value) {
        return;
    }
    if (message->type == OR_MSG_VERDICT) {
        or_round_on_verdict(c, session, &message->body.verdict);
    } else if (message->type == OR_MSG_ERROR) {
        or_round_on_verifier_error(c, session, &message->body.error);
    } else if (message->type == OR_MSG_PSI_REQUEST) {
        or_questions_ask(c, session, &message->body.psi_request);
    } else {
        or_link_send_error(c->link, from, message->session, OR_WIRE_INVALID,
                           "a verifier does not send %s", or_message_type_name(message->type));
    }
}

static void on_message(or_coordinator_t *c, or_peer_t from, const or_message_t *message)
{
    if (message->type == OR_MSG_HELLO) {
        on_hello(c, from, &message->body.hello);
        return;
    }
    const or_member_t *member = or_coordinator_member(c, from);
    if (member == NULL) { // turned away before, or never greeted
        return;
    }
    switch (member->role) {
    case OR_ROLE_CLIENT:
        on_client(c, from, message);
        break;
    case OR_ROLE_DRAFTER:
        on_drafter(c, from, message);
        break;
    default:
        on_verifier(c, from, message);
    }
}

static bool drain(or_coordinator_t *c)
{
    for (int i = 0; i < MESSAGES_A_TURN; i++) {
        or_link_event_t event;
        or_peer_t from;
        or_message_t message = {0};
        if (or_link_receive(c->link, &event, &from, &message) != OR_OK) {
            return true;
        }
        if (event == OR_LINK_MESSAGE) {
            on_message(c, from, &message);
            or_message_fini(&message);
        } else {
            on_lost(c, from);
        }
    }
    return false;
}

void or_coordinator_shutdown(or_coordinator_t *c)
{
    for (uint32_t i = 0; i < c->config.sessions_max; i++) {
        or_csession_t *session = c->sessions[i];
        if (session != NULL && session->phase != OR_PHASE_DONE) {
            or_csession_fail(session, OR_WIRE_FAILED, "the coordinator is shutting down");
            or_round_finish(c, session);
        }
    }
}

int64_t or_coordinator_turn(or_coordinator_t *c)
{
    bool empty = drain(c);
    int64_t due = or_meeting_tick(c);
    for (uint32_t i = 0; i < c->config.sessions_max; i++) {
        or_csession_t *session = c->sessions[i];
        if (session == NULL) {
            continue;
        }
        if (session->phase == OR_PHASE_DONE && or_clock_now(c->clock) >= session->deadline_ns) {
            or_csession_destroy(&c->sessions[i]);
            continue;
        }
        int64_t next = or_round_tick(c, session);
        due = next < due ? next : due;
    }
    int64_t link_due =
        or_link_tick(c->link); // last: it knows of peers that our own sends found gone
    due = link_due < due ? link_due : due;
    return empty ? due : or_clock_now(c->clock);
}
