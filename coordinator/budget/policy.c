#include "coordinator/budget/policy.h"

#include <math.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/inline.h"
#include "coordinator/budget/policy_model.h"

// These are believed before anything was measured: a drafter worth its time.
#define PRIOR_GAIN 1.0
#define PRIOR_LOOKUP_GAIN 0.3
#define PRIOR_RIGHT 0.6

#define SLACK_SHARE 0.25 // an answer may be later than expected by this part of the wait
#define SLACK_NS (OR_NS_PER_MS / 10) // and by this
#define PATIENCE_NS (10 * OR_NS_PER_MS)
#define ROUNDS_A_CHANGE 8u // between changes of a budget
#define EARLY_ROUNDS 16u
#define ROUNDS_A_CHANGE_EARLY 3u
#define FIRST_NODES 4u    // of all texts together
#define BETTER 1.05       // another number of guesses is taken where it promises so much more
#define PAYS 1.03         // drafting is begun again,
#define PAYS_NOT 1.005    // and given up
#define OFF_ROUNDS_MIN 8u // not before so many rounds said so
#define KEPT_ROUNDS 32u   // over which a promise is compared with what came
#define KEPT_STEP 0.25
#define KEPT_MIN 0.5
#define KEPT_MAX 1.25
#define TRY_NS (1.5 * (double)OR_NS_PER_S)
#define PLAIN_AFTER_ROUNDS 2u
#define TRY_ROUNDS 1u         // whose tree is waited for
#define TRY_COST_SHARE 60.0   // a try may cost one part in so many of the time until the next
#define INHERITED_ROUNDS 4u   // an earlier text counts like so many rounds,
#define INHERITED_GUESSES 16u // and its guesses like those of so many
#define FORGOTTEN 0.125       // of what is known of lookups: the next text may repeat itself more

void or_policy_init(or_policy_t *policy, const or_policy_terms_of_session_t *session)
{
    *policy = (or_policy_t){.session = *session, .budget = session->most, .batch = 1};
    policy->way = OR_WAY_AHEAD;
    policy->most_ahead = session->most.ahead;
    policy->kept = 1;
    policy->mean.gain = PRIOR_GAIN;
    policy->mean.lookup_gain = PRIOR_LOOKUP_GAIN;
    policy->mean.first_right = PRIOR_RIGHT;
    policy->recent.gain = policy->mean.gain;
    policy->recent.first_right = policy->mean.first_right;
}

void or_policy_inherit(or_policy_t *policy, const or_policy_t *earlier)
{
    policy->mean = earlier->mean;
    policy->mean.lookup_gain += FORGOTTEN * (PRIOR_LOOKUP_GAIN - policy->mean.lookup_gain);
    policy->recent.gain = policy->mean.gain;
    policy->recent.first_right = policy->mean.first_right;
    policy->plain_times = earlier->plain_times;
    policy->tree_times = earlier->tree_times;
    memcpy(policy->size_times, earlier->size_times, sizeof policy->size_times);
    policy->count.drafter = or_min_u32(earlier->count.drafter, INHERITED_GUESSES);
    policy->count.lookup = or_min_u32(earlier->count.lookup, INHERITED_GUESSES);
    policy->count.trips = or_min_u32(earlier->count.trips, INHERITED_ROUNDS);
    policy->count.slow = or_min_u32(earlier->count.slow, INHERITED_ROUNDS);
    policy->count.hits = or_min_u32(earlier->count.hits, INHERITED_ROUNDS);
    policy->count.times = or_min_u32(earlier->count.times, INHERITED_ROUNDS);
    policy->plain_times.count = or_min_u32(policy->plain_times.count, INHERITED_ROUNDS);
    policy->tree_times.count = or_min_u32(policy->tree_times.count, INHERITED_ROUNDS);
    for (uint32_t i = 0; i < OR_POLICY_SIZES; i++) {
        uint32_t *count = &policy->size_times[i].count;
        *count = or_min_u32(*count, INHERITED_ROUNDS);
    }
    policy->plain_tried_ns = earlier->plain_tried_ns;
    policy->batch = earlier->batch;
    policy->guesses = earlier->guesses;
}

