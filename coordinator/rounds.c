// The life of a round: who is asked, how long we wait, what is repeated.
#include <string.h>

#include "common/base/log.h"
#include "common/decode/methods.h"
#include "coordinator/coordinator_internal.h"

#define RETRY_FACTOR 2 // a verifier that does not answer is asked again after 1, 2, 4 ... retries
#define RETRY_MAX_NS (10 * OR_NS_PER_S)
#define REPLAYS_A_RETRY 4
#define KEEP_DONE_NS                                                                               \
    (30 * OR_NS_PER_S) // a finished session answers its client's Resume for this long

// ---- what is sent ----

// The terms have no drafter's key: each side gets those it needs and no other's.
void or_round_open_verifier(or_coordinator_t *c, const or_csession_t *session)
{
    const or_message_t message = {.type = OR_MSG_OPEN_SESSION,
                                  .session = session->id,
                                  .body.open_session = session->terms.open};
    or_coordinator_send(c, c->verifier->peer, &message);
}

void or_round_send_tree(or_coordinator_t *c, const or_csession_t *session)
{
    if (c->verifier == NULL) {
        return;
    }
    or_message_t message = {
        .type = OR_MSG_DRAFT_TREE,
        .session = session->id,
        .body.draft_tree = {.round = session->round,
                            .base_length = session->log.length,
                            .base_hash = session->log.hash,
                            .tokens = session->tree_tokens,
                            .back = session->tree_back,
                            .count = session->tree_count},
    };
    if (session->tree_count > 0 && or_accept_rule_uses_laws(session->terms.open.accept_rule)) {
        const or_draws_t *draws = &session->tree_draws.draws;
        or_draft_tree_t *tree = &message.body.draft_tree;
        tree->law_index = draws->law_index;
        tree->draw_order = draws->order;
        tree->law_index_count = tree->draw_order_count = session->tree_count;
        tree->laws = draws->laws;
        tree->law_count = draws->law_count;
    }
    if (session->terms.open.accept_rule == OR_ACCEPT_SLRS) {
        message.body.draft_tree.psi = session->tree_psi;
        message.body.draft_tree.psi_count = session->tree_count;
    }
    or_coordinator_send(c, c->verifier->peer, &message);
}

void or_round_send_cancel(or_coordinator_t *c, const or_csession_t *session, or_peer_t to,
                          const char *reason)
{
    const or_message_t message = {
        .type = OR_MSG_CANCEL, .session = session->id, .body.cancel = {.reason = reason}};
    or_coordinator_send(c, to, &message);
}

bool or_round_may_replay(const or_coordinator_t *c, int64_t *last_ns)
{
    int64_t now = or_clock_now(c->clock);
    if (now - *last_ns < c->config.retry_ms * OR_NS_PER_MS / REPLAYS_A_RETRY) {
        return false;
    }
    *last_ns = now;
    return true;
}

// ---- the round ----

static void ask_verifier(or_coordinator_t *c, or_csession_t *session)
{
    session->phase = OR_PHASE_VERDICT;
    session->asked_ns = or_clock_now(c->clock);
    session->retry_ns = c->config.retry_ms * OR_NS_PER_MS;
    session->deadline_ns = or_clock_now(c->clock) + session->retry_ns;
    or_round_send_tree(c, session);
}

void or_round_ask_plain(or_coordinator_t *c, or_csession_t *session)
{
    session->tree_count = 0;
    session->stats.plain_rounds += session->plain ? 0 : 1;
    ask_verifier(c, session);
}

// What the drafters sent goes to the verifier; if nobody sent anything, the round is a plain step.
static void judge(or_coordinator_t *c, or_csession_t *session)
{
    bool drafted = false;
    uint32_t draft_us = 0; // they draft side by side
    for (uint32_t i = 0; i < session->seat_count; i++) {
        const or_seat_t *seat = &session->seats[i];
        if (seat->drafted) {
            drafted = true;
            draft_us = seat->draft_us > draft_us ? seat->draft_us : draft_us;
        }
    }
    if (!drafted) {
        or_round_ask_plain(c, session);
        return;
    }
    or_trees_gather(c, session);
    session->stats.drafted += session->tree_count;
    session->stats.draft_us += session->round > 1 ? draft_us : 0;
    ask_verifier(c, session);
}

static void judge_if_complete(or_coordinator_t *c, or_csession_t *session)
{
    if (!or_drafting_is_awaited(session)) {
        judge(c, session);
    }
}

