// What clients ask for: texts, the rest of them, their end, and figures.
#include <string.h>

#include "common/base/log.h"
#include "coordinator/coordinator_internal.h"

// A client that hears nothing new asks after 2 s: so it may do five times.
#define MISS_NS (10 * OR_NS_PER_S)
#define PLACE_RETRY_MS 1000u

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
                .retry_ms = session->busy_ms,
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
    or_coordinator_send(c, client, &message);
}

// ---- texts ----

static or_csession_t *find_request(or_coordinator_t *c, or_peer_t client, uint64_t request)
{
    for (uint32_t i = 0; i < c->places; i++) {
        or_csession_t *session = c->sessions[i];
        if (session != NULL && session->client.value == client.value &&
            session->request == request) {
            return session;
        }
    }
    return NULL;
}

// May a session that is done give its place to one of `client`? Not before its own client has had the
// time to miss the end and ask for it; clients that got it say so.
static bool makes_room(const or_coordinator_t *c, const or_csession_t *session, or_peer_t client)
{
    int64_t now = or_clock_now(c->clock);
    return session->phase == OR_PHASE_DONE &&
           (now >= session->deadline_ns || now - session->done_ns >= MISS_NS ||
            session->client.value == client.value);
}

// A place for one more session, of those that were admitted; done ones make room. NULL: there is none.
static or_csession_t **free_place(or_coordinator_t *c, or_peer_t client)
{
    or_csession_t **done = NULL;
    for (uint32_t i = 0; i < c->places; i++) {
        or_csession_t *session = c->sessions[i];
        if (session == NULL) {
            return &c->sessions[i];
        }
        if (makes_room(c, session, client) &&
            (done == NULL || session->done_ns < (*done)->done_ns)) {
            done = &c->sessions[i];
        }
    }
    if (done != NULL) {
        or_csession_destroy(done);
    }
    return done;
}

// A new request that was admitted.
static void begin(or_coordinator_t *c, const or_member_t *client,
                  const or_generate_request_t *request, or_csession_t **place)
{
    or_status_t status = or_csession_create(c->vocab, (or_session_id_t){c->next_id}, client->peer,
                                            client->owner, request, place);
    if (status != OR_OK) {
        tell_failure(c, client->peer, request->request, OR_WIRE_INVALID, 0, or_error_text());
        return;
    }
    c->next_id += 2; // stays odd: never 0
    c->figures.started++;
    or_csession_t *session = *place;
    session->started_ns = or_clock_now(c->clock);
    session->deadline_ns = session->started_ns + c->config.verifier_timeout_ms * OR_NS_PER_MS;
    or_coordinator_tell_client(c, session); // "accepted": the client stops repeating its request
    or_waiting_begin(c, session);
}

static void tell_busy(or_coordinator_t *c, const or_member_t *client, uint64_t request,
                      uint32_t retry_ms, const char *why)
{
    c->figures.busy++;
    tell_failure(c, client->peer, request, OR_WIRE_BUSY, retry_ms, why);
}

static void on_generate(or_coordinator_t *c, or_member_t *client,
                        const or_generate_request_t *request)
{
    bool allowed = or_conduct_allows_request(&client->conduct, or_clock_now(c->clock));
    or_csession_t *known = find_request(c, client->peer, request->request);
    if (!allowed) {
        if (known == NULL) { // else it has its answer
            tell_busy(c, client, request->request, OR_RETRY_MS_MIN,
                      "busy: too many requests at once from one client; retry after 0.5 s");
        }
        return;
    }
    if (known != NULL) { // asked again: the answer from its beginning
        known->sent_tokens = 0;
        known->sent_text = 0;
        or_coordinator_tell_client(c, known);
        return;
    }
    char why[256];
    uint32_t retry_ms;
    if (!or_waiting_admit(c, client->owner, request->plain, &retry_ms, why, sizeof why)) {
        tell_busy(c, client, request->request, retry_ms, why);
        return;
    }
    or_csession_t **place = free_place(c, client->peer);
    if (place == NULL) {
        tell_busy(c, client, request->request, PLACE_RETRY_MS,
                  "busy: every place is kept for a client that may have missed its end; retry "
                  "after 1.0 s");
        return;
    }
    begin(c, client, request, place);
}

static void on_resume(or_coordinator_t *c, or_peer_t client, const or_resume_t *resume)
{
    or_csession_t *session = find_request(c, client, resume->request);
    if (session == NULL || resume->offset > or_csession_written(session) ||
        resume->text_offset > session->text.released) {
        tell_failure(
            c, client, resume->request, OR_WIRE_UNKNOWN_SESSION, 0,
            "this coordinator does not know the request (was it restarted?): run it again");
        return;
    }
    session->sent_tokens = resume->offset;
    session->sent_text = resume->text_offset;
    or_coordinator_tell_client(c, session);
}

void or_clients_cancel(or_coordinator_t *c, or_csession_t *session)
{
    if (session->phase != OR_PHASE_DONE) {
        session->finish = OR_FINISH_CANCELLED;
        c->figures.cancelled++;
        or_round_finish(c, session);
    }
    session->deadline_ns = 0; // nobody will ask for it again
}

// ---- figures ----

void or_clients_take_figures(or_coordinator_t *c, const or_stats_t *stats)
{
    or_stats_t *figures = &c->figures;
    const or_stats_t own = *figures;
    *figures = *stats;
    figures->resyncs = own.resyncs;
    figures->busy = own.busy;
    figures->cut_off = own.cut_off;
    figures->cancelled = own.cancelled;
    figures->started = own.started;
    figures->waiting = 0; // counted when somebody asks
    figures->model = NULL;
}

// The verifier's last figures and ours; where there is no verifier, ours alone.
static void on_stats_request(or_coordinator_t *c, or_peer_t client)
{
    or_message_t message = {.type = OR_MSG_STATS, .body.stats = c->figures};
    or_stats_t *stats = &message.body.stats;
    for (uint32_t i = 0; i < c->places; i++) {
        const or_csession_t *session = c->sessions[i];
        if (session != NULL && session->phase != OR_PHASE_DONE) {
            stats->waiting += session->phase == OR_PHASE_WAITING;
            stats->resyncs += session->stats.resyncs;
        }
    }
    stats->drafters = or_coordinator_count(c, OR_ROLE_DRAFTER);
    stats->verifiers = or_coordinator_count(c, OR_ROLE_VERIFIER);
    stats->model = c->config.model_name;
    or_coordinator_send(c, client, &message);
}

// ---- messages ----

void or_clients_take(or_coordinator_t *c, or_peer_t from, const or_message_t *message)
{
    or_csession_t *session = or_coordinator_session(c, message->session);
    switch (message->type) {
    case OR_MSG_GENERATE_REQUEST:
        on_generate(c, or_coordinator_member(c, from), &message->body.generate_request);
        break;
    case OR_MSG_RESUME:
        on_resume(c, from, &message->body.resume);
        break;
    case OR_MSG_CANCEL:
        if (session != NULL && session->client.value == from.value) {
            or_clients_cancel(c, session);
        }
        break;
    case OR_MSG_STATS_REQUEST:
        on_stats_request(c, from);
        break;
    default:
        or_link_send_error(c->link, from, message->session, OR_WIRE_INVALID,
                           "a client does not send %s", or_message_type_name(message->type));
    }
}
