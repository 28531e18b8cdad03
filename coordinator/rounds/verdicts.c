// A round's verdict: counted, committed, and passed on.
#include "coordinator/coordinator_internal.h"

// The verdict's tokens are the text's from here on, and on their way to the disk. Verifier and drafters see them at once, the
// client when they are there.
static or_status_t commit(or_coordinator_t *c, or_csession_t *session, const or_verdict_t *verdict)
{
    uint32_t before = or_csession_written(session);
    const or_key_grant_t *grant = or_drafting_grant(c, session);
    or_counters_judged(c, session, verdict);
    or_budget_judged(c, session, verdict);
    or_status_t status = or_csession_commit(session, verdict, c->verifier->context_max);
    if (status != OR_OK) {
        return status;
    }
    if (grant != NULL) {
        or_limits_wrote(c->limits, grant, or_csession_written(session) - before,
                        or_clock_now(c->clock));
    }
    if (session->guesses != NULL) {
        or_guesses_follow(session->guesses, &session->log);
    }
    or_coordinator_journal_commit(c, session);
    or_counters_committed(c, session, verdict, before);
    or_charges_grow(c, session);
    return OR_OK;
}

static void take(or_coordinator_t *c, or_csession_t *session, const or_verdict_t *verdict)
{
    or_status_t status = or_csession_check_verdict(session, verdict, or_vocab_size(c->vocab));
    if (status == OR_OK) {
        status = commit(c, session, verdict);
    }
    if (status != OR_OK) {
        or_csession_fail(session, OR_WIRE_FAILED, "the verifier's answer cannot be used: %s",
                         or_error_text());
    }
    if (session->finish != OR_FINISH_NONE) {
        or_round_finish(c, session);
        return;
    }
    if (session->client.value == 0) { // it went while we waited for this
        or_parking_park(c, session);
        or_waiting_begin_all(c);
        return;
    }
    or_coordinator_tell_news(c, session);
    session->kv_held = session->log.length - 1; // the last token's run with the next tree
    session->round++;
    session->psi_asked = false;
    or_drafting_pass_on(c, session, verdict);
    or_round_open(c, session);
}

void or_round_on_verdict(or_coordinator_t *c, or_csession_t *session, const or_verdict_t *verdict)
{
    if (session->phase != OR_PHASE_VERDICT || verdict->round != session->round) {
        return; // a repeated verdict
    }
    session->judged = verdict;
    take(c, session, verdict);
    session->judged = NULL;
}
