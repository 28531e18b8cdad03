// toy_world - a toy pair, its real drafter and the real rules, every choice of one round enumerated.
//
//     drafter (toy.h) -> the wire's codec and checks -> acceptance rule -> text, with its exact probability
//                          -> between different vocabularies, the coordinator's translation and the wire again
//
// The outcomes' probabilities are added as rationals, continued by the target's own to depth + 1
// tokens, and compared with the target's distribution. Whether the rule's arithmetic rounded is told by the
// processor's flag: where it did not, the distribution must be the target's to the last digit.
#pragma once

#include <gmp.h>

#include "tests/exactness/toy.h"
#include "verifier/accept/accept.h"

#define TOY_NO_STOP UINT32_MAX
#define TOY_COMPARED 4u // most tokens that are compared: a plan's depth is below it

typedef struct toy_world toy_world_t;

toy_world_t *toy_world_create(void);
void toy_world_destroy(toy_world_t **world_p);

// Faults planted in what travels, NULL for none: from drafter to coordinator, from there to the
// verifier, and in the drafter's answers about psi.
typedef struct {
    void (*drafted)(const toy_t *toy, or_draft_tree_t *tree);
    void (*forwarded)(const toy_t *toy, or_draft_tree_t *tree);
    void (*answered)(const toy_t *toy, const int32_t *ids, uint32_t count, double *psi);
} toy_faults_t;

// The case that is enumerated. It is set before.
typedef struct {
    toy_t toy;
    toy_plan_t plan;
    uint32_t stop; // a token that ends the text, or TOY_NO_STOP
    // With OR_DRAFT_MULTI: the number of models that draft, each one guess at the root.
    uint32_t models;
    double lenience, typical_epsilon, typical_delta;
    // With toy.pair: the way in which the two vocabularies meet. With slem the plan's depth is
    // in the target's tokens.
    or_vocab_method_t vocab_method;
    toy_faults_t faults;
} toy_case_t;

typedef struct {
    double distance; // total variation between the text's distribution and the target's
    bool rounded;    // some operation of the rule did
} toy_result_t;

// Enumerate one round. `accepted` (initialised) becomes the expected number of accepted guesses.
toy_result_t toy_world_run(toy_world_t *world, const toy_case_t *what, mpq_t accepted);
// Set the numbers that are not enumerated (enumerator.h).
void toy_world_set_uniforms(toy_world_t *world, uint64_t uniform_set);

// Make a plan from its command-line form: a shape, for a chain its length in ones.
toy_plan_t toy_plan(or_draft_method_t method, or_accept_rule_t rule, const char *shape);
