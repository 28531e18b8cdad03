// Requests of clients: for texts, the rest of them, and their end.
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "coordinator/clients/clients.h"
#include "coordinator/figures/figures.h"
#include "coordinator/hub.h"

// A request is its client's or, if that is our own HTTP face, the owner's that it names. Places, the queue and what may
// be seen go by that owner.
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
    or_csession_t *session;
    uint32_t at = 0;
    do {
        session = or_sessions_next(&c->sessions, &at);
    } while (session != NULL &&
             (session->client.value != client.value || session->request != request));
    return session;
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
// stands for more bytes than it prints or is called, or than a character has, where it stands for an unknown one. A turn
// takes one token or more, whatever is said in it.
static bool can_fit(const or_coordinator_t *c, const or_generate_request_t *request, char *why,
                    size_t capacity)
{
    uint32_t longest = 4, length;
    if (request->prompt_token_count > 0) {
        return or_queue_fits(c, request->prompt_token_count, false, why, capacity);
    }
    if (!or_queue_fits(c, request->message_count, true, why, capacity)) {
        return false;
    }
    uint64_t bytes = count_bytes(request);
    if (or_queue_fits(c, bytes, true, why, capacity)) {
        return true;
    }
    for (uint32_t id = 0; id < or_vocab_size(c->vocab); id++) {
        uint32_t width = or_vocab_widths(c->vocab)[id];
        or_vocab_piece(c->vocab, (int32_t)id, &length);
        length = length > width ? length : width;
        longest = length > longest ? length : longest;
    }
    return or_queue_fits(c, bytes / longest, true, why, capacity);
}

// Tell the client what is new, or why its text waits.
static void tell(or_coordinator_t *c, or_csession_t *session)
{
    char why[256];
    or_queue_why(c, session, why, sizeof why);
    or_stream_tell(c, session, why);
}

// The request is taken in.
static void accept(or_coordinator_t *c, const or_member_t *asker,
                   const or_generate_request_t *request, or_csession_t *session)
{
    or_session_ids_take(&c->sessions.ids);
    c->figures.started++;
    session->arrived_ns = session->started_ns = or_clock_now(c->clock);
    or_csession_wait_until(session, or_hub_after_ms(c, c->config.verifier_timeout_ms));
    randombytes_buf(session->token, sizeof session->token);
    memcpy(session->key, asker->grant.key, sizeof session->key);
    or_journaling_begin(c, session, request);
    if (!or_journaling_holds(c, session)) {
        tell(c, session); // "accepted": the client stops repeating its request
    }
    or_queue_begin(c, session);
}

static void tell_busy(or_coordinator_t *c, const or_member_t *client, uint64_t request,
                      uint32_t retry_ms, const char *why)
{
    c->figures.busy++;
    or_counters_event(c, OR_EVENT_BUSY, NULL, "%s", why);
    or_peers_send_failure(c, client->peer, request, OR_WIRE_BUSY, retry_ms, why);
}

// A new request that was admitted.
static void begin(or_coordinator_t *c, const or_member_t *asker,
                  const or_generate_request_t *request, or_csession_t **place)
{
    char why[256];
    if (!can_fit(c, request, why, sizeof why)) {
        or_peers_send_failure(c, asker->peer, request->request, OR_WIRE_CONTEXT, 0, why);
        return;
    }
    or_status_t status = or_csession_create(&c->target, or_session_ids_next(&c->sessions.ids),
                                            asker->peer, asker->owner, request, place);
    if (status != OR_OK) {
        or_peers_send_failure(c, asker->peer, request->request, OR_WIRE_INVALID, 0,
                              or_error_text());
        return;
    }
    if (!or_queue_fits(c, (*place)->log.length, false, why, sizeof why)) {
        or_csession_destroy(place);
        or_peers_send_failure(c, asker->peer, request->request, OR_WIRE_CONTEXT, 0, why);
        return;
    }
    if (or_charges_open(c, *place) != OR_OK) {
        or_csession_destroy(place);
        tell_busy(c, asker, request->request, OR_CHARGES_RETRY_MS, or_error_text());
        return;
    }
    accept(c, asker, request, *place);
}

