// What goes wrong in a round: peers that lost their state, refuse, are busy, or are gone.
#include <string.h>

#include "common/base/log/log.h"
#include "common/decode/methods.h"
#include "coordinator/coordinator_internal.h"

// Trees on another text, one after the other, each of which was answered or ignored: then its drafter
// does not mend. A network that repeats and reorders does not bring as many.
#define MISFITS_MAX 8u

// ---- the verifier's ----

// To a verifier that may be another. Once psi was asked for a guess has been rejected: to do without the tree then
// would be biased.
static void repeat_tree(or_coordinator_t *c, or_csession_t *session)
{
    bool suits = or_trees_suit_verifier(c, session);
    if (!suits && session->psi_asked) {
        or_csession_fail(session, OR_WIRE_FAILED,
                         "another verifier came in the middle of a round, and takes smaller trees "
                         "than the one before: ask again");
        or_round_finish(c, session);
        return;
    }
    session->tree_count = suits ? session->tree_count : 0;
    or_round_send_tree(c, session);
}

void or_round_on_verifier(or_coordinator_t *c, or_csession_t *session)
{
    if (!or_csession_is_live(session) || c->verifier == NULL) {
        return;
    }
    if (strcmp(session->arith_id, c->verifier->arith_id) != 0) {
        or_csession_fail(session, OR_WIRE_FAILED,
                         "the verifier came back with other arithmetic (%s, before %s): ask again",
                         c->verifier->arith_id, session->arith_id);
        or_round_finish(c, session);
        return;
    }
    session->abandoned_ns = OR_TIME_NEVER;
    session->reopen_ns = OR_TIME_NEVER;
    session->kv_held = 0;
    or_round_open_verifier(c, session);
    or_coordinator_send_prefix(c, session, c->verifier->peer, 0);
    if (session->phase == OR_PHASE_VERDICT) {
        repeat_tree(c, session);
    }
}

void or_round_on_verifier_lost(or_coordinator_t *c, or_csession_t *session)
{
    int64_t give_up_ns = or_coordinator_after_ms(c, c->config.verifier_timeout_ms);
    session->reopen_ns = OR_TIME_NEVER;
    if (or_csession_is_live(session) && session->client.value == 0 &&
        !or_round_is_asked(c, session)) {
        or_parking_park(c, session);
    } else if (or_csession_is_live(session) && session->abandoned_ns == OR_TIME_NEVER) {
        session->abandoned_ns = give_up_ns;
    } else if (session->phase == OR_PHASE_WAITING) {
        session->deadline_ns = give_up_ns;
    }
}

void or_round_on_evicted(or_csession_t *session, const or_kv_evicted_t *evicted)
{
    session->kv_held =
        evicted->kept_length < session->kv_held ? evicted->kept_length : session->kv_held;
    session->evictions++;
}

// Its places are taken: the session keeps its own here and is opened there again later.
static void on_busy(or_coordinator_t *c, or_csession_t *session, const or_error_t *error)
{
    uint32_t ms = error->retry_ms > 0 ? error->retry_ms : c->config.retry_ms;
    session->reopen_ns = or_coordinator_after_ms(c, ms);
}

void or_round_on_verifier_error(or_coordinator_t *c, or_csession_t *session,
                                const or_error_t *error)
{
    if (!or_csession_is_live(session) || c->verifier == NULL ||
        (error->round != 0 && error->round != session->round)) {
        return; // about something that is over
    }
    or_log_of(OR_LOG_DEBUG, or_csession_subject(session), "round %llu: verifier says: %s",
              (unsigned long long)session->round, error->text);
    switch (error->code) {
    case OR_WIRE_UNKNOWN_SESSION:
        if (session->reopen_ns == OR_TIME_NEVER && or_round_may_replay(c, &session->replayed_ns)) {
            session->stats.resyncs++;
            or_round_on_verifier(c, session);
        }
        break;
    case OR_WIRE_NEED_PREFIX:
        if (or_round_may_replay(c, &session->replayed_ns)) {
            session->stats.resyncs++;
            or_coordinator_send_prefix(c, session, c->verifier->peer, 0);
            if (session->phase == OR_PHASE_VERDICT) {
                or_round_send_tree(c, session);
            }
        }
        break;
    case OR_WIRE_BUSY:
        on_busy(c, session, error);
        break;
    case OR_WIRE_INVALID:
        if (session
                ->psi_asked) { // a guess was rejected: to do without the tree now would be biased
            or_csession_fail(session, OR_WIRE_FAILED, "the drafter's probabilities are refused: %s",
                             error->text);
            or_round_finish(c, session);
            break;
        }
        if (session->phase == OR_PHASE_VERDICT && session->tree_count > 0) { // do without this tree
            or_log_of(OR_LOG_WARN, or_csession_subject(session), "tree refused: %s", error->text);
            or_round_ask_plain(c, session);
            break;
        }
        if (session->retry_ns == c->config.retry_ms * OR_NS_PER_MS) {
            break; // an echo of that tree: the plain step has not been asked for twice yet
        }
        // fall through
    default:
        or_csession_fail(session, error->code, "the verifier refused: %s", error->text);
        or_round_finish(c, session);
    }
}

