// builder_internal - the tools of a drafting method: guesses, their scores, and a batched forward pass over some of
// them.
//
//     guess 0 (root) ──┬─ guess 1 ── ...       expanded: the model ran it, its K and V lie in a slot, and it has a list
//                      └─ guess 2              of its best children's scores; not expanded: a leaf so far
//
// There is room for as many guesses as nodes are wanted, or for more where the tree grows on while its
// round is in flight. A method that finds a better one puts it in the place of a worse one that has no
// descendants among the rest.
//
// Drawn trees (job->drawn) have a reduced distribution for each expanded guess instead of a list, and what is
// left of it as children are drawn. Which guesses there are may depend on other tokens, never on a
// guess's own: a method decides that a child is to be before it draws which (docs/algorithms.md
// section 2).
#pragma once

#include "common/model/model_growth.h"
#include "drafter/build/builder.h"

#define OR_BUILD_CHILDREN 32u // most children of a node that are considered
#define OR_BUILD_ROOT 0u

// The best children of one expanded guess, best first.
typedef struct {
    uint32_t count;
    int32_t ids[OR_BUILD_CHILDREN];
    double scores[OR_BUILD_CHILDREN];  // log p + G (log p without noise), up to a constant
    double weights[OR_BUILD_CHILDREN]; // log softmax(scores / tau) over the distribution: at most 0
} or_build_list_t;

typedef struct {
    int32_t token;
    uint32_t parent;
    uint32_t rank; // in its parent's list
    uint32_t depth;
    bool expanded;
    bool told;     // sent already: growing trees
    uint32_t slot; // of an expanded guess; the root has none
    // Log of the believed probability that the target comes here (drawn: of the drafter's own); the
    // root's is 0.
    double weight;
    double p;               // by its parent's distribution or list
    uint32_t children;      // put so far
    or_noise_place_t place; // where its children begin
} or_build_guess_t;

// The distribution of one expanded guess, and what is left of it.
typedef struct {
    uint32_t count;
    uint32_t *tokens;  // [distribution_entries]
    uint32_t *weights; // [distribution_entries]
    double *left;      // [distribution_entries] 0: drawn and not replaced
    double left_total;
} or_build_distribution_t;

// The source of distributions: a model, or a test's stand-in.
typedef struct {
    uint32_t vocab_size;
    uint32_t positions; // that a text may have
    // Read the root's distribution, for a new tree.
    or_status_t (*start)(or_builder_t *builder);
    // Run `count` guesses, whose parents are expanded, and read their distributions.
    or_status_t (*expand)(or_builder_t *builder, const uint32_t *guesses, uint32_t count);
    // Run ahead what a best-first tree will ask `expand` for, as far as that is known to be faster. Of `growth` all is
    // set but the sequence and the contest. Nothing of the tree depends on it. NULL: never.
    or_status_t (*foresee)(or_builder_t *builder, or_growth_t *growth, or_grown_t *grown);
    // A guess turns out to be a row that was run ahead, and has its slot: take its distribution.
    or_status_t (*adopt)(or_builder_t *builder, uint32_t guess, const or_distribution_t *dist);
} or_build_source_t;

struct or_builder {
    or_build_source_t source;
    or_model_t *model;       // borrowed; NULL in tests with a source of their own
    const or_vocab_t *vocab; // borrowed
    or_sampler_t *sampler;
    uint32_t nodes_max;
    uint32_t slots_max;
    uint32_t distribution_entries;
    uint64_t passes;      // of the model, for all trees so far
    uint32_t logit_rows;  // rows whose logits fit `logits`
    float *logits;        // [logit_rows][vocabulary]
    double *perturbed;    // [vocabulary]
    or_model_row_t *rows; // [rows_max of the model] NULL without a model
    uint32_t *banned;     // [vocabulary] tokens that may not be guessed. NULL without a model
    int32_t *history;     // [positions] the end of the committed tokens, then the path to a guess
    or_build_guess_t *guesses;      // [nodes_max + 1]
    or_build_list_t *lists;         // [nodes_max + 1] by guess
    or_build_distribution_t *dists; // [nodes_max + 1] by guess; NULL if distribution_entries is 0
    uint32_t *dist_numbers;         // what their tokens and weights point into
    double *dist_left;              // what `left` points into
    uint32_t *chosen;               // [nodes_max] a method's guesses
    uint32_t *batch;                // [nodes_max] guesses to expand
    uint32_t *picked;               // [nodes_max] guesses to send
    uint32_t *spare_slots;          // [slots_max] below slots_used, of guesses that are gone

