// builder_internal - what a drafting method works with: guesses, their scores, and a batched
// forward pass over some of them.
//
//     guess 0 (root) ──┬─ guess 1 ── ...       expanded: the model ran it, its K and V lie in a slot, and it has a list
//                      └─ guess 2              of its best children's scores; not expanded: a leaf so far
//
// There is room for as many guesses as nodes are wanted. A method that finds a better one puts it
// in the place of a worse one that has no descendants among the rest; the slot of that one is lost
// until the next tree.
#pragma once

#include "drafter/builder.h"

#define OR_BUILD_CHILDREN 32u // most children of a node that are considered
#define OR_BUILD_ROOT 0u

// The best children of one expanded guess, best first.
typedef struct {
    uint32_t count;
    int32_t ids[OR_BUILD_CHILDREN];
    double scores[OR_BUILD_CHILDREN];  // log p + G (log p without noise), up to a constant
    double weights[OR_BUILD_CHILDREN]; // log softmax(scores / tau) over the law: at most 0
} or_build_list_t;

typedef struct {
    int32_t token;
    uint32_t parent;
    uint32_t depth;
    bool expanded;
    uint32_t slot; // of an expanded guess; the root has none
    double weight; // log of the believed probability that the target comes here; the root's is 0
    or_noise_place_t place; // where its children begin
} or_build_guess_t;

struct or_builder {
    or_model_t *model;       // borrowed
    const or_vocab_t *vocab; // borrowed
    or_sampler_t *sampler;
    uint32_t nodes_max;
    uint32_t slots_max;
    uint32_t logit_rows;  // rows whose logits fit `logits`
    float *logits;        // [logit_rows][vocabulary]
    double *perturbed;    // [vocabulary]
    or_model_row_t *rows; // [rows_max of the model]
    int32_t *history;     // [context] the end of the committed tokens, then the path to a guess
    or_build_guess_t *guesses; // [nodes_max + 1]
    or_build_list_t *lists;    // [nodes_max + 1] by guess
    uint32_t *chosen;          // [nodes_max] a method's guesses
    uint32_t *batch;           // [nodes_max] guesses to expand

    // The tree being built.
    const or_build_job_t *job;
    or_sampling_t sampling; // with the draft temperature
    double tau;
    uint32_t nodes_wanted;
    uint32_t depth_limit;
    uint32_t history_count;
    uint32_t slots_used;

    // The last tree: which guess became which node.
    uint32_t tree_count;
    uint32_t *tree_guesses; // [nodes_max + 1]
};

// Put the child that `parent`'s list has at `rank` into `guess`. `parent` is expanded.
void or_build_put(or_builder_t *builder, uint32_t guess, uint32_t parent, uint32_t rank);

// Expand `count` guesses: forward passes of as many rows as the model takes, then their lists.
// Their parents are expanded, and there are slots for them.
or_status_t or_build_expand(or_builder_t *builder, const uint32_t *guesses, uint32_t count);

// The methods. The root is expanded before; they leave the tree's guesses, parents before children,
// in builder->chosen.
or_status_t or_build_coupled(or_builder_t *builder, uint32_t *count);
or_status_t or_build_chain(or_builder_t *builder, uint32_t *count);
