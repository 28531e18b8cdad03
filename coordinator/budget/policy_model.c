#include "coordinator/budget/policy_model.h"

#include <math.h>

#include "common/base/inline.h"

#define ROUND_NS_MIN 1000.0    // nothing is divided by less
#define GOES_ON_MAX 0.98       // r: a path ends some time
#define FIRST_NODES 4.0        // of all texts together, with a drafter on the target's CPUs,
#define FIRST_NODES_APART 64.0 // or elsewhere, and so many of each
#define FIRST_NODES_EACH 16.0
#define GROWTH 2     // all trees may have so many times the guesses that were tried
#define STEPS_MAX 64 // plain rounds in a gap; after more nothing is left of a tree

bool or_policy_is_measured(const or_policy_t *policy)
{
    return policy->count.trips > 0 && policy->count.times > 0 && policy->count.drafter > 0;
}

double or_policy_tokens(const or_policy_t *policy, double nodes)
{
    return 1 + fmin(policy->mean.gain * log1p(nodes), nodes);
}

double or_policy_lookup_tokens(const or_policy_t *policy, double nodes)
{
    return 1 + fmin(policy->mean.lookup_gain * log1p(nodes), nodes);
}

double or_policy_lookup_rate(const or_policy_t *policy, double nodes)
{
    return or_policy_lookup_tokens(policy, nodes) / or_policy_round_ns(policy, nodes);
}

typedef struct {
    double first, goes_on; // p and r of S(j)
} path_t;

static path_t path_of(const or_policy_t *policy, double nodes)
{
    double guesses = or_policy_tokens(policy, nodes) - 1;
    double first = fmin(policy->mean.first_right, guesses);
    double rest = guesses > 0 ? 1 - first / guesses : 0;
    return (path_t){first, fmin(fmax(rest, 0), GOES_ON_MAX)};
}

static double follows(path_t path, double tokens)
{
    if (tokens <= 0) {
        return 1;
    }
    return tokens <= 1 ? pow(path.first, tokens) : path.first * pow(path.goes_on, tokens - 1);
}

double or_policy_follows(const or_policy_t *policy, double nodes, double tokens)
{
    return follows(path_of(policy, nodes), tokens);
}

uint32_t or_policy_size(double nodes)
{
    double size = nodes > 1 ? ceil(log2(nodes)) : 0;
    return size < OR_POLICY_SIZES ? (uint32_t)size : OR_POLICY_SIZES - 1;
}

// On straight lines between the sizes that were measured; beyond the largest, on the line from a plain round through it.
static double measured_ns(const or_policy_t *policy, double nodes)
{
    double low_nodes = 0, low_ns = policy->mean.plain_ns;
    const or_policy_times_t *last = NULL;
    for (uint32_t i = 0; i < OR_POLICY_SIZES; i++) {
        const or_policy_times_t *times = &policy->size_times[i];
        if (times->count == 0 || times->nodes <= low_nodes) {
            continue;
        }
        if (nodes <= times->nodes) {
            double part = (nodes - low_nodes) / (times->nodes - low_nodes);
            return low_ns + part * (fmax(times->time_ns, policy->mean.plain_ns) - low_ns);
        }
        last = times;
        low_nodes = times->nodes;
        low_ns = fmax(times->time_ns, policy->mean.plain_ns);
    }
    double row_ns =
        last != NULL ? (low_ns - policy->mean.plain_ns) / low_nodes : policy->mean.row_ns;
    return policy->mean.plain_ns + nodes * row_ns;
}

bool or_policy_tries_freely(const or_policy_t *policy)
{
    return !policy->decided && policy->texts <= 1;
}

uint32_t or_policy_first_nodes(const or_policy_t *policy)
{
    double all = policy->decided ? FIRST_NODES : FIRST_NODES_APART;
    double most = policy->decided ? FIRST_NODES : FIRST_NODES_EACH;
    return (uint32_t)fmax(fmin(all / fmax(policy->texts, 1), most), 1);
}

uint32_t or_policy_most_nodes(const or_policy_t *policy)
{
    uint32_t most = policy->session.most.nodes;
    double tried = policy->guesses / fmax(policy->texts, 1);
    double next = fmax(GROWTH * tried, or_policy_first_nodes(policy));
    return next >= most ? most : (uint32_t)next;
}

