// A session's drafters: which ones serve, and what they are told.
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "common/decode/methods.h"
#include "common/decode/shape.h"
#include "coordinator/coordinator_internal.h"

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

// Without the verifier's key; with one of its own and its part of the shape.
void or_drafting_open(or_coordinator_t *c, const or_csession_t *session, const or_seat_t *seat)
{
    uint32_t shape[OR_SHAPE_LEVELS_MAX];
    or_message_t message = {.type = OR_MSG_OPEN_SESSION,
                            .session = session->id,
                            .body.open_session = session->terms.open};
    or_open_session_t *open = &message.body.open_session;
    open->private_key = 0;
    open->draft_key = seat->draft_key;
    open->draft_nodes = seat->asked_nodes;
    if (seat->sequences > 0) {
        memcpy(shape, open->draft_shape, open->draft_shape_count * sizeof *shape);
        shape[0] = seat->sequences;
        open->draft_shape = shape;
    }
    or_coordinator_send(c, seat->peer, &message);
}

void or_drafting_leave(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat)
{
    if (seat->peer.value == 0) {
        return;
    }
    or_member_t *member = or_coordinator_member(c, seat->peer);
    if (member != NULL) {
        member->sessions--;
    }
    session->stats.wire_bytes += or_link_bytes(c->link, seat->peer) - seat->link_bytes;
    seat->peer = (or_peer_t){0};
    seat->awaited = seat->late = false;
    seat->nudge_ns = OR_TIME_NEVER;
    or_trees_drop(session, seat);
}

static bool is_unfit(const or_csession_t *session, or_peer_t drafter)
{
    for (uint32_t i = 0; i < session->unfit_count; i++) {
        if (session->unfit[i].value == drafter.value) {
            return true;
        }
    }
    return session->unfit_count == OR_UNFIT_MAX;
}

// A ratio rule believes that the drafter drew what it says: only those marked trusted may serve it.
static bool is_believed(const or_member_t *member, const or_csession_t *session)
{
    return member->trusted || !or_accept_rule_uses_laws(session->terms.open.accept_rule);
}

// May it draft for this session? *distrusted is set if it could, were it believed.
static bool is_fitting(const or_member_t *member, or_csession_t *session, bool *distrusted)
{
    if (member->peer.value == 0 || member->role != OR_ROLE_DRAFTER ||
        is_unfit(session, member->peer) || or_csession_seat(session, member->peer) != NULL) {
        return false;
    }
    bool believed = is_believed(member, session);
    *distrusted = *distrusted || !believed;
    return believed;
}

// Those that may take a free seat: how many, and the one with the fewest sessions (NULL: none).
static uint32_t count_fitting(or_coordinator_t *c, or_csession_t *session, or_member_t **best,
                              bool *distrusted)
{
    uint32_t count = 0;
    *best = NULL;
    *distrusted = false;
    for (uint32_t i = 0; i < OR_PEERS_MAX; i++) {
        or_member_t *member = &c->members[i];
        if (is_fitting(member, session, distrusted)) {
            count++;
            *best = *best == NULL || member->sessions < (*best)->sessions ? member : *best;
        }
    }
    return count;
}

// The user is told why a drafter that is there does not serve.
static void explain_distrust(or_csession_t *session)
{
    const char *rule = or_accept_rule_name(session->terms.open.accept_rule);
    if (session->note[0] != '\0') {
        return;
    }
    snprintf(session->note, sizeof session->note,
             "no drafter here is trusted, and rule %s would believe what it says it drew: "
             "decoded plainly; use --accept coupled or naive, or a trusted drafter",
             rule);
    or_log(OR_LOG_WARN, "session %llx: no drafter is trusted for rule %s",
           (unsigned long long)session->id.value, rule);
}

// As many as there are drafters now, but with a node and a sequence for each; 0 if there is none.
static uint32_t count_seats(const or_csession_t *session, uint32_t fitting)
{
    const or_open_session_t *open = &session->terms.open;
    uint32_t seats = least(fitting, or_csession_seats_max(session));
    uint32_t parts = open->draft_shape_count > 0 ? open->draft_shape[0] : open->draft_nodes;
    return seats > 1 && parts < seats ? (parts > 0 ? parts : 1) : seats;
}

static uint32_t part_of(uint32_t whole, uint32_t parts, uint32_t index)
{
    return whole / parts + (index < whole % parts);
}

// What a seat is asked to build: the trees of all together fit what the session allows, so that
// none of them ever has to be cut.
static void share_out(const or_coordinator_t *c, const or_csession_t *session, or_seat_t *seat,
                      uint32_t drafter_nodes)
{
    const or_open_session_t *open = &session->terms.open;
    uint32_t index = (uint32_t)(seat - session->seats);
    uint32_t count = session->seat_count;
    seat->sequences = 0;
    seat->asked_nodes = part_of(open->draft_nodes, count, index);
    if (count > 1 && open->draft_shape_count > 0) {
        seat->sequences = part_of(open->draft_shape[0], count, index);
        seat->asked_nodes = open->draft_nodes / open->draft_shape[0] * seat->sequences;
    }
    seat->asked_nodes = least(seat->asked_nodes, drafter_nodes);
    if (c->verifier != NULL) {
        seat->asked_nodes = least(seat->asked_nodes, c->verifier->nodes_max / count);
    }
}

