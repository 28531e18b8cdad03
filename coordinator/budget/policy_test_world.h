// policy_test_world - a text, a drafter, a network and a verifier in a few numbers, for a policy to be tried on.
//
// Every position of the text has a fixed draw u. A tree of n guesses has its token if u is below the
// acceptance of such trees, so all policies see the same text. A tree is a path of as many levels as the
// drafter has passes for; what follows a wrong guess is wrong. The drafter that works ahead grows its path
// while the rounds go on and, from two rounds ahead, sends what is new level by level.
#pragma once

#include "coordinator/budget/policy.h"

typedef struct {
    double trip_ns, plain_ns, row_ns, pass_ns;
    double acceptance; // of trees of the most nodes
    double jitter;     // of each way, as a part of it
} world_numbers_t;

typedef enum {
    WORLD_POLICY,     // as the policy says
    WORLD_PLAIN,      // plain rounds
    WORLD_WAIT_NEVER, // with what is here, at once
} world_conduct_t;

typedef struct {
    world_numbers_t numbers;
    world_conduct_t conduct;
    or_draft_policy_t kind;
    or_budget_t most;
    bool late_is_good;
    uint64_t seed;
} world_config_t;

typedef struct world world_t;

world_t *world_create(const world_config_t *config);
void world_destroy(world_t **world_p);
// The link, the load or the text changes.
void world_set(world_t *world, const world_numbers_t *numbers);
// Go on until then; returns the tokens written since the last call.
double world_run(world_t *world, int64_t until_ns);
const or_policy_t *world_policy(const world_t *world);
// The number of times that the drafter was asked for guesses after a time without.
uint32_t world_tries(const world_t *world);
