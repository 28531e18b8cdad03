#include "tests/exactness/toy.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/math.h"
#include "common/base/rng.h"
#include "drafter/builder_internal.h"
#include "tests/exactness/tiny_vocab.h"
#include "tests/support/test_support.h"

#define PARTS 16u // of the drafter's law

// A random number that is a function of the model and the text.
static uint64_t number_of(const toy_t *toy, uint32_t model, const int32_t *text, uint32_t length,
                          uint32_t draw)
{
    uint32_t place = 1;
    for (uint32_t i = 0; i < length; i++) {
        place = place * (TOY_VOCAB_MAX + 1) + (uint32_t)text[i] + 1;
    }
    return or_rng_draw(or_rng_key(toy->seed, model), OR_RNG_TEST, place, 0, draw) >> 32;
}

uint32_t toy_draft(const toy_t *toy, const int32_t *text, uint32_t length, uint32_t *tokens,
                   uint32_t *weights)
{
    uint32_t parts[TOY_VOCAB_MAX] = {0};
    uint32_t count = 0;
    for (uint32_t id = 0; toy->fixed_draft != NULL && id < toy->vocab_size; id++) {
        if (toy->fixed_draft[id] > 0) {
            tokens[count] = id;
            weights[count++] = toy->fixed_draft[id];
        }
    }
    if (toy->fixed_draft != NULL) {
        return count;
    }
    // Squares, so that some tokens are likely and some have nothing.
    for (uint32_t i = 0; i < PARTS; i++) {
        double u = (double)(number_of(toy, 1, text, length, i) & 0xFFFF) / 0x10000;
        uint32_t shift = (uint32_t)number_of(toy, 1, text, length, PARTS);
        parts[((uint32_t)(u * u * toy->vocab_size) + shift) % toy->vocab_size]++;
    }
    for (uint32_t id = 0; id < toy->vocab_size; id++) {
        if (parts[id] > 0) {
            tokens[count] = id;
            weights[count++] = parts[id] * (OR_LAW_TOTAL / PARTS);
        }
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
};

static const toy_t *drafting; // by the builder's source, which has no context of its own

// For methods that take the best guesses: the law's tokens, best first.
static void set_list(or_build_list_t *list, const or_build_law_t *law)
{
    list->count = 0;
    for (uint32_t i = 0; i < law->count; i++) {
        uint32_t at = list->count++;
        for (; at > 0 && list->scores[at - 1] < law->weights[i]; at--) {
            list->scores[at] = list->scores[at - 1];
            list->ids[at] = list->ids[at - 1];
        }
        list->scores[at] = law->weights[i];
        list->ids[at] = (int32_t)law->tokens[i];
    }
}

static void set_law(or_builder_t *builder, uint32_t guess)
{
    int32_t text[TOY_LENGTH_MAX], ids[TOY_VOCAB_MAX];
    uint32_t tokens[TOY_VOCAB_MAX], weights[TOY_VOCAB_MAX];
    double scores[TOY_VOCAB_MAX];
    or_build_guess_t *at = &builder->guesses[guess];
    for (uint32_t above = guess; above != OR_BUILD_ROOT; above = builder->guesses[above].parent) {
        text[builder->guesses[above].depth - 1] = builder->guesses[above].token;
    }
    uint32_t count = toy_draft(drafting, text, at->depth, tokens, weights);
    for (uint32_t i = 0; i < count; i++) {
        ids[i] = (int32_t)tokens[i];
        scores[i] = or_ln(weights[i]);
    }
    or_build_law_set(builder, guess, &(or_law_t){.ids = ids, .scores = scores, .count = count});
    const or_build_law_t *law = &builder->laws[guess];
    assert_int_equal(law->count, count); // the reduction finds the integers again
    assert_memory_equal(law->weights, weights, count * sizeof *weights);
    set_list(&builder->lists[guess], law);
    at->expanded = true;
}

static or_status_t start(or_builder_t *builder)
{
    set_law(builder, OR_BUILD_ROOT);
    return OR_OK;
}

static or_status_t expand(or_builder_t *builder, const uint32_t *guesses, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        set_law(builder, guesses[i]);
    }
    return OR_OK;
}

toy_drafter_t *toy_drafter_create(void)
{
    toy_drafter_t *drafter = calloc(1, sizeof *drafter);
    assert_non_null(drafter);
    const or_build_source_t source = {
        .vocab_size = TOY_VOCAB_MAX, .positions = 64, .start = start, .expand = expand};
    tiny_vocab_open(&drafter->gguf, &drafter->vocab);
    or_belief_init(&drafter->belief);
    assert_int_equal(
        or_builder_create_over(&source, drafter->vocab, 64, TOY_VOCAB_MAX, &drafter->builder),
        OR_OK);
    return drafter;
}

void toy_drafter_destroy(toy_drafter_t **drafter_p)
{
    toy_drafter_t *drafter = *drafter_p;
    or_builder_destroy(&drafter->builder);
    or_vocab_destroy(&drafter->vocab);
    or_gguf_close(&drafter->gguf);
    free(drafter);
    *drafter_p = NULL;
}

const or_draws_t *toy_drafter_draft(toy_drafter_t *drafter, const toy_t *toy,
                                    const toy_plan_t *plan, or_chooser_t *chooser,
                                    or_token_tree_t *tree)
{
    const int32_t root = 0;
    or_build_job_t job = {
        .history = &root,
        .history_count = 1,
        .chooser = chooser,
        .shape = plan->shape,
        .nodes_max = plan->nodes,
        .depth_max = plan->depth,
        .belief = &drafter->belief,
        .calibrated = plan->calibrated,
        .threshold = plan->threshold,
        .calibration = &drafter->calibration,
    };
    drafting = toy;
    or_build_job_suit(&job, plan->method, plan->rule);
    assert_int_equal(or_builder_build(drafter->builder, plan->method, &job, tree), OR_OK);
    return or_builder_draws(drafter->builder);
}