void or_policy_learn_plain(or_policy_t *policy, const or_policy_t *plain)
{
    policy->plain_times = plain->plain_times;
    policy->mean.plain_ns = plain->mean.plain_ns;
    policy->plain_tried_ns = plain->plain_tried_ns;
    policy->rounds += plain->rounds;
}

// ---- the budget ----

// Is everything known that a comparison needs?
static bool is_measured(const or_policy_t *policy)
{
    return policy->count.trips > 0 && policy->count.times > 0 && policy->count.drafter > 0;
}

// The number of guesses, of 1, 2, 4 ... and the most, that promises the most.
static uint32_t best_nodes(const or_policy_t *policy, double *rate)
{
    uint32_t most = or_policy_most_nodes(policy);
    uint32_t best = 0;
    *rate = 0;
    for (uint32_t nodes = 1; nodes <= most;
         nodes = nodes < most && 2 * nodes > most ? most : 2 * nodes) {
        double one = or_policy_draft_rate(policy, nodes);
        if (one > *rate) {
            *rate = one;
            best = nodes;
        }
    }
    return best;
}

// Levels that paths of such trees reach now and then, and rounds that cover the way to the drafter and back.
static or_budget_t budget_of(const or_policy_t *policy, uint32_t nodes)
{
    const or_budget_t *most = &policy->session.most;
    double levels = ceil(fmax(2 + 2 * log2(1.0 + nodes), 2 * or_policy_tokens(policy, nodes)));
    double rounds =
        1 + ceil(or_policy_answer_ns(policy, nodes) / or_policy_round_ns(policy, nodes));
    return (or_budget_t){.nodes = nodes,
                         .depth = levels < most->depth ? (uint32_t)levels : most->depth,
                         .ahead = rounds < most->ahead ? (uint32_t)rounds : most->ahead};
}

// A text's share of the guesses that all begin with.
static uint32_t first_nodes(const or_policy_t *policy)
{
    return (uint32_t)fmax(fmax(FIRST_NODES, policy->guesses) / fmax(policy->texts, 1), 1);
}

// On the target's CPUs every guess takes its time: few come first, and more once that is seen to pay. While no round with
// guesses was timed they seem to be free, as after a first one that has read the prompt too.
static or_budget_t first_budget(const or_policy_t *policy)
{
    double rate;
    or_budget_t budget = policy->session.most;
    uint32_t nodes = first_nodes(policy);
    if (is_measured(policy) && policy->tree_times.count > 0) {
        uint32_t best = best_nodes(policy, &rate);
        return budget_of(policy, policy->texts > 1 ? or_min_u32(best, nodes) : best);
    }
    budget.nodes = or_min_u32(budget.nodes, nodes);
    return budget;
}

static void change_budget(or_policy_t *policy, or_budget_t budget)
{
    if (memcmp(&budget, &policy->budget, sizeof budget) != 0) {
        policy->budget = budget;
        policy->changed = policy->rounds;
    }
}

// Note what drafting lost since it was tried, against plain rounds: the dearer, the later it is tried again.
static void end_try(or_policy_t *policy, int64_t now_ns)
{
    double plain_ns = (policy->tokens - policy->try_tokens) * or_policy_round_ns(policy, 0);
    policy->try_cost_ns = fmax((double)(now_ns - policy->tried_ns) - plain_ns, 0);
}

static void switch_off(or_policy_t *policy, int64_t now_ns)
{
    if (policy->tried_ns > 0) {
        end_try(policy, now_ns);
    }
    policy->off = true;
    policy->try_until = 0;
    policy->tried_ns = now_ns;
    change_budget(policy, (or_budget_t){0});
}