uint32_t or_policy_full_nodes(const or_policy_t *policy)
{
    uint32_t most = policy->session.most.nodes;
    return policy->built > 0 ? or_min_u32(most, policy->built) : most;
}

double or_policy_round_ns(const or_policy_t *policy, double nodes)
{
    bool both = nodes > 0 && policy->plain_times.count > 0 && policy->tree_times.count > 0;
    double ns =
        both ? measured_ns(policy, nodes) : policy->mean.plain_ns + nodes * policy->mean.row_ns;
    return fmax(ns, ROUND_NS_MIN);
}

double or_policy_draft_ns(const or_policy_t *policy, double nodes)
{
    return policy->mean.level_ns * (2 + log2(1 + nodes));
}

double or_policy_answer_ns(const or_policy_t *policy, double nodes)
{
    return policy->mean.round_trip_ns + or_policy_draft_ns(policy, nodes);
}

bool or_policy_takes_late(const or_policy_t *policy)
{
    return policy->session.late_is_good && policy->session.most.ahead > 0;
}

double or_policy_slow_answer_ns(const or_policy_t *policy, double nodes)
{
    double level_ns = fmax(policy->mean.slow_level_ns, policy->mean.level_ns);
    return policy->mean.round_trip_ns + level_ns * (2 + log2(1 + nodes));
}

// A text's share of a pass. A plain round is seen beside others' guesses, so what a round with guesses takes longer is what
// one text's rows add; but `batch` texts choose alike.
static double share_ns(const or_policy_t *policy, double nodes)
{
    double plain_ns = or_policy_round_ns(policy, 0);
    double added_ns = or_policy_round_ns(policy, nodes) - plain_ns;
    return fmax(plain_ns / policy->batch + added_ns, ROUND_NS_MIN);
}

double or_policy_plain_rate(const or_policy_t *policy)
{
    return policy->batch >= 2 ? 1 / share_ns(policy, 0) : 1 / or_policy_round_ns(policy, 0);
}

// A cycle: a tree is asked for; k plain rounds meanwhile, within the gap or one longer; what the text has
// left of the tree, if it has followed it, is judged, and else it is as if nothing had been asked.
//
//     tokens  k + S(k) (1 + E[X - k | X >= k])      E[X - k | X >= k] = r / (1 - r) for k > 0
//     time    max(gap, k t1) + S(k) tv(n)           without waiting for a tree that is lost: k t1
static double cycle_rate(const or_policy_t *policy, double nodes, double gap_ns, int k)
{
    path_t path = path_of(policy, nodes);
    double good = follows(path, k);
    double more = k == 0 ? or_policy_tokens(policy, nodes) - 1 : path.goes_on / (1 - path.goes_on);
    double plain_ns = k * or_policy_round_ns(policy, 0);
    double time = fmax(gap_ns, plain_ns) + good * or_policy_round_ns(policy, nodes);
    return (k + good * (1 + more)) / time;
}

// Several rounds in flight: a text follows the drafter's guesses for 1 + p / (1 - p) tokens, E(n) of them a
// round, as fast as the slower of the two works; then one answer is waited for (docs/algorithms.md section 6).
static double ahead_rate(const or_policy_t *policy, double nodes)
{
    double run = 1 / fmax(1 - policy->mean.first_right, 1 - GOES_ON_MAX);
    double tokens = or_policy_tokens(policy, nodes);
    double round_ns = fmax(or_policy_round_ns(policy, nodes), tokens * policy->mean.level_ns);
    return run / (run / tokens * round_ns + or_policy_answer_ns(policy, nodes));
}

double or_policy_draft_rate(const or_policy_t *policy, double nodes)
{
    double gap_ns = or_policy_answer_ns(policy, nodes);
    if (policy->batch >= 2) {
        return or_policy_tokens(policy, nodes) / share_ns(policy, nodes);
    }
    double best = cycle_rate(policy, nodes, gap_ns, 0);
    double steps = ceil(gap_ns / or_policy_round_ns(policy, 0));
    if (policy->session.most.ahead >= 2) {
        best = fmax(best, ahead_rate(policy, nodes));
    }
    for (int k = 1; or_policy_takes_late(policy) && k <= STEPS_MAX && k <= steps; k++) {
        best = fmax(best, cycle_rate(policy, nodes, gap_ns, k));
    }
    return best;
}
