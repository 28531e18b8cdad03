// Goal: a drafter whose model runs on a device grows the CPU's trees to the last bit of every weight, and where the
// best guesses are taken no logits come over.
// Method: the emulated device and the CPU build the same random jobs: methods, filters, temperatures, noise, beliefs.
// Trees and their guesses' weights are compared by memcmp. The model counts the rows whose whole logits it
// fetched.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/gpu.h"
#include "common/model/model_draws.h"
#include "drafter/builder_internal.h"
#include "tests/support/test_support.h"

#define SKIPPED 77 // what CTest takes for it
#define NODES 16u
#define PROMPT 6u
#define DEPTH 5u
#define LAW_ENTRIES 64u
#define CPU 0
#define GPU 1

typedef struct {
    or_model_t *model;
    or_builder_t *builder;
    or_kv_sequence_t *sequence;
    or_token_tree_t *tree;
} side_t;

typedef struct {
    or_gguf_t *gguf;
    or_vocab_t *vocab;
    side_t sides[2];
    uint64_t rng;
    int32_t history[PROMPT];
    int32_t *map; // [vocabulary]
    or_belief_t belief;
    or_keyed_chooser_t chooser;
} fixture_t;

static uint32_t below(fixture_t *f, uint32_t n)
{
    return (uint32_t)test_below(&f->rng, n);
}

static void open_side(fixture_t *f, const or_gpu_choice_t *gpu, side_t *side)
{
    const or_model_options_t options = {
        .threads = 1, .context_max = 64, .rows_max = 16, .gpu = gpu};
    or_model_row_t rows[PROMPT];
    assert_int_equal(or_model_load(f->gguf, &options, &side->model), OR_OK);
    assert_int_equal(or_builder_create(side->model, f->vocab, NODES, LAW_ENTRIES, &side->builder),
                     OR_OK);
    assert_int_equal(
        or_model_open_sequence(side->model, or_builder_slots(side->builder), &side->sequence),
        OR_OK);
    assert_int_equal(or_token_tree_create(NODES, &side->tree), OR_OK);
    for (uint32_t i = 0; i < PROMPT; i++) {
        rows[i] = (or_model_row_t){side->sequence, f->history[i], OR_KV_NO_SLOT, OR_KV_NO_SLOT};
    }
    assert_int_equal(or_model_forward(side->model, rows, PROMPT - 1), OR_OK);
}

static void close_side(side_t *side)
{
    or_token_tree_destroy(&side->tree);
    or_kv_sequence_close(&side->sequence);
    or_builder_destroy(&side->builder);
    or_model_destroy(&side->model);
}

static int open_fixture(void **state)
{
    static fixture_t fixture;
    fixture_t *f = &fixture;
    const or_gpu_choice_t choice = {.functions = or_gpu_functions()};
    memset(f, 0, sizeof *f);
    f->rng = test_seed();
    assert_int_equal(or_gguf_open(test_model("tales-1m-f16.gguf"), &f->gguf), OR_OK);
    assert_int_equal(or_vocab_load(f->gguf, &f->vocab), OR_OK);
    for (uint32_t i = 0; i < PROMPT; i++) {
        f->history[i] = i == 0 ? 1 : 300 + (int32_t)i * 37;
    }
    f->map = calloc(or_vocab_size(f->vocab), sizeof *f->map);
    assert_non_null(f->map);
    open_side(f, NULL, &f->sides[CPU]);
    open_side(f, &choice, &f->sides[GPU]);
    *state = f;
    return 0;
}

static int close_fixture(void **state)
{
    fixture_t *f = *state;
    close_side(&f->sides[GPU]);
    close_side(&f->sides[CPU]);
    free(f->map);
    or_vocab_destroy(&f->vocab);
    or_gguf_close(&f->gguf);
    return 0;
}

// ---- jobs ----

static or_build_job_t job_of(fixture_t *f, or_draft_method_t method, or_accept_rule_t rule)
{
    or_build_job_t job = {.history = f->history,
                          .history_count = PROMPT,
                          .place = {below(f, 100), 0},
                          .noise_key = or_noise_key(test_random(&f->rng), 0),
                          .sampling = or_sampling_default(),
                          .draft_temperature = 1,
                          .chooser = &f->chooser.chooser,
                          .nodes_max = NODES,
                          .depth_max = DEPTH,
                          .belief = &f->belief};
    f->chooser = or_keyed_chooser((or_rng_key_t){test_random(&f->rng)}, 1, job.noise_key, NULL);
    or_belief_init(&f->belief);
    f->belief.log_likelihood[below(f, 5)] = 1;
    or_build_job_suit(&job, method, rule);
    return job;
}

static void filter(fixture_t *f, or_build_job_t *job)
{
    static const float temperatures[] = {0, 0.3F, 0.6F, 0.8F, 1};
    static const uint32_t top_ks[] = {0, 1, 5, 40};
    job->draft_temperature = temperatures[below(f, 5)];
    job->sampling.top_k = top_ks[below(f, 4)];
    job->sampling.top_p = below(f, 2) == 0 ? 1 : 0.6F;
    job->sampling.min_p = below(f, 2) == 0 ? 0 : 0.05F;
}

