#include "coordinator/rounds/rounds.h"

#include <string.h>

#include "common/base/log/log.h"
#include "common/decode/methods.h"
#include "coordinator/clients/clients.h"
#include "coordinator/drafters/drafters.h"
#include "coordinator/figures/figures.h"
#include "coordinator/hub.h"
#include "coordinator/peers/grants.h"

#define RETRY_FACTOR 2 // a verifier that does not answer is asked again after 1, 2, 4 ... retries
#define RETRY_MAX_NS (10 * OR_NS_PER_S)
#define ASIDE_NS OR_NS_PER_S // a limit that holds a text up for less lets it keep its place
#define KEEP_DONE_NS                                                                               \
    (30 * OR_NS_PER_S) // a finished session answers its client's Resume for this long

// ---- what is sent ----

void or_round_send_text(or_coordinator_t *c, const or_csession_t *session)
{
    const or_message_t message = {
        .type = OR_MSG_PREFIX,
        .session = session->id,
        .body.prefix = or_token_log_prefix(&session->log, 0, session->round),
    };
    or_peers_send(c, c->verifier->peer, &message);
}

// The terms have no drafter's key: each side gets those it needs and no other's.
void or_round_open_verifier(or_coordinator_t *c, or_csession_t *session)
{
    const or_message_t message = {.type = OR_MSG_OPEN_SESSION,
                                  .session = session->id,
                                  .body.open_session = session->terms.open};
    session->target.kv_held = 0;
    or_peers_send(c, c->verifier->peer, &message);
    or_round_send_text(c, session);
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
                            .tokens = session->tree.tokens,
                            .back = session->tree.back,
                            .count = session->tree.count},
    };
    if (session->tree.count > 0 &&
        or_accept_rule_uses_distributions(session->terms.open.accept_rule)) {
        const or_draws_t *draws = &session->tree.draws.draws;
        or_draft_tree_t *tree = &message.body.draft_tree;
        tree->dist_index = draws->dist_index;
        tree->draw_order = draws->order;
        tree->dist_index_count = tree->draw_order_count = session->tree.count;
        tree->dists = draws->dists;
        tree->dist_count = draws->dist_count;
    }
    if (session->terms.open.accept_rule == OR_ACCEPT_SLRS) {
        message.body.draft_tree.psi = session->tree.psi;
        message.body.draft_tree.psi_count = session->tree.count;
    }
    or_peers_send(c, c->verifier->peer, &message);
}

// ---- the round ----

// Distributions came with the trees: there must be room for them.
static void ask_verifier(or_coordinator_t *c, or_csession_t *session)
{
    or_charges_grow(c, session);
    if (session->finish != OR_FINISH_NONE) {
        return;
    }
    session->target.asked_ns = or_clock_now(c->clock);
    session->target.retry_ns = c->config.retry_ms * OR_NS_PER_MS;
    or_csession_enter(session, OR_PHASE_VERDICT,
                      session->target.asked_ns + session->target.retry_ns);
    if (session->tree.count == 0) {
        session->budget.source = OR_SOURCE_PLAIN;
    }
    or_round_send_tree(c, session);
}

void or_round_ask_plain(or_coordinator_t *c, or_csession_t *session)
{
    session->tree.count = 0;
    session->stats.plain_rounds += session->plain ? 0 : 1;
    ask_verifier(c, session);
}