// Take in a request that is not known yet.
static void take_in(or_coordinator_t *c, const or_member_t *client,
                    const or_generate_request_t *request)
{
    uint32_t retry_ms;
    or_member_t asker;
    or_csession_t **place = NULL;
    if (make_asker(client, request->owner, &asker) != OR_OK) {
        or_peers_send_failure(c, client->peer, request->request, OR_WIRE_INVALID, 0,
                              or_error_text());
        return;
    }
    or_status_t status = or_places_admit(c, &asker, request->plain, &retry_ms);
    if (status == OR_OK) {
        status = or_places_find(c, &asker, &place, &retry_ms);
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
    if (or_hub_may_replay(c, &known->stream.replayed_ns)) {
        known->stream.told.tokens = 0;
        known->stream.told.text = 0;
        tell(c, known);
    }
}

// A rule that gives the same words again from seed and prefix, whatever trees there are, brings back what the disk lost:
// the client hears the first word that it does not have.
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
        or_peers_send_failure(
            c, client->peer, resume->request, OR_WIRE_UNKNOWN_SESSION, 0,
            "this coordinator does not know the request (was it restarted?): run it again");
    } else if ((resume->offset > or_csession_written(session) ||
                resume->text_offset > session->text.released) &&
               !is_written_again(session)) {
        or_peers_send_failure(
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
    return known != NULL ? or_hub_may_replay(c, &known->stream.replayed_ns) : may_ask(c, client);
}

// The same client was told under another number. (Our own face is many clients; who takes a text over has heard nothing yet.)
static bool was_just_told(const or_coordinator_t *c, const or_member_t *client,
                          or_csession_t *session)
{
    bool same = session->client.value == client->peer.value && !client->inside;
    return !or_hub_may_replay(c, &session->stream.replayed_ns) && same;
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
    session->stream.told.tokens = resume->offset;
    session->stream.told.text = resume->text_offset;
    or_parking_return(c, session, client);
    tell(c, session);
    or_queue_begin(c, session);
}

static void on_cancel(or_coordinator_t *c, or_csession_t *session, const or_cancel_t *cancel)
{
    if (cancel->keep) {
        or_parking_put_away(c, session);
    } else {
        or_parking_cancel(c, session);
    }
}

// ---- settling ----

// Nobody will ask for it again.
static void forget(or_coordinator_t *c, or_csession_t *session)
{
    bool held = or_journaling_holds(c, session);
    or_csession_wait_until(session, 0);
    or_journaling_forget(c, session);
    if (held) { // nothing of it is waited for any more
        tell(c, session);
    }
}

void or_clients_settle(or_coordinator_t *c, or_csession_t *session)
{
    uint32_t marks = or_csession_take_marks(session, OR_MARK_PARK | OR_MARK_YIELD | OR_MARK_FORGET |
                                                         OR_MARK_NEWS);
    bool live = or_csession_is_live(session) && session->finish == OR_FINISH_NONE;
    if (live && (marks & OR_MARK_PARK)) {
        or_parking_park(c, session);
    } else if (live && (marks & OR_MARK_YIELD)) {
        or_queue_yield(c, session);
    }
    if (marks & OR_MARK_FORGET) {
        forget(c, session);
    } else if (marks & OR_MARK_NEWS) {
        tell(c, session);
    }
}

// ---- messages ----

// What is asked too often gets no answer; the HTTP face asks for many, and has one question open at a time.
static void on_question(or_coordinator_t *c, or_member_t *client, const or_stats_request_t *request)
{
    if (client->inside || or_conduct_allows_question(&client->conduct, or_clock_now(c->clock))) {
        or_figures_tell(c, client, request);
    }
}

void or_clients_take(or_coordinator_t *c, or_peer_t from, const or_message_t *message)
{
    or_csession_t *session;
    switch (message->type) {
    case OR_MSG_GENERATE_REQUEST:
        on_generate(c, or_peers_find(c, from), &message->body.generate_request);
        break;
    case OR_MSG_RESUME:
        on_resume(c, or_peers_find(c, from), &message->body.resume);
        break;
    case OR_MSG_CANCEL:
        session = or_sessions_find(&c->sessions, message->session);
        if (session != NULL && session->client.value == from.value) {
            on_cancel(c, session, &message->body.cancel);
        }
        break;
    case OR_MSG_STATS_REQUEST:
        on_question(c, or_peers_find(c, from), &message->body.stats_request);
        break;
    default:
        or_link_send_error(c->link, from, message->session, OR_WIRE_INVALID,
                           "a client does not send %s", or_message_type_name(message->type));
    }
}