void or_policy_limit(or_policy_t *policy, or_way_t way, uint32_t texts, bool decided)
{
    or_way_t before = policy->off && decided ? OR_WAY_PLAIN : policy->way;
    bool begins = policy->budget.nodes > 0 && !policy->told;
    policy->texts = texts;
    policy->decided = decided;
    policy->told = true;
    policy->way = way;
    policy->session.most.ahead = way == OR_WAY_AHEAD ? policy->most_ahead : 0;
    if (begins && decided && way != OR_WAY_PLAIN) {
        policy->budget = first_budget(policy);
    }
    if (way == before) {
        return;
    }
    policy->ask_count = 0;
    if (way == OR_WAY_PLAIN) {
        change_budget(policy, (or_budget_t){0});
    } else if (before == OR_WAY_PLAIN) {
        policy->off = false;
        change_budget(policy, decided ? first_budget(policy) : policy->session.most);
    } else {
        or_budget_t budget = policy->budget;
        budget.ahead = budget.nodes > 0 ? policy->session.most.ahead : 0;
        change_budget(policy, budget);
    }
}

// Off: a try begins, goes on, or has ended without success. What it shows counts at once.
static void go_on_trying(or_policy_t *policy, or_budget_t best, int64_t now_ns)
{
    if (policy->budget.nodes > 0) {
        if (policy->rounds >= policy->try_until) {
            switch_off(policy, now_ns);
        }
        return;
    }
    double plain_ns = or_policy_tokens(policy, best.nodes) * or_policy_round_ns(policy, 0);
    double wait_ns =
        or_policy_answer_ns(policy, best.nodes) + or_policy_round_ns(policy, best.nodes);
    double cost_ns = fmax(wait_ns - plain_ns, policy->try_cost_ns);
    double pause_ns = fmax(TRY_NS, TRY_COST_SHARE * cost_ns);
    if ((double)(now_ns - policy->tried_ns) >= pause_ns) {
        policy->tried_ns = now_ns;
        policy->try_tokens = policy->tokens;
        policy->kept += KEPT_STEP * (1 - policy->kept);
        policy->try_until = policy->rounds + TRY_ROUNDS;
        policy->count.drafter = policy->count.drafter < 2 ? policy->count.drafter : 2;
        policy->count.trips = policy->count.trips < 2 ? policy->count.trips : 2;
        change_budget(policy, best);
    }
}

// The model leaves out much: whether the guesses of the last rounds are like those of the next, how a drafter
// shares its time. So its promises are weighed by how earlier ones were kept.
static void count_kept(or_policy_t *policy, int64_t now_ns)
{
    bool counts = policy->budget.nodes > 0 && !policy->off && policy->batch < 2;
    uint64_t rounds = policy->rounds - policy->count_from.rounds;
    if (counts && policy->count_from.at_ns > 0 && rounds < KEPT_ROUNDS) {
        return;
    }
    double time_ns = (double)(now_ns - policy->count_from.at_ns);
    if (counts && policy->count_from.at_ns > 0 && time_ns > 0) {
        double came = (policy->tokens - policy->count_from.tokens) / time_ns;
        double kept = came / or_policy_draft_rate(policy, policy->budget.nodes);
        policy->kept += KEPT_STEP * (fmin(fmax(kept, KEPT_MIN), KEPT_MAX) - policy->kept);
    }
    policy->count_from.at_ns = counts ? now_ns : 0;
    policy->count_from.rounds = policy->rounds;
    policy->count_from.tokens = policy->tokens;
}

// A text begins with little knowledge and is soon over.
static uint32_t rounds_a_change(const or_policy_t *policy)
{
    return policy->decided && policy->rounds < EARLY_ROUNDS ? ROUNDS_A_CHANGE_EARLY
                                                            : ROUNDS_A_CHANGE;
}