// The trees of this round go to the verifier; if nobody sent one, the round is a plain step.
static void judge_trees(or_coordinator_t *c, or_csession_t *session)
{
    bool drafted = false;
    uint32_t draft_us = 0; // they draft side by side
    for (uint32_t i = 0; i < session->drafters.count; i++) {
        const or_seat_t *seat = &session->drafters.seats[i];
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

// The first guesses of the pool go to the verifier.
static void judge_guesses(or_coordinator_t *c, or_csession_t *session)
{
    for (uint32_t i = 0; i < session->drafters.count; i++) {
        or_seats_end_wait(c, &session->drafters.seats[i]); // if awaited still it has done its part
        session->drafters.seats[i].drafted = true;
    }
    or_trees_gather(c, session);
    ask_verifier(c, session);
}

static void judge_lookup(or_coordinator_t *c, or_csession_t *session)
{
    or_budget_look_up(c, session);
    or_trees_keep_scratch(c, session);
    session->stats.lookup_rounds++;
    ask_verifier(c, session);
}

static void judge(or_coordinator_t *c, or_csession_t *session, or_guess_source_t source)
{
    bool awaited = or_seats_are_awaited(session);
    session->budget.source = source;
    if (source == OR_SOURCE_DRAFTER && or_seats_pool(session)) {
        judge_guesses(c, session);
    } else if (source == OR_SOURCE_DRAFTER) {
        judge_trees(c, session);
    } else {
        session->stats.bridged_rounds += awaited;
        or_seats_bridge(session);
        if (source == OR_SOURCE_LOOKUP) {
            judge_lookup(c, session);
        } else {
            or_round_ask_plain(c, session);
        }
    }
}

static void judge_or_wait(or_coordinator_t *c, or_csession_t *session)
{
    if (session->queue.paced_ns != 0) {
        return;
    }
    or_policy_choice_t choice = or_budget_ask(c, session);
    if (choice.until_ns == 0) {
        judge(c, session, choice.source);
        return;
    }
    or_redraft_catch_up(c, session);
    int64_t give_up_ns = session->budget.give_up_ns;
    or_csession_wait_until(session, choice.until_ns < give_up_ns ? choice.until_ns : give_up_ns);
}

// Wait for the trees of all drafters that are not late, in a round that has just begun or that has
// lost one of them. Who joins gets a whole time-out, unless so much is over already: drafters that come
// and go must not hold a round up for ever.
static void await_trees(or_coordinator_t *c, or_csession_t *session)
{
    int64_t latest_ns = session->round_started_ns + c->config.draft_timeout_ms * OR_NS_PER_MS;
    bool joined = or_drafting_join(c, session) && or_clock_now(c->clock) < latest_ns;
    if (joined || session->budget.give_up_ns == 0) {
        session->budget.give_up_ns = or_hub_after_ms(c, c->config.draft_timeout_ms);
    }
    or_seats_await(c, session);
    judge_or_wait(c, session);
}

// Places are for texts that may be written, and all owners': one that may not be written for a while, or that has the place of
// another owner, queues again if another would begin in its place (or_queue_yield).
static bool may_yield(or_coordinator_t *c, or_csession_t *session)
{
    bool held_up = session->queue.paced_ns - or_clock_now(c->clock) > ASIDE_NS;
    bool gives_way = session->queue.gives_way;
    session->queue.gives_way = false;
    return held_up || gives_way;
}

// A round waits while its key has written as much as it may, and looks now and then who wants its place.
void or_round_stay(or_coordinator_t *c, or_csession_t *session)
{
    if (session->queue.paced_ns == 0) {
        await_trees(c, session);
        return;
    }
    int64_t again_ns = or_clock_now(c->clock) + ASIDE_NS;
    or_csession_wait_until(session,
                           session->queue.paced_ns < again_ns ? session->queue.paced_ns : again_ns);
}

static void start_round(or_coordinator_t *c, or_csession_t *session)
{
    or_grants_may_write(c, session);
    or_csession_enter(session, OR_PHASE_TREE, OR_TIME_NEVER);
    if (may_yield(c, session)) {
        or_csession_mark(session, OR_MARK_YIELD);
    } else {
        or_round_stay(c, session);
    }
}

static void open_round(or_coordinator_t *c, or_csession_t *session)
{
    session->round_started_ns = or_clock_now(c->clock);
    or_trees_clear(session);
    or_budget_begin(c, session);
    start_round(c, session);
}

void or_round_begin(or_coordinator_t *c, or_csession_t *session)
{
    session->target.begun = true;
    or_counters_begun(c, session);
    if (or_csession_written(session) == 0) { // else it has begun before
        session->started_ns = or_clock_now(c->clock);
    }
    memcpy(session->arith_id, c->verifier->arith_id, sizeof session->arith_id);
    if (session->budget.guesses != NULL) {
        or_guesses_clear(session->budget.guesses, &session->log);
    }
    or_round_open_verifier(c, session);
    or_budget_steer(c, session);
    open_round(c, session);
}

bool or_round_is_asked(const or_coordinator_t *c, const or_csession_t *session)
{
    return session->phase == OR_PHASE_VERDICT &&
           or_accept_rule_needs_trust(session->terms.open.accept_rule) &&
           (c->verifier != NULL || session->tree.psi_asked);
}

void or_round_park(or_coordinator_t *c, or_csession_t *session)
{
    const char *reason = "parked";
    or_csession_enter(session, OR_PHASE_PARKED, OR_TIME_NEVER);
    session->target.abandoned_ns = session->target.reopen_ns = OR_TIME_NEVER;
    session->queue.paced_ns = 0;
    session->target.begun = false;
    session->tree.psi_asked = false;
    session->round++; // a verdict that is on its way is about another tree than the next
    if (c->verifier != NULL) {
        or_peers_send_cancel(c, session, c->verifier->peer, reason);
    }
    or_budget_ended(c, session);
    or_drafting_leave_all(c, session, reason);
    or_csession_drop_draws(session);
    or_charges_shrink(session);
}

// ---- settling ----

// Totals of all sessions; how long one takes tells others when to come back.
static void count_end(or_coordinator_t *c, const or_csession_t *session)
{
    c->figures.resyncs += session->stats.resyncs;
    if (session->finish == OR_FINISH_STOP || session->finish == OR_FINISH_LENGTH) {
        or_queue_note_served(&c->queue, session->stats.elapsed_us);
    }
}

// The text has ended, as session->finish says: tell everybody, and keep the session a while for its client.
static void finish(or_coordinator_t *c, or_csession_t *session)
{
    session->done_ns = or_clock_now(c->clock);
    or_csession_enter(session, OR_PHASE_DONE,
                      session->client.value != 0 ? session->done_ns + KEEP_DONE_NS
                                                 : or_hub_after_ms(c, c->config.resume_ms));
    session->stats.elapsed_us = (uint64_t)(session->done_ns - session->started_ns) / 1000;
    count_end(c, session);
    or_counters_finished(c, session);
    or_budget_ended(c, session);
    or_budget_advise(session);
    const char *reason = or_finish_name(session->finish);
    if (c->verifier != NULL && session->target.begun) {
        or_peers_send_cancel(c, session, c->verifier->peer, reason);
    }
    or_drafting_leave_all(c, session, reason);
    or_log_of(session->target.begun ? OR_LOG_INFO : OR_LOG_DEBUG, or_csession_subject(session),
              "%s: %u tokens in %llu target calls, %u evictions", reason,
              or_csession_written(session), (unsigned long long)session->stats.target_calls,
              session->target.evictions);
    or_journaling_end(c, session);
    or_stream_tell_news(c, session);
    or_csession_drop_rounds(session);
    or_charges_shrink(session);
    c->queue.due = true;
}

// A verdict was committed, and the text goes on: its client and its drafters are told, and the next round begins.
static void next_round(or_coordinator_t *c, or_csession_t *session)
{
    if (session->client.value == 0) { // it went while we waited for this
        or_csession_mark(session, OR_MARK_PARK);
        return;
    }
    or_stream_tell_news(c, session);
    session->target.busy_ms = 0;
    session->target.kv_held = session->log.length - 1; // the last token's run with the next tree
    session->round++;
    session->tree.psi_asked = false;
    or_drafting_pass_on(c, session, session->stream.judged);
    open_round(c, session);
}

void or_round_settle(or_coordinator_t *c, or_csession_t *session)
{
    uint32_t marks =
        or_csession_take_marks(session, OR_MARK_JUDGED | OR_MARK_SEATS | OR_MARK_TREES);
    bool yields = (session->marks & OR_MARK_YIELD) != 0; // it waits for its trees after that
    if (marks & OR_MARK_JUDGED) {
        or_journaling_commit(c, session);
    }
    if (session->finish != OR_FINISH_NONE) {
        if (session->phase != OR_PHASE_DONE) {
            finish(c, session);
        }
    } else if (marks & OR_MARK_JUDGED) {
        next_round(c, session);
    } else if (session->phase == OR_PHASE_TREE && !yields) {
        if (marks & OR_MARK_SEATS) {
            await_trees(c, session);
        } else if (marks & OR_MARK_TREES) {
            judge_or_wait(c, session);
        }
    }
    session->stream.judged = NULL;
}

// ---- timers ----

// Its key may write again, drafters were waited for long enough, or the policy wants to be asked again.
static void time_out_tree(or_coordinator_t *c, or_csession_t *session)
{
    if (session->queue.paced_ns != 0) {
        start_round(c, session);
        return;
    }
    if (or_clock_now(c->clock) >= session->budget.give_up_ns) {
        or_drafting_give_up(c, session);
    }
    judge_or_wait(c, session);
}

// The tree may be lost, or it is on its way still: then a second one would only come behind it.
static void time_out_verdict(or_coordinator_t *c, or_csession_t *session)
{
    bool on_its_way = c->verifier != NULL && !or_peers_has_read(c->verifier);
    if (!on_its_way &&
        session->target.reopen_ns == OR_TIME_NEVER) { // else the session is not there yet
        or_round_send_tree(c, session);
    }
    session->target.retry_ns *= on_its_way ? 1 : RETRY_FACTOR;
    session->target.retry_ns =
        session->target.retry_ns < RETRY_MAX_NS ? session->target.retry_ns : RETRY_MAX_NS;
    or_csession_wait_until(session, or_clock_now(c->clock) + session->target.retry_ns);
}

void or_round_tick(or_coordinator_t *c, or_csession_t *session)
{
    if (or_clock_now(c->clock) >= session->deadline_ns) {
        if (session->phase == OR_PHASE_TREE) {
            time_out_tree(c, session);
        } else {
            time_out_verdict(c, session);
        }
    }
    if (session->finish == OR_FINISH_NONE) {
        or_redraft_nudge(c, session);
    }
}
