// What clients ask for: texts, the rest of them, and their end.
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "coordinator/coordinator_internal.h"

// A client that hears nothing new asks after 2 s: so it may do five times.
#define MISS_NS (10 * OR_NS_PER_S)
#define PLACE_RETRY_MS 1000u

// Who a request is for: its client or, if that is our own HTTP face, the owner that it names. Places, the queue and what
// may be seen go by that.
static or_status_t make_asker(const or_member_t *client, const char *owner, or_member_t *asker)
{
    *asker = *client;
    if (!client->inside) {
        return OR_OK;
    }
    if (owner != NULL && strlen(owner) >= sizeof asker->owner) {
        return or_fail(OR_ERR_INVALID, "an owner's name has at most %zu bytes",
                       sizeof asker->owner - 1);
    }
    snprintf(asker->owner, sizeof asker->owner, "%s", owner != NULL ? owner : "");
    return OR_OK;
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
// time to miss the end and ask for it; clients that got it say so. (Our own face is many clients, which must not take
// each other's ends away.)
static bool makes_room(const or_coordinator_t *c, const or_csession_t *session,
                       const or_member_t *client)
{
    int64_t now = or_clock_now(c->clock);
    return session->phase == OR_PHASE_DONE && !or_coordinator_journal_holds(c, session) &&
           (now >= session->deadline_ns || now - session->done_ns >= MISS_NS ||
            (session->client.value == client->peer.value && !client->inside));
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
        if (session == NULL || session->phase != OR_PHASE_DONE ||
            or_coordinator_journal_holds(c, session)) { // nobody was told of its end
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

// The oldest end of the owner itself.
or_csession_t **or_clients_oldest_end(or_coordinator_t *c, const char *owner)
{
    or_csession_t **oldest = NULL;
    for (uint32_t i = 0; i < c->places; i++) {
        const or_csession_t *session = c->sessions[i];
        if (session != NULL && session->phase == OR_PHASE_DONE &&
            !or_coordinator_journal_holds(c, session) &&
            strcmp(or_csession_owner(session), owner) == 0 &&
            (oldest == NULL || session->done_ns < (*oldest)->done_ns)) {
            oldest = &c->sessions[i];
        }
    }
    return oldest;
}

// A free place, or that of an end that is not missed; NULL: there is none.
static or_csession_t **find_place(or_coordinator_t *c, const or_member_t *client)
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
    or_csession_t **place = find_place(c, client);
    if (place == NULL) {
        place = oldest_of_most(c, client->owner);
    }
    if (place == NULL &&
        client->inside) { // its readers' ends are kept as long as nobody needs their places
        place = or_clients_oldest_end(c, client->owner);
    }
    if (place == NULL) {
        *retry_ms = PLACE_RETRY_MS;
        return or_fail(OR_ERR_FULL, "busy: every place is kept for a client that may have missed "
                                    "its end; retry after 1.0 s");
    }
    or_coordinator_drop_session(c, place);
    *place_p = place;
    return OR_OK;
}

// The bytes of all that is said.
static uint64_t count_bytes(const or_generate_request_t *request)
{
    uint64_t bytes = request->prompt_bytes;
    for (uint32_t i = 0; i < request->message_count; i++) {
        bytes += request->messages[i].content_bytes;
    }
    return bytes;
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
    uint64_t bytes = count_bytes(request);
    if (or_waiting_fits(c, bytes, true, why, capacity)) {
        return true;
    }
    for (uint32_t id = 0; id < or_vocab_size(c->vocab); id++) {
        uint32_t width = or_vocab_widths(c->vocab)[id];
        or_vocab_piece(c->vocab, (int32_t)id, &length);
        length = length > width ? length : width;
        longest = length > longest ? length : longest;
    }
    return or_waiting_fits(c, bytes / longest, true, why, capacity);
}

// It is taken in.
static void accept(or_coordinator_t *c, const or_member_t *asker,
                   const or_generate_request_t *request, or_csession_t *session)
{
    or_session_ids_take(&c->ids);
    c->figures.started++;
    session->arrived_ns = session->started_ns = or_clock_now(c->clock);
    session->deadline_ns = or_coordinator_after_ms(c, c->config.verifier_timeout_ms);
    randombytes_buf(session->token, sizeof session->token);
    memcpy(session->key, asker->grant.key, sizeof session->key);
    or_coordinator_journal_begin(c, session, request);
    or_coordinator_tell_news(c, session); // "accepted": the client stops repeating its request
    or_waiting_begin(c, session);
}

static void tell_busy(or_coordinator_t *c, const or_member_t *client, uint64_t request,
                      uint32_t retry_ms, const char *why)
{
    c->figures.busy++;
    or_coordinator_event(c, OR_EVENT_BUSY, NULL, "%s", why);
    or_coordinator_tell_failure(c, client->peer, request, OR_WIRE_BUSY, retry_ms, why);
}

// A new request that was admitted.
static void begin(or_coordinator_t *c, const or_member_t *asker,
                  const or_generate_request_t *request, or_csession_t **place)
{
    char why[256];
    if (!can_fit(c, request, why, sizeof why)) {
        or_coordinator_tell_failure(c, asker->peer, request->request, OR_WIRE_CONTEXT, 0, why);
        return;
    }
    or_status_t status = or_csession_create(&c->target, or_session_ids_next(&c->ids), asker->peer,
                                            asker->owner, request, place);
    if (status != OR_OK) {
        or_coordinator_tell_failure(c, asker->peer, request->request, OR_WIRE_INVALID, 0,
                                    or_error_text());
        return;
    }
    if (!or_waiting_fits(c, (*place)->log.length, false, why, sizeof why)) {
        or_csession_destroy(place);
        or_coordinator_tell_failure(c, asker->peer, request->request, OR_WIRE_CONTEXT, 0, why);
        return;
    }
    if (or_charges_open(c, *place) != OR_OK) {
        or_csession_destroy(place);
        tell_busy(c, asker, request->request, OR_CHARGES_RETRY_MS, or_error_text());
        return;
    }
    accept(c, asker, request, *place);
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

// One that is not known yet.
static void take_in(or_coordinator_t *c, const or_member_t *client,
                    const or_generate_request_t *request)
{
    uint32_t retry_ms;
    or_member_t asker;
    or_csession_t **place = NULL;
    if (make_asker(client, request->owner, &asker) != OR_OK) {
        or_coordinator_tell_failure(c, client->peer, request->request, OR_WIRE_INVALID, 0,
                                    or_error_text());
        return;
    }
    or_status_t status = or_clients_admit(c, &asker, request->plain, &retry_ms);
    if (status == OR_OK) {
        status = or_clients_place(c, &asker, &place, &retry_ms);
    }
    if (status != OR_OK) {
        tell_busy(c, client, request->request, retry_ms, or_error_text());
        return;
    }
    begin(c, &asker, request, place);
}

static bool may_ask(const or_coordinator_t *c, or_member_t *client)
{
    return client->inside || or_conduct_allows_request(&client->conduct, or_clock_now(c->clock));
}

static void on_generate(or_coordinator_t *c, or_member_t *client,
                        const or_generate_request_t *request)
{
    bool allowed = may_ask(c, client);
    or_csession_t *known = find_request(c, client->peer, request->request);
    if (!allowed) {
        if (known == NULL) { // else it has its answer
            tell_busy(c, client, request->request, OR_RETRY_MS_MIN,
                      "busy: too many requests at once from one client; retry after 0.5 s");
        }
        return;
    }
    if (known == NULL) {
        take_in(c, client, request);
        return;
    }
    // Asked again: the answer from its beginning. A few bytes ask for a whole text, so those that come at once, as they do
    // after a loss, get one answer.
    if (or_round_may_replay(c, &known->resumed_ns)) {
        known->sent_tokens = 0;
        known->sent_text = 0;
        or_coordinator_tell_client(c, known);
    }
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
static or_csession_t *find_rest(or_coordinator_t *c, const or_member_t *client,
                                const or_resume_t *resume)
{
    or_csession_t *session = NULL;
    or_member_t asker;
    uint32_t retry_ms;
    or_status_t status = make_asker(client, resume->owner, &asker);
    if (status == OR_OK && resume->token_bytes > 0) {
        status = or_parking_find(c, &asker, resume, &session, &retry_ms);
    } else if (status == OR_OK) {
        session = find_request(c, client->peer, resume->request);
    }
    if (status == OR_ERR_FULL) {
        tell_busy(c, client, resume->request, retry_ms, or_error_text());
    } else if (session == NULL) {
        or_coordinator_tell_failure(
            c, client->peer, resume->request, OR_WIRE_UNKNOWN_SESSION, 0,
            "this coordinator does not know the request (was it restarted?): run it again");
    } else if ((resume->offset > or_csession_written(session) ||
                resume->text_offset > session->text.released) &&
               !is_written_again(session)) {
        or_coordinator_tell_failure(
            c, client->peer, resume->request, OR_WIRE_UNKNOWN_SESSION, 0,
            "this coordinator has less of the text than its client (its machine lost its "
            "last moments): run it again");
        session = NULL;
    }
    return session;
}

// A few bytes ask for a whole text: one answer is enough for all that come at once, as they do after a loss, and the
// rest is repeated. What is not known by this client's number costs as much as a new request, and counts as one.
static bool is_to_be_heard(const or_coordinator_t *c, or_member_t *client, or_csession_t *known)
{
    return known != NULL ? or_round_may_replay(c, &known->resumed_ns) : may_ask(c, client);
}

// By another number of the same client. (Our own face is many clients; who takes a text over has heard nothing yet.)
static bool was_just_told(const or_coordinator_t *c, const or_member_t *client,
                          or_csession_t *session)
{
    bool same = session->client.value == client->peer.value && !client->inside;
    return !or_round_may_replay(c, &session->resumed_ns) && same;
}

static void on_resume(or_coordinator_t *c, or_member_t *client, const or_resume_t *resume)
{
    or_csession_t *known = find_request(c, client->peer, resume->request);
    if (!is_to_be_heard(c, client, known)) {
        return;
    }
    or_csession_t *session = find_rest(c, client, resume);
    if (session == NULL || (session != known && was_just_told(c, client, session))) {
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
    bool held = or_coordinator_journal_holds(c, session);
    or_coordinator_journal_forget(c, session);
    if (held) { // nothing of it is waited for any more
        or_coordinator_tell_client(c, session);
    }
}

static void on_cancel(or_coordinator_t *c, or_csession_t *session, const or_cancel_t *cancel)
{
    if (cancel->keep) {
        or_parking_put_away(c, session);
    } else {
        or_clients_cancel(c, session);
    }
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
            on_cancel(c, session, &message->body.cancel);
        }
        break;
    case OR_MSG_STATS_REQUEST:
        or_figures_tell(c, or_coordinator_member(c, from), &message->body.stats_request);
        break;
    default:
        or_link_send_error(c->link, from, message->session, OR_WIRE_INVALID,
                           "a client does not send %s", or_message_type_name(message->type));
    }
}
