// The life of a round: who is asked, how long we wait, what is repeated.
#include <string.h>

#include "common/base/log/log.h"
#include "common/decode/methods.h"
#include "coordinator/coordinator_internal.h"

#define RETRY_FACTOR 2 // a verifier that does not answer is asked again after 1, 2, 4 ... retries
#define RETRY_MAX_NS (10 * OR_NS_PER_S)
#define REPLAYS_A_RETRY 4
#define ASIDE_NS OR_NS_PER_S // a limit that holds a text up for less lets it keep its place
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
    if (session->tree_count > 0 &&
        or_accept_rule_uses_distributions(session->terms.open.accept_rule)) {
        const or_draws_t *draws = &session->tree_draws.draws;
        or_draft_tree_t *tree = &message.body.draft_tree;
        tree->dist_index = draws->dist_index;
        tree->draw_order = draws->order;
        tree->dist_index_count = tree->draw_order_count = session->tree_count;
        tree->dists = draws->dists;
        tree->dist_count = draws->dist_count;
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

static void leave_drafters(or_coordinator_t *c, or_csession_t *session, const char *reason)
{
    for (uint32_t i = 0; i < session->seat_count; i++) {
        or_peer_t drafter = session->seats[i].peer;
        if (drafter.value != 0) { // leave first, so that only what served this text is counted
            or_drafting_leave(c, session, &session->seats[i]);
            or_round_send_cancel(c, session, drafter, reason);
        }
    }
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

// Distributions came with the trees: there must be room for them.
static void ask_verifier(or_coordinator_t *c, or_csession_t *session)
{
    or_charges_grow(c, session);
    if (session->finish != OR_FINISH_NONE) {
        or_round_finish(c, session);
        return;
    }
    session->phase = OR_PHASE_VERDICT;
    session->asked_ns = or_clock_now(c->clock);
    session->retry_ns = c->config.retry_ms * OR_NS_PER_MS;
    session->deadline_ns = or_clock_now(c->clock) + session->retry_ns;
    if (session->tree_count == 0) {
        session->source = OR_SOURCE_PLAIN;
    }
    or_round_send_tree(c, session);
}

void or_round_ask_plain(or_coordinator_t *c, or_csession_t *session)
{
    session->tree_count = 0;
    session->stats.plain_rounds += session->plain ? 0 : 1;
    ask_verifier(c, session);
}

// What the drafters sent for this round goes to the verifier; if nobody sent anything, the round is a plain
// step.
static void judge_trees(or_coordinator_t *c, or_csession_t *session)
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
    session->stats.draft_us += session->round > 1 ? draft_us : 0;
    ask_verifier(c, session);
}

// What the pool has.
static void judge_guesses(or_coordinator_t *c, or_csession_t *session)
{
    for (uint32_t i = 0; i < session->seat_count;
         i++) { // one that is still awaited has done its part
        or_drafting_end_wait(c, &session->seats[i]);
        session->seats[i].drafted = true;
    }
    or_ahead_gather(c, session);
    ask_verifier(c, session);
}

static void judge_lookup(or_coordinator_t *c, or_csession_t *session)
{
    or_budget_look_up(c, session);
    or_trees_keep(c, session, c->scratch, NULL);
    session->stats.lookup_rounds++;
    ask_verifier(c, session);
}

static void judge(or_coordinator_t *c, or_csession_t *session, or_guess_source_t source)
{
    bool awaited = or_drafting_is_awaited(session);
    session->source = source;
    if (source == OR_SOURCE_DRAFTER && or_ahead_pools(session)) {
        judge_guesses(c, session);
    } else if (source == OR_SOURCE_DRAFTER) {
        judge_trees(c, session);
    } else {
        session->stats.bridged_rounds += awaited;
        or_drafting_bridge(session);
        if (source == OR_SOURCE_LOOKUP) {
            judge_lookup(c, session);
        } else {
            or_round_ask_plain(c, session);
        }
    }
}

static void judge_or_wait(or_coordinator_t *c, or_csession_t *session)
{
    if (session->paced_ns != 0) {
        return;
    }
    or_policy_choice_t choice = or_budget_ask(c, session);
    if (choice.until_ns == 0) {
        judge(c, session, choice.source);
        return;
    }
    or_drafting_catch_up(c, session);
    session->deadline_ns =
        choice.until_ns < session->give_up_ns ? choice.until_ns : session->give_up_ns;
}

// Wait for the trees of all drafters that are not late, in a round that has just begun or that has
// lost one of them. Who joins gets a whole time-out, unless so much is over already: drafters that come
// and go must not hold a round up for ever.
static void await_trees(or_coordinator_t *c, or_csession_t *session)
{
    int64_t latest_ns = session->round_started_ns + c->config.draft_timeout_ms * OR_NS_PER_MS;
    bool joined = or_drafting_join(c, session) && or_clock_now(c->clock) < latest_ns;
    if (joined || session->give_up_ns == 0) {
        session->give_up_ns = or_coordinator_after_ms(c, c->config.draft_timeout_ms);
    }
    or_drafting_await(c, session);
    judge_or_wait(c, session);
}

// Places are for texts that may be written, and all owners': one that may not be written, or that has the place of another
// owner, queues again, if another would begin in its place.
static bool is_to_step_aside(or_coordinator_t *c, or_csession_t *session)
{
    bool held_up = session->paced_ns - or_clock_now(c->clock) > ASIDE_NS;
    if (!held_up && !session->gives_way) {
        return false;
    }
    session->gives_way = false;
    return or_waiting_has_other(c, session);
}

static void step_aside(or_coordinator_t *c, or_csession_t *session)
{
    int64_t until_ns = session->paced_ns;
    or_round_park(c, session);
    session->phase = OR_PHASE_WAITING;
    session->paced_ns = until_ns;
    session->deadline_ns = or_coordinator_after_ms(c, c->config.verifier_timeout_ms);
    or_waiting_begin_all(c);
}

// A round waits while its key has written as much as it may, and looks now and then who wants its place.
static void start_round(or_coordinator_t *c, or_csession_t *session)
{
    session->phase = OR_PHASE_TREE;
    bool may_write = or_grants_may_write(c, session);
    if (is_to_step_aside(c, session)) {
        step_aside(c, session);
    } else if (may_write) {
        await_trees(c, session);
    } else {
        int64_t again_ns = or_clock_now(c->clock) + ASIDE_NS;
        session->deadline_ns = session->paced_ns < again_ns ? session->paced_ns : again_ns;
    }
}

void or_round_open(or_coordinator_t *c, or_csession_t *session)
{
    session->round_started_ns = or_clock_now(c->clock);
    or_trees_clear(session);
    or_budget_begin(c, session);
    start_round(c, session);
}

void or_round_first(or_coordinator_t *c, or_csession_t *session)
{
    session->begun = true;
    or_counters_begun(c, session);
    if (or_csession_written(session) == 0) { // else it has begun before
        session->started_ns = or_clock_now(c->clock);
    }
    memcpy(session->arith_id, c->verifier->arith_id, sizeof session->arith_id);
    session->kv_held = 0;
    if (session->guesses != NULL) {
        or_guesses_clear(session->guesses, &session->log);
    }
    or_round_open_verifier(c, session);
    or_coordinator_send_prefix(c, session, c->verifier->peer, 0);
    or_round_open(c, session);
}

bool or_round_is_asked(const or_coordinator_t *c, const or_csession_t *session)
{
    return session->phase == OR_PHASE_VERDICT &&
           or_accept_rule_needs_trust(session->terms.open.accept_rule) &&
           (c->verifier != NULL || session->psi_asked);
}

void or_round_park(or_coordinator_t *c, or_csession_t *session)
{
    const char *reason = "parked";
    session->phase = OR_PHASE_PARKED;
    session->deadline_ns = session->abandoned_ns = session->reopen_ns = OR_TIME_NEVER;
    session->paced_ns = 0;
    session->begun = false;
    session->psi_asked = false;
    session->round++; // a verdict that is on its way is about another tree than the next
    if (c->verifier != NULL) {
        or_round_send_cancel(c, session, c->verifier->peer, reason);
    }
    leave_drafters(c, session, reason);
    for (uint32_t i = 0; i < session->seat_count; i++) { // who comes then takes over from nobody
        session->seats[i].before = (or_peer_t){0};
    }
    or_csession_drop_draws(session);
    or_charges_shrink(session);
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
        if (or_ahead_pools(
                session)) { // where any of its trees is welcome, it is as far as it was told
            or_drafting_send_tail(c, session, seat);
        } else {
            or_drafting_send_prefix(c, session, seat, true);
        }
    }
    seat->late = false;
    seat->unanswered_ns = 0;
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

// It cannot be judged: that costs its sender the session.
static void on_bad_tree(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat,
                        or_status_t status)
{
    or_link_send_error(c->link, seat->peer, session->id, OR_WIRE_INVALID, "%s", or_error_text());
    if (status == OR_ERR_INVALID) {
        or_coordinator_offend(c, seat->peer, OR_OFFENCE_BAD_TREE);
    }
    or_drafting_dismiss(c, session, seat, or_error_text());
    or_round_go_on(c, session);
}

// Guesses are good whenever they come, for this round or a later one.
static void on_guesses(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat,
                       const or_draft_tree_t *tree)
{
    or_status_t status = or_ahead_take(c, session, seat, tree);
    if (status != OR_OK) {
        on_bad_tree(c, session, seat, status);
    } else if (session->phase == OR_PHASE_TREE && c->verifier != NULL) {
        judge_or_wait(c, session);
    }
}

void or_round_on_tree(or_coordinator_t *c, or_csession_t *session, or_seat_t *seat,
                      const or_draft_tree_t *tree)
{
    heard_drafter(c, session, seat, tree->round);
    or_budget_heard(c, session, tree);
    if (or_ahead_pools(session)) {
        on_guesses(c, session, seat, tree);
        return;
    }
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
        on_bad_tree(c, session, seat, status);
        return;
    }
    session->stats.draft_passes += tree->passes;
    seat->misfits = 0;
    or_drafting_end_wait(c, seat);
    seat->nudge_ns = OR_TIME_NEVER;
    judge_or_wait(c, session);
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
    session->deadline_ns = session->client.value != 0
                               ? session->done_ns + KEEP_DONE_NS
                               : or_coordinator_after_ms(c, c->config.resume_ms);
    session->stats.elapsed_us = (uint64_t)(or_clock_now(c->clock) - session->started_ns) / 1000;
    count_end(c, session);
    or_counters_finished(c, session);
    or_advice_at_end(session);
    const char *reason = or_finish_name(session->finish);
    if (c->verifier != NULL && session->begun) {
        or_round_send_cancel(c, session, c->verifier->peer, reason);
    }
    leave_drafters(c, session, reason);
    or_log_of(session->begun ? OR_LOG_INFO : OR_LOG_DEBUG, or_csession_subject(session),
              "%s: %u tokens in %llu target calls, %u evictions", reason,
              or_csession_written(session), (unsigned long long)session->stats.target_calls,
              session->evictions);
    or_coordinator_journal_end(c, session);
    or_coordinator_tell_news(c, session);
    or_csession_drop_rounds(session);
    or_charges_shrink(session);
    or_waiting_begin_all(c);
}

