// Requests whose client is away: parked, until it shows their token or has been away for too long.
#include <string.h>

#include "common/base/log/log.h"
#include "coordinator/clients/clients.h"
#include "coordinator/hub.h"
#include "coordinator/rounds/rounds.h"

// One owner may leave so many texts here: clients that come, ask and go must not fill the memory.
#define PARKED_PER_OWNER_MAX 64u
#define AGAIN_MS 500u // for who asks for a text that is just being written

// ---- going ----

// Its end may not have arrived: it is kept as long as others, unless its place is needed. One that was
// acknowledged is not.
static void keep_end(const or_coordinator_t *c, or_csession_t *session)
{
    session->client = (or_peer_t){0};
    if (session->deadline_ns != 0) {
        or_csession_wait_until(session, or_hub_after_ms(c, c->config.resume_ms));
    }
}

// Is the first of two to be let go? The one that was parked before is, or of those that were parked together the shorter one.
static bool goes_before(const or_csession_t *a, const or_csession_t *b)
{
    return a->deadline_ns != b->deadline_ns ? a->deadline_ns < b->deadline_ns
                                            : or_csession_written(a) < or_csession_written(b);
}

// The one to be let go, of the owner with the most that are parked: who leaves little here loses nothing to owners
// that leave much. NULL if nobody has any.
static or_csession_t *first_of_most(const or_coordinator_t *c)
{
    or_csession_t *first = NULL, *session;
    uint32_t most = 0;
    for (uint32_t at = 0; (session = or_sessions_next(&c->sessions, &at)) != NULL;) {
        if (session->phase != OR_PHASE_PARKED || session->finish != OR_FINISH_NONE) {
            continue;
        }
        uint32_t parked = or_queue_owner_of(c, session)->parked;
        if (parked > most || (parked == most && goes_before(session, first))) {
            first = session;
            most = parked;
        }
    }
    return first;
}

void or_parking_cancel(or_coordinator_t *c, or_csession_t *session)
{
    if (session->phase != OR_PHASE_DONE && session->finish == OR_FINISH_NONE) {
        or_csession_end(session, OR_FINISH_CANCELLED);
        c->figures.cancelled++;
    }
    or_csession_mark(session, OR_MARK_FORGET);
}

// One was parked: the bounds held before, so of one owner that is beyond its own nobody has more.
static void keep_bounds(or_coordinator_t *c, const or_csession_t *parked)
{
    const or_owner_count_t all = or_queue_count(c);
    bool beyond = or_queue_owner_of(c, parked)->parked > PARKED_PER_OWNER_MAX ||
                  all.parked > c->sessions.places / 2;
    or_csession_t *first = beyond ? first_of_most(c) : NULL;
    if (first != NULL) {
        or_parking_cancel(c, first);
    }
}

void or_parking_park(or_coordinator_t *c, or_csession_t *session)
{
    if (or_csession_is_live(session)) {
        or_round_park(c, session);
    }
    or_csession_enter(session, OR_PHASE_PARKED, or_hub_after_ms(c, c->config.resume_ms));
    session->client = (or_peer_t){0};
    session->written_ns = 0; // nobody waits for its next token
    or_log_of(OR_LOG_DEBUG, or_csession_subject(session), "parked with %u tokens",
              or_csession_written(session));
    keep_bounds(c, session);
    c->queue.due = true;
}

static void put_away(or_coordinator_t *c, or_csession_t *session)
{
    if (session->phase == OR_PHASE_DONE) {
        keep_end(c, session);
    } else if (session->finish != OR_FINISH_NONE || or_round_is_asked(c, session)) {
        session->client = (or_peer_t){0}; // it is about to be done, or the verdict parks it
    } else {
        or_parking_park(c, session);
    }
}

void or_parking_put_away(or_coordinator_t *c, or_csession_t *session)
{
    if (c->config.resume_ms == 0) {
        or_parking_cancel(c, session);
    } else {
        put_away(c, session);
    }
}

