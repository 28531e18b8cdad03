// policy - the budget of one session: who guesses, how many, how far ahead, and how long a round waits for it
// (docs/design.md section 8; docs/algorithms.md section 6).
//
//     measured                                              chosen
//     round trip, building time, hits of drafting ahead ─┐
//     acceptance, tokens by guesses                      ├──▶ nodes, depth, rounds in flight: with every verdict
//     a plain round, what a guess adds, queueing, batch ─┘    wait, go with what is here, look up, or step plainly: in every round
//
// The model of a round with n guesses: it brings E(n) tokens and takes w + tv(n). Here w is what is left to
// wait for the guesses, and tv(n) what such a round was seen to take, or t1 + n c. A plain round brings one and takes t1, and what the drafter
// meanwhile builds is still good for what follows if its first guess is right. Whatever brings more tokens
// per second is done. Under load, where sessions share passes, it is whatever brings more tokens per second
// of the verifier, which serves others while one waits. E(n) = 1 + k log(1 + n), at most 1 + n, with k measured:
// against tales-1m's 16, 64, 256 guesses this is within 8 percent of E as measured.
//
// `fixed` waits for what was asked for, in every round, until the draft time-out. Nothing here ever depends on a
// guess's token, so no rule is biased (docs/algorithms.md section 3). Under the coupled rule not even the text of
// a seed depends on it. What does not pay is tried again now and then, so that it comes back when the link, the
// load or the text changes. Pure: no clock, no peers; embedded in a session. One thread.
#pragma once

#include <stdint.h>

#include "proto/wire/message.h"

// The size of the trees that a drafter is asked for. No nodes: it need not even be told of the text.
typedef struct {
    uint32_t nodes, depth, ahead;
} or_budget_t;

// How far a session may go, as all texts together find worth their time (worth.h).
typedef enum {
    OR_WAY_PLAIN,   // no drafter
    OR_WAY_DRAFTED, // a drafter that rests while the target works
    OR_WAY_AHEAD,   // all that was asked for
    OR_WAYS
} or_way_t;

// From so many texts at a time a text waits for its guesses, as all do. One that went on without them would miss the pass of
// the others, and they its. So all together measure whether guesses pay, and drafters elsewhere rest during a pass, too. It is
// where a row of worth.h begins.
#define OR_POLICY_CROWD 23u

typedef struct {
    or_draft_policy_t kind;
    or_budget_t most;  // what the request asked for
    bool lookup;       // the coordinator may look up guesses itself: the rule asks nothing of them
    bool late_is_good; // guesses for a text that has moved on may still be used (guesses.h)
    bool whole_trees;  // a drafter builds all of a tree or none: its shape is fixed (usefulness.h)
} or_policy_terms_of_session_t;

// Judged rounds of one kind: moving averages of their time and of their guesses.
typedef struct {
    double time_ns, nodes;
    uint32_t count; // so far
    uint32_t odd;   // in a row, unlike all before
    uint32_t age;   // rounds with trees since its last one
} or_policy_times_t;

#define OR_POLICY_SIZES 11u // of trees: 1, 2, up to 4, up to 8 ... guesses

#define OR_POLICY_ASKS 16u

// Moving averages and what was chosen; policy.c says what is in it.
typedef struct or_policy {
    or_policy_terms_of_session_t session;
    uint32_t built; // guesses of the largest tree that its drafters build; 0: none was asked yet
    or_way_t way;
    bool decided;
    bool apart;          // drafters compute elsewhere; the owner sets it
    bool told;           // it has been limited
    uint32_t most_ahead; // of what the request asked for
    or_budget_t budget;
    struct {
        double round_trip_ns;
        // The time to draft one level of a tree: the mean of all answers, and of those that were not there
        // at once.
        double level_ns, slow_level_ns;
        double plain_ns, row_ns, queue_ns;
        double first_right; // that the first guess on the path is right
        double gain;        // k of E(n), the drafter's
        double lookup_gain; // k of the coordinator's own guesses
        double hit;         // guesses that were there in time
    } mean;
    struct {
        double first_right, gain;
    } recent; // of few rounds: where it is far from the mean, the text has changed
    or_policy_times_t plain_times, tree_times; // of which plain_ns and row_ns follow
    // By the size of the tree: the second row of a pass may cost more than the next three.
    or_policy_times_t size_times[OR_POLICY_SIZES];
    struct {
        uint32_t drafter, lookup, trips, slow, hits, times; // how often each was measured
        uint32_t odd_trips;                                 // in a row, unlike all before
    } count;
    // The drafter's answers that are on their way, oldest first. Each says when it was asked for, since
    // when the drafter works on it in effect, and how many tokens were committed since.
    struct {
        int64_t asked_ns;
        double from_ns, tokens;
    } asks[OR_POLICY_ASKS];
    uint32_t ask_count;
    struct {
        uint32_t asks; // whose answers are not even expected any more, since the drafter spoke last
        int64_t from_ns; // the first of them
    } owed;
    bool off;               // drafting does not pay
    uint64_t try_until;     // up to that round it is tried all the same
    double tokens;          // committed so far
    double try_tokens;      // and when the last try began, at tried_ns
    double try_cost_ns;     // what it cost
    int64_t plain_tried_ns; // when a plain round last showed what it takes, or was taken for that
    uint64_t plain_seen;    // timed plain rounds then
    uint64_t changed;       // the round in which the budget last changed, but for early growth
    // The part of the promised rate that came lately, and since when the next part is counted.
    double kept;
    struct {
        int64_t at_ns; // 0: nothing is counted
        uint64_t rounds;
        double tokens;
    } count_from;
    double batch;             // sessions a pass
    uint32_t texts;           // at work, as far as was said
    double guesses;           // the most that all of them have tried in a round
    uint64_t rounds, drafted; // judged so far,
    uint64_t plain;           // and plain ones whose time counts
    int64_t tried_ns;         // when what does not pay was last tried
} or_policy_t;

