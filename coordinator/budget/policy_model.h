// policy_model - the arithmetic behind the policy: what a round brings and takes, as far as was measured
// (docs/algorithms.md section 6 has the symbols). All of it is finite, whatever was measured.
#pragma once

#include "common/base/clock.h"
#include "coordinator/budget/policy.h"

// What does not pay, or was not measured lately, is tried after so long. A try may cost one part in so many of the time until the
// next.
#define OR_POLICY_TRY_NS (1.5 * (double)OR_NS_PER_S)
#define OR_POLICY_TRY_COST_SHARE 60.0

// Is everything known that a comparison of drafting with plain rounds needs?
bool or_policy_is_measured(const or_policy_t *policy);
// E(n) = 1 + k log(1 + n), at most 1 + n: tokens of a round that judges n guesses of a drafter's.
double or_policy_tokens(const or_policy_t *policy, double nodes);
// The same of a lookup's.
double or_policy_lookup_tokens(const or_policy_t *policy, double nodes);
// A lookup's tokens in the time of its round.
double or_policy_lookup_rate(const or_policy_t *policy, double nodes);
// S(j): that the first j tokens to come are all on the best path of a tree of n guesses. The path's length
// X has P(X >= 1) = p, the first guess's acceptance, and goes on with probability r, so that 1 + E X = E(n):
//
//     S(j) = p r^(j - 1)   with   p / (1 - r) = E(n) - 1
//
// j need not be whole; S is 1 up to 0 and p^j up to 1.
double or_policy_follows(const or_policy_t *policy, double nodes, double tokens);
// The row of or_policy_t.size_times for a tree of so many guesses.
uint32_t or_policy_size(double nodes);
// Is it a text alone with its drafter elsewhere? What it tries costs nobody else anything, so it learns in few rounds.
bool or_policy_tries_freely(const or_policy_t *policy);
// The guesses of a first tree. With a drafter on the target's CPUs every guess takes time of all texts, which share a few.
uint32_t or_policy_first_nodes(const or_policy_t *policy);
// The most guesses that a tree may have next. Passes take as long for a few rows as for one, and then longer with each, which is
// not known before it was tried. So all trees together grow by steps.
uint32_t or_policy_most_nodes(const or_policy_t *policy);
// The guesses of the largest tree that comes, which is what a tree of a fixed shape has: at most what the request asked for.
uint32_t or_policy_full_nodes(const or_policy_t *policy);
// tv(n): from asking the verifier to its verdict. It is t1 + n c, where c is that of the nearest sizes that were measured.
double or_policy_round_ns(const or_policy_t *policy, double nodes);
// The time that a drafter works on a tree of n guesses, in passes of the same length.
double or_policy_draft_ns(const or_policy_t *policy, double nodes);
// w: from telling the drafter of the text to its answer; and to one that is not there at once, for whose tree
// the drafter has to begin again.
double or_policy_answer_ns(const or_policy_t *policy, double nodes);
double or_policy_slow_answer_ns(const or_policy_t *policy, double nodes);

// Is an answer for an older text of use? Not from a drafter that is not ahead: it may never finish one.
bool or_policy_takes_late(const or_policy_t *policy);

// Tokens per nanosecond, or under load tokens per nanosecond of the verifier.
double or_policy_plain_rate(const or_policy_t *policy);
double or_policy_draft_rate(const or_policy_t *policy, double nodes);