// Wait for the trees of all drafters that are not late, in a round that has just begun or that has
// lost one of them. Who joins gets a whole time-out, unless so much is over already: drafters that come
// and go must not hold a round up for ever.
static void await_trees(or_coordinator_t *c, or_csession_t *session)
{
    int64_t latest_ns = session->round_started_ns + c->config.draft_timeout_ms * OR_NS_PER_MS;
    bool joined = or_drafting_join(c, session) && or_clock_now(c->clock) < latest_ns;
    if (joined || session->phase != OR_PHASE_TREE) {
        session->phase = OR_PHASE_TREE;
        session->deadline_ns = or_coordinator_after_ms(c, c->config.draft_timeout_ms);
    }
    or_drafting_await(c, session);
    judge_if_complete(c, session);
}

static void open_round(or_coordinator_t *c, or_csession_t *session)
{
    session->round_started_ns = or_clock_now(c->clock);
    or_trees_clear(session);
    await_trees(c, session);
}

void or_round_first(or_coordinator_t *c, or_csession_t *session)
{
    session->begun = true;
    session->started_ns = or_clock_now(c->clock);
    memcpy(session->arith_id, c->verifier->arith_id, sizeof session->arith_id);
    or_round_open_verifier(c, session);
    or_coordinator_send_prefix(c, session, c->verifier->peer, 0);
    open_round(c, session);
}

void or_round_go_on(or_coordinator_t *c, or_csession_t *session)
{
    if (session->phase == OR_PHASE_TREE) {
        await_trees(c, session);
    }
}

// A drafter spoke. If it was given up on, it gets the state of things and is waited for again from
// the next round.
static void heard_drafter(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat,
                          uint64_t round)
{
    if (seat->late && round < session->round) {
        or_drafting_send_prefix(c, session, seat, true);
    }
    seat->late = false;
}

// A tree that is not for now. Who missed something repeats its tree, or is late with it; other guesses
// for a round, or guesses for rounds to come, are nothing that a bad network brings about.
static void on_untimely_tree(or_coordinator_t *c, const or_csession_t *session,
                             const or_seat_t *seat, const or_draft_tree_t *tree)
{
    bool second = tree->round == session->round && seat->drafted &&
                  or_trees_digest(tree) != seat->tree_digest;
    if (second || tree->round > session->round) {
        or_coordinator_offend(c, seat->peer, OR_OFFENCE_TWO_TREES);
    }
}

void or_round_on_tree(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat,
                      const or_draft_tree_t *tree)
{
    heard_drafter(c, session, seat, tree->round);
    if (session->phase != OR_PHASE_TREE || tree->round != session->round || c->verifier == NULL ||
        seat->drafted) {
        on_untimely_tree(c, session, seat, tree);
        return;
    }
    const or_token_log_t *held = or_drafting_log(session, seat);
    if (held->length == 0 || tree->base_length != held->length || tree->base_hash != held->hash) {
        or_round_on_misfit(c, session, seat);
        return;
    }
    or_status_t status = or_trees_take(c, session, seat, tree);
    if (status != OR_OK) {
        or_link_send_error(c->link, seat->peer, session->id, OR_WIRE_INVALID, "%s",
                           or_error_text());
        if (status == OR_ERR_INVALID) {
            or_coordinator_offend(c, seat->peer, OR_OFFENCE_BAD_TREE);
        }
        or_drafting_dismiss(c, session, seat, or_error_text());
        await_trees(c, session);
        return;
    }
    session->stats.draft_passes += tree->passes;
    seat->misfits = 0;
    or_drafting_end_wait(c, seat);
    seat->nudge_ns = OR_TIME_NEVER;
    judge_if_complete(c, session);
}

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

void or_round_on_verdict(or_coordinator_t *c, or_csession_t *session, const or_verdict_t *verdict)
{
    if (session->phase != OR_PHASE_VERDICT || verdict->round != session->round) {
        return; // a repeated verdict
    }
    or_status_t status = or_csession_check_verdict(session, verdict, or_vocab_size(c->vocab));
    if (status == OR_OK) {
        count_round(c, session, verdict);
        status = or_csession_commit(session, verdict, c->verifier->context_max);
    }
    if (status != OR_OK) {
        or_csession_fail(session, OR_WIRE_FAILED, "the verifier's answer cannot be used: %s",
                         or_error_text());
    }
    if (session->finish != OR_FINISH_NONE) {
        or_round_finish(c, session);
        return;
    }
    or_coordinator_tell_client(c, session);
    session->kv_held = session->log.length - 1; // the last token's run with the next tree
    session->round++;
    session->psi_asked = false;
    or_drafting_pass_on(c, session, verdict);
    open_round(c, session);
}

