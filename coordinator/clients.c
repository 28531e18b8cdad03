// What clients ask for: texts, the rest of them, their end, and figures.
#include <sodium.h>
#include <string.h>

#include "common/base/log.h"
#include "coordinator/coordinator_internal.h"

// A client that hears nothing new asks after 2 s: so it may do five times.
#define MISS_NS (10 * OR_NS_PER_S)
#define PLACE_RETRY_MS 1000u
#define POLICIES_MAX 64u // in a message with figures

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

void or_coordinator_tell_client(or_coordinator_t *c, or_csession_t *session)
{
    if (session->client.value == 0) {
        return; // it is away: it will say what it has
    }
    // A client may have more than we: it hears no word of what is written for the second time.
    uint32_t written = larger(or_csession_written(session), session->sent_tokens);
    size_t text_end =
        session->text.released > session->sent_text ? session->text.released : session->sent_text;
    bool first = session->sent_tokens == 0;
    char why[256];
    or_waiting_why(c, session, why, sizeof why);
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
                .text_bytes = (uint32_t)(text_end - session->sent_text),
                .text_offset = session->sent_text,
                .finish = session->finish,
                .error = session->error,
                .error_code = session->error_code,
                .retry_ms = session->busy_ms,
                .seed = session->seed,
                .arith_id = session->arith_id,
                .stats = session->stats,
                .note = why[0] != '\0' ? why : session->note,
                .advice = session->advice,
                .vocab_map = session->vocab_map,
                .vocab_why = session->vocab_why,
                .token = first ? session->token : NULL,
                .token_bytes = first ? sizeof session->token : 0,
            },
    };
    session->sent_tokens = written;
    session->sent_text = text_end;
    or_coordinator_send(c, session->client, &message);
    if (session->finish == OR_FINISH_ERROR && session->error_code != OR_WIRE_BUSY &&
        or_csession_written(session) == 0) {
        session->deadline_ns = 0; // nothing is lost with it: it keeps no place from others
    }
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

// The oldest end of the owner that keeps most, if that leaves it with no less than this one has: the journal may
// still have it. As in the queue.
static or_csession_t **oldest_of_most(or_coordinator_t *c, const char *owner)
{
    or_waiting_count_owners(c);
    or_csession_t **oldest = NULL;
    uint32_t most = or_waiting_owner(c, owner)->done + 1;
    for (uint32_t i = 0; i < c->places; i++) {
        const or_csession_t *session = c->sessions[i];
        if (session == NULL || session->phase != OR_PHASE_DONE) {
            continue;
        }
        uint32_t done = or_waiting_owner_of(c, session)->done;
        bool older = oldest != NULL && done == most && session->done_ns < (*oldest)->done_ns;
        if (done > most || older) {
            oldest = &c->sessions[i];
            most = done;
        }
    }
    return oldest;
}

// A free place, or that of an end that is not missed; NULL: there is none.
static or_csession_t **find_place(or_coordinator_t *c, or_peer_t client)
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
    return done;
}

or_status_t or_clients_place(or_coordinator_t *c, const or_member_t *client,
                             or_csession_t ***place_p, uint32_t *retry_ms)
{
    or_csession_t **place = find_place(c, client->peer);
    if (place == NULL) {
        place = oldest_of_most(c, client->owner);
    }
    if (place == NULL) {
        *retry_ms = PLACE_RETRY_MS;
        return or_fail(OR_ERR_FULL, "busy: every place is kept for a client that may have missed "
                                    "its end; retry after 1.0 s");
    }
    or_csession_destroy(place);
    *place_p = place;
    return OR_OK;
}

// A prompt that cannot fit, however long its tokens are, is not worth the time to cut it into tokens. No token
// stands for more bytes than it prints or is called, or than a character has, where it stands for an unknown one.
static bool can_fit(const or_coordinator_t *c, const or_generate_request_t *request, char *why,
                    size_t capacity)
{
    uint32_t longest = 4, length;
    if (request->prompt_token_count > 0) {
        return or_waiting_fits(c, request->prompt_token_count, false, why, capacity);
    }
    if (or_waiting_fits(c, request->prompt_bytes, true, why, capacity)) {
        return true;
    }
    for (uint32_t id = 0; id < or_vocab_size(c->vocab); id++) {
        or_vocab_piece(c->vocab, (int32_t)id, &length);
        longest = larger(longest, larger(length, or_vocab_widths(c->vocab)[id]));
    }
    return or_waiting_fits(c, request->prompt_bytes / longest, true, why, capacity);
}