void or_policy_init(or_policy_t *policy, const or_policy_terms_of_session_t *session);
// Begin with what an earlier text of the same peers has shown, as far as that holds for others: what rounds and guesses take
// and bring. It counts like a few rounds.
void or_policy_inherit(or_policy_t *policy, const or_policy_t *earlier);
// A text without guesses has ended: what a plain round takes holds for others.
void or_policy_learn_plain(or_policy_t *policy, const or_policy_t *plain);
// The drafters that serve the text build so many guesses together at most. A drafter, the verifier or the key of the client may
// allow fewer than the request asked for.
void or_policy_builds(or_policy_t *policy, uint32_t nodes);
// Go this way from the next round on, with so many texts at work. `decided`, on the target's CPUs and in a crowd: all texts have
// measured that guesses pay here, or measure it just now. So the policy chooses how many but not whether. Else it goes no
// farther than that.
void or_policy_limit(or_policy_t *policy, or_way_t way, uint32_t texts, bool decided);

// ---- measured ----

typedef struct {
    or_guess_source_t source;
    uint32_t nodes, accepted;
    bool first_right;    // a guess of the first level was accepted
    int64_t round_ns;    // from asking the verifier to its verdict
    uint32_t forward_us; // of it, the pass itself, as the verifier says
    bool prefill;        // the round read a prompt or replayed one too: its time says nothing
} or_policy_round_t;
void or_policy_judged(or_policy_t *policy, const or_policy_round_t *round);

// A tree came: `elapsed_ns` after the message that it answers was sent, `draft_us` of it for building. For a
// tree that was begun before that message arrived, building is what was left of it: 0 at the least.
void or_policy_heard(or_policy_t *policy, int64_t elapsed_ns, uint32_t draft_us, uint32_t nodes);
// The drafter has sent something, if only guesses that answer nothing.
void or_policy_spoke(or_policy_t *policy);
// A round began while the drafter was ahead; were guesses for it here?
void or_policy_ahead(or_policy_t *policy, bool hit);
// So many sessions share a pass, as the verifier's Stats say.
void or_policy_load(or_policy_t *policy, double batch);

// ---- chosen ----

// Return how many guesses a lookup may give: as many as seem to bring the most tokens in the time of their round.
uint32_t or_policy_lookup_nodes(const or_policy_t *policy);

// Return the budget that the drafter is told with the next verdict. It changes once in some rounds; at first, where
// or_policy_tries_freely, trees may grow in every round.
or_budget_t or_policy_budget(or_policy_t *policy, int64_t now_ns);

typedef struct {
    uint32_t ready;   // guesses that are here
    uint32_t lookup;  // guesses that a lookup would give
    bool awaited;     // a drafter is at work on more
    int64_t asked_ns; // when it was told of the text as it is, or will be
} or_policy_state_t;

typedef struct {
    or_guess_source_t source; // go with these now
    int64_t
        until_ns; // or wait until then, and ask again; OR_TIME_NEVER: as long as usual. 0: do not wait
} or_policy_choice_t;
// At the beginning of a round, and again whenever something came or until_ns has passed.
or_policy_choice_t or_policy_choose(or_policy_t *policy, const or_policy_state_t *state,
                                    int64_t now_ns);

// For metrics and `outrider status`; what is the session's (its owner, its last source ...) is the caller's to set.
or_policy_terms_t or_policy_terms(const or_policy_t *policy);
