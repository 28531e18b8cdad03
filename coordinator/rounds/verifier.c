// Messages of the verifier about a round: its verdict, its question for psi, and what goes wrong there.
#include <string.h>

#include "common/base/log/log.h"
#include "coordinator/clients/clients.h"
#include "coordinator/drafters/drafters.h"
#include "coordinator/figures/figures.h"
#include "coordinator/hub.h"
#include "coordinator/peers/grants.h"
#include "coordinator/rounds/rounds.h"
#include "proto/net/back_off.h"

// ---- verdicts ----

// The verdict's tokens are the text's from here on.
static or_status_t commit(or_coordinator_t *c, or_csession_t *session, const or_verdict_t *verdict)
{
    uint32_t before = or_csession_written(session);
    or_status_t status = or_csession_check_verdict(session, verdict, or_vocab_size(c->vocab));
    if (status != OR_OK) {
        return status;
    }
    or_counters_judged(c, session, verdict);
    or_budget_judged(c, session, verdict);
    status = or_csession_commit(session, verdict, c->verifier->context_max);
    if (status != OR_OK) {
        return status;
    }
    or_grants_wrote(c, session, or_csession_written(session) - before);
    if (session->budget.guesses != NULL) {
        or_guesses_follow(session->budget.guesses, &session->log);
    }
    or_counters_committed(c, session, verdict, before);
    or_charges_grow(c, session);
    return OR_OK;
}

void or_round_verifier_verdict(or_coordinator_t *c, or_csession_t *session,
                               const or_verdict_t *verdict)
{
    if (session->phase != OR_PHASE_VERDICT || verdict->round != session->round) {
        return; // a repeated verdict
    }
    if (commit(c, session, verdict) == OR_OK) {
        session->stream.judged = verdict;
        or_csession_mark(session, OR_MARK_JUDGED);
    } else {
        or_csession_fail(session, OR_WIRE_FAILED, "the verifier's answer cannot be used: %s",
                         or_error_text());
    }
}

// ---- psi ----
//
// slrs: the verifier asks what a drafter's text may begin with after a rejected guess, and the drafter answers. The coordinator
// passes both on, each with the receiver's view of the text.

// A guess was rejected, and nothing but its drafter's psi can tell what is to be drawn instead: any other token would be
// biased. So the text ends where nobody is left who could answer.
void or_round_verifier_lacks_psi(or_csession_t *session)
{
    or_csession_fail(session, OR_WIRE_FAILED,
                     "the drafter was lost while the target waited for its probabilities: ask "
                     "again, or use --vocab-map tli --accept sps, which does without");
}

void or_round_verifier_asks_psi(or_coordinator_t *c, or_csession_t *session,
                                const or_psi_request_t *request)
{
    if (session->phase != OR_PHASE_VERDICT || request->round != session->round) {
        return;
    }
    const or_seat_t *seat = or_seats_guessing(session);
    if (seat == NULL) {
        or_round_verifier_lacks_psi(session);
        return;
    }
    const or_token_log_t *held = or_seats_log(session, seat);
    or_message_t message = {
        .type = OR_MSG_PSI_REQUEST, .session = session->id, .body.psi_request = *request};
    message.body.psi_request.base_length = held->length;
    message.body.psi_request.base_hash = held->hash;
    session->stats.psi_requests += session->tree.psi_asked ? 0 : 1;
    session->tree.psi_asked = true;
    or_peers_send(c, seat->peer, &message);
}

// ---- verifiers that come and go ----

// To a verifier that may be another. Once psi was asked for a guess has been rejected: to do without the tree then
// would be biased.
static void repeat_tree(or_coordinator_t *c, or_csession_t *session)
{
    bool suits = or_trees_suit_verifier(c, session);
    if (!suits && session->tree.psi_asked) {
        or_csession_fail(session, OR_WIRE_FAILED,
                         "another verifier came in the middle of a round, and takes smaller trees "
                         "than the one before: ask again");
        return;
    }
    session->tree.count = suits ? session->tree.count : 0;
    or_round_send_tree(c, session);
}

void or_round_verifier_joined(or_coordinator_t *c, or_csession_t *session)
{
    if (!or_csession_is_live(session) || c->verifier == NULL) {
        return;
    }
    if (strcmp(session->arith_id, c->verifier->arith_id) != 0) {
        or_csession_fail(session, OR_WIRE_FAILED,
                         "the verifier came back with other arithmetic (%s, before %s): ask again",
                         c->verifier->arith_id, session->arith_id);
        return;
    }
    session->target.abandoned_ns = OR_TIME_NEVER;
    session->target.reopen_ns = OR_TIME_NEVER;
    or_round_open_verifier(c, session);
    if (session->phase == OR_PHASE_VERDICT) {
        repeat_tree(c, session);
    }
}

