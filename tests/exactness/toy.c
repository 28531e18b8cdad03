#include "tests/exactness/toy.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/math/math.h"
#include "common/base/math/rng.h"
#include "drafter/build/builder_internal.h"
#include "drafter/strings/strings.h"
#include "tests/exactness/tiny_vocab.h"
#include "tests/support/test_support.h"

#define PARTS 16u  // of the drafter's distribution
#define STRINGS 2u // the target's tokens in a chain, at most

// Return a random number that is a function of the model and the text.
static uint64_t number_of(const toy_t *toy, uint32_t model, const int32_t *text, uint32_t length,
                          uint32_t draw)
{
    uint32_t place = 1;
    for (uint32_t i = 0; i < length; i++) {
        place = place * (TOY_VOCAB_MAX + 1) + (uint32_t)text[i] + 1;
    }
    return or_rng_draw(or_rng_key(toy->seed, model), OR_RNG_TEST, place, 0, draw) >> 32;
}

static uint32_t fixed_draft(const toy_t *toy, uint32_t *tokens, uint32_t *weights)
{
    uint32_t count = 0;
    for (uint32_t id = 0; id < toy->vocab_size; id++) {
        if (toy->fixed_draft[id] > 0) {
            tokens[count] = id;
            weights[count++] = toy->fixed_draft[id];
        }
    }
    return count;
}

// Distribute the parts first .. end - 1 of the drafter's distribution over the tokens of a list. The shares
// are squares, so that some tokens are likely and some get nothing.
static void spread(const toy_t *toy, const int32_t *text, uint32_t length, uint32_t first,
                   uint32_t end, const uint32_t *list, uint32_t count, uint32_t *parts)
{
    uint32_t shift = (uint32_t)number_of(toy, 1, text, length, PARTS);
    for (uint32_t i = first; i < end; i++) {
        double u = (double)(number_of(toy, 1, text, length, i) & 0xFFFF) / 0x10000;
        parts[list[((uint32_t)(u * u * count) + shift) % count]]++;
    }
}

// Return how many parts go to tokens that both have.
static uint32_t parts_of_both(const toy_t *toy, const int32_t *text, uint32_t length,
                              uint32_t count_both, uint32_t count_outside)
{
    static const uint32_t choices[] = {0, 4, 8, 8, 8, 16};
    uint32_t choice = (uint32_t)number_of(toy, 1, text, length, PARTS + 1) % 6;
    if (count_both == 0) {
        return 0;
    }
    return count_outside == 0 ? PARTS : choices[choice];
}

static void draft_parts(const toy_t *toy, const int32_t *text, uint32_t length, uint32_t *parts)
{
    uint32_t both[TOY_VOCAB_MAX], outside[TOY_VOCAB_MAX];
    uint32_t count_both = 0;
    uint32_t count_outside = 0;
    for (uint32_t id = 0; id < toy_draft_size(toy); id++) {
        if (toy->pair == NULL || toy->pair->to_target[id] != OR_TOKEN_NONE) {
            both[count_both++] = id;
        } else {
            outside[count_outside++] = id;
        }
    }
    uint32_t in_both = parts_of_both(toy, text, length, count_both, count_outside);
    spread(toy, text, length, 0, in_both, both, count_both, parts);
    spread(toy, text, length, in_both, PARTS, outside, count_outside, parts);
}

uint32_t toy_draft_size(const toy_t *toy)
{
    return toy->pair != NULL ? toy->draft_size : toy->vocab_size;
}

uint32_t toy_draft(const toy_t *toy, const int32_t *text, uint32_t length, uint32_t *tokens,
                   uint32_t *weights)
{
    uint32_t parts[TOY_VOCAB_MAX] = {0};
    uint32_t count = 0;
    if (toy->fixed_draft != NULL) {
        return fixed_draft(toy, tokens, weights);
    }
    draft_parts(toy, text, length, parts);
    for (uint32_t id = 0; id < toy_draft_size(toy); id++) {
        if (parts[id] > 0) {
            tokens[count] = id;
            weights[count++] = parts[id] * (OR_DISTRIBUTION_TOTAL / PARTS);
        }
    }
    return count;
}

static uint32_t first_of_both(const toy_t *toy)
{
    uint32_t id = 0;
    while (toy->pair->to_target[id] == OR_TOKEN_NONE) {
        id++;
    }
    return id;
}