    // The tree being built.
    const or_build_job_t *job;
    or_sampling_t sampling; // with the draft temperature
    double tau;
    uint32_t banned_count;
    int32_t any_token; // that the job's map does not ban
    uint32_t nodes_wanted;
    uint32_t depth_limit;
    uint32_t history_count;
    uint32_t slots_used;
    uint32_t spare_slot_count;
    bool crowded; // a row had too many contenders: all others will be asked for their logits

    // Run ahead for the tree being built (builder_foresight.c).
    or_grown_t ahead;
    uint32_t kept_slots[OR_GROWTH_ROWS_MAX]; // of rows that no guess has adopted
    uint32_t kept_slot_count;                // 0 if there are no rows

    // A best-first tree (build_coupled.c): `chosen` is all guesses but the root, those of the tree first,
    // best first. Up to depth_limit they are what a round may ask for.
    uint32_t room;        // guesses that the tree may have
    uint32_t grow_depth;  // levels that it may have
    uint32_t set_count;   // guesses that it has
    uint32_t round_count; // of them, up to depth_limit
    bool rooted;          // it stands, and grows on
    bool settled;         // since it was rooted anew or asked for other nodes
    double fixed_tau;     // that its method always believes in; 0: the session's

    // The last tree: which guess became which node.
    uint32_t tree_count;
    uint32_t *tree_guesses; // [nodes_max + 1]
    bool tree_drawn;
    or_draws_t draws;
    uint32_t *dist_index;                   // [nodes_max]
    uint32_t *draw_order;                   // [nodes_max]
    or_reduced_distribution_t *drawn_dists; // [nodes_max]
};

// A builder over any source. Borrows vocab. OR_ERR_NO_MEMORY.
or_status_t or_builder_create_over(const or_build_source_t *source, const or_vocab_t *vocab,
                                   uint32_t nodes_max, uint32_t distribution_entries,
                                   or_builder_t **builder_p);

// Put the child that `parent`'s list has at `rank` into `guess`. `parent` is expanded.
void or_build_put(or_builder_t *builder, uint32_t guess, uint32_t parent, uint32_t rank);

// Put the next child of `parent` into `guess`: the best that is not there yet, or one that is drawn.
// False if there are no more. `parent` is expanded.
bool or_build_next(or_builder_t *builder, uint32_t guess, uint32_t parent);
bool or_build_has_next(const or_builder_t *builder, uint32_t parent);

// Does the job's map ban it?
static inline bool or_build_is_banned(const or_builder_t *builder, int32_t token)
{
    return builder->job->map != NULL && builder->job->map[token] < 0;
}

// Expand `count` guesses: forward passes of as many rows as the model takes, then their lists.
// Their parents are expanded, and there are slots for them. Those that were run ahead need no pass.
or_status_t or_build_expand(or_builder_t *builder, const uint32_t *guesses, uint32_t count);
uint32_t or_build_take_slot(or_builder_t *builder);

// Run ahead, where that is faster, what a best-first tree with at most `width` children of a guess will expand, from
// the guesses that there are (set_count of `chosen`). Once a tree; to be forgotten when it is finished.
or_status_t or_build_foresee(or_builder_t *builder, uint32_t width);
void or_build_forget_ahead(or_builder_t *builder);

