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

#define ROUNDS_A_CHANGE 8u // between changes of a budget
#define EARLY_ROUNDS 16u
#define ROUNDS_A_CHANGE_EARLY 3u
#define BETTER 1.05       // another number of guesses is taken where it promises so much more
#define PAYS 1.03         // drafting is begun again,
#define PAYS_NOT 1.005    // and given up
#define OFF_ROUNDS_MIN 8u // not before so many rounds said so
#define KEPT_ROUNDS 32u   // over which a promise is compared with what came
#define KEPT_STEP 0.25
#define KEPT_MIN 0.5
#define KEPT_MAX 1.25
#define TRY_ROUNDS 1u         // whose tree is waited for
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

void or_policy_builds(or_policy_t *policy, uint32_t nodes)
{
    policy->built = nodes;
    if (policy->session.whole_trees && policy->budget.nodes > 0) {
        policy->budget.nodes = or_policy_full_nodes(policy);
    }
}

// ---- the budget ----

// The number of guesses, of 1, 2, 4 ... and the most, that promises the most.
static uint32_t best_of(const or_policy_t *policy, uint32_t most,
                        double (*rate_of)(const or_policy_t *, double), double *rate)
{
    uint32_t best = 0;
    *rate = 0;
    for (uint32_t nodes = 1; nodes <= most;
         nodes = nodes < most && 2 * nodes > most ? most : 2 * nodes) {
        double one = rate_of(policy, nodes);
        if (one > *rate) {
            *rate = one;
            best = nodes;
        }
    }
    return best;
}

static uint32_t best_nodes(const or_policy_t *policy, double *rate)
{
    if (policy->session.whole_trees) {
        uint32_t nodes = or_policy_full_nodes(policy);
        *rate = or_policy_draft_rate(policy, nodes);
        return nodes;
    }
    return best_of(policy, or_policy_most_nodes(policy), or_policy_draft_rate, rate);
}

uint32_t or_policy_lookup_nodes(const or_policy_t *policy)
{
    uint32_t most = policy->session.most.nodes;
    double rate;
    if (policy->session.kind != OR_POLICY_AUTO) {
        return most;
    }
    if (policy->plain_times.count == 0 || policy->tree_times.count == 0) {
        return or_min_u32(most, or_policy_first_nodes(policy)); // what a guess costs is not known
    }
    return best_of(policy, most, or_policy_lookup_rate, &rate);
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

// Before anything was measured, and beside other texts, it is no more than all have begun with, or tried. While no round with
// guesses was timed they seem to be free, as after a first one that has read the prompt too.
static or_budget_t first_budget(const or_policy_t *policy)
{
    double rate;
    or_budget_t budget = policy->session.most;
    double tried = policy->guesses / fmax(policy->texts, 1);
    uint32_t nodes = policy->session.whole_trees
                         ? or_policy_full_nodes(policy)
                         : (uint32_t)fmax(or_policy_first_nodes(policy), tried);
    if (or_policy_is_measured(policy) && policy->tree_times.count > 0) {
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
    if (begins && way != OR_WAY_PLAIN) {
        policy->budget = first_budget(policy);
    }
    if (way == before) {
        return;
    }
    policy->ask_count = 0;
    policy->owed.asks = 0;
    if (way == OR_WAY_PLAIN) {
        change_budget(policy, (or_budget_t){0});
    } else if (before == OR_WAY_PLAIN) {
        policy->off = false;
        change_budget(policy, first_budget(policy));
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
    double pause_ns = fmax(OR_POLICY_TRY_NS, OR_POLICY_TRY_COST_SHARE * cost_ns);
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

// The trees of a text that tries freely may grow with every verdict at first, once it is known what guesses cost. `ahead` waits
// for the next regular change, and this is none: `changed` stays.
static void grow_early(or_policy_t *policy, or_budget_t best)
{
    bool early = or_policy_tries_freely(policy) && policy->rounds < EARLY_ROUNDS &&
                 policy->plain_times.count > 0;
    if (early && best.nodes > policy->budget.nodes) {
        policy->budget.nodes = best.nodes;
        policy->budget.depth = best.depth;
    }
}

or_budget_t or_policy_budget(or_policy_t *policy, int64_t now_ns)
{
    if (policy->session.kind != OR_POLICY_AUTO || !or_policy_is_measured(policy) ||
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
    } else {
        bool better =
            rate > BETTER * policy->kept * or_policy_draft_rate(policy, policy->budget.nodes);
        if (policy->rounds >= policy->changed + rounds_a_change(policy)) {
            change_budget(policy, better ? best : budget_of(policy, policy->budget.nodes));
        } else if (better) {
            grow_early(policy, best);
        }
    }
    return policy->budget;
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
