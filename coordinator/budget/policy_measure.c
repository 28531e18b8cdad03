// The policy's measurements. Every number comes from a peer or a clock that a peer can hold up, so each is
// bounded before it is used; one that is unlike all before counts only once it has come twice in a row:
// then the link or the load has changed, and what was known before is forgotten.
#include <math.h>
#include <string.h>

#include "common/decode/token_tree.h"
#include "coordinator/budget/policy_model.h"

#define TIME_NS_MAX (3600.0 * 1e9) // what takes longer was not a round
#define ODD_TIME 2.0               // so many times more, or less, than expected
#define ODD_TRIP 3.0
#define TRIP_NOISE_NS 2e6      // what a link may add at any time
#define RIGHT_STEP (1.0 / 64)  // least weight of a new round
#define RECENT_STEP (1.0 / 12) // where few rounds count
#define RECENT_ROUNDS 12u
#define GUESSES_CHANGED 0.6 // by this part of the mean, at least of GUESSES_FEW
#define GUESSES_FEW 0.3
#define TRIP_STEP (1.0 / 4) // and of a new answer
#define TIME_STEP (1.0 / 10)
#define SIZE_AGE_MAX 400u  // rounds
#define SIZE_ROUNDS_MIN 4u // of a size, before it says something of the others
#define BATCH_MAX 4096.0
#define ROW_LEAST_NS 1.0

// Move a mean towards a new value; the first ones count more. Prior knowledge counts as `known` values.
static void learn(double *mean, double value, uint32_t known, double least)
{
    *mean += fmax(1.0 / (known + 1.0), least) * (value - *mean);
}

// ---- rounds ----

// The time that a guess adds to a plain round. While only one kind of round was seen it is 0, not known, rather than noise; where
// rounds with guesses took no longer than others it is as good as nothing.
static void set_times(or_policy_t *policy)
{
    const or_policy_times_t *plain = &policy->plain_times;
    const or_policy_times_t *tree = &policy->tree_times;
    const bool both = plain->count > 0 && tree->count > 0;
    policy->mean.plain_ns = plain->count > 0 ? plain->time_ns : tree->time_ns;
    policy->mean.row_ns =
        both ? fmax((tree->time_ns - plain->time_ns) / fmax(tree->nodes, 1), ROW_LEAST_NS) : 0;
}

// A target or a link that has changed has done so for all kinds of rounds.
static void start_anew(or_policy_t *policy, or_policy_times_t *times, double factor)
{
    policy->plain_times.time_ns *= factor;
    policy->tree_times.time_ns *= factor;
    for (uint32_t i = 0; i < OR_POLICY_SIZES; i++) {
        policy->size_times[i].time_ns *= factor;
    }
    *times = (or_policy_times_t){0};
}

// What was measured long ago is forgotten, so that a size that once looked bad is tried again.
static void learn_size(or_policy_t *policy, double time, double nodes)
{
    or_policy_times_t *of_size = &policy->size_times[or_policy_size(nodes)];
    for (uint32_t i = 0; i < OR_POLICY_SIZES; i++) {
        or_policy_times_t *times = &policy->size_times[i];
        times->count = ++times->age > SIZE_AGE_MAX ? 0 : times->count;
    }
    learn(&of_size->time_ns, time, of_size->count, TIME_STEP);
    learn(&of_size->nodes, nodes, of_size->count, TIME_STEP);
    of_size->count++;
    of_size->age = 0;
}

// Rounds of one kind are compared with each other only: a guess may cost much.
static void learn_time(or_policy_t *policy, double time, double nodes)
{
    bool plain = nodes == 0;
    or_policy_times_t *times = plain ? &policy->plain_times : &policy->tree_times;
    or_policy_times_t *like = plain ? times : &policy->size_times[or_policy_size(nodes)];
    bool odd = time > ODD_TIME * like->time_ns || time < like->time_ns / ODD_TIME;
    if (like->count > 0 && odd) {
        if (++like->odd < 2) {
            return;
        }
        if (like->count < SIZE_ROUNDS_MIN || policy->texts > 1) {
            *like = (or_policy_times_t){
                0}; // its first rounds were the odd ones, or it waits for others
        } else {
            start_anew(policy, times, time / fmax(like->time_ns, 1));
        }
    }
    like->odd = 0;
    if (!plain) {
        learn_size(policy, time, nodes);
    }
    learn(&times->time_ns, time, times->count, TIME_STEP);
    learn(&times->nodes, nodes, times->count, TIME_STEP);
    times->count++;
    policy->count.times++;
    set_times(policy);
}

// All texts are asked for trees alike, but the guesses of a lookup are one text's own.
static void learn_most(or_policy_t *policy, const or_policy_round_t *round, double nodes)
{
    if (round->source == OR_SOURCE_DRAFTER) {
        policy->guesses = fmax(policy->guesses, nodes * fmax(policy->texts, 1));
    }
}

