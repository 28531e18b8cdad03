// growth_test_support - for the test of or_cuda_grow: the same tree as drafter/build/build_coupled.c grows it on the host, and
// a model that any text follows.
#pragma once

#include <stdbool.h>

#include "common/decode/sampling/noise.h"
#include "kernels/cuda/cuda_kernels.h"

#define GROWTH_TEST_CHILDREN 32u // as OR_BUILD_CHILDREN
#define GROWTH_TEST_VOCAB 8192u
#define GROWTH_TEST_NO_SLOT UINT32_MAX

// One of these numbers.
uint32_t growth_pick(uint64_t *random, const uint32_t *of, uint32_t count);
#define PICK(random, ...)                                                                          \
    growth_pick(random, (const uint32_t[]){__VA_ARGS__},                                           \
                sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

// Draw a host's request at random, with few and many of every limit. Pages and slots are addresses that are only
// passed on.
void growth_draw_wishes(or_cuda_growth_t *wishes, uint64_t *random);

// ---- the model ----

typedef struct {
    uint64_t seed;
    uint32_t least; // contenders of a row, before some are left out for their scores
    uint32_t most;  // at most OR_CUDA_CONTENDERS_MAX
    // The number of different logits; 0 means any. With 1, rows have 1, 2 or 4 contenders: weights are multiples of
    // ln 2, and many of them are equal.
    uint32_t levels;
    uint32_t many; // one row in so many has too many contenders; 0: none
    uint64_t token_keys[GROWTH_TEST_VOCAB];
    uint32_t widths[GROWTH_TEST_VOCAB];
} growth_model_t;

// A model at random.
void growth_model_draw(growth_model_t *model, uint64_t *random);

// Trees that nothing but their nodes and levels limits, and a model of rows that have about so many contenders.
void growth_draw_plenty(or_cuda_growth_t *wishes, growth_model_t *model, uint64_t *random,
                        uint32_t nodes, uint32_t contenders);

// List what follows a path (a number that stands for it) as or_cuda_contenders would, and return how many there are,
// or OR_CUDA_CONTENDERS_MANY.
uint32_t growth_model_list(const growth_model_t *model, uint64_t path,
                           const or_cuda_contest_t *contest, or_cuda_contender_t *list);

// ---- the tree ----

typedef struct {
    uint32_t count;
    int32_t ids[GROWTH_TEST_CHILDREN];
    double scores[GROWTH_TEST_CHILDREN];
    double weights[GROWTH_TEST_CHILDREN];
} growth_list_t;

typedef struct {
    int32_t token;
    uint32_t parent;
    uint32_t depth;
    bool expanded;
    uint32_t slot;
    double weight;
    uint32_t children;
    or_noise_place_t place;
    uint64_t path;
} growth_guess_t;

typedef struct {
    const growth_model_t *model;
    const or_cuda_growth_t *wishes; // what the host says there; borrowed
    uint32_t count;
    uint32_t chosen[OR_CUDA_GROWTH_MAX]; // guesses, best first
    growth_guess_t guesses[OR_CUDA_GROWTH_MAX + 1];
    growth_list_t lists[OR_CUDA_GROWTH_MAX + 1];
    uint32_t batch[OR_CUDA_GROWTH_MAX];
} growth_tree_t;

// A root with its children.
void growth_tree_begin(growth_tree_t *tree, const growth_model_t *model,
                       const or_cuda_growth_t *wishes);
// The contest of a guess's row.
or_cuda_contest_t growth_tree_contest(const growth_tree_t *tree, const growth_guess_t *guess);
// The next batch, `most` at most, of those that pay; returns how many.
uint32_t growth_tree_choose(growth_tree_t *tree, uint32_t most);
// The batch was run: lists [count][OR_CUDA_CONTENDERS_MAX] and how long they are.
void growth_tree_expand(growth_tree_t *tree, uint32_t count, const or_cuda_contender_t *lists,
                        const uint32_t *counts);
// The guess at a place of the tree's order.
const growth_guess_t *growth_tree_at(const growth_tree_t *tree, uint32_t place);
// The tree and its wishes as the host hands them over.
void growth_tree_hand_over(const growth_tree_t *tree, or_cuda_growth_t *growth);
