// builder_test_support - a builder over a Markov chain of seven tokens, in the model's place, and what
// its tests ask of trees.
#pragma once

#include "drafter/build/builder_internal.h"

#define VOCAB 7
#define NODES 256
#define ROOT_TOKEN 0
#define SURE_TOKEN 6 // follows itself, and no other

// The distribution after each token. 4 is followed by two tokens, 5 by one.
extern const double markov[VOCAB][VOCAB];

extern or_builder_t *builder;
extern or_token_tree_t *tree;
extern or_belief_t belief;
extern or_calibration_t calibration;
extern uint32_t passes, rows; // that the last tree took, the root's apart

int fake_setup(void **state);
int fake_teardown(void **state);

or_distribution_t dist_after(int32_t token);
void list_after(int32_t token, or_build_list_t *list);

// Return a job as a drafter's session would have it, but lists are without noise.
or_build_job_t job_of(or_draft_method_t method, or_accept_rule_t rule, or_shape_t shape);
// Build as a drafter does in `round`; returns how many tokens were drawn. No choice comes twice.
uint32_t build(or_draft_method_t method, or_build_job_t job, uint64_t round);

uint32_t children_of(uint32_t node, bool distinct);
bool is_repeated(uint32_t node);
// The draws pass the verifier's check, and each distribution is that of the token its children follow.
void assert_draws(or_accept_rule_t rule);
