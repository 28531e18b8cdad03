// builder - grows one draft tree with the session's method (docs/design.md section 6).
//
// A method is one file, build_<method>.c, and one row of OR_DRAFT_METHODS (common/decode/methods.h). Some share a file:
// mcsd and rsd-c have build_branching.c, coupled and topk have build_coupled.c, dyspec and dyspec-t have build_dyspec.c.
// The method multi is kseq in each lane of a session (lane.h). A method grows the tree level by level: the builder runs
// one batched forward pass per level over the nodes that the method wants expanded.
//
//     root logits -> method adds nodes -> or_build_expand(nodes) -> distributions of those nodes -> method adds nodes -> ...
//
// One thread. No allocation after create.
#pragma once

#include "common/decode/chooser.h"
#include "common/decode/draws.h"
#include "common/decode/methods.h"
#include "common/decode/sampling/noise.h"
#include "common/decode/sampling/sampler.h"
#include "common/decode/shape.h"
#include "common/decode/token_tree.h"
#include "common/model/model.h"
#include "common/text/vocab/vocab.h"
#include "drafter/belief.h"
#include "drafter/calibration.h"

typedef struct or_builder or_builder_t;

// The inputs of a tree, all borrowed for the call.
typedef struct {
    // A method that asks no model needs neither of these two.
    or_kv_sequence_t *sequence; // holds every committed token; slots are the builder's, from 0
    uint32_t root_row;          // the row of the model's last pass that was the root's
    const int32_t *history;     // prompt + completion, the root last
    uint32_t history_count;
    or_noise_place_t place; // place in the text where the next token begins
    or_rng_key_t noise_key;
    or_sampling_t sampling;  // the session's
    float draft_temperature; // replaces sampling.temperature here
    bool
        noisy; // scores are perturbed by the session's noise: coupled acceptance at a temperature above 0
    // Guesses are drawn from reduced distributions by `chooser`; else the best ones are taken.
    bool drawn;
    // Drawn tokens go back: a node may be given the same child twice. The second one stays in the tree, as a leaf, if
    // the rule counts repetitions (`repeats`); else it is dropped. Only with `drawn`.
    bool replaced, repeats;
    or_chooser_t *chooser;
    or_shape_t shape; // for methods that have one; it fits nodes_max
    // dyspec, dyspec-t: `calibrated` goes by measured acceptance. dyspec-t leaves out children whose key is below
    // `threshold`; 0: it suits nodes_max.
    bool calibrated;
    float threshold;
    // Measured acceptance for sequoia and `calibrated`; only read here.
    const or_calibration_t *calibration;
    uint32_t nodes_max, depth_max;
    // tli: tokens with map[id] < 0 are never guessed. The others (at least one) are renormalised before any filter.
    // NULL: all may be guessed. [vocabulary]
    const int32_t *map;
    // slrs: the chain becomes tokens of the target here, and is as long as they need (strings.h); nodes_max and
    // depth_max count those. NULL: drafter and target share their tokens.
    struct or_strings *strings;
    or_belief_t *belief; // the session's, read here and taught by or_builder_learn
    // or_builder_finish: the time of one pass / the time of a round without passes. A pass that would not bring as large
    // a share of the round's tokens as it takes of its time is left out; 0: none is.
    double pass_cost;
} or_build_job_t;

// Return true if guesses are drawn. If the rule shares the target's noise or decodes greedily, the best ones are
// better; the ratio rules need draws.
bool or_build_is_drawn(or_draft_method_t method, or_accept_rule_t rule);
// Set what a session's method and rule need of its trees: noisy, drawn, replaced, repeats. The job has its sampling.
void or_build_job_suit(or_build_job_t *job, or_draft_method_t method, or_accept_rule_t rule);

// Give a model on a GPU its tokens and what trees that grow there need (model_growth.h). The first time that takes
// seconds for a large model, so do it before any session waits; or_builder_create does it else. OR_ERR_IO.
or_status_t or_builder_prepare(or_model_t *model, const or_vocab_t *vocab);

// Create scratch for trees of up to nodes_max nodes and distributions of up to distribution_entries tokens (0:
// nothing is ever drawn). Borrows model and vocab. OR_ERR_NO_MEMORY; OR_ERR_IO (a GPU).
or_status_t or_builder_create(or_model_t *model, const or_vocab_t *vocab, uint32_t nodes_max,
                              uint32_t distribution_entries, or_builder_t **builder_p);
void or_builder_destroy(or_builder_t **builder_p);

// Return the number of scratch slots that a job's sequence must have been opened with.
uint32_t or_builder_slots(const or_builder_t *builder);

