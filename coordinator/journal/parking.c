// Requests whose client is away: parked, until it shows their token or has been away for too long.
#include <string.h>

#include "common/base/log/log.h"
#include "coordinator/coordinator_internal.h"

// What one owner may leave here: clients that come, ask and go must not fill the memory.
#define PARKED_PER_OWNER_MAX 64u

// ---- going ----

// Its end may not have arrived: it is kept as long as others, unless its place is needed. One that was
// acknowledged is not.
static void keep_end(const or_coordinator_t *c, or_csession_t *session)
{
    session->client = (or_peer_t){0};
    if (session->deadline_ns != 0) {
        session->deadline_ns = or_coordinator_after_ms(c, c->config.resume_ms);
    }
}

// Which of two is to be let go: who was parked before, or of those that were parked together who has less to lose.
static bool goes_before(const or_csession_t *a, const or_csession_t *b)
{
    return a->deadline_ns != b->deadline_ns ? a->deadline_ns < b->deadline_ns
                                            : or_csession_written(a) < or_csession_written(b);
}

// The one to be let go, of the owner with the most that are parked: who leaves little here loses nothing to owners
// that leave much. NULL if nobody has any.
static or_csession_t *first_of_most(const or_coordinator_t *c)
{
    or_csession_t *first = NULL;
    uint32_t most = 0;
    for (uint32_t i = 0; i < c->places; i++) {
        or_csession_t *session = c->sessions[i];
        if (session == NULL || session->phase != OR_PHASE_PARKED) {
            continue;
        }
        uint32_t parked = or_waiting_owner_of(c, session)->parked;
        if (parked > most || (parked == most && goes_before(session, first))) {
            first = session;
            most = parked;
        }
    }
    return first;
}

// One was parked: the bounds held before, so of one owner that is beyond its own nobody has more.
static void keep_bounds(or_coordinator_t *c, const or_csession_t *parked)
{
    const or_owner_count_t all = or_waiting_count_owners(c);
    bool beyond =
        or_waiting_owner_of(c, parked)->parked > PARKED_PER_OWNER_MAX || all.parked > c->places / 2;
    or_csession_t *first = beyond ? first_of_most(c) : NULL;
    if (first != NULL) {
        or_clients_cancel(c, first);
    }
}

void or_parking_park(or_coordinator_t *c, or_csession_t *session)
{
    if (or_csession_is_live(session)) {
        or_round_park(c, session);
    }
    session->phase = OR_PHASE_PARKED;
    session->client = (or_peer_t){0};
    session->deadline_ns = or_coordinator_after_ms(c, c->config.resume_ms);
    or_log_of(OR_LOG_DEBUG, or_csession_subject(session), "parked with %u tokens",
              or_csession_written(session));
    keep_bounds(c, session);
}

static void put_away(or_coordinator_t *c, or_csession_t *session)
{
    if (session->phase == OR_PHASE_DONE) {
        keep_end(c, session);
    } else if (or_round_is_asked(c, session)) {
        session->client = (or_peer_t){0}; // the verdict parks it
    } else {
        or_parking_park(c, session);
    }
}

void or_parking_put_away(or_coordinator_t *c, or_csession_t *session)
{
    if (c->config.resume_ms == 0) {
        or_clients_cancel(c, session);
        return;
    }
    put_away(c, session);
    or_waiting_begin_all(c);
}

// Those that wait before those at work, so that none of them takes a place that becomes free.
static void detach(or_coordinator_t *c, or_peer_t client, bool live)
{
    for (uint32_t i = 0; i < c->places; i++) {
        or_csession_t *session = c->sessions[i];
        if (session != NULL && session->client.value == client.value &&
            or_csession_is_live(session) == live) {
            put_away(c, session);
        }
    }
}

static void cancel(or_coordinator_t *c, or_peer_t client, bool live)
{
    for (uint32_t i = 0; i < c->places; i++) {
        or_csession_t *session = c->sessions[i];
        if (session != NULL && session->client.value == client.value &&
            or_csession_is_live(session) == live) {
            or_clients_cancel(c, session);
        }
    }
}

void or_clients_leave(or_coordinator_t *c, or_peer_t client)
{
    cancel(c, client, false);
    cancel(c, client, true);
}

void or_clients_detach(or_coordinator_t *c, or_peer_t client)
{
    if (c->config.resume_ms == 0) {
        or_clients_leave(c, client);
        return;
    }
    detach(c, client, false);
    detach(c, client, true);
    or_waiting_begin_all(c);
}

int64_t or_parking_tick(or_coordinator_t *c, or_csession_t *session)
{
    if (or_clock_now(c->clock) >= session->deadline_ns) {
        or_clients_cancel(c, session);
    }
    return session->deadline_ns;
}

// ---- coming back ----

bool or_parking_is_theirs(const or_member_t *client, const char *owner, const char *key)
{
    return strcmp(client->owner, owner) == 0 && strcmp(client->grant.key, key) == 0;
}

// Somebody has the token of a session that is another's. To the client it is a token like any that we do not
// know.
static or_status_t refuse(or_coordinator_t *c, const or_member_t *client)
{
    or_coordinator_note_refusal(c, client->grant.key,
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
    for (uint32_t i = 0; i < c->places; i++) {
        if (c->sessions[i] != NULL && is_token(c->sessions[i], token)) {
            return c->sessions[i];
        }
    }
    return NULL;
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
        or_status_t status = or_coordinator_journal_restore(c, client, resume, session_p, retry_ms);
        return status == OR_ERR_MISMATCH ? refuse(c, client) : status;
    }
    if (!or_parking_is_theirs(client, or_csession_owner(session), session->key)) {
        return refuse(c, client);
    }
    if (session->phase == OR_PHASE_PARKED) { // what it held when it was parked is others' now
        or_status_t status = or_clients_admit(c, client, session->plain, retry_ms);
        if (status != OR_OK) { // its client is there, and will ask again
            session->deadline_ns = or_coordinator_after_ms(c, c->config.resume_ms);
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
        session->phase = OR_PHASE_WAITING;
        session->deadline_ns = or_coordinator_after_ms(c, c->config.verifier_timeout_ms);
    }
}