void or_parking_leave(or_coordinator_t *c, or_peer_t client)
{
    or_csession_t *session;
    for (uint32_t at = 0; (session = or_sessions_next(&c->sessions, &at)) != NULL;) {
        if (session->client.value == client.value) {
            or_parking_cancel(c, session);
        }
    }
}

void or_parking_detach(or_coordinator_t *c, or_peer_t client)
{
    or_csession_t *session;
    for (uint32_t at = 0; (session = or_sessions_next(&c->sessions, &at)) != NULL;) {
        if (session->client.value == client.value) {
            or_parking_put_away(c, session);
        }
    }
}

// ---- coming back ----

// May this client have a session of this owner and key?
static bool is_theirs(const or_member_t *client, const char *owner, const char *key)
{
    return strcmp(client->owner, owner) == 0 && strcmp(client->grant.key, key) == 0;
}

// Somebody has the token of a session that is another's. To the client it is a token like any that we do not
// know.
static or_status_t refuse(or_coordinator_t *c, const or_member_t *client)
{
    or_peers_note_refusal(c, client->grant.key,
                          "it showed the token of a session that is another's");
    return OR_ERR_NOT_FOUND;
}

// In a time that does not tell how much of it is right.
static bool is_token(const or_csession_t *session, const uint8_t *token)
{
    uint8_t difference = 0;
    for (uint32_t i = 0; i < OR_SESSION_TOKEN_BYTES; i++) {
        difference |= session->token[i] ^ token[i];
    }
    return difference == 0;
}

static or_csession_t *find_token(const or_coordinator_t *c, const uint8_t *token)
{
    or_csession_t *session;
    uint32_t at = 0;
    do {
        session = or_sessions_next(&c->sessions, &at);
    } while (session != NULL && !is_token(session, token));
    return session;
}

// ---- coming back from the journal ----

// The request as it came, with the seed it got, and its tokens once more through everything they went through.
static or_status_t make_again(or_coordinator_t *c, const or_journal_entry_t *entry,
                              uint64_t request_number, or_csession_t **session_p)
{
    or_message_t message = {0};
    or_status_t status = or_message_decode(entry->request, entry->request_bytes, &message);
    if (status != OR_OK) {
        return status;
    }
    or_generate_request_t *request = &message.body.generate_request;
    if (message.type != OR_MSG_GENERATE_REQUEST) {
        status = or_fail(OR_ERR_FORMAT, "a request that is none");
    } else {
        request->request = request_number;
        request->seed = entry->seed;
        request->has_seed = true;
        status = or_csession_create(&c->target, or_session_ids_next(&c->sessions.ids),
                                    (or_peer_t){0}, entry->owner, request, session_p);
    }
    or_message_fini(&message);
    if (status == OR_OK) {
        status = or_csession_restore(*session_p, entry->tokens, entry->count, entry->finish);
        if (status != OR_OK) {
            or_csession_destroy(session_p);
        }
    }
    return status;
}

// It waits for its client like any other that was parked, or for the client to fetch its end.
static void adopt(or_coordinator_t *c, or_csession_t *session, const or_journal_entry_t *entry,
                  const or_resume_t *resume, uint64_t number)
{
    bool done = session->finish != OR_FINISH_NONE;
    or_session_ids_take(&c->sessions.ids);
    session->stats.resumed_tokens = or_csession_written(session); // counted by another, if at all
    session->round = entry->round;
    session->arrived_ns = session->started_ns = session->done_ns = or_clock_now(c->clock);
    or_csession_enter(session, done ? OR_PHASE_DONE : OR_PHASE_PARKED,
                      or_hub_after_ms(c, c->config.resume_ms));
    memcpy(session->token, resume->token, sizeof session->token);
    memcpy(session->key, entry->key, strlen(entry->key) + 1);
    memcpy(session->arith_id, entry->arith_id, strlen(entry->arith_id) + 1);
    or_journaling_adopt(c, session, entry, number);
    if (done) {
        or_csession_drop_rounds(session);
        or_charges_shrink(session);
    }
    or_log_of(OR_LOG_INFO, or_csession_subject(session), "back from the journal: %u tokens",
              or_csession_written(session));
}

