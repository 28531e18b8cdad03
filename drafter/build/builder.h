// builder - grows one draft tree with the session's method (docs/design.md section 6).
//
// A method is one file, build_<method>.c, and one row of OR_DRAFT_METHODS (common/decode/methods.h). mcsd and
// rsd-c share build_branching.c, and multi is kseq in each lane of a session (lane.h). It grows the tree level
// by level: the builder runs one batched forward pass per level over the nodes a method wants expanded.
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

// The inputs that a tree is grown from. All are borrowed for the call.
typedef struct {
    // A method that asks no model needs neither of these two.
    or_kv_sequence_t *sequence; // holds every committed token; slots are the builder's, from 0
    uint32_t root_row;          // the row of the model's last pass that was the root's
    const int32_t *history;     // prompt + completion, the root last
    uint32_t history_count;
    or_noise_place_t place; // where the next token begins
    or_rng_key_t noise_key;
    or_sampling_t sampling;  // the session's
    float draft_temperature; // replaces sampling.temperature here
    bool noisy; // perturb by the session's noise: coupled acceptance at a temperature above 0
    // Guesses are drawn from reduced distributions by `chooser`, rather than the best ones taken.
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
    // or_builder_finish: what part of a round's time one pass takes. One that would not bring as large a
    // part of the round's tokens is left out; 0: none is.
    double pass_share;
} or_build_job_t;

// Are guesses drawn, rather than the best ones taken? Where the rule shares the target's noise or
// decodes greedily the best are better; the ratio rules need draws.
bool or_build_is_drawn(or_draft_method_t method, or_accept_rule_t rule);
// Set what a session's method and rule ask of its trees: noisy, drawn, replaced, repeats. The job
// has its sampling.
void or_build_job_suit(or_build_job_t *job, or_draft_method_t method, or_accept_rule_t rule);

// Have a model on a GPU know its tokens, with what trees that grow there need (model_growth.h). The first time that takes
// seconds for a large model, so it is done before anybody waits; or_builder_create does it else. OR_ERR_IO.
or_status_t or_builder_prepare(or_model_t *model, const or_vocab_t *vocab);

// Scratch for trees of up to nodes_max nodes and distributions of up to distribution_entries tokens (0: nothing is
// ever drawn). Borrows model and vocab. OR_ERR_NO_MEMORY; OR_ERR_IO (a GPU).
or_status_t or_builder_create(or_model_t *model, const or_vocab_t *vocab, uint32_t nodes_max,
                              uint32_t distribution_entries, or_builder_t **builder_p);
void or_builder_destroy(or_builder_t **builder_p);

// The number of scratch slots that a job's sequence must have been opened with.
uint32_t or_builder_slots(const or_builder_t *builder);

// Grow `tree` (reset to its root) with `method`, nodes in depth-first order. Fewer nodes than asked
// are fine: context, depth. Errors are the model's.
or_status_t or_builder_build(or_builder_t *builder, or_draft_method_t method,
                             const or_build_job_t *job, or_token_tree_t *tree);

// The number of forward passes of the model for all trees so far, with those that it made ahead.
uint64_t or_builder_passes(const or_builder_t *builder);

// The scratch slot that holds node's K and V in the last tree built; OR_KV_NO_SLOT if it was never
// expanded.
uint32_t or_builder_slot(const or_builder_t *builder, uint32_t node);

// The draws that made the nodes of the last tree; NULL if they were not drawn. Valid until the next build.
const or_draws_t *or_builder_draws(const or_builder_t *builder);

// Teach `belief`, and `calibration` unless it is NULL, what the target chose on the last tree built:
// the accepted nodes, then `next`.
void or_builder_learn(const or_builder_t *builder, or_belief_t *belief,
                      or_calibration_t *calibration, const uint32_t *accepted,
                      uint32_t accepted_count, int32_t next);

// ---- trees that grow on ----
//
//     root ──▶ finish ──▶ grow, grow, ... ──▶ follow ──▶ finish ──▶ ...
//              best n     a pass each         the text goes on along the tree
//
// While a round is in flight its tree grows on, best guesses first. When the text has followed it, what
// stands on the new root stays, with K and V, and is as if the tree had been grown from there. So is the
// round's tree: the same guesses as or_builder_build's, whatever grew besides. Weights that were given
// stay when the belief changes; lists made later use the new one. For the best-first methods, where the
// best guesses are taken and not drawn (or_build_grows), one tree a builder; or_builder_build ends it.

// Room for a growing tree whose rounds ask for up to nodes_max guesses.
uint32_t or_build_growing_nodes(uint32_t nodes_max);
bool or_build_grows(or_draft_method_t method, or_accept_rule_t rule);

// Begin: the root ran last, in row job->root_row. Errors are the model's.
or_status_t or_builder_root(or_builder_t *builder, or_draft_method_t method,
                            const or_build_job_t *job);
// Is there a tree, and does it stand where this job's would?
bool or_builder_stands(const or_builder_t *builder, const or_build_job_t *job);
void or_builder_forget(or_builder_t *builder);

// Grow until the best job->nodes_max guesses no deeper than job->depth_max are final, or not worth another
// pass (job->pass_share), and write them to `tree`, in depth-first order. Nothing is run that was run before. A tree whose
// pass fails, here or in or_builder_grow, is forgotten.
or_status_t or_builder_finish(or_builder_t *builder, const or_build_job_t *job,
                              or_token_tree_t *tree);
// One more pass, of few rows. *grew: there was something to grow.
or_status_t or_builder_grow(or_builder_t *builder, const or_build_job_t *job, bool *grew);
// The number of guesses that the tree has by now.
uint32_t or_builder_grown(const or_builder_t *builder);

// The text goes on with these tokens. Teaches `belief` what they say of the guesses they pass. Returns how many of them were run already, with their slots: the K and V to accept. If all
// were, the tree stands on the last of them now (or_kv_sequence_accept_root keeps its slots); else it is
// forgotten.
uint32_t or_builder_follow(or_builder_t *builder, or_belief_t *belief, const int32_t *tokens,
                           uint32_t count, uint32_t slots[OR_TREE_NODES_MAX]);

// Guesses to be sent: a tree that stands on a path of the growing one, which the receiver knows already.
typedef struct {
    or_token_tree_t *tree;           // its nodes best first; the caller's, whose room bounds it
    uint32_t depth;                  // of its root
    int32_t path[OR_TREE_NODES_MAX]; // tokens from the builder's root, left out, to there
} or_build_news_t;
// Take the guesses of the round's tree, which is final, that were not sent yet, with the nodes that connect them. If
// there are none, the tree has 0 nodes.
or_status_t or_builder_tell_round(or_builder_t *builder, or_build_news_t *news);
// The same for final guesses that grew besides: if there are `least` or more to send, and until `most` of all are
// known.
or_status_t or_builder_tell_more(or_builder_t *builder, uint32_t least, uint32_t most,
                                 or_build_news_t *news);
// Forget what was sent: nobody knows any of the guesses.
void or_builder_untell(or_builder_t *builder);