// ---- the drafters' ----

void or_round_on_misfit(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat)
{
    if (or_round_may_replay(c, &seat->replayed_ns)) {
        session->stats.resyncs++;
        or_drafting_send_prefix(c, session, seat, true);
    } else {
        or_coordinator_offend(c, seat->peer, OR_OFFENCE_WRONG_HASH);
    }
    if (++seat->misfits > MISFITS_MAX) {
        or_coordinator_offend(c, seat->peer, OR_OFFENCE_BAD_TREE);
        or_drafting_dismiss(c, session, seat,
                            "its trees stand on another text, whatever it is told");
        or_round_go_on(c, session);
    }
}

// It asks to be brought up to date: not more often than that can help. Tells whether to answer. To have
// lost a session is no offence: who holds few says so to every message for one. The rest is held against
// it once a round, however many messages were on the way.
static bool may_ask(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat, uint32_t code,
                    int64_t *last_ns)
{
    if (or_round_may_replay(c, last_ns)) {
        session->stats.resyncs++;
        return true;
    }
    if (code != OR_WIRE_UNKNOWN_SESSION && seat->nagged != session->round) {
        seat->nagged = session->round;
        or_coordinator_offend(c, seat->peer, OR_OFFENCE_NAGGING);
    }
    return false;
}

void or_round_on_drafter_error(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat,
                               const or_error_t *error)
{
    seat->late = false;
    or_log_of(OR_LOG_DEBUG, or_csession_subject(session), "round %llu: drafter says: %s",
              (unsigned long long)session->round, error->text);
    switch (error->code) {
    case OR_WIRE_UNKNOWN_SESSION:
    case OR_WIRE_NEED_PREFIX:
        if (may_ask(c, session, seat, error->code, &seat->replayed_ns)) {
            if (error->code == OR_WIRE_UNKNOWN_SESSION) {
                or_drafting_open(c, session, seat);
            }
            or_drafting_send_prefix(c, session, seat, true);
        }
        break;
    case OR_WIRE_NEED_MAP:
        if (may_ask(c, session, seat, error->code, &seat->mapped_ns)) {
            or_drafting_send_map(c, session, seat);
            or_drafting_open(c, session, seat);
            or_drafting_send_prefix(c, session, seat, true);
        }
        break;
    case OR_WIRE_BUSY:
        or_drafting_pause(c, session, seat,
                          error->retry_ms > 0 ? error->retry_ms : c->config.retry_ms);
        or_round_go_on(c, session);
        break;
    case OR_WIRE_FAILED:
        // What a drafter of strings could not finish depends on what it drew: a plain step in its place
        // would be biased.
        if (session->terms.open.accept_rule == OR_ACCEPT_SLRS) {
            or_csession_fail(session, OR_WIRE_FAILED, "the drafter failed: %s", error->text);
            or_round_finish(c, session);
            break;
        }
        // fall through
    default:
        or_drafting_dismiss(c, session, seat, error->text);
        or_round_go_on(c, session);
    }
}

void or_round_on_drafter_lost(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat)
{
    or_log_of(OR_LOG_WARN, or_csession_subject(session), "drafter lost; going on without it");
    bool needed = session->phase == OR_PHASE_VERDICT && session->psi_asked && seat->drafted;
    or_drafting_leave(c, session, seat);
    if (needed) {
        or_questions_fail(c, session);
        return;
    }
    or_round_go_on(c, session);
}
