// Goal: a drafter's trees that grow on a device, all levels at once, are the CPU's to the last bit of every weight, and
// are run there: no logits come over, and passes are as many.
// Method: the emulated device and the CPU build the same random trees, and grow trees on, along the text. Guesses that
// were run ahead are counted on their way to the builder.
#include <stdio.h>
#include <string.h>

#include "drafter/build/builder_gpu_test_support.h"

#define TEXT_MAX 24u // of a growing tree

static or_status_t (*adopt_from_device)(or_builder_t *, uint32_t, const or_distribution_t *);
static uint32_t adopted;

static or_status_t adopt_and_count(or_builder_t *builder, uint32_t guess,
                                   const or_distribution_t *dist)
{
    adopted++;
    return adopt_from_device(builder, guess, dist);
}

static int open_counting(void **state)
{
    int rc = fixture_open(state);
    or_builder_t *builder = ((fixture_t *)*state)->sides[GPU].builder;
    adopt_from_device = builder->source.adopt;
    builder->source.adopt = adopt_and_count;
    return rc;
}

// The first tree of a kind may be run pass by pass.
static void trees_are_run_ahead(void **state)
{
    fixture_t *f = *state;
    static const or_draft_method_t methods[] = {OR_DRAFT_COUPLED, OR_DRAFT_CHAIN, OR_DRAFT_TOPK};
    for (uint32_t m = 0; m < 3; m++) {
        for (uint32_t i = 0; i < 3; i++) {
            or_build_job_t job = job_of(f, methods[m], OR_ACCEPT_COUPLED);
            job.nodes_max = 5 + below(f, 4);
            job.sampling.min_p = 0.05F;
            adopted = 0;
            uint64_t passes = or_builder_passes(f->sides[GPU].builder);
            uint64_t passes_here = or_builder_passes(f->sides[CPU].builder);
            assert_int_equal(check(f, methods[m], &job), 0);
            assert_int_equal(or_builder_passes(f->sides[GPU].builder) - passes,
                             or_builder_passes(f->sides[CPU].builder) - passes_here);
            assert_true(i == 0 || adopted > 0);
        }
    }
}

// All rows of a pass may be guesses.
static void the_largest_trees_are_run_ahead(void **state)
{
    fixture_t *f = *state;
    for (uint32_t i = 0; i < 2; i++) {
        or_build_job_t job = job_of(f, OR_DRAFT_COUPLED, OR_ACCEPT_COUPLED);
        job.nodes_max = NODES_MOST;
        job.depth_max = 2;
        job.sampling.top_p = 1;
        job.sampling.min_p = 0.001F;
        or_belief_init(&f->belief);
        f->belief.log_likelihood[OR_BELIEF_GRID - 1] = 1; // many guesses are worth a thought
        adopted = 0;
        // Whole rows are read for nodes whose distributions are so flat that the device cannot tell.
        assert_in_range(check(f, OR_DRAFT_COUPLED, &job), 0, NODES_MOST / 2);
        assert_int_equal(or_token_tree_count(f->sides[GPU].tree), NODES_MOST);
    }
    assert_true(adopted > 0);
}

// ---- growing trees ----

typedef struct {
    int32_t tokens[TEXT_MAX];
    uint32_t length;
} text_t;

static void run_text(const side_t *side, const text_t *text)
{
    for (uint32_t i = or_kv_sequence_length(side->sequence); i < text->length; i++) {
        const or_model_row_t row = {side->sequence, text->tokens[i], OR_KV_NO_SLOT, OR_KV_NO_SLOT};
        assert_int_equal(or_model_forward(side->model, &row, 1), OR_OK);
    }
}

static void finish_on(const side_t *side, const text_t *text, or_build_job_t job)
{
    or_status_t status = OR_OK;
    job.sequence = side->sequence;
    if (!or_builder_stands(side->builder, &job)) {
        or_kv_sequence_truncate(side->sequence, text->length - 1);
        run_text(side, text);
        status = or_builder_root(side->builder, OR_DRAFT_COUPLED, &job);
    }
    if (status != OR_OK || or_builder_finish(side->builder, &job, side->tree) != OR_OK) {
        fail_msg("%s", or_error_text());
    }
}

