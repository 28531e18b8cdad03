// builder - grows one draft tree with the session's method (DESIGN.md section 6).
//
// A method is one file, build_<method>.c, and one row of the table in builder.c. It grows the tree
// level by level: the builder runs one batched forward pass per level over the nodes a method wants
// expanded.
//
//     root logits -> method adds nodes -> or_build_expand(nodes) -> laws of those nodes -> method adds nodes -> ...
//
// One thread. No allocation after create.
#pragma once

#include "common/decode/chooser.h"
#include "common/decode/draws.h"
#include "common/decode/methods.h"
#include "common/decode/noise.h"
#include "common/decode/sampler.h"
#include "common/decode/shape.h"
#include "common/decode/token_tree.h"
#include "common/model/model.h"
#include "common/text/vocab.h"
#include "drafter/belief.h"
#include "drafter/calibration.h"

typedef struct or_builder or_builder_t;

// What a tree is grown from. All borrowed for the call.
typedef struct {
    or_kv_sequence_t *sequence; // holds every committed token; slots are the builder's, from 0
    uint32_t root_row;          // the row of the model's last pass that was the root's
    const int32_t *history;     // prompt + completion, the root last
    uint32_t history_count;
    or_noise_place_t place; // where the next token begins
    or_rng_key_t noise_key;
    or_sampling_t sampling;  // the session's
    float draft_temperature; // replaces sampling.temperature here
    bool noisy; // perturb by the session's noise: coupled acceptance at a temperature above 0
    // Guesses are drawn from reduced laws by `chooser`, rather than the best ones taken.
    bool drawn;
    // Drawn tokens go back: a node may be given the same child twice. The second one stays in the
    // tree, as a leaf, if the rule counts repetitions; else it is dropped. Only with `drawn`.
    bool replaced, repeats;
    or_chooser_t *chooser;
    or_shape_t shape; // for methods that have one; it fits nodes_max
    // dyspec, dyspec-t: by measured acceptance. dyspec-t: children less likely to be reached are left
    // out; 0: what suits nodes_max.
    bool calibrated;
    float threshold;
    // Measured acceptance, for sequoia and `calibrated`; only read here.
    const or_calibration_t *calibration;
    uint32_t nodes_max, depth_max;
    // tli: tokens with map[id] < 0 are never guessed, what is left (at least one token) is renormalised
    // before any filter; NULL: all may be. [vocabulary]
    const int32_t *map;
    // slrs: the chain becomes tokens of the target there, and is as long as they need (strings.h);
    // nodes_max and depth_max count those. NULL: drafter and target share their tokens.
    struct or_strings *strings;
    or_belief_t *belief; // the session's, read here and taught by or_builder_learn
} or_build_job_t;

// Are guesses drawn, rather than the best ones taken? Where the rule shares the target's noise or
// decodes greedily the best are better; the ratio rules need draws.
bool or_build_is_drawn(or_draft_method_t method, or_accept_rule_t rule);
// Set what a session's method and rule ask of its trees: noisy, drawn, replaced, repeats. The job
// has its sampling.
void or_build_job_suit(or_build_job_t *job, or_draft_method_t method, or_accept_rule_t rule);
// Does the method ask a model? If not, a job needs no sequence and no root row.
bool or_build_asks_model(or_draft_method_t method);

// Scratch for trees of up to nodes_max nodes and laws of up to law_entries tokens (0: nothing is
// ever drawn). Borrows model and vocab. OR_ERR_NO_MEMORY.
or_status_t or_builder_create(or_model_t *model, const or_vocab_t *vocab, uint32_t nodes_max,
                              uint32_t law_entries, or_builder_t **builder_p);
void or_builder_destroy(or_builder_t **builder_p);

// Scratch slots that a job's sequence must have been opened with.
uint32_t or_builder_slots(const or_builder_t *builder);

// Grow `tree` (reset to its root) with `method`, nodes in depth-first order. Fewer nodes than asked
// are fine: context, depth. Errors are the model's.
or_status_t or_builder_build(or_builder_t *builder, or_draft_method_t method,
                             const or_build_job_t *job, or_token_tree_t *tree);

// Forward passes of the model, for all trees so far.
uint64_t or_builder_passes(const or_builder_t *builder);

// The scratch slot that holds node's K and V in the last tree built; OR_KV_NO_SLOT if it was never
// expanded.
uint32_t or_builder_slot(const or_builder_t *builder, uint32_t node);

// How the nodes of the last tree were drawn; NULL if they were not. Valid until the next build.
const or_draws_t *or_builder_draws(const or_builder_t *builder);

// Teach `belief`, and `calibration` unless it is NULL, what the target chose on the last tree built:
// the accepted nodes, then `next`.
void or_builder_learn(const or_builder_t *builder, or_belief_t *belief,
                      or_calibration_t *calibration, const uint32_t *accepted,
                      uint32_t accepted_count, int32_t next);
