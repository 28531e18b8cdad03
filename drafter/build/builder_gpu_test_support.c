#include "drafter/build/builder_gpu_test_support.h"

#include <stdlib.h>
#include <string.h>

#define DEPTH 5u
#define DISTRIBUTION_ENTRIES 64u

uint32_t below(fixture_t *f, uint32_t n)
{
    return (uint32_t)test_below(&f->rng, n);
}

static void open_side(fixture_t *f, const or_gpu_choice_t *gpu, side_t *side)
{
    const or_model_options_t options = {
        .threads = 1, .context_max = 64, .rows_max = NODES_MOST, .gpu = gpu};
    or_model_row_t rows[PROMPT];
    assert_int_equal(or_model_load(f->gguf, &options, &side->model), OR_OK);
    assert_int_equal(
        or_builder_create(side->model, f->vocab, NODES_MOST, DISTRIBUTION_ENTRIES, &side->builder),
        OR_OK);
    assert_int_equal(
        or_model_open_sequence(side->model, or_builder_slots(side->builder), &side->sequence),
        OR_OK);
    assert_int_equal(or_token_tree_create(NODES_MOST, &side->tree), OR_OK);
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

int fixture_open(void **state)
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

int fixture_close(void **state)
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

or_build_job_t job_of(fixture_t *f, or_draft_method_t method, or_accept_rule_t rule)
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

void assert_same_trees(const side_t *a, const side_t *b)
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

uint64_t check(const fixture_t *f, or_draft_method_t method, const or_build_job_t *job)
{
    uint64_t before = or_model_whole_rows(f->sides[GPU].model);
    build_on(f, CPU, method, *job);
    build_on(f, GPU, method, *job);
    assert_same_trees(&f->sides[CPU], &f->sides[GPU]);
    return or_model_whole_rows(f->sides[GPU].model) - before;
}