// A new request that was admitted.
static void begin(or_coordinator_t *c, const or_member_t *client,
                  const or_generate_request_t *request, or_csession_t **place)
{
    char why[256];
    if (!can_fit(c, request, why, sizeof why)) {
        tell_failure(c, client->peer, request->request, OR_WIRE_CONTEXT, 0, why);
        return;
    }
    or_status_t status = or_csession_create(c->vocab, (or_session_id_t){c->next_id}, client->peer,
                                            client->owner, request, place);
    if (status != OR_OK) {
        tell_failure(c, client->peer, request->request, OR_WIRE_INVALID, 0, or_error_text());
        return;
    }
    if (!or_waiting_fits(c, (*place)->log.length, false, why, sizeof why)) {
        or_csession_destroy(place);
        tell_failure(c, client->peer, request->request, OR_WIRE_CONTEXT, 0, why);
        return;
    }
    c->next_id += 2; // stays odd: never 0
    c->figures.started++;
    or_csession_t *session = *place;
    session->started_ns = or_clock_now(c->clock);
    session->deadline_ns = session->started_ns + c->config.verifier_timeout_ms * OR_NS_PER_MS;
    randombytes_buf(session->token, sizeof session->token);
    memcpy(session->key, client->grant.key, sizeof session->key);
    or_coordinator_journal_begin(c, session, request);
    or_coordinator_tell_client(c, session); // "accepted": the client stops repeating its request
    or_waiting_begin(c, session);
}

static void tell_busy(or_coordinator_t *c, const or_member_t *client, uint64_t request,
                      uint32_t retry_ms, const char *why)
{
    c->figures.busy++;
    tell_failure(c, client->peer, request, OR_WIRE_BUSY, retry_ms, why);
}

or_status_t or_clients_admit(or_coordinator_t *c, const or_member_t *client, bool plain,
                             uint32_t *retry_ms)
{
    char why[256];
    if (!or_grants_allow_session(c, client, why, sizeof why)) {
        *retry_ms = OR_GRANTS_RETRY_MS;
        return or_fail(OR_ERR_FULL, "%s", why);
    }
    if (!or_waiting_admit(c, client->owner, plain, retry_ms, why, sizeof why)) {
        return or_fail(OR_ERR_FULL, "%s", why);
    }
    return OR_OK;
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
    uint32_t retry_ms;
    or_csession_t **place = NULL;
    or_status_t status = or_clients_admit(c, client, request->plain, &retry_ms);
    if (status == OR_OK) {
        status = or_clients_place(c, client, &place, &retry_ms);
    }
    if (status != OR_OK) {
        tell_busy(c, client, request->request, retry_ms, or_error_text());
        return;
    }
    begin(c, client, request, place);
}

// Where its rule gives the same words again from seed and prefix, whatever trees there are, what the disk lost comes
// back: its client hears the first word that it does not have.
static bool is_written_again(const or_csession_t *session)
{
    uint32_t rule = session->terms.open.accept_rule;
    return session->finish == OR_FINISH_NONE && session->arith_id[0] != '\0' &&
           (rule == OR_ACCEPT_COUPLED || rule == OR_ACCEPT_GREEDY);
}

// The session that a client asks for the rest of; NULL: it has been answered.
static or_csession_t *find_rest(or_coordinator_t *c, or_member_t *client, const or_resume_t *resume)
{
    or_csession_t *session = NULL;
    or_status_t status = OR_OK;
    uint32_t retry_ms;
    if (resume->token_bytes > 0) {
        status = or_parking_find(c, client, resume, &session, &retry_ms);
    } else {
        session = find_request(c, client->peer, resume->request);
    }
    if (status == OR_ERR_FULL) {
        tell_busy(c, client, resume->request, retry_ms, or_error_text());
    } else if (session == NULL) {
        tell_failure(
            c, client->peer, resume->request, OR_WIRE_UNKNOWN_SESSION, 0,
            "this coordinator does not know the request (was it restarted?): run it again");
    } else if ((resume->offset > or_csession_written(session) ||
                resume->text_offset > session->text.released) &&
               !is_written_again(session)) {
        tell_failure(c, client->peer, resume->request, OR_WIRE_UNKNOWN_SESSION, 0,
                     "this coordinator has less of the text than its client (its machine lost its "
                     "last moments): run it again");
        session = NULL;
    }
    return session;
}

