// Places for sessions: who may have one, and which end makes room.
#include <stdio.h>
#include <string.h>

#include "coordinator/clients/clients.h"
#include "coordinator/hub.h"
#include "coordinator/peers/grants.h"

// A client that hears nothing new asks after 2 s: so it may do five times.
#define MISS_NS (10 * OR_NS_PER_S)
#define PLACE_RETRY_MS 1000u

// ---- the memory that texts keep is charged to their owners' accounts ----

void or_charges_drop(or_coordinator_t *c, or_csession_t **place)
{
    or_journaling_release(c, *place);
    or_csession_destroy(place);
}

// The owner's end that is the oldest, of those that were told; NULL: it has none. Its place may be given to another text.
static or_csession_t **oldest_end(or_coordinator_t *c, const char *owner)
{
    or_csession_t **oldest = NULL;
    for (uint32_t i = 0; i < c->sessions.places; i++) {
        const or_csession_t *session = c->sessions.all[i];
        if (session != NULL && session->phase == OR_PHASE_DONE &&
            !or_journaling_holds(c, session) && strcmp(or_csession_owner(session), owner) == 0 &&
            (oldest == NULL || session->done_ns < (*oldest)->done_ns)) {
            oldest = &c->sessions.all[i];
        }
    }
    return oldest;
}

// The owner's ends make room one by one.
static or_status_t resize(or_coordinator_t *c, or_csession_t *session, or_hold_t *hold,
                          uint64_t bytes)
{
    or_status_t status = or_hold_resize(hold, bytes);
    while (status == OR_ERR_FULL) {
        or_csession_t **end = oldest_end(c, or_csession_owner(session));
        if (end == NULL || *end == session) {
            break;
        }
        or_charges_drop(c, end);
        status = or_hold_resize(hold, bytes);
    }
    return status;
}

or_status_t or_charges_open(or_coordinator_t *c, or_csession_t *session)
{
    const char *owner = or_csession_owner(session);
    or_status_t status =
        or_hold_open(&session->held.request, c->config.ledger, owner, OR_HELD_REQUESTS);
    if (status == OR_OK) {
        status = or_hold_open(&session->held.answer, c->config.ledger, owner, OR_HELD_ANSWERS);
    }
    if (status == OR_OK) {
        status = resize(c, session, &session->held.request, or_csession_request_bytes(session));
    }
    return status == OR_OK
               ? resize(c, session, &session->held.answer, or_csession_answer_bytes(session))
               : status;
}

void or_charges_grow(or_coordinator_t *c, or_csession_t *session)
{
    uint64_t bytes = or_csession_answer_bytes(session);
    if (bytes == session->held.answer.bytes ||
        resize(c, session, &session->held.answer, bytes) == OR_OK) {
        return;
    }
    if (session->finish == OR_FINISH_NONE) {
        or_csession_fail(session, OR_WIRE_LIMIT, "%s", or_error_text());
    }
    // The answer so far stays charged until its end is forgotten.
    or_hold_force(&session->held.answer, or_csession_answer_bytes(session));
}

void or_charges_shrink(or_csession_t *session)
{
    or_hold_force(&session->held.request, or_csession_request_bytes(session));
    or_hold_force(&session->held.answer, or_csession_answer_bytes(session));
}

// ---- places ----

// Is it done, and was its client told?
static bool has_told_end(const or_coordinator_t *c, const or_csession_t *session)
{
    return session->phase == OR_PHASE_DONE && !or_journaling_holds(c, session);
}

// May a session that is done give its place to one of `client`? Not before its own client has had the
// time to miss the end and ask for it; clients that got it say so. (Our own face is many clients, which must not take
// each other's ends away.)
static bool makes_room(const or_coordinator_t *c, const or_csession_t *session,
                       const or_member_t *client)
{
    int64_t now = or_clock_now(c->clock);
    return has_told_end(c, session) &&
           (now >= session->deadline_ns || now - session->done_ns >= MISS_NS ||
            (session->client.value == client->peer.value && !client->inside));
}

// The oldest end of the owner that keeps most, if that leaves it with no less than this one has: the journal may
// still have it. As in the queue.
static or_csession_t **oldest_of_most(or_coordinator_t *c, const char *owner)
{
    or_queue_count(c);
    or_csession_t **oldest = NULL;
    uint32_t most = or_queue_owner(c, owner)->done + 1;
    for (uint32_t i = 0; i < c->sessions.places; i++) {
        const or_csession_t *session = c->sessions.all[i];
        if (session == NULL || !has_told_end(c, session)) {
            continue;
        }
        uint32_t done = or_queue_owner_of(c, session)->done;
        bool older = oldest != NULL && done == most && session->done_ns < (*oldest)->done_ns;
        if (done > most || older) {
            oldest = &c->sessions.all[i];
            most = done;
        }
    }
    return oldest;
}

// A free place, or that of an end that is not missed; NULL: there is none.
static or_csession_t **find_place(or_coordinator_t *c, const or_member_t *client)
{
    or_csession_t **done = NULL;
    for (uint32_t i = 0; i < c->sessions.places; i++) {
        or_csession_t *session = c->sessions.all[i];
        if (session == NULL) {
            return &c->sessions.all[i];
        }
        if (makes_room(c, session, client) &&
            (done == NULL || session->done_ns < (*done)->done_ns)) {
            done = &c->sessions.all[i];
        }
    }
    return done;
}

or_status_t or_places_find(or_coordinator_t *c, const or_member_t *client, or_csession_t ***place_p,
                           uint32_t *retry_ms)
{
    or_csession_t **place = find_place(c, client);
    if (place == NULL) {
        place = oldest_of_most(c, client->owner);
    }
    if (place == NULL && client->inside) { // ends of our own face's readers are the last to go
        place = oldest_end(c, client->owner);
    }
    if (place == NULL) {
        *retry_ms = PLACE_RETRY_MS;
        return or_fail(OR_ERR_FULL, "busy: every place is kept for a client that may have missed "
                                    "its end; retry after 1.0 s");
    }
    or_charges_drop(c, place);
    *place_p = place;
    return OR_OK;
}

or_status_t or_places_admit(or_coordinator_t *c, const or_member_t *client, bool plain,
                            uint32_t *retry_ms)
{
    char why[256];
    if (!or_grants_allow_session(c, client, why, sizeof why)) {
        *retry_ms = OR_GRANTS_RETRY_MS;
        return or_fail(OR_ERR_FULL, "%s", why);
    }
    return or_queue_admit(c, client->owner, plain, retry_ms);
}
