// The memory that texts keep is charged to their owners' accounts.
#include <string.h>

#include "coordinator/clients/clients.h"
#include "coordinator/hub.h"

void or_charges_drop(or_coordinator_t *c, or_csession_t **place)
{
    or_journaling_release(c, *place);
    or_csession_destroy(place);
}

or_csession_t **or_charges_oldest_end(or_coordinator_t *c, const char *owner)
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
        or_csession_t **end = or_charges_oldest_end(c, or_csession_owner(session));
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