// Chance alone moves the means of few rounds about, so many rounds count; but a text that has changed shows
// in few.
static void notice_change(or_policy_t *policy)
{
    double usual = fmax(policy->mean.gain, GUESSES_FEW);
    if (fabs(policy->recent.gain - policy->mean.gain) > GUESSES_CHANGED * usual) {
        policy->mean.gain = policy->recent.gain;
        policy->mean.first_right = policy->recent.first_right;
        policy->count.drafter = RECENT_ROUNDS;
    }
}

static void learn_guesses(or_policy_t *policy, const or_policy_round_t *round, double nodes,
                          double accepted)
{
    double gain = accepted / log1p(nodes);
    if (round->source == OR_SOURCE_LOOKUP) {
        learn(&policy->mean.lookup_gain, gain, ++policy->count.lookup, RECENT_STEP);
        return;
    }
    // Guesses that are fewer than a full tree say less of it.
    double share = log1p(nodes) / log1p(fmax(or_policy_full_nodes(policy), nodes));
    uint32_t known = ++policy->count.drafter;
    learn(&policy->mean.first_right, round->first_right, known, RIGHT_STEP);
    learn(&policy->recent.first_right, round->first_right, known, RECENT_STEP);
    learn(&policy->mean.gain, policy->mean.gain + share * (gain - policy->mean.gain), known,
          RIGHT_STEP);
    learn(&policy->recent.gain, policy->recent.gain + share * (gain - policy->recent.gain), known,
          RECENT_STEP);
    notice_change(policy);
}

void or_policy_judged(or_policy_t *policy, const or_policy_round_t *round)
{
    double time = (double)round->round_ns;
    double nodes = fmin(round->nodes, OR_TREE_NODES_MAX);
    double accepted = fmin(round->accepted, nodes);
    policy->rounds++;
    policy->drafted += nodes > 0 && round->source == OR_SOURCE_DRAFTER;
    policy->tokens += accepted + 1;
    for (uint32_t i = 0; i < policy->ask_count; i++) {
        policy->asks[i].tokens += accepted + 1;
    }
    if (nodes > 0) {
        learn_guesses(policy, round, nodes, accepted);
    }
    if (!round->prefill && time > 0 && time < TIME_NS_MAX) {
        policy->plain += nodes == 0;
        learn_time(policy, time, nodes);
        learn_most(policy, round, nodes);
        double queue = fmax(time - 1000.0 * round->forward_us, 0);
        learn(&policy->mean.queue_ns, queue, policy->count.times, TRIP_STEP);
    }
}

// ---- answers ----

void or_policy_spoke(or_policy_t *policy)
{
    policy->owed.asks = 0;
}

void or_policy_heard(or_policy_t *policy, int64_t elapsed_ns, uint32_t draft_us, uint32_t nodes)
{
    double elapsed = (double)elapsed_ns;
    or_policy_spoke(policy);
    double begun = 0;            // what had been done when this was asked for
    if (policy->ask_count > 0) { // the oldest is answered
        begun = fmax((double)policy->asks[0].asked_ns - policy->asks[0].from_ns, 0);
        policy->ask_count--;
        memmove(policy->asks, policy->asks + 1, policy->ask_count * sizeof *policy->asks);
    }
    if (!(elapsed >= 0 && elapsed < TIME_NS_MAX)) {
        return;
    }
    double draft = fmin(1000.0 * draft_us, elapsed);
    double trip = elapsed - draft;
    double usual = policy->mean.round_trip_ns;
    bool odd = trip > ODD_TRIP * usual + TRIP_NOISE_NS || trip < usual / ODD_TRIP - TRIP_NOISE_NS;
    if (policy->count.trips > 0 && odd && ++policy->count.odd_trips < 2) {
        return;
    }
    policy->count.trips = odd ? 0 : policy->count.trips;
    policy->count.odd_trips = 0;
    learn(&policy->mean.round_trip_ns, trip, policy->count.trips, TRIP_STEP);
    double level = (draft + begun) / (2 + log2(1 + fmin(nodes, OR_TREE_NODES_MAX)));
    learn(&policy->mean.level_ns, draft > 0 ? level : 0, policy->count.trips, TRIP_STEP);
    if (draft > 0) {
        learn(&policy->mean.slow_level_ns, level, policy->count.slow++, TRIP_STEP);
    }
    policy->count.trips++;
}

void or_policy_ahead(or_policy_t *policy, bool hit)
{
    learn(&policy->mean.hit, hit, policy->count.hits++, RECENT_STEP);
}

void or_policy_load(or_policy_t *policy, double batch)
{
    if (isfinite(batch)) {
        policy->batch = fmin(fmax(batch, 1), BATCH_MAX);
    }
}
