// builder_internal - what a drafting method works with.
//
//     guess 0 (root) ──┬─ guess 1 ── ...       expanded: the model ran it, its K and V lie in a slot, and its children
//                      └─ guess 2              are known by a list; not expanded: a leaf so far
//
// The builder has room for the nodes that a round asks for, or for more if the tree grows on while its round is in
// flight. A method that finds a better guess puts it in the place of a worse one without descendants.
//
// A drawn tree (job->drawn) has a reduced distribution for each expanded guess instead of a list, and keeps what is left
// of it as children are drawn. Which guesses exist may depend on other tokens, never on a guess's own: a method decides
// that there will be a child before it draws which (docs/algorithms.md section 2).
//
//     builder.c            the table of methods; begins and builds a tree
//     builder_model.c      memory, and the model as the source of distributions
//     builder_tree.c       guesses to nodes; what a verdict teaches
//     builder_foresight.c  slots, and guesses that run ahead
//     build_draws.c        the children of a guess
//     build_coupled.c      the best-first tree, which may grow on; builder_tell.c tells of its guesses
//     build_<method>.c     a method
//
// Methods call the helpers; no helper calls a method or the table.
#pragma once

#include "common/model/model_growth.h"
#include "drafter/build/builder.h"

#define OR_BUILD_CHILDREN 32u // the most children of a guess in its list
#define OR_BUILD_ROOT 0u

// The best children of one expanded guess, best first.
typedef struct {
    uint32_t count;
    int32_t ids[OR_BUILD_CHILDREN];
    double scores[OR_BUILD_CHILDREN];  // log p + G (log p without noise), up to a constant
    double weights[OR_BUILD_CHILDREN]; // log softmax(scores / tau) over the distribution, at most 0
} or_build_list_t;

typedef struct {
    int32_t token;
    uint32_t parent;
    uint32_t rank; // in its parent's list
    uint32_t depth;
    bool expanded;
    bool told;     // the coordinator knows it (growing trees)
    uint32_t slot; // scratch slot of an expanded guess; the root has none
    // The logarithm of the believed probability that the target reaches this guess; in a drawn tree, of the
    // drafter's own probability. The root's is 0.
    double weight;
    double p;               // probability by its parent's distribution or list
    uint32_t children;      // number of children put so far
    or_noise_place_t place; // place in the text where its children begin
} or_build_guess_t;

// The reduced distribution of one expanded guess, and what is left of it.
typedef struct {
    uint32_t count;
    uint32_t *tokens;  // [distribution_entries]
    uint32_t *weights; // [distribution_entries]
    double *left;      // [distribution_entries] weights; 0: drawn and not replaced
    double left_total;
} or_build_distribution_t;

// The source of distributions: a model, or a test's stand-in.
typedef struct {
    uint32_t vocab_size;
    uint32_t positions; // most tokens of a text
    // Read the root's distribution, for a new tree.
    or_status_t (*start)(or_builder_t *builder);
    // Run `count` guesses, whose parents are expanded, and read their distributions.
    or_status_t (*expand)(or_builder_t *builder, const uint32_t *guesses, uint32_t count);
    // Run ahead the guesses that a best-first tree will ask `expand` for, if that is known to be faster. The caller sets
    // all of `growth` but the sequence and the contest. The tree does not depend on it. NULL: never run ahead.
    or_status_t (*foresee)(or_builder_t *builder, or_growth_t *growth, or_grown_t *grown);
    // Take over a row that was run ahead: it is this guess, which has its slot and now its distribution.
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
    uint64_t passes;           // forward passes for all trees so far
    uint32_t logit_rows;       // how many rows fit `logits`
    float *logits;             // [logit_rows][vocabulary]
    double *perturbed;         // [vocabulary]
    or_model_row_t *rows;      // [rows_max of the model] NULL without a model
    uint32_t *banned;          // [vocabulary] tokens that may not be guessed; NULL without a model
    int32_t *history;          // [positions] the last committed tokens, then the path to a guess
    or_build_guess_t *guesses; // [nodes_max + 1]
    or_build_list_t *lists;    // [nodes_max + 1] by guess
    or_build_distribution_t *dists; // [nodes_max + 1] by guess; NULL if distribution_entries is 0
    uint32_t *dist_numbers;         // memory of their tokens and weights
    double *dist_left;              // memory of their `left`
    uint32_t *chosen;               // [nodes_max] a method's guesses
    uint32_t *batch;                // [nodes_max] guesses to expand
    uint32_t *picked;               // [nodes_max] guesses to send
    uint32_t *spare_slots;          // [slots_max] slots below slots_used that are free again

    // The tree being built.
    const or_build_job_t *job;
    or_sampling_t sampling; // with the draft temperature
    double tau; // how far the scores are trusted (belief.h): weights are those of scores / tau
    uint32_t banned_count;
    int32_t any_token; // a token that the job's map does not ban
    uint32_t nodes_wanted;
    uint32_t depth_limit;
    uint32_t history_count;
    uint32_t slots_used;
    uint32_t spare_slot_count;
    bool crowded; // a row had too many contenders, so the others are asked for their logits

    // The rows that were run ahead for the tree being built (builder_foresight.c).
    or_grown_t ahead;
    uint32_t kept_slots[OR_GROWTH_ROWS_MAX]; // slots of rows that no guess has adopted
    uint32_t kept_slot_count;                // 0 if there are no rows

    // A best-first tree (build_coupled.c). `chosen` holds all guesses but the root: first those of the tree, best
    // first, then the unused ones. A round may ask for those no deeper than depth_limit.
    uint32_t room;        // most guesses of the tree
    uint32_t grow_depth;  // most levels of the tree
    uint32_t set_count;   // guesses in the tree; in chains, too
    uint32_t round_count; // guesses in the tree no deeper than depth_limit
    bool rooted;          // the tree stands and grows on
    bool settled;         // the tree is in order: neither root nor wanted nodes have changed since
    double fixed_tau;     // the method's own tau; 0: the session's

    // The last tree, and which guess became which node.
    uint32_t tree_count;
    uint32_t *tree_guesses; // [nodes_max + 1]
    bool tree_drawn;
    or_draws_t draws;
    uint32_t *dist_index;                   // [nodes_max]
    uint32_t *draw_order;                   // [nodes_max]
    or_reduced_distribution_t *drawn_dists; // [nodes_max]
};