void or_round_verifier_lost(or_coordinator_t *c, or_csession_t *session)
{
    int64_t give_up_ns = or_hub_after_ms(c, c->config.verifier_timeout_ms);
    bool live = or_csession_is_live(session);
    session->target.reopen_ns = OR_TIME_NEVER;
    if (live && session->client.value == 0 && !or_round_is_asked(c, session)) {
        or_csession_mark(session, OR_MARK_PARK);
    } else if (live && session->target.abandoned_ns == OR_TIME_NEVER) {
        session->target.abandoned_ns = give_up_ns;
    } else if (session->phase == OR_PHASE_WAITING) {
        or_csession_wait_until(session, give_up_ns);
    }
}

void or_round_verifier_tick(or_coordinator_t *c, or_csession_t *session)
{
    int64_t now = or_clock_now(c->clock);
    if (now >= session->target.abandoned_ns) {
        or_csession_fail(
            session, OR_WIRE_FAILED,
            "the verifier was lost and did not come back: see its log, then start it again");
    } else if (now >= session->target.reopen_ns) {
        or_round_verifier_joined(c, session);
    }
}

// ---- its troubles ----

void or_round_verifier_evicted(or_csession_t *session, const or_kv_evicted_t *evicted)
{
    uint32_t held = session->target.kv_held;
    session->target.kv_held = evicted->kept_length < held ? evicted->kept_length : held;
    session->target.evictions++;
}

// It has no place for the session now: the session keeps its own here and is opened there again later.
static void on_busy(or_coordinator_t *c, or_csession_t *session, const or_error_t *error)
{
    or_at_verifier_t *target = &session->target;
    if (target->reopen_ns == OR_TIME_NEVER) { // else it says so to all that was on the way
        target->busy_ms = or_back_off_ms(target->busy_ms, error->retry_ms > 0 ? error->retry_ms
                                                                              : c->config.retry_ms);
        target->reopen_ns = or_hub_after_ms(c, target->busy_ms);
    }
}

// It has another text.
static void on_need_prefix(or_coordinator_t *c, or_csession_t *session)
{
    if (or_hub_may_replay(c, &session->target.replayed_ns)) {
        session->stats.resyncs++;
        or_round_send_text(c, session);
        if (session->phase == OR_PHASE_VERDICT) {
            or_round_send_tree(c, session);
        }
    }
}

// It forgot the session, and is to be told of it unless it just had no place for it.
static void on_unknown_session(or_coordinator_t *c, or_csession_t *session)
{
    if (session->target.reopen_ns == OR_TIME_NEVER &&
        or_hub_may_replay(c, &session->target.replayed_ns)) {
        session->stats.resyncs++;
        or_round_verifier_joined(c, session);
    }
}

// It refused something that it was sent. True: that is dealt with.
static bool on_invalid(or_coordinator_t *c, or_csession_t *session, const or_error_t *error)
{
    if (session->tree.psi_asked) { // a guess was rejected: a round without the tree would be biased
        or_csession_fail(session, OR_WIRE_FAILED, "the drafter's probabilities are refused: %s",
                         error->text);
        return true;
    }
    if (session->phase == OR_PHASE_VERDICT && session->tree.count > 0) { // do without this tree
        or_log_of(OR_LOG_WARN, or_csession_subject(session), "tree refused: %s", error->text);
        or_round_ask_plain(c, session);
        return true;
    }
    // Else it may be an echo of that tree: then the plain step has not been asked for twice yet.
    return session->target.retry_ns == c->config.retry_ms * OR_NS_PER_MS;
}

void or_round_verifier_error(or_coordinator_t *c, or_csession_t *session, const or_error_t *error)
{
    if (!or_csession_is_live(session) || c->verifier == NULL ||
        (error->round != 0 && error->round != session->round)) {
        return; // about something that is over
    }
    or_log_of(OR_LOG_DEBUG, or_csession_subject(session), "round %llu: verifier says: %s",
              (unsigned long long)session->round, error->text);
    switch (error->code) {
    case OR_WIRE_UNKNOWN_SESSION:
        on_unknown_session(c, session);
        break;
    case OR_WIRE_NEED_PREFIX:
        on_need_prefix(c, session);
        break;
    case OR_WIRE_BUSY:
        on_busy(c, session, error);
        break;
    default:
        if (error->code != OR_WIRE_INVALID || !on_invalid(c, session, error)) {
            or_csession_fail(session, error->code, "the verifier refused: %s", error->text);
        }
    }
}
