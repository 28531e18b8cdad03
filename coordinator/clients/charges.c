// What texts and slow readers keep of the memory, in their owners' accounts.
#include "common/base/log/log.h"
#include "coordinator/coordinator_internal.h"

// Bytes that one peer has not read. A reader of one owner gets no more then until it has. What serves everybody gets
// no new texts, and what its texts need all the same: so more than this waits for it by what the texts at work come to.
#define UNREAD_MAX ((uint64_t)4 << 20)
// A drafter is not trusted to read: it can speak and so have its texts sent anew. A text goes on without it.
#define DRAFTER_UNREAD_MAX ((uint64_t)64 << 20)

// The owner's ends make room one by one.
static or_status_t resize(or_coordinator_t *c, or_csession_t *session, or_hold_t *hold,
                          uint64_t bytes)
{
    or_status_t status = or_hold_resize(hold, bytes);
    while (status == OR_ERR_FULL) {
        or_csession_t **end = or_clients_oldest_end(c, or_csession_owner(session));
        if (end == NULL || *end == session) {
            break;
        }
        or_coordinator_drop_session(c, end);
        status = or_hold_resize(hold, bytes);
    }
    return status;
}

or_status_t or_charges_open(or_coordinator_t *c, or_csession_t *session)
{
    const char *owner = or_csession_owner(session);
    or_status_t status =
        or_hold_open(&session->request_hold, c->config.ledger, owner, OR_HELD_REQUESTS);
    if (status == OR_OK) {
        status = or_hold_open(&session->answer_hold, c->config.ledger, owner, OR_HELD_ANSWERS);
    }
    if (status == OR_OK) {
        status = resize(c, session, &session->request_hold, or_csession_request_bytes(session));
    }
    return status == OR_OK
               ? resize(c, session, &session->answer_hold, or_csession_answer_bytes(session))
               : status;
}

void or_charges_grow(or_coordinator_t *c, or_csession_t *session)
{
    uint64_t bytes = or_csession_answer_bytes(session);
    if (bytes == session->answer_hold.bytes ||
        resize(c, session, &session->answer_hold, bytes) == OR_OK) {
        return;
    }
    if (session->finish == OR_FINISH_NONE) {
        or_csession_fail(session, OR_WIRE_LIMIT, "%s", or_error_text());
    }
    // What is there, until its end is forgotten.
    or_hold_force(&session->answer_hold, or_csession_answer_bytes(session));
}

void or_charges_shrink(or_csession_t *session)
{
    or_hold_force(&session->request_hold, or_csession_request_bytes(session));
    or_hold_force(&session->answer_hold, or_csession_answer_bytes(session));
}

// ---- readers ----

// NULL: nobody, or a part of our own process, which is many readers and counts for itself.
static or_member_t *reader(or_coordinator_t *c, or_peer_t peer)
{
    or_member_t *member = or_coordinator_member(c, peer);
    return member != NULL && !member->inside ? member : NULL;
}

static bool serves_everybody(const or_member_t *member)
{
    return member->role == OR_ROLE_VERIFIER || member->serves_all;
}

void or_charges_greet(or_coordinator_t *c, or_member_t *member)
{
    or_ledger_t *ledger = serves_everybody(member) ? NULL : c->config.ledger;
    // Without memory for an account nothing is counted: the bound of a peer still holds.
    (void)or_hold_open(&member->unread, ledger, member->owner, OR_HELD_UNSENT);
}

bool or_charges_has_read(const or_member_t *member)
{
    return member->unread.bytes <= UNREAD_MAX;
}

static uint64_t unread_max(const or_member_t *member)
{
    if (member->role == OR_ROLE_VERIFIER) {
        return UINT64_MAX;
    }
    return serves_everybody(member) ? DRAFTER_UNREAD_MAX : UNREAD_MAX;
}

bool or_charges_may_send(or_coordinator_t *c, or_peer_t to)
{
    uint64_t unread = or_link_unread(c->link, to);
    or_member_t *member = unread > 0 ? reader(c, to) : NULL;
    if (member == NULL) {
        return true;
    }
    // Its owner must have room for one byte more: what is unread is in the account already.
    return unread <= unread_max(member) && or_hold_resize(&member->unread, unread + 1) == OR_OK;
}

void or_charges_sent(or_coordinator_t *c, or_peer_t to)
{
    uint64_t unread = or_link_unread(c->link, to);
    or_member_t *member = unread > 0 ? reader(c, to) : NULL;
    if (member != NULL) {
        or_hold_force(&member->unread, unread);
        c->unread = true;
    }
}

bool or_charges_may_begin(or_coordinator_t *c)
{
    bool may = c->verifier == NULL || or_charges_has_read(c->verifier);
    c->begins_late = c->begins_late || !may;
    return may;
}

static void begin_late(or_coordinator_t *c)
{
    if (c->begins_late && or_charges_has_read(c->verifier)) {
        c->begins_late = false;
        or_waiting_begin_all(c);
    }
}

static void settle_members(or_coordinator_t *c)
{
    c->unread = false;
    for (uint32_t i = 0; i < OR_PEERS_MAX; i++) {
        or_member_t *member = &c->members[i];
        if (member->peer.value != 0 && member->unread.bytes > 0) {
            or_hold_force(&member->unread, or_link_unread(c->link, member->peer));
            c->unread |= member->unread.bytes > 0;
        }
    }
}

void or_charges_settle(or_coordinator_t *c)
{
    if (c->unread) {
        settle_members(c);
    }
    if (c->verifier != NULL) {
        begin_late(c);
    }
}