or_budget_t or_policy_budget(or_policy_t *policy, int64_t now_ns)
{
    if (policy->session.kind != OR_POLICY_AUTO || !is_measured(policy) ||
        policy->session.most.nodes == 0 || policy->way == OR_WAY_PLAIN) {
        return policy->budget;
    }
    if (policy->decided && policy->plain_times.count == 0) {
        return policy->budget; // what a guess costs is not known yet
    }
    double rate;
    uint32_t nodes = best_nodes(policy, &rate);
    count_kept(policy, now_ns);
    rate *= policy->kept;
    double plain = or_policy_plain_rate(policy);
    or_budget_t best = budget_of(policy, nodes);
    if (policy->off && rate < PAYS * plain) {
        go_on_trying(policy, best, now_ns);
    } else if (policy->off) {
        policy->off = false;
        change_budget(policy, best);
    } else if (!policy->decided && rate < PAYS_NOT * plain &&
               policy->rounds >= policy->changed + OFF_ROUNDS_MIN) {
        switch_off(policy, now_ns);
    } else if (policy->rounds >= policy->changed + rounds_a_change(policy)) {
        bool better =
            rate > BETTER * policy->kept * or_policy_draft_rate(policy, policy->budget.nodes);
        change_budget(policy, better ? best : budget_of(policy, policy->budget.nodes));
    }
    return policy->budget;
}

// ---- the round ----

static or_policy_choice_t go_with(or_guess_source_t source)
{
    return (or_policy_choice_t){.source = source};
}

// Return the source that is here and brings the most tokens in its time.
static or_policy_choice_t go(const or_policy_t *policy, const or_policy_state_t *state)
{
    double ready = fmin(state->ready, policy->session.most.nodes);
    double best = 1 / or_policy_round_ns(policy, 0);
    or_guess_source_t source = OR_SOURCE_PLAIN;
    double looked_up =
        or_policy_lookup_tokens(policy, state->lookup) / or_policy_round_ns(policy, state->lookup);
    double drafted = or_policy_tokens(policy, ready) / or_policy_round_ns(policy, ready);
    if (policy->session.lookup && state->lookup > 0 && looked_up > best) {
        best = looked_up;
        source = OR_SOURCE_LOOKUP;
    }
    bool decided = policy->decided && policy->way != OR_WAY_PLAIN;
    if (state->ready > 0 && (decided || drafted >= best)) {
        source = OR_SOURCE_DRAFTER;
    }
    return go_with(source);
}

static or_policy_choice_t wait_until(double until_ns)
{
    return (or_policy_choice_t){.source = OR_SOURCE_DRAFTER, .until_ns = (int64_t)until_ns};
}

static double slack_ns(const or_policy_t *policy)
{
    return SLACK_SHARE * or_policy_answer_ns(policy, policy->budget.nodes) + (double)SLACK_NS;
}

// When an answer should be here that the drafter works on since then. One that was not there at once is made
// from the beginning; one that is later still will be for as long again.
static double expected_ns(const or_policy_t *policy, double from_ns, int64_t now_ns)
{
    double now = (double)now_ns;
    double nodes = policy->budget.nodes;
    double soon_ns = from_ns + or_policy_answer_ns(policy, nodes);
    double late_ns = from_ns + or_policy_slow_answer_ns(policy, nodes);
    double at_ns = now <= soon_ns ? soon_ns : late_ns;
    return now <= at_ns ? at_ns : now + (now - at_ns);
}

// A text that comes while the drafter is still at work on the last one replaces it: there will be one answer.
// The text has followed the drafter's tree, which is kept less the levels that the text passed.
static void add_ask(or_policy_t *policy, int64_t asked_ns)
{
    uint32_t at = policy->ask_count;
    double from_ns = (double)asked_ns;
    if (at > 0 &&
        from_ns - policy->asks[at - 1].from_ns < or_policy_draft_ns(policy, policy->budget.nodes)) {
        double tokens = policy->asks[--at].tokens;
        double kept_ns = from_ns - policy->asks[at].from_ns - tokens * policy->mean.level_ns;
        from_ns -= or_policy_follows(policy, policy->budget.nodes, tokens) * fmax(kept_ns, 0);
    }
    policy->asks[at].asked_ns = asked_ns;
    policy->asks[at].from_ns = from_ns;
    policy->asks[at].tokens = 0;
    policy->ask_count = at + 1;
}