static void take_seat(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat,
                      or_member_t *member)
{
    session->note[0] = '\0'; // why there was none is over
    member->sessions++;
    seat->peer = member->peer;
    seat->link_bytes = or_link_bytes(c->link, member->peer);
    // A drafter that comes back may still draw with its old key: among several none is given twice.
    seat->draft_key = or_csession_draft_key(session, session->seat_count > 1 ? session->joined : 0);
    session->joined++;
    share_out(c, session, seat, member->nodes_max);
    or_drafting_open(c, session, seat);
    or_coordinator_send_prefix(c, session, member->peer, 0);
}

bool or_drafting_join(or_coordinator_t *c, or_csession_t *session)
{
    if (session->plain || or_clock_now(c->clock) < session->rejoin_ns) {
        return false;
    }
    or_member_t *best;
    bool distrusted = false;
    bool joined = false;
    bool served = false;
    if (session->seat_count == 0) {
        uint32_t fitting = count_fitting(c, session, &best, &distrusted);
        session->seat_count = count_seats(session, fitting);
    }
    for (uint32_t i = 0; i < session->seat_count; i++) {
        or_seat_t *seat = &session->seats[i];
        if (seat->peer.value == 0 && count_fitting(c, session, &best, &distrusted) > 0) {
            take_seat(c, session, seat, best);
            joined = true;
        }
        served = served || seat->peer.value != 0;
    }
    if (!served && distrusted) {
        explain_distrust(session);
    }
    return joined;
}

// This drafter cannot serve this session; another may.
void or_drafting_dismiss(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat,
                         const char *why)
{
    or_log(OR_LOG_WARN, "session %llx: drafter dismissed: %s",
           (unsigned long long)session->id.value, why);
    snprintf(session->note, sizeof session->note, "a drafter was dismissed: %s", why);
    if (session->unfit_count < OR_UNFIT_MAX) { // else nobody joins any more
        session->unfit[session->unfit_count++] = seat->peer;
    }
    or_drafting_leave(c, session, seat);
}

// The accepted path in the numbers of this seat's own tree; false if that does not hold all of it.
static bool own_path(const or_csession_t *session, uint32_t seat, const or_verdict_t *verdict,
                     uint32_t *path)
{
    for (uint32_t i = 0; i < verdict->accepted_count; i++) {
        uint32_t node = verdict->accepted[i];
        path[i] = session->seat_count > 1 ? or_merge_origin(session->merge, seat, node) : node;
        if (path[i] == 0) {
            return false;
        }
    }
    return true;
}

void or_drafting_pass_on(or_coordinator_t *c, const or_csession_t *session,
                         const or_verdict_t *verdict)
{
    uint32_t path[OR_TREE_NODES_MAX];
    or_message_t message = {
        .type = OR_MSG_VERDICT, .session = session->id, .body.verdict = *verdict};
    message.body.verdict.accepted = path;
    message.body.verdict.forward_us = 0;
    message.body.verdict.accept_us = 0;
    message.body.verdict.logprob_count = 0;
    for (uint32_t i = 0; i < session->seat_count; i++) {
        const or_seat_t *seat = &session->seats[i];
        if (seat->peer.value == 0 || seat->late) {
            continue;
        }
        if (own_path(session, i, verdict, path)) {
            or_coordinator_send(c, seat->peer, &message);
        } else { // its guesses went another way: the tail of the text
            or_coordinator_send_prefix(c, session, seat->peer, verdict->base_length);
        }
    }
}

void or_drafting_await(or_coordinator_t *c, or_csession_t *session)
{
    for (uint32_t i = 0; i < session->seat_count; i++) {
        or_seat_t *seat = &session->seats[i];
        if (seat->peer.value != 0 && !seat->late && !seat->drafted && !seat->awaited) {
            seat->awaited = true;
            seat->nudge_ns = or_coordinator_after_ms(c, c->config.draft_timeout_ms / 4);
        }
    }
}

bool or_drafting_is_awaited(const or_csession_t *session)
{
    for (uint32_t i = 0; i < session->seat_count; i++) {
        if (session->seats[i].awaited) {
            return true;
        }
    }
    return false;
}

void or_drafting_give_up(or_coordinator_t *c, or_csession_t *session)
{
    for (uint32_t i = 0; i < session->seat_count; i++) {
        or_seat_t *seat = &session->seats[i];
        if (seat->awaited) {
            seat->awaited = false;
            seat->late = true;
            seat->nudge_ns = or_coordinator_after_ms(c, c->config.heartbeat_ms);
        }
    }
}

static void nudge(or_coordinator_t *c, const or_csession_t *session, or_seat_t *seat)
{
    // The tail is enough where the drafter only missed a verdict; one that lost more asks for all
    // of it.
    uint32_t length = session->log.length;
    or_coordinator_send_prefix(c, session, seat->peer,
                               length > OR_TREE_NODES_MAX ? length - OR_TREE_NODES_MAX : 0);
    seat->nudge_ns =
        seat->late ? or_coordinator_after_ms(c, c->config.heartbeat_ms) : OR_TIME_NEVER;
}

int64_t or_drafting_nudge(or_coordinator_t *c, or_csession_t *session)
{
    int64_t due = OR_TIME_NEVER;
    for (uint32_t i = 0; i < session->seat_count; i++) {
        or_seat_t *seat = &session->seats[i];
        if (seat->peer.value == 0) {
            continue;
        }
        if (or_clock_now(c->clock) >= seat->nudge_ns) {
            nudge(c, session, seat);
        }
        due = seat->nudge_ns < due ? seat->nudge_ns : due;
    }
    return due;
}
