// budget - what a round is made of: guesses that are here, some that are worth waiting for, a lookup, or none.
//
// It tells the session's policy (policy.h) what it needs to know, and asks it.
#pragma once

#include "common/decode/prompt_lookup.h"
#include "coordinator/budget/policy.h"
#include "coordinator/coordinator.h"
#include "coordinator/drafters/guesses.h"

#define OR_TOLD_MAX 32u

typedef struct or_csession or_csession_t;

// A session's part.
typedef struct {
    or_guesses_t
        *guesses; // of its drafter, where the rule may use any guess; NULL: whole trees only
    or_policy_t policy;
    bool settled;             // this round goes the way of the last one, or is the first
    uint64_t epoch;           // of worth.h, when its way was chosen
    int64_t began_ns;         // when the policy was asked about it first
    or_guess_source_t source; // of this round's tree
    int64_t told_ns;          // when the drafter was told of the text as it is
    struct {
        uint64_t round;
        int64_t at_ns;     // 0: it has answered
    } told[OR_TOLD_MAX];   // when it was told of the last rounds, first
    int64_t give_up_ns;    // when drafters that are waited for become late; 0: nobody is yet
    bool undecided;        // the policy has not been asked about this round
    uint64_t looked_round; // the round of `lookup`
    uint32_t lookup;       // guesses that a lookup gave
    or_lookup_guess_t *lookup_guesses; // as many as draft_nodes, owned; NULL: no lookups
} or_round_budget_t;

// A drafter was told of the text as it is.
void or_budget_told(const or_coordinator_t *coordinator, or_csession_t *session);
// A drafter spoke.
void or_budget_heard(const or_coordinator_t *coordinator, or_csession_t *session,
                     const or_draft_tree_t *tree);
// A round was judged, and is not committed yet.
void or_budget_judged(or_coordinator_t *coordinator, or_csession_t *session,
                      const or_verdict_t *verdict);
// New figures of the verifier that serves, before they become ours.
void or_budget_load(or_coordinator_t *coordinator, const or_stats_t *stats);
// The next round's way, as all texts together find worth their time: before its drafters are told of anything.
void or_budget_steer(or_coordinator_t *coordinator, or_csession_t *session);
// Peers that compute have come or gone.
void or_budget_place(or_coordinator_t *coordinator);
// A round begins.
void or_budget_begin(or_coordinator_t *coordinator, or_csession_t *session);
// The policy's choice: go on with a source, or wait until a time and ask again (OR_TIME_NEVER: as long as drafters are
// waited for).
or_policy_choice_t or_budget_ask(const or_coordinator_t *coordinator, or_csession_t *session);
// Put the guesses of the lookup that was chosen into coordinator->scratch.
void or_budget_look_up(or_coordinator_t *coordinator, const or_csession_t *session);
// Return the budget that drafters are told from now on.
or_budget_t or_budget_chosen(const or_coordinator_t *coordinator, or_csession_t *session);
// Are drafters given up, for as long as plain decoding is what pays?
bool or_budget_is_plain(const or_csession_t *session);
// Does the policy do without its drafters? Then they need not hear of every token.
bool or_budget_rests(const or_csession_t *session);
// A text has ended, or is away: the next one knows what it has shown.
void or_budget_ended(or_coordinator_t *coordinator, const or_csession_t *session);
// A text has ended. If other drafting would have been faster, session->advice says so.
void or_budget_advise(or_csession_t *session);