uint32_t toy_restricted(const toy_t *toy, const int32_t *text, uint32_t length, uint32_t *tokens,
                        uint32_t *weights)
{
    uint32_t all = toy_draft(toy, text, length, tokens, weights);
    uint32_t count = 0;
    uint32_t total = 0;
    for (uint32_t i = 0; i < all; i++) {
        if (toy->pair->to_target[tokens[i]] != OR_TOKEN_NONE) {
            tokens[count] = tokens[i];
            weights[count] = weights[i];
            total += weights[count++];
        }
    }
    if (count == 0) {
        tokens[0] = first_of_both(toy);
        weights[0] = OR_DISTRIBUTION_TOTAL;
        return 1;
    }
    for (uint32_t i = 0; i < count; i++) {
        weights[i] *= OR_DISTRIBUTION_TOTAL / total; // 1, 2 or 4
    }
    return count;
}

void toy_target(const toy_t *toy, const int32_t *text, uint32_t length, double *weights)
{
    uint32_t tokens[TOY_VOCAB_MAX], same[TOY_VOCAB_MAX];
    bool any = false;
    if (toy->fixed_target != NULL) {
        memcpy(weights, toy->fixed_target, toy->vocab_size * sizeof *weights);
        return;
    }
    for (uint32_t id = 0; id < toy->vocab_size; id++) {
        uint32_t weight = (uint32_t)number_of(toy, 2, text, length, id) % 8;
        weights[id] = toy->same ? 0 : weight;
        any = any || weights[id] > 0;
    }
    if (toy->same) {
        uint32_t count = toy_draft(toy, text, length, tokens, same);
        for (uint32_t i = 0; i < count; i++) {
            weights[tokens[i]] = same[i];
        }
    } else if (!any) {
        weights[0] = 1;
    }
}

struct toy_drafter {
    or_gguf_t *gguf;
    or_vocab_t *vocab;
    or_builder_t *builder;
    or_belief_t belief;
    or_calibration_t calibration; // nothing is learned
    // For slrs: the state of the pair that was drafted for last.
    const or_vocab_pair_t *pair;
    or_token_trie_t *trie;
    or_strings_t *strings;
    or_token_tree_t *own; // the drafter's tokens of the chain
    or_build_job_t job;
};

static const toy_t *drafting; // by the builder's source, which has no context of its own

// For methods that take the best guesses: set the list to the distribution's tokens, best first.
static void set_list(or_build_list_t *list, const or_build_distribution_t *dist)
{
    list->count = 0;
    for (uint32_t i = 0; i < dist->count; i++) {
        uint32_t at = list->count++;
        for (; at > 0 && list->scores[at - 1] < dist->weights[i]; at--) {
            list->scores[at] = list->scores[at - 1];
            list->ids[at] = list->ids[at - 1];
        }
        list->scores[at] = dist->weights[i];
        list->ids[at] = (int32_t)dist->tokens[i];
    }
}

static void set_dist(or_builder_t *builder, uint32_t guess)
{
    int32_t text[TOY_LENGTH_MAX], ids[TOY_VOCAB_MAX];
    uint32_t tokens[TOY_VOCAB_MAX], weights[TOY_VOCAB_MAX];
    double scores[TOY_VOCAB_MAX];
    or_build_guess_t *at = &builder->guesses[guess];
    for (uint32_t above = guess; above != OR_BUILD_ROOT; above = builder->guesses[above].parent) {
        text[builder->guesses[above].depth - 1] = builder->guesses[above].token;
    }
    uint32_t count = drafting->restricted
                         ? toy_restricted(drafting, text, at->depth, tokens, weights)
                         : toy_draft(drafting, text, at->depth, tokens, weights);
    for (uint32_t i = 0; i < count; i++) {
        ids[i] = (int32_t)tokens[i];
        scores[i] = or_ln(weights[i]);
    }
    or_build_distribution_set(builder, guess,
                              &(or_distribution_t){.ids = ids, .scores = scores, .count = count});
    const or_build_distribution_t *dist = &builder->dists[guess];
    assert_int_equal(dist->count, count); // the reduction finds the integers again
    assert_memory_equal(dist->weights, weights, count * sizeof *weights);
    set_list(&builder->lists[guess], dist);
    at->expanded = true;
}

static or_status_t start(or_builder_t *builder)
{
    set_dist(builder, OR_BUILD_ROOT);
    return OR_OK;
}

static or_status_t expand(or_builder_t *builder, const uint32_t *guesses, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        set_dist(builder, guesses[i]);
    }
    return OR_OK;
}