static void build_on(const fixture_t *f, uint32_t s, or_draft_method_t method, or_build_job_t job)
{
    const side_t *side = &f->sides[s];
    const or_model_row_t root = {side->sequence, f->history[PROMPT - 1], OR_KV_NO_SLOT,
                                 OR_KV_NO_SLOT};
    job.sequence = side->sequence;
    or_kv_sequence_truncate(side->sequence, PROMPT - 1);
    assert_int_equal(or_model_forward(side->model, &root, 1), OR_OK);
    if (or_builder_build(side->builder, method, &job, side->tree) != OR_OK) {
        fail_msg("%s", or_error_text());
    }
}

static void assert_same_trees(const side_t *a, const side_t *b)
{
    uint32_t count = or_token_tree_count(a->tree);
    assert_int_equal(or_token_tree_count(b->tree), count);
    assert_true(count > 0);
    assert_memory_equal(or_token_tree_tokens(a->tree), or_token_tree_tokens(b->tree),
                        (count + 1) * sizeof(int32_t));
    assert_memory_equal(or_token_tree_parents(a->tree), or_token_tree_parents(b->tree),
                        (count + 1) * sizeof(uint32_t));
    for (uint32_t i = 1; i <= count; i++) {
        const or_build_guess_t *x = &a->builder->guesses[a->builder->tree_guesses[i]];
        const or_build_guess_t *y = &b->builder->guesses[b->builder->tree_guesses[i]];
        assert_memory_equal(&x->weight, &y->weight, sizeof x->weight);
    }
}

// Build on either; returns how many rows came over whole.
static uint64_t check(const fixture_t *f, or_draft_method_t method, const or_build_job_t *job)
{
    uint64_t before = or_model_whole_rows(f->sides[GPU].model);
    build_on(f, CPU, method, *job);
    build_on(f, GPU, method, *job);
    assert_same_trees(&f->sides[CPU], &f->sides[GPU]);
    return or_model_whole_rows(f->sides[GPU].model) - before;
}

// ---- tests ----

static void contenders_make_the_same_trees(void **state)
{
    fixture_t *f = *state;
    static const or_draft_method_t methods[] = {OR_DRAFT_COUPLED, OR_DRAFT_CHAIN, OR_DRAFT_TOPK};
    for (uint32_t i = test_runs(6); i > 0; i--) {
        or_draft_method_t method = methods[below(f, 3)];
        or_build_job_t job =
            job_of(f, method, below(f, 3) == 0 ? OR_ACCEPT_GREEDY : OR_ACCEPT_COUPLED);
        filter(f, &job);
        if (method == OR_DRAFT_TOPK) { // which wants to know of more tokens than any other
            job.sampling.min_p = 0.05F;
        }
        assert_int_equal(check(f, method, &job), 0);
    }
}

// So flat a law, or so open a mind, that thousands of tokens could be listed.
static void many_contenders_are_looked_at_here(void **state)
{
    fixture_t *f = *state;
    or_build_job_t job = job_of(f, OR_DRAFT_COUPLED, OR_ACCEPT_COUPLED);
    job.draft_temperature = 100;
    or_belief_init(&f->belief);
    f->belief.log_likelihood[OR_BELIEF_GRID - 1] = 1;
    assert_true(check(f, OR_DRAFT_COUPLED, &job) > 0);
    job.sampling.top_p = 0.9F;
    assert_true(check(f, OR_DRAFT_COUPLED, &job) > 0);
}

static void who_needs_the_logits_has_them(void **state)
{
    fixture_t *f = *state;
    const or_logit_bias_t bias = {631, 2};
    or_build_job_t job = job_of(f, OR_DRAFT_COUPLED, OR_ACCEPT_COUPLED);
    job.sampling.repeat_penalty = 1.3F;
    assert_true(check(f, OR_DRAFT_COUPLED, &job) > 0);
    job = job_of(f, OR_DRAFT_COUPLED, OR_ACCEPT_COUPLED);
    job.sampling.bias = &bias;
    job.sampling.bias_count = 1;
    assert_true(check(f, OR_DRAFT_COUPLED, &job) > 0);
    job = job_of(f, OR_DRAFT_COUPLED, OR_ACCEPT_COUPLED);
    for (uint32_t i = 0; i < or_vocab_size(f->vocab); i++) {
        f->map[i] = below(f, 4) == 0 ? -1 : (int32_t)i;
    }
    job.map = f->map;
    assert_true(check(f, OR_DRAFT_COUPLED, &job) > 0);
    job = job_of(f, OR_DRAFT_CHAIN, OR_ACCEPT_SPS); // drawn from whole laws
    assert_true(check(f, OR_DRAFT_CHAIN, &job) > 0);
}

int main(void)
{
    if (or_gpu_functions()->count() == 0) {
        puts("no GPU");
        return SKIPPED;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contenders_make_the_same_trees),
        cmocka_unit_test(many_contenders_are_looked_at_here),
        cmocka_unit_test(who_needs_the_logits_has_them),
    };
    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