static void on_resume(or_coordinator_t *c, or_member_t *client, const or_resume_t *resume)
{
    or_csession_t *session = find_rest(c, client, resume);
    if (session == NULL) {
        return;
    }
    session->request = resume->request;
    session->sent_tokens = resume->offset;
    session->sent_text = resume->text_offset;
    or_parking_return(c, session, client);
    or_coordinator_tell_client(c, session);
    or_waiting_begin(c, session);
}

void or_clients_cancel(or_coordinator_t *c, or_csession_t *session)
{
    if (session->phase != OR_PHASE_DONE) {
        session->finish = OR_FINISH_CANCELLED;
        c->figures.cancelled++;
        or_round_finish(c, session);
    }
    session->deadline_ns = 0; // nobody will ask for it again
    or_coordinator_journal_forget(c, session);
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
    figures->resumed = own.resumed;
    figures->failovers = own.failovers;
    figures->waiting = 0; // counted when somebody asks
    figures->model = NULL;
}

// Whose budgets may this client see? Its owner's; on this machine, without a name or a key, all.
static bool may_see(const or_coordinator_t *c, const or_member_t *client,
                    const or_csession_t *session)
{
    bool anybody = client->owner[0] == '\0' && client->grant.key[0] == '\0' &&
                   or_link_is_local(c->link, client->peer);
    return anybody || strcmp(or_csession_owner(session), client->owner) == 0;
}

static uint32_t put_policies(const or_coordinator_t *c, const or_member_t *client,
                             or_policy_terms_t policies[POLICIES_MAX])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->places && count < POLICIES_MAX; i++) {
        const or_csession_t *session = c->sessions[i];
        if (session != NULL && or_csession_is_live(session) && may_see(c, client, session)) {
            policies[count] = or_policy_terms(&session->policy);
            policies[count].session = session->id.value;
            policies[count++].owner = or_csession_owner(session);
        }
    }
    return count;
}

// The verifier's last figures and ours; where there is no verifier, ours alone.
static void on_stats_request(or_coordinator_t *c, const or_member_t *client)
{
    or_policy_terms_t policies[POLICIES_MAX];
    or_message_t message = {.type = OR_MSG_STATS, .body.stats = c->figures};
    or_stats_t *stats = &message.body.stats;
    for (uint32_t i = 0; i < c->places; i++) {
        const or_csession_t *session = c->sessions[i];
        if (session != NULL && session->phase != OR_PHASE_DONE) {
            stats->waiting += session->phase == OR_PHASE_WAITING;
            stats->parked += session->phase == OR_PHASE_PARKED;
            stats->resyncs += session->stats.resyncs;
        }
    }
    stats->drafters = or_coordinator_count(c, OR_ROLE_DRAFTER);
    stats->verifiers = or_coordinator_count(c, OR_ROLE_VERIFIER);
    stats->refused = or_coordinator_refused(c);
    stats->model = c->config.model_name;
    stats->policies = policies;
    stats->policy_count = put_policies(c, client, policies);
    or_coordinator_send(c, client->peer, &message);
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
        on_resume(c, or_coordinator_member(c, from), &message->body.resume);
        break;
    case OR_MSG_CANCEL:
        if (session != NULL && session->client.value == from.value) {
            or_clients_cancel(c, session);
        }
        break;
    case OR_MSG_STATS_REQUEST:
        on_stats_request(c, or_coordinator_member(c, from));
        break;
    default:
        or_link_send_error(c->link, from, message->session, OR_WIRE_INVALID,
                           "a client does not send %s", or_message_type_name(message->type));
    }
}