// Grow `tree` (reset to its root) with `method`, nodes in depth-first order. It may have fewer nodes than asked for,
// because of context or depth. Errors are the model's, and OR_ERR_UNSUPPORTED for an unknown method.
or_status_t or_builder_build(or_builder_t *builder, or_draft_method_t method,
                             const or_build_job_t *job, or_token_tree_t *tree);

// Return the forward passes of the model for all trees so far, those of rows that ran ahead included.
uint64_t or_builder_passes(const or_builder_t *builder);

// Return the scratch slot that holds the node's K and V in the last tree built; OR_KV_NO_SLOT if it was never
// expanded.
uint32_t or_builder_slot(const or_builder_t *builder, uint32_t node);

// Return how the nodes of the last tree were drawn; NULL if they were not. Valid until the next build.
const or_draws_t *or_builder_draws(const or_builder_t *builder);

// Teach `belief`, and `calibration` unless it is NULL, what the target chose on the last tree built: the accepted
// nodes, then `next`.
void or_builder_learn(const or_builder_t *builder, or_belief_t *belief,
                      or_calibration_t *calibration, const uint32_t *accepted,
                      uint32_t accepted_count, int32_t next);

// ---- trees that grow on ----
//
//     root ──▶ finish ──▶ grow, grow, ... ──▶ follow ──▶ finish ──▶ ...
//              best n     a pass each         the text goes on along the tree
//
// While a round is in flight its tree grows on, best guesses first. When the text has followed the tree, the part
// below the new root stays, with K and V, and is as if it had been grown from there. So is the round's tree: it has
// the same guesses as or_builder_build's, whatever grew besides. Weights stay when the belief changes; later lists
// use the new one.
//
// This is for the best-first methods, if the best guesses are taken and not drawn (or_build_grows). A builder has one
// such tree; or_builder_build ends it.

// Return the room of a growing tree whose rounds ask for up to nodes_max guesses.
uint32_t or_build_growing_nodes(uint32_t nodes_max);
bool or_build_grows(or_draft_method_t method, or_accept_rule_t rule);

// Begin a growing tree: the root ran last, in row job->root_row. Errors are the model's.
or_status_t or_builder_root(or_builder_t *builder, or_draft_method_t method,
                            const or_build_job_t *job);
// Return true if there is a growing tree and it stands where this job's would.
bool or_builder_stands(const or_builder_t *builder, const or_build_job_t *job);
void or_builder_forget(or_builder_t *builder);

// Grow until the best job->nodes_max guesses no deeper than job->depth_max are final, or not worth another pass
// (job->pass_cost), and write them to `tree` in depth-first order. Nothing runs twice. A tree whose pass fails, here
// or in or_builder_grow, is forgotten.
or_status_t or_builder_finish(or_builder_t *builder, const or_build_job_t *job,
                              or_token_tree_t *tree);
// Run one more pass, of few rows. *grew: there was something to grow.
or_status_t or_builder_grow(or_builder_t *builder, const or_build_job_t *job, bool *grew);
// Return the number of guesses in the growing tree.
uint32_t or_builder_grown(const or_builder_t *builder);

// Follow the text, which goes on with these tokens, and teach `belief` what they say of the guesses they pass.
// Returns how many of the tokens were run already, with their slots: the K and V to accept. If all were, the tree now
// stands on the last of them (or_kv_sequence_accept_root keeps its slots); else it is forgotten.
uint32_t or_builder_follow(or_builder_t *builder, or_belief_t *belief, const int32_t *tokens,
                           uint32_t count, uint32_t slots[OR_TREE_NODES_MAX]);

// News for the coordinator: a tree of guesses, on a path of the growing tree that the coordinator knows already.
typedef struct {
    or_token_tree_t *tree;           // its nodes, best first; the caller's, whose room bounds it
    uint32_t depth;                  // the depth of its root
    int32_t path[OR_TREE_NODES_MAX]; // the tokens from the builder's root (left out) to there
} or_build_news_t;
// Collect the guesses of the round's tree, which is final, that were not told yet, with the nodes that connect them.
// If there are none, news->tree has 0 nodes.
or_status_t or_builder_tell_round(or_builder_t *builder, or_build_news_t *news);
// Collect final guesses that grew besides, if there are `least` or more to tell, until `most` in all are known.
or_status_t or_builder_tell_more(or_builder_t *builder, uint32_t least, uint32_t most,
                                 or_build_news_t *news);
// Note that the coordinator knows none of the guesses.
void or_builder_untell(or_builder_t *builder);