// A best-first tree. Begin with the root's children.
void or_build_best_begin(or_builder_t *builder);
// Put those of the best `nodes` guesses no deeper than `depth` whose children could be among them into
// builder->batch: the best of them and those whose weight is within `nearly` of its, `most` at most. Returns
// how many; 0: these nodes are final, whatever else grows.
uint32_t or_build_best_choose(or_builder_t *builder, uint32_t nodes, uint32_t depth, uint32_t most,
                              double nearly);
#define OR_BUILD_NEARLY 2.0 // for trees that are waited for: guesses of e^-2 of the best's weight
// Expand that batch.
or_status_t or_build_best_expand(or_builder_t *builder, uint32_t batch_count);
// Expand batch after batch until the round's guesses are final, or not worth another pass.
or_status_t or_build_best_finish(or_builder_t *builder);
// A batch adds at most what it weighs to the tokens of a round, and of that this share, since its children take the
// place of others.
#define OR_BUILD_CHILDREN_SHARE 0.5
// The round's guesses into builder->picked, best first; returns how many.
uint32_t or_build_best_pick(or_builder_t *builder);
// Weights or wishes have changed: put the tree in order, and offer it again what it had no room for.
void or_build_best_settle(or_builder_t *builder);
// `root`, an expanded guess, becomes the root. Guesses that do not stand on it are gone, and their slots
// are spare.
void or_build_best_reroot(or_builder_t *builder, uint32_t root);

// Set what a job asks for, but for the tree itself; the chosen guesses as a tree, and which node is which.
void or_build_take_job(or_builder_t *builder, const or_build_job_t *job);
or_status_t or_build_make_tree(or_builder_t *builder, const uint32_t *chosen, uint32_t count,
                               or_token_tree_t *tree);
// Teach `belief` that `token` follows this guess.
void or_build_believe(const or_builder_t *builder, or_belief_t *belief, uint32_t guess,
                      int32_t token);

// The first sibling that carries the guess's token, which has the children; mostly itself.
uint32_t or_build_first(const or_builder_t *builder, uint32_t guess);
bool or_build_repeats(const or_builder_t *builder, uint32_t guess);

// The guess's part of *mass, which the distribution of its parent has left; it is taken off. In (0, 1].
double or_build_share(const or_builder_t *builder, uint32_t guess, double *mass);

// The expectations of dyspec and dyspec-t for a guess: the probabilities that the target comes there, and that it
// then takes none of the children drawn so far, and the key of the next child.
typedef struct {
    double reach;
    double left; // reach included
    double mass; // of the distribution, that the children leave
    double key;  // 0: there is no next child
} or_build_prospect_t;
void or_build_prospect_open(const or_builder_t *builder, or_build_prospect_t *prospects,
                            uint32_t guess, double reach);
// `child` is the newest of `parent`.
void or_build_prospect_grow(const or_builder_t *builder, or_build_prospect_t *prospects,
                            uint32_t parent, uint32_t child);
// The guess with the largest key in first .. end - 1, the earlier of equals; `end` if none is above 0.
uint32_t or_build_prospect_best(const or_build_prospect_t *prospects, uint32_t first, uint32_t end);

// Memory for the distributions of all guesses; set one; and say of the finished tree (tree_guesses) what was
// drawn from which.
bool or_build_distributions_create(or_builder_t *builder);
void or_build_distributions_free(or_builder_t *builder);
void or_build_distribution_set(or_builder_t *builder, uint32_t guess,
                               const or_distribution_t *dist);
void or_build_record_draws(or_builder_t *builder, const or_token_tree_t *tree);

// The methods, or_build_<builder> of each row of OR_DRAFT_METHODS. The root is expanded before if the method
// asks a model. They leave the tree's guesses, parents before children, in builder->chosen.
#define OR_BUILD_PROTOTYPE(constant, number, name, builder, rules, nature, traits)                 \
    or_status_t or_build_##builder(or_builder_t *, uint32_t *count);
OR_DRAFT_METHODS(OR_BUILD_PROTOTYPE)
#undef OR_BUILD_PROTOTYPE
or_status_t or_build_strings(or_builder_t *builder, uint32_t *count); // chain, with job->strings
