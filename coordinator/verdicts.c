// A round's verdict: counted, committed, and passed on.
#include "coordinator/coordinator_internal.h"

// How often guesses of each depth and rank were there to be accepted, and were. From the root along
// the accepted path.
static void count_path(or_csession_t *session, const or_verdict_t *verdict)
{
    or_generate_stats_t *stats = &session->stats;
    uint32_t at = 0;
    for (uint32_t depth = 0; depth <= verdict->accepted_count; depth++) {
        uint32_t next = depth < verdict->accepted_count ? verdict->accepted[depth] : 0;
        uint32_t children = 0;
        for (uint32_t node = 1; node <= session->tree_count; node++) {
            if (node - session->tree_back[node - 1] != at) {
                continue;
            }
            if (children < OR_STATS_LEVELS) {
                stats->rank_offered[children]++;
                stats->rank_accepted[children] += node == next;
            }
            children++;
        }
        if (depth < OR_STATS_LEVELS && children > 0) {
            stats->depth_offered[depth]++;
            stats->depth_accepted[depth] += next != 0;
        }
        at = next;
    }
}

// Statistics of a judged round. The first one contains the prefill, so the time split starts with
// the second.
static void count_round(or_coordinator_t *c, or_csession_t *session, const or_verdict_t *verdict)
{
    or_generate_stats_t *stats = &session->stats;
    int64_t now = or_clock_now(c->clock);
    stats->target_calls++;
    count_path(session, verdict);
    if (session->round > 1) {
        stats->verify_us += verdict->forward_us;
        stats->accept_us += verdict->accept_us;
        stats->round_us += (uint64_t)(now - session->round_started_ns) / 1000;
    } else {
        stats->first_token_us = (uint64_t)(now - session->started_ns) / 1000;
    }
}

// The verdict's tokens are the text's from here on, on disk before anybody sees them.
static or_status_t commit(or_coordinator_t *c, or_csession_t *session, const or_verdict_t *verdict)
{
    uint32_t before = or_csession_written(session);
    const or_key_grant_t *grant = or_drafting_grant(c, session);
    count_round(c, session, verdict);
    or_choosing_judged(c, session, verdict);
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
    return OR_OK;
}

void or_round_on_verdict(or_coordinator_t *c, or_csession_t *session, const or_verdict_t *verdict)
{
    if (session->phase != OR_PHASE_VERDICT || verdict->round != session->round) {
        return; // a repeated verdict
    }
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
    or_coordinator_tell_client(c, session);
    session->kv_held = session->log.length - 1; // the last token's run with the next tree
    session->round++;
    session->psi_asked = false;
    or_drafting_pass_on(c, session, verdict);
    or_round_open(c, session);
}