// An answer to an older text may come first. Forget those that should have come long ago.
static void note_ask(or_policy_t *policy, const or_policy_state_t *state, int64_t now_ns)
{
    double late_ns = or_policy_slow_answer_ns(policy, policy->budget.nodes) + slack_ns(policy);
    uint32_t gone = 0;
    if (!state->awaited) {
        policy->ask_count = 0;
        return;
    }
    bool known =
        policy->ask_count > 0 && policy->asks[policy->ask_count - 1].asked_ns >= state->asked_ns;
    while (gone < policy->ask_count && (double)now_ns - policy->asks[gone].from_ns > late_ns) {
        gone++;
    }
    gone += !known && gone == 0 && policy->ask_count == OR_POLICY_ASKS;
    policy->ask_count -= gone;
    memmove(policy->asks, policy->asks + gone, policy->ask_count * sizeof *policy->asks);
    if (!known) {
        add_ask(policy, state->asked_ns);
    }
}

// Guesses for an older text may be used: wait w for the next answer, or go now with m guesses? Both ways
// lead to the same tokens, so their times are compared. Let the answer still be good with probability q,
// and the tokens of a round now be on its path with probability s. Then it is judged after that round,
// which has cost tv(m) - w if that is above 0. Else the tree was worth nothing, and the wait for it is
// saved:
//
//     go if  q s (tv(m) - w)  <=  (1 - q) w + q (1 - s) (w + tv(n) - tv(m))
static or_policy_choice_t choose_late(or_policy_t *policy, const or_policy_state_t *state,
                                      int64_t now_ns)
{
    double nodes = policy->budget.nodes;
    double ready = fmin(state->ready, nodes);
    double now_takes_ns = or_policy_round_ns(policy, ready);
    bool older = policy->ask_count > 0;
    double from_ns = older ? policy->asks[0].from_ns : (double)state->asked_ns;
    double at_ns = expected_ns(policy, from_ns, now_ns);
    double wait_ns = at_ns - (double)now_ns;
    double good = or_policy_follows(policy, nodes, older ? policy->asks[0].tokens : 0);
    double follows = or_policy_follows(policy, nodes, or_policy_tokens(policy, ready));
    double loss = good * follows * (now_takes_ns - wait_ns);
    double saved =
        (1 - good) * wait_ns +
        good * (1 - follows) * (wait_ns + or_policy_round_ns(policy, nodes) - now_takes_ns);
    if (now_takes_ns <= wait_ns || loss <= saved) {
        return go(policy, state);
    }
    return wait_until(at_ns + slack_ns(policy));
}

// A tree is good for its own text alone: to go is to lose it. Worth waiting for, as long as that is less
// than another one would take.
static or_policy_choice_t choose_whole(or_policy_t *policy, const or_policy_state_t *state,
                                       int64_t now_ns)
{
    double nodes = policy->budget.nodes;
    double ready = fmin(state->ready, nodes);
    double answer_ns = or_policy_slow_answer_ns(policy, nodes);
    double at_ns = expected_ns(policy, (double)state->asked_ns, now_ns);
    double wait_ns = at_ns - (double)now_ns;
    double wait_rate =
        or_policy_tokens(policy, nodes) / (wait_ns + or_policy_round_ns(policy, nodes));
    double go_rate = or_policy_tokens(policy, ready) / or_policy_round_ns(policy, ready);
    bool overdue = wait_ns > answer_ns + (double)PATIENCE_NS;
    if (overdue || (policy->try_until <= policy->rounds && wait_rate < go_rate)) {
        return go(policy, state);
    }
    return wait_until(at_ns + answer_ns + (double)PATIENCE_NS);
}