// Create a builder over any source, which it copies. Borrows vocab. OR_ERR_NO_MEMORY.
or_status_t or_builder_create_over(const or_build_source_t *source, const or_vocab_t *vocab,
                                   uint32_t nodes_max, uint32_t distribution_entries,
                                   or_builder_t **builder_p);

// Return true if the job's map bans this token.
static inline bool or_build_is_banned(const or_builder_t *builder, int32_t token)
{
    return builder->job->map != NULL && builder->job->map[token] < 0;
}

// ---- a tree (builder_tree.c) ----

// Set everything that a job asks for but the tree itself.
void or_build_take_job(or_builder_t *builder, const or_build_job_t *job);
// Make `tree` of the chosen guesses, parents first, and note which guess became which node.
or_status_t or_build_make_tree(or_builder_t *builder, const uint32_t *chosen, uint32_t count,
                               or_token_tree_t *tree);
// Teach `belief` that `token` follows this guess.
void or_build_believe(const or_builder_t *builder, or_belief_t *belief, uint32_t guess,
                      int32_t token);

// ---- the children of a guess (build_draws.c) ----

// Put the child that `parent`'s list has at `rank` into `guess`. `parent` is expanded.
void or_build_put(or_builder_t *builder, uint32_t guess, uint32_t parent, uint32_t rank);
// Put the next child of `parent` into `guess`: the best one not yet there, or one that is drawn. Returns false if there
// is none. `parent` is expanded.
bool or_build_next(or_builder_t *builder, uint32_t guess, uint32_t parent);
bool or_build_has_next(const or_builder_t *builder, uint32_t parent);
// Return the first sibling with the guess's token: that one has the children. It is mostly the guess itself.
uint32_t or_build_first(const or_builder_t *builder, uint32_t guess);
bool or_build_repeats(const or_builder_t *builder, uint32_t guess);
// Return the guess's share, in (0, 1], of *mass: what its parent's distribution has left. Takes the guess off *mass.
double or_build_share(const or_builder_t *builder, uint32_t guess, double *mass);
// Reduce `dist` to the distribution of this guess.
void or_build_distribution_set(or_builder_t *builder, uint32_t guess,
                               const or_distribution_t *dist);
// Set builder->draws: which node of the finished tree was drawn from which distribution.
void or_build_record_draws(or_builder_t *builder, const or_token_tree_t *tree);

// ---- passes (builder_foresight.c) ----

// Expand `count` guesses: one forward pass for as many rows as the model takes, then their lists. Their parents are
// expanded, and there are slots for them. Guesses that were run ahead need no pass.
or_status_t or_build_expand(or_builder_t *builder, const uint32_t *guesses, uint32_t count);
uint32_t or_build_take_slot(or_builder_t *builder);
// Run ahead, if that is faster, what a best-first tree will expand that has at most `width` children a guess. It begins
// with the first `count` of builder->picked. Call it once a tree, and forget when the tree is finished.
or_status_t or_build_foresee(or_builder_t *builder, uint32_t count, uint32_t width);
void or_build_forget_ahead(or_builder_t *builder);

// ---- a best-first tree (build_coupled.c) ----

// Guesses whose weight is within this of the best's are expanded with it, in trees that are waited for: e^-2 of it.
#define OR_BUILD_NEARLY 2.0
// A batch adds at most its weight to the tokens of a round, and this share of that, because its children take the place
// of others.
#define OR_BUILD_CHILDREN_SHARE 0.5
// Return what one pass takes of the time of a round that has `passes` already.
static inline double or_build_pass_share(const or_build_job_t *job, double passes)
{
    return job->pass_cost / (1 + passes * job->pass_cost);
}
// Begin with the root's children.
void or_build_best_begin(or_builder_t *builder);
// Put the round's guesses into builder->picked, best first; return how many.
uint32_t or_build_best_pick(or_builder_t *builder);

// ---- the methods ----
//
// The methods, or_build_<builder> of each row of OR_DRAFT_METHODS. The root is expanded before if the method asks a
// model. A method leaves the tree's guesses, parents before children, in builder->chosen.
#define OR_BUILD_PROTOTYPE(constant, number, name, builder, rules, nature, traits)                 \
    or_status_t or_build_##builder(or_builder_t *, uint32_t *count);
OR_DRAFT_METHODS(OR_BUILD_PROTOTYPE)
#undef OR_BUILD_PROTOTYPE
or_status_t or_build_strings(or_builder_t *builder, uint32_t *count); // chain, with job->strings