toy_drafter_t *toy_drafter_create(void)
{
    toy_drafter_t *drafter = calloc(1, sizeof *drafter);
    assert_non_null(drafter);
    const or_build_source_t source = {
        .vocab_size = TOY_VOCAB_MAX, .positions = TOY_LENGTH_MAX, .start = start, .expand = expand};
    tiny_vocab_open(&drafter->gguf, &drafter->vocab);
    or_belief_init(&drafter->belief);
    assert_int_equal(or_builder_create_over(&source, drafter->vocab, OR_TREE_NODES_MAX,
                                            TOY_VOCAB_MAX, &drafter->builder),
                     OR_OK);
    assert_int_equal(or_token_tree_create(OR_TREE_NODES_MAX, &drafter->own), OR_OK);
    return drafter;
}

void toy_drafter_destroy(toy_drafter_t **drafter_p)
{
    toy_drafter_t *drafter = *drafter_p;
    or_strings_destroy(&drafter->strings);
    or_token_trie_destroy(&drafter->trie);
    or_token_tree_destroy(&drafter->own);
    or_builder_destroy(&drafter->builder);
    or_vocab_destroy(&drafter->vocab);
    or_gguf_close(&drafter->gguf);
    free(drafter);
    *drafter_p = NULL;
}

static or_build_job_t job_of(toy_drafter_t *drafter, const toy_t *toy, const toy_plan_t *plan,
                             or_chooser_t *chooser)
{
    or_build_job_t job = {
        .history = &toy->root,
        .history_count = 1,
        .chooser = chooser,
        .shape = plan->shape,
        .nodes_max = plan->nodes,
        .depth_max = plan->depth,
        .belief = &drafter->belief,
        .calibrated = plan->calibrated,
        .threshold = plan->threshold,
        .calibration = &drafter->calibration,
        .map = toy->restricted ? toy->pair->to_target : NULL,
    };
    or_build_job_suit(&job, plan->method, plan->rule);
    return job;
}

const or_draws_t *toy_drafter_draft(toy_drafter_t *drafter, const toy_t *toy,
                                    const toy_plan_t *plan, or_chooser_t *chooser,
                                    or_token_tree_t *tree)
{
    or_build_job_t job = job_of(drafter, toy, plan, chooser);
    drafting = toy;
    assert_int_equal(or_builder_build(drafter->builder, plan->method, &job, tree), OR_OK);
    return or_builder_draws(drafter->builder);
}

// Change to the strings of another pair.
static void set_pair(toy_drafter_t *drafter, const or_vocab_pair_t *pair)
{
    or_strings_destroy(&drafter->strings);
    or_token_trie_destroy(&drafter->trie);
    drafter->pair = pair;
    assert_int_equal(or_token_trie_create(pair->target, &drafter->trie), OR_OK);
    assert_true(or_strings_nodes(drafter->trie, STRINGS) <= OR_TREE_NODES_MAX);
    assert_int_equal(
        or_strings_create(pair->draft, pair->to_target, drafter->trie, STRINGS, &drafter->strings),
        OR_OK);
}

const double *toy_drafter_draft_strings(toy_drafter_t *drafter, const toy_t *toy,
                                        const toy_plan_t *plan, or_chooser_t *chooser,
                                        or_token_tree_t *tree)
{
    if (drafter->pair != toy->pair) {
        set_pair(drafter, toy->pair);
    }
    drafter->job = job_of(drafter, toy, plan, chooser);
    drafter->job.strings = drafter->strings;
    drafting = toy;
    assert_int_equal(or_builder_build(drafter->builder, plan->method, &drafter->job, drafter->own),
                     OR_OK);
    or_token_tree_reset(tree, toy->root);
    assert_int_equal(or_strings_fill(drafter->strings, tree), OR_OK);
    return or_strings_psi(drafter->strings);
}

void toy_drafter_ask(toy_drafter_t *drafter, uint32_t node, const int32_t *ids, uint32_t count,
                     double *psi)
{
    uint32_t tokens[TOY_VOCAB_MAX];
    or_strings_distribution_t dist;
    for (uint32_t i = 0; i < count; i++) {
        tokens[i] = (uint32_t)ids[i];
        psi[i] = 0;
    }
    if (or_strings_ask(drafter->strings, drafter->builder, &drafter->job, false, node, tokens,
                       count, &dist) != OR_OK) {
        fail_msg("%s", or_error_text());
    }
    for (uint32_t i = 0, j = 0; j < dist.count; i++) {
        if (tokens[i] == dist.tokens[j]) {
            psi[i] = dist.psi[j++];
        }
    }
}