// The time of a plain round is not known before there was one, and not for ever: take one now and then. The
// first one comes early, for a short text may have no later.
static bool must_learn_plain(or_policy_t *policy, int64_t now_ns)
{
    if (policy->plain != policy->plain_seen) {
        policy->plain_seen = policy->plain;
        policy->plain_tried_ns = now_ns;
    }
    if (policy->tree_times.count < PLAIN_AFTER_ROUNDS) {
        return false;
    }
    double nodes = policy->tree_times.nodes;
    double tokens = or_policy_tokens(policy, nodes);
    double cost_ns = or_policy_round_ns(policy, nodes) * (tokens - 1) / tokens;
    double pause_ns = fmax(TRY_NS, 2 * TRY_COST_SHARE * cost_ns);
    if (policy->plain_tried_ns > 0 && (double)(now_ns - policy->plain_tried_ns) < pause_ns) {
        return false;
    }
    policy->plain_tried_ns = now_ns;
    return true;
}

static or_policy_choice_t choose_fixed(const or_policy_t *policy, const or_policy_state_t *state)
{
    // Several rounds ahead, what is here serves until more comes.
    bool enough = state->ready >= policy->budget.nodes || policy->budget.ahead >= 2;
    if (state->awaited && !(state->ready > 0 && enough)) {
        return (or_policy_choice_t){.source = OR_SOURCE_DRAFTER, .until_ns = OR_TIME_NEVER};
    }
    return go_with(state->ready > 0 ? OR_SOURCE_DRAFTER : OR_SOURCE_PLAIN);
}

or_policy_choice_t or_policy_choose(or_policy_t *policy, const or_policy_state_t *state,
                                    int64_t now_ns)
{
    if (policy->session.kind != OR_POLICY_AUTO) {
        return choose_fixed(policy, state);
    }
    note_ask(policy, state, now_ns);
    if (must_learn_plain(policy, now_ns)) {
        return go_with(OR_SOURCE_PLAIN);
    }
    if (!state->awaited || policy->budget.nodes == 0 || state->ready >= policy->budget.nodes) {
        return go(policy, state);
    }
    bool waits = policy->decided && !or_policy_takes_late(policy);
    if (waits || !is_measured(policy)) {
        return (or_policy_choice_t){.source = OR_SOURCE_DRAFTER, .until_ns = OR_TIME_NEVER};
    }
    bool trying = policy->rounds < policy->try_until;
    return or_policy_takes_late(policy) && !trying ? choose_late(policy, state, now_ns)
                                                   : choose_whole(policy, state, now_ns);
}

// ---- shown ----

or_policy_terms_t or_policy_terms(const or_policy_t *policy)
{
    double nodes = policy->budget.nodes > 0 ? policy->budget.nodes : policy->session.most.nodes;
    bool timed = policy->count.times > 0;
    bool drafted = policy->count.drafter > 0;
    return (or_policy_terms_t){
        .owner = "",
        .automatic = policy->session.kind == OR_POLICY_AUTO,
        .nodes = policy->budget.nodes,
        .depth = policy->budget.depth,
        .ahead = policy->budget.ahead,
        .round_trip_ms = (float)(policy->mean.round_trip_ns / 1e6),
        .draft_ms = (float)(or_policy_draft_ns(policy, nodes) / 1e6),
        .plain_ms = (float)(policy->mean.plain_ns / 1e6),
        .verify_ms = timed ? (float)(or_policy_round_ns(policy, nodes) / 1e6) : 0,
        .row_us = (float)(policy->mean.row_ns / 1e3),
        .queue_ms = (float)(policy->mean.queue_ns / 1e6),
        .batch = (float)policy->batch,
        .acceptance = drafted ? (float)policy->mean.first_right : 0,
        .block_efficiency = drafted ? (float)or_policy_tokens(policy, nodes) : 0,
        .hit_rate = (float)policy->mean.hit,
        .plain_rate = timed ? (float)(1e9 * or_policy_plain_rate(policy)) : 0,
        .draft_rate = timed && drafted ? (float)(1e9 * or_policy_draft_rate(policy, nodes)) : 0,
    };
}