static void grow_on(const side_t *side, or_build_job_t job)
{
    bool grew;
    job.sequence = side->sequence;
    assert_int_equal(or_builder_grow(side->builder, &job, &grew), OR_OK);
}

// The text goes on along the tree, mostly.
static uint32_t pick_path(fixture_t *f, int32_t path[NODES + 1])
{
    const or_builder_t *builder = f->sides[CPU].builder;
    uint32_t guess = builder->chosen[below(f, builder->set_count)];
    uint32_t count = builder->guesses[guess].depth;
    for (; guess != OR_BUILD_ROOT; guess = builder->guesses[guess].parent) {
        path[builder->guesses[guess].depth - 1] = builder->guesses[guess].token;
    }
    if (below(f, 4) == 0) {
        path[count++] = 500;
    }
    return count;
}

static void follow_on(const fixture_t *f, const side_t *side, const int32_t *path, uint32_t count)
{
    or_belief_t taught = f->belief;
    uint32_t slots[OR_TREE_NODES_MAX];
    uint32_t kept = or_builder_follow(side->builder, &taught, path, count, slots);
    assert_int_equal(kept == count ? or_kv_sequence_accept_root(side->sequence, slots, kept)
                                   : or_kv_sequence_accept(side->sequence, slots, kept),
                     OR_OK);
}

// One round on both sides, and one more with other wishes once the tree has grown.
static void play_round(fixture_t *f, const text_t *text, or_build_job_t *job)
{
    for (uint32_t again = 0; again < 2; again++) {
        job->history_count = text->length;
        job->nodes_max = 5 + below(f, 4);
        job->depth_max = 2 + below(f, 3);
        job->pass_cost = below(f, 2) == 0 ? 0 : 0.02;
        finish_on(&f->sides[CPU], text, *job);
        finish_on(&f->sides[GPU], text, *job);
        assert_same_trees(&f->sides[CPU], &f->sides[GPU]);
        if (again == 0 && below(f, 2) == 0) {
            grow_on(&f->sides[CPU], *job);
            grow_on(&f->sides[GPU], *job);
        }
    }
}

static void growing_trees_are_run_ahead(void **state)
{
    fixture_t *f = *state;
    text_t text = {.length = PROMPT};
    or_build_job_t job = job_of(f, OR_DRAFT_COUPLED, OR_ACCEPT_COUPLED);
    uint64_t whole = or_model_whole_rows(f->sides[GPU].model);
    memcpy(text.tokens, f->history, sizeof f->history);
    job.history = text.tokens;
    adopted = 0;
    for (uint32_t round = 0; round < 5; round++) {
        int32_t path[NODES + 1];
        play_round(f, &text, &job);
        uint32_t count = pick_path(f, path);
        if (count > TEXT_MAX - text.length) {
            break;
        }
        memcpy(text.tokens + text.length, path, count * sizeof *path);
        text.length += count;
        for (uint32_t i = 0; i < count; i++) {
            job.place = or_noise_advance(job.place, or_vocab_widths(f->vocab)[path[i]]);
        }
        follow_on(f, &f->sides[CPU], path, count);
        follow_on(f, &f->sides[GPU], path, count);
    }
    assert_true(adopted > 0);
    assert_true(or_model_whole_rows(f->sides[GPU].model) == whole);
}

int main(void)
{
    if (or_gpu_functions()->count() == 0) {
        puts("no GPU");
        return SKIPPED;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trees_are_run_ahead),
        cmocka_unit_test(the_largest_trees_are_run_ahead),
        cmocka_unit_test(growing_trees_are_run_ahead),
    };
    return cmocka_run_group_tests(tests, open_counting, fixture_close);
}