// The session with this token as a coordinator before this one left it, for a client that may have it. As
// or_parking_find; OR_ERR_MISMATCH: it is another's.
static or_status_t restore(or_coordinator_t *c, const or_member_t *client,
                           const or_resume_t *resume, or_csession_t **session_p, uint32_t *retry_ms)
{
    or_journal_entry_t entry;
    uint64_t number;
    or_csession_t **place = NULL;
    if (c->config.journal == NULL) {
        return OR_ERR_NOT_FOUND;
    }
    or_status_t status =
        or_journal_find(c->config.journal, resume->token, resume->token_bytes, &entry, &number);
    if (status == OR_ERR_AGAIN) {
        *retry_ms = AGAIN_MS;
        return or_fail(OR_ERR_FULL, "busy: this text is just being written to the journal; retry "
                                    "after 0.5 s");
    }
    if (status != OR_OK) {
        or_journaling_report(c, status == OR_ERR_NOT_FOUND ? OR_OK : status);
        return OR_ERR_NOT_FOUND;
    }
    if (!is_theirs(client, entry.owner, entry.key)) {
        return OR_ERR_MISMATCH;
    }
    if (entry.model_hash != c->config.model_hash) {
        or_log(OR_LOG_WARN, "a text in the journal was written by another target: it ends here");
        return OR_ERR_NOT_FOUND;
    }
    if (entry.finish == OR_FINISH_NONE) { // before the time is spent that making it again takes
        status = or_places_admit(c, client, false, retry_ms);
    }
    if (status == OR_OK) {
        status = or_places_find(c, client, &place, retry_ms);
    }
    if (status != OR_OK) {
        return status;
    }
    status = make_again(c, &entry, resume->request, place);
    if (status != OR_OK) {
        or_log(OR_LOG_WARN, "a text in the journal cannot go on: %s", or_error_text());
        return OR_ERR_NOT_FOUND;
    }
    status = or_charges_open(c, *place);
    if (status != OR_OK) {
        or_csession_destroy(place);
        *retry_ms = OR_CHARGES_RETRY_MS;
        return status;
    }
    adopt(c, *place, &entry, resume, number);
    *session_p = *place;
    return OR_OK;
}

or_status_t or_parking_find(or_coordinator_t *c, const or_member_t *client,
                            const or_resume_t *resume, or_csession_t **session_p,
                            uint32_t *retry_ms)
{
    if (resume->token_bytes != OR_SESSION_TOKEN_BYTES) {
        return OR_ERR_NOT_FOUND;
    }
    or_csession_t *session = find_token(c, resume->token);
    if (session == NULL) {
        or_status_t status = restore(c, client, resume, session_p, retry_ms);
        return status == OR_ERR_MISMATCH ? refuse(c, client) : status;
    }
    if (!is_theirs(client, or_csession_owner(session), session->key)) {
        return refuse(c, client);
    }
    if (session->phase == OR_PHASE_PARKED) { // what it held when it was parked is others' now
        or_status_t status = or_places_admit(c, client, session->plain, retry_ms);
        if (status != OR_OK) { // its client is there, and will ask again
            or_csession_wait_until(session, or_hub_after_ms(c, c->config.resume_ms));
            return status;
        }
    }
    *session_p = session;
    return OR_OK;
}

void or_parking_return(or_coordinator_t *c, or_csession_t *session, const or_member_t *client)
{
    bool parked = session->phase == OR_PHASE_PARKED;
    if (parked || session->client.value != client->peer.value) {
        session->stats.resumes++;
        c->figures.resumed++;
    }
    session->client = client->peer;
    if (parked) {
        or_csession_enter(session, OR_PHASE_WAITING,
                          or_hub_after_ms(c, c->config.verifier_timeout_ms));
    }
}
