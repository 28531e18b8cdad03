// A round: go with what is here, look up, step plainly, or wait.
#include <math.h>
#include <string.h>

#include "common/base/clock.h"
#include "coordinator/budget/policy_model.h"

#define SLACK_SHARE 0.25 // an answer may be later than expected by this part of the wait
#define SLACK_NS (OR_NS_PER_MS / 10) // and by this
#define PATIENCE_NS (10 * OR_NS_PER_MS)
#define PLAIN_AFTER_ROUNDS 2u
#define SILENT_ASKS 3u // so many answers in a row did not come

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
    double looked_up = or_policy_lookup_rate(policy, state->lookup);
    double drafted = or_policy_tokens(policy, ready) / or_policy_round_ns(policy, ready);
    if (policy->session.lookup && state->lookup > 0 && looked_up > best) {
        best = looked_up;
        source = OR_SOURCE_LOOKUP;
    }
    // What was asked for to learn from it is judged, whatever was learnt before.
    bool wanted =
        (policy->decided && policy->way != OR_WAY_PLAIN) || policy->rounds < policy->try_until;
    if (state->ready > 0 && (wanted || drafted >= best)) {
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
// from the beginning; one that is later still will be for as long again, and so will that of a drafter who owes others.
static double expected_ns(const or_policy_t *policy, double from_ns, int64_t now_ns)
{
    double now = (double)now_ns;
    double nodes = policy->budget.nodes;
    double soon_ns = from_ns + or_policy_answer_ns(policy, nodes);
    double late_ns = from_ns + or_policy_slow_answer_ns(policy, nodes);
    double at_ns = now <= soon_ns ? soon_ns : late_ns;
    double silent_ns = policy->owed.asks >= SILENT_ASKS ? now - (double)policy->owed.from_ns : 0;
    return now <= at_ns && silent_ns == 0 ? at_ns : now + fmax(now - at_ns, silent_ns);
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

static void note_owed(or_policy_t *policy, int64_t asked_ns)
{
    policy->owed.from_ns = policy->owed.asks == 0 ? asked_ns : policy->owed.from_ns;
    policy->owed.asks++;
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
        note_owed(policy, policy->asks[gone++].asked_ns);
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
    bool hurried = !policy->decided && policy->try_until <= policy->rounds && wait_rate < go_rate;
    if (overdue || hurried) {
        return go(policy, state);
    }
    return wait_until(at_ns + answer_ns + (double)PATIENCE_NS);
}

// The first plain round comes early, for a short text may have no later. It loses least while trees are small.
static bool first_plain_is_due(const or_policy_t *policy)
{
    bool grows =
        or_policy_tries_freely(policy) && policy->budget.nodes < policy->session.most.nodes;
    return policy->tree_times.count >= PLAIN_AFTER_ROUNDS || (grows && policy->rounds > 0);
}

// The time of a plain round is not known before there was one, and not for ever: take one now and then.
static bool must_learn_plain(or_policy_t *policy, int64_t now_ns)
{
    if (policy->plain != policy->plain_seen) {
        policy->plain_seen = policy->plain;
        policy->plain_tried_ns = now_ns;
    }
    if (!first_plain_is_due(policy)) {
        return false;
    }
    double nodes = policy->tree_times.nodes;
    double tokens = or_policy_tokens(policy, nodes);
    double cost_ns = or_policy_round_ns(policy, nodes) * (tokens - 1) / tokens;
    double pause_ns = fmax(OR_POLICY_TRY_NS, 2 * OR_POLICY_TRY_COST_SHARE * cost_ns);
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
    // On the target's CPUs an answer may take any time.
    bool waits = policy->decided && !policy->apart && !or_policy_takes_late(policy);
    if (waits || !or_policy_is_measured(policy)) {
        return (or_policy_choice_t){.source = OR_SOURCE_DRAFTER, .until_ns = OR_TIME_NEVER};
    }
    bool trying = policy->rounds < policy->try_until;
    return or_policy_takes_late(policy) && !trying ? choose_late(policy, state, now_ns)
                                                   : choose_whole(policy, state, now_ns);
}