// ---- timers ----

// Its key may write again, drafters were waited for long enough, or the policy wants to be asked again.
static void time_out_tree(or_coordinator_t *c, or_csession_t *session)
{
    if (session->paced_ns != 0) {
        start_round(c, session);
        return;
    }
    if (or_clock_now(c->clock) >= session->give_up_ns) {
        or_drafting_give_up(c, session);
    }
    judge_or_wait(c, session);
}

// The tree may be lost, or it is on its way still: then a second one would only come behind it.
static void time_out_verdict(or_coordinator_t *c, or_csession_t *session)
{
    bool on_its_way = c->verifier != NULL && !or_charges_has_read(c->verifier);
    if (!on_its_way && session->reopen_ns == OR_TIME_NEVER) { // else the session is not there yet
        or_round_send_tree(c, session);
    }
    session->retry_ns *= on_its_way ? 1 : RETRY_FACTOR;
    session->retry_ns = session->retry_ns < RETRY_MAX_NS ? session->retry_ns : RETRY_MAX_NS;
    session->deadline_ns = or_clock_now(c->clock) + session->retry_ns;
}

static void time_out(or_coordinator_t *c, or_csession_t *session)
{
    switch (session->phase) {
    case OR_PHASE_WAITING:
        if (or_waiting_all_there(c, session) ||
            (c->verifier != NULL && or_vocab_match_goes_on(c))) {
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
        time_out_tree(c, session);
        break;
    case OR_PHASE_VERDICT:
        time_out_verdict(c, session);
        break;
    case OR_PHASE_PARKED: // parking.c ends it
    case OR_PHASE_DONE:   // coordinator.c frees it
        break;
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
    if (session->phase == OR_PHASE_WAITING && session->paced_ns != 0 && now >= session->paced_ns) {
        or_waiting_begin_all(c);
    }
    if (now >= session->deadline_ns) {
        time_out(c, session);
    }
    int64_t due = or_csession_due(session);
    if (session->phase != OR_PHASE_DONE) {
        int64_t nudge_due = or_drafting_nudge(c, session);
        due = session->abandoned_ns < due ? session->abandoned_ns : due;
        due = session->reopen_ns < due ? session->reopen_ns : due;
        due = nudge_due < due ? nudge_due : due;
    }
    return due;
}