// Totals of all sessions; how long one takes tells others when to come back.
static void count_end(or_coordinator_t *c, const or_csession_t *session)
{
    c->figures.resyncs += session->stats.resyncs;
    if (session->finish == OR_FINISH_STOP || session->finish == OR_FINISH_LENGTH) {
        or_admission_served(&c->admission, session->stats.elapsed_us);
    }
}

void or_round_finish(or_coordinator_t *c, or_csession_t *session)
{
    session->phase = OR_PHASE_DONE;
    session->done_ns = or_clock_now(c->clock);
    session->deadline_ns = session->done_ns + KEEP_DONE_NS;
    session->stats.elapsed_us = (uint64_t)(or_clock_now(c->clock) - session->started_ns) / 1000;
    count_end(c, session);
    const char *reason = or_finish_name(session->finish);
    if (c->verifier != NULL && session->begun) {
        or_round_send_cancel(c, session, c->verifier->peer, reason);
    }
    for (uint32_t i = 0; i < session->seat_count; i++) {
        or_peer_t drafter = session->seats[i].peer;
        if (drafter.value != 0) { // leave first, so that only what served this text is counted
            or_drafting_leave(c, session, &session->seats[i]);
            or_round_send_cancel(c, session, drafter, reason);
        }
    }
    or_log(OR_LOG_INFO, "session %llx %s: %u tokens in %llu target calls, %u evictions",
           (unsigned long long)session->id.value, reason, or_csession_written(session),
           (unsigned long long)session->stats.target_calls, session->evictions);
    or_coordinator_tell_client(c, session);
    or_waiting_begin_all(c);
}

// ---- timers ----

static void time_out(or_coordinator_t *c, or_csession_t *session)
{
    switch (session->phase) {
    case OR_PHASE_WAITING:
        if (or_waiting_all_there(c, session) || (c->verifier != NULL && or_meeting_goes_on(c))) {
            // Only a place is missing, or a vocabulary that is on its way: wait on.
            session->deadline_ns = or_coordinator_after_ms(c, c->config.verifier_timeout_ms);
            or_waiting_begin_all(c);
            break;
        }
        or_csession_fail(session, OR_WIRE_BUSY, "%s",
                         c->verifier == NULL
                             ? "no verifier is connected: start outrider-verifier with --connect "
                               "and this coordinator's endpoint"
                             : "the drafter did not come: see its log, or ask for --plain");
        or_round_finish(c, session);
        break;
    case OR_PHASE_TREE:
        or_drafting_give_up(c, session);
        judge(c, session);
        break;
    case OR_PHASE_VERDICT:
        if (session->reopen_ns == OR_TIME_NEVER) { // else the session is not there yet
            or_round_send_tree(c, session);
        }
        session->retry_ns *= RETRY_FACTOR;
        session->retry_ns = session->retry_ns < RETRY_MAX_NS ? session->retry_ns : RETRY_MAX_NS;
        session->deadline_ns = or_clock_now(c->clock) + session->retry_ns;
        break;
    case OR_PHASE_DONE:
        break; // coordinator.c frees it
    }
}

int64_t or_round_tick(or_coordinator_t *c, or_csession_t *session)
{
    int64_t now = or_clock_now(c->clock);
    if (session->phase != OR_PHASE_DONE && now >= session->abandoned_ns) {
        or_csession_fail(
            session, OR_WIRE_FAILED,
            "the verifier was lost and did not come back: see its log, then start it again");
        or_round_finish(c, session);
    }
    if (session->phase != OR_PHASE_DONE && now >= session->reopen_ns) {
        or_round_on_verifier(c, session);
    }
    if (now >= session->deadline_ns) {
        time_out(c, session);
    }
    int64_t due = session->deadline_ns;
    if (session->phase != OR_PHASE_DONE) {
        int64_t nudge_due = or_drafting_nudge(c, session);
        due = session->abandoned_ns < due ? session->abandoned_ns : due;
        due = session->reopen_ns < due ? session->reopen_ns : due;
        due = nudge_due < due ? nudge_due : due;
    }
    return due;
}
