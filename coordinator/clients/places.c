// Places for sessions: who may have one, and which end makes room.
#include <stdio.h>

#include "coordinator/clients/clients.h"
#include "coordinator/hub.h"
#include "coordinator/peers/grants.h"

// A client that hears nothing new asks after 2 s: so it may do five times.
#define MISS_NS (10 * OR_NS_PER_S)
#define PLACE_RETRY_MS 1000u

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
        place = or_charges_oldest_end(c, client->owner);
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
