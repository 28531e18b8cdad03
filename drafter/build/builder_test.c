// Goal: the coupled tree is exactly the best-first tree, the chain is the draft's own text, and
// both respect every limit. (Trees that are drawn: builder_drawn_test.c.)
// Method: a slow reference that takes the best guess of all, expands it alone, and sorts nothing
// cleverly, on the small model; then limits of depth and context, the slots' use for acceptance,
// learning, and a model that is broken.
#include "drafter/build/builder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/gguf/gguf_test_file.h"
#include "tests/support/test_support.h"

#define NODES 1024
#define PROMPT 24
#define CHILDREN 32 // of a node that are considered
#define WINDOW 8.0  // in tau, and at most in nats: what is further below the best is left out
#define DEPTH 24

typedef struct {
    or_gguf_t *gguf;
    or_vocab_t *vocab;
    or_model_t *model;
    or_builder_t *builder;
    or_sampler_t *sampler;
    or_kv_sequence_t *sequence;
    or_token_tree_t *tree;
    or_belief_t belief;
    or_build_job_t job;
    int32_t history[PROMPT + DEPTH];
    uint32_t vocabulary;
} fixture_t;

// Run the prompt but for its last token, so that each tree can start by running that one.
static void prefill(fixture_t *f)
{
    or_model_row_t rows[PROMPT];
    for (uint32_t i = 0; i < PROMPT; i++) {
        f->history[i] = (int32_t)(i == 0 ? 1 : 300 + (i * 37) % 1500);
        rows[i] = (or_model_row_t){f->sequence, f->history[i], OR_KV_NO_SLOT, OR_KV_NO_SLOT};
    }
    assert_int_equal(or_model_forward(f->model, rows, PROMPT - 1), OR_OK);
}

static void run_root(fixture_t *f)
{
    or_kv_sequence_truncate(f->sequence, PROMPT - 1);
    or_model_row_t row = {f->sequence, f->history[PROMPT - 1], OR_KV_NO_SLOT, OR_KV_NO_SLOT};
    assert_int_equal(or_model_forward(f->model, &row, 1), OR_OK);
}

// A belief in the grid's i-th tau.
static void believe(fixture_t *f, uint32_t i)
{
    or_belief_init(&f->belief);
    f->belief.log_likelihood[i] = 1;
}

static int open_fixture(fixture_t *f, const char *path, uint32_t context)
{
    const or_model_options_t options = {.threads = 1, .context_max = context, .rows_max = 48};
    if (or_gguf_open(path, &f->gguf) != OR_OK || or_vocab_load(f->gguf, &f->vocab) != OR_OK ||
        or_model_load(f->gguf, &options, &f->model) != OR_OK ||
        or_builder_create(f->model, f->vocab, NODES, 0, &f->builder) != OR_OK ||
        or_model_open_sequence(f->model, or_builder_slots(f->builder), &f->sequence) != OR_OK ||
        or_token_tree_create(NODES, &f->tree) != OR_OK) {
        print_error("%s\n", or_error_text());
        return -1;
    }
    f->vocabulary = or_model_shape(f->model)->vocab_size;
    if (or_sampler_create(f->vocabulary, &f->sampler) != OR_OK) {
        return -1;
    }
    prefill(f);
    believe(f, 6);
    f->job = (or_build_job_t){.sequence = f->sequence,
                              .history = f->history,
                              .history_count = PROMPT,
                              .noise_key = or_noise_key(17, 0),
                              .sampling = or_sampling_default(),
                              .draft_temperature = 1,
                              .noisy = true,
                              .nodes_max = 64,
                              .depth_max = DEPTH,
                              .belief = &f->belief};
    return 0;
}

static int setup(void **state)
{
    static fixture_t fixture;
    memset(&fixture, 0, sizeof fixture);
    *state = &fixture;
    return open_fixture(&fixture, test_model("tales-1m-f16.gguf"), 0);
}

static int setup_short_context(void **state)
{
    static fixture_t fixture;
    memset(&fixture, 0, sizeof fixture);
    *state = &fixture;
    return open_fixture(&fixture, test_model("tales-1m-f16.gguf"), PROMPT + 2);
}

// Some of whose logits are too large for floats.
static void break_model(const char *path)
{
    test_gguf_t file;
    or_gguf_t *gguf = NULL;
    const char *from = test_model("tales-1m-f16.gguf");
    assert_int_equal(or_gguf_open(from, &gguf), OR_OK);
    const or_gguf_tensor_t *norm = or_gguf_find_tensor(gguf, "output_norm.weight");
    test_gguf_load(&file, from);
    float *at = memmem(file.bytes, file.count, norm->data, norm->bytes);
    assert_non_null(at);
    for (uint64_t i = 0; i < norm->dims[0]; i++) {
        at[i] *= 4e37F;
    }
    or_gguf_close(&gguf);
    test_gguf_save(&file, path);
    test_gguf_fini(&file);
}

static int setup_broken(void **state)
{
    static fixture_t fixture;
    char path[64];
    memset(&fixture, 0, sizeof fixture);
    *state = &fixture;
    snprintf(path, sizeof path, "/tmp/outrider-broken-%d.gguf", (int)getpid());
    break_model(path);
    int rc = open_fixture(&fixture, path, 0);
    unlink(path);
    return rc;
}

static int teardown(void **state)
{
    fixture_t *f = *state;
    or_token_tree_destroy(&f->tree);
    or_kv_sequence_close(&f->sequence);
    or_sampler_destroy(&f->sampler);
    or_builder_destroy(&f->builder);
    or_model_destroy(&f->model);
    or_vocab_destroy(&f->vocab);
    or_gguf_close(&f->gguf);
    return 0;
}

static void build(fixture_t *f, or_draft_method_t method)
{
    run_root(f);
    or_status_t status = or_builder_build(f->builder, method, &f->job, f->tree);
    if (status != OR_OK) {
        fail_msg("%s", or_error_text());
    }
}

// ---- the slow reference ----

typedef struct {
    double weight;
    uint32_t parent; // index here
    uint32_t depth;
    int32_t token;
    bool taken;
    uint32_t slot;
    or_noise_place_t place;
    uint32_t node; // in the tree under test
} guess_t;

static guess_t guesses[NODES * CHILDREN + CHILDREN + 1];
static uint32_t guess_count;

static void path_history(fixture_t *f, const guess_t *guess)
{
    for (; guess->depth > 0; guess = &guesses[guess->parent]) {
        f->history[PROMPT + guess->depth - 1] = guess->token;
    }
}

// Add the best children of guesses[parent], whose row was the only one of the last pass.
static void add_children(fixture_t *f, uint32_t parent)
{
    static float logits[8192];
    static double scores[8192];
    const guess_t above = guesses[parent];
    double tau = or_belief_tau(&f->belief);
    or_sampling_t sampling = f->job.sampling;
    sampling.temperature = f->job.draft_temperature;
    assert_true(f->vocabulary <= 8192);
    assert_int_equal(or_model_logits(f->model, 0, 1, logits), OR_OK);
    path_history(f, &above);
    or_distribution_t dist =
        or_sampler_distribution(f->sampler, &sampling, logits, f->history, PROMPT + above.depth);
    double best = -INFINITY;
    for (uint32_t i = 0; i < dist.count; i++) {
        uint64_t key = or_vocab_noise_keys(f->vocab)[dist.ids[i]];
        scores[i] = dist.scores[i];
        scores[i] += f->job.noisy ? or_noise_gumbel(f->job.noise_key, above.place, key) : 0;
        best = fmax(best, scores[i]);
    }
    double total = 0;
    for (uint32_t i = 0; i < dist.count; i++) {
        total += scores[i] >= best - (tau < 1 ? WINDOW * tau : WINDOW)
                     ? exp((scores[i] - best) / tau)
                     : 0;
    }
    for (uint32_t child = 0; child < CHILDREN && child < dist.count; child++) {
        uint32_t top = 0;
        for (uint32_t i = 1; i < dist.count; i++) {
            top = scores[i] > scores[top] ? i : top;
        }
        if (scores[top] < best - (tau < 1 ? WINDOW * tau : WINDOW)) {
            break;
        }
        guesses[guess_count++] = (guess_t){
            .weight = above.weight + (scores[top] - best) / tau - log(total),
            .parent = parent,
            .depth = above.depth + 1,
            .token = dist.ids[top],
            .place = or_noise_advance(above.place, or_vocab_widths(f->vocab)[dist.ids[top]]),
        };
        scores[top] = -INFINITY;
    }
}

static uint32_t best_untaken(void)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < guess_count; i++) {
        if (!guesses[i].taken && (best == 0 || guesses[i].weight > guesses[best].weight)) {
            best = i;
        }
    }
    return best;
}

// Grow the reference and find each of its nodes in the tree under test; returns how many there are.
static uint32_t follow_reference(fixture_t *f)
{
    uint32_t taken = 0;
    run_root(f);
    guess_count = 1;
    guesses[0] = (guess_t){.slot = OR_KV_NO_SLOT, .place = f->job.place, .taken = true};
    add_children(f, 0);
    for (; taken < f->job.nodes_max; taken++) {
        uint32_t best = best_untaken();
        if (best == 0) {
            break;
        }
        guess_t *guess = &guesses[best];
        guess->taken = true;
        guess->slot = taken;
        guess->node = or_token_tree_find_child(f->tree, guesses[guess->parent].node, guess->token);
        assert_int_not_equal(guess->node, 0);
        if (guess->depth < f->job.depth_max) {
            or_model_row_t row = {f->sequence, guess->token, taken, guesses[guess->parent].slot};
            assert_int_equal(or_model_forward(f->model, &row, 1), OR_OK);
            add_children(f, best);
        }
    }
    return taken;
}

static void assert_equals_reference(fixture_t *f, uint32_t nodes)
{
    f->job.nodes_max = nodes;
    build(f, OR_DRAFT_COUPLED);
    assert_int_equal(or_token_tree_count(f->tree), follow_reference(f));
}

// ---- tests ----

static void coupled_is_the_best_first_tree(void **state)
{
    fixture_t *f = *state;
    static const uint32_t sizes[] = {1, 4, 16, 64, 300, NODES};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_equals_reference(f, sizes[i]);
        assert_int_equal(or_token_tree_count(f->tree), sizes[i]);
    }
    static const uint32_t taus[] = {0, 4, OR_BELIEF_GRID - 1};
    for (size_t i = 0; i < sizeof taus / sizeof *taus; i++) {
        believe(f, taus[i]);
        assert_equals_reference(f, 64);
    }
}

static void coupled_is_best_first_with_filters_and_without_noise(void **state)
{
    fixture_t *f = *state;
    f->job.sampling.repeat_penalty = 1.3f; // sees the path
    f->job.sampling.top_p = 0.95f;
    f->job.draft_temperature = 0.8f;
    f->job.depth_max = 5;
    assert_equals_reference(f, 64);
    f->job.noisy = false;
    assert_equals_reference(f, 64);
    assert_equals_reference(f, 16);
}

static void chain_is_what_the_draft_would_write(void **state)
{
    fixture_t *f = *state;
    static float logits[8192];
    f->job.depth_max = 8;
    build(f, OR_DRAFT_CHAIN);
    assert_int_equal(or_token_tree_count(f->tree), 8);
    or_sampling_t sampling = f->job.sampling;
    or_noise_place_t place = f->job.place;
    sampling.temperature = 1;
    run_root(f);
    for (uint32_t i = 1; i <= 8; i++) {
        assert_int_equal(or_token_tree_parents(f->tree)[i], i - 1);
        assert_int_equal(or_model_logits(f->model, 0, 1, logits), OR_OK);
        or_distribution_t dist = or_sampler_distribution(f->sampler, &sampling, logits, NULL, 0);
        int32_t token = or_noise_argmax(f->job.noise_key, place, dist.ids, dist.scores, dist.count,
                                        or_vocab_noise_keys(f->vocab));
        assert_int_equal(or_token_tree_tokens(f->tree)[i], token);
        place = or_noise_advance(place, or_vocab_widths(f->vocab)[token]);
        or_model_row_t row = {f->sequence, token, OR_KV_NO_SLOT, OR_KV_NO_SLOT};
        assert_int_equal(or_model_forward(f->model, &row, 1), OR_OK);
    }
}

static void depth_and_node_limits_are_kept(void **state)
{
    fixture_t *f = *state;
    static const or_draft_method_t methods[] = {OR_DRAFT_COUPLED, OR_DRAFT_CHAIN, OR_DRAFT_TOPK};
    for (int m = 0; m < 3; m++) {
        for (uint32_t depth = 0; depth <= 3; depth++) {
            f->job.depth_max = depth;
            f->job.nodes_max = 20;
            build(f, methods[m]);
            uint32_t count = or_token_tree_count(f->tree);
            assert_true(count <= 20);
            assert_true((count == 0) == (depth == 0));
            for (uint32_t i = 1; i <= count; i++) {
                assert_true(or_token_tree_depths(f->tree)[i] <= depth);
            }
        }
        f->job.nodes_max = 0;
        build(f, methods[m]);
        assert_int_equal(or_token_tree_count(f->tree), 0);
    }
    run_root(f);
    assert_int_equal(or_builder_build(f->builder, (or_draft_method_t)99, &f->job, f->tree),
                     OR_ERR_UNSUPPORTED);
    f->job.nodes_max = 1;
    assert_int_equal(or_builder_build(f->builder, (or_draft_method_t)99, &f->job, f->tree),
                     OR_ERR_UNSUPPORTED);
}

static void the_context_bounds_the_depth(void **state)
{
    fixture_t *f = *state;
    build(f, OR_DRAFT_CHAIN);
    assert_int_equal(or_token_tree_count(f->tree), 2);
    build(f, OR_DRAFT_COUPLED);
    for (uint32_t i = 1; i <= or_token_tree_count(f->tree); i++) {
        assert_true(or_token_tree_depths(f->tree)[i] <= 2);
    }
}

static void slots_of_a_path_can_be_accepted(void **state)
{
    fixture_t *f = *state;
    f->job.nodes_max = 300;
    build(f, OR_DRAFT_COUPLED);
    assert_int_equal(or_builder_slot(f->builder, 0), OR_KV_NO_SLOT);
    uint32_t slots[NODES];
    uint32_t count = 0;
    uint32_t node =
        1; // the first child of the first child ...: the heaviest path, expanded but for its leaf
    while (node <= 300 && or_builder_slot(f->builder, node) != OR_KV_NO_SLOT &&
           or_token_tree_parents(f->tree)[node] == count) {
        slots[count++] = or_builder_slot(f->builder, node++);
    }
    assert_true(count > 0);
    assert_int_equal(or_kv_sequence_accept(f->sequence, slots, count), OR_OK);
    assert_int_equal(or_kv_sequence_length(f->sequence), PROMPT + count);
}

static void an_agreeing_target_teaches_trust(void **state)
{
    fixture_t *f = *state;
    double before = or_belief_tau(&f->belief);
    f->job.nodes_max = 8;
    for (uint32_t round = 0; round < 20; round++) {
        f->job.place.byte_offset = 100 * round; // other noise, another tree
        build(f, OR_DRAFT_CHAIN);
        const uint32_t accepted[] = {1, 2, 3, 4, 5, 6};
        or_builder_learn(f->builder, &f->belief, NULL, accepted, 6,
                         or_token_tree_tokens(f->tree)[7]);
    }
    assert_true(or_belief_tau(&f->belief) < before);
    const uint32_t unknown[] = {1, 1000, 3};
    or_builder_learn(f->builder, &f->belief, NULL, unknown, 3,
                     5); // a wrong verdict must do no harm
    assert_true(isfinite(or_belief_tau(&f->belief)));
}

// Distributions leave out what is not finite: with weights that are no numbers guesses would put each other out for ever.
static void a_broken_models_trees_end(void **state)
{
    static const or_draft_method_t methods[] = {OR_DRAFT_COUPLED, OR_DRAFT_CHAIN, OR_DRAFT_TOPK};
    fixture_t *f = *state;
    for (uint32_t i = 0; i < 3; i++) {
        for (uint32_t noisy = 0; noisy < 2; noisy++) {
            f->job.noisy = noisy != 0;
            f->job.nodes_max = 4;
            build(f, methods[i]);
            assert_int_equal(or_token_tree_count(f->tree), 4);
        }
    }
}

int main(void)
{
#define WITH_MODEL(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH_MODEL(coupled_is_the_best_first_tree),
        WITH_MODEL(coupled_is_best_first_with_filters_and_without_noise),
        WITH_MODEL(chain_is_what_the_draft_would_write),
        WITH_MODEL(depth_and_node_limits_are_kept),
        cmocka_unit_test_setup_teardown(the_context_bounds_the_depth, setup_short_context,
                                        teardown),
        WITH_MODEL(slots_of_a_path_can_be_accepted),
        WITH_MODEL(an_agreeing_target_teaches_trust),
        cmocka_unit_test_setup_teardown(a_broken_models_trees_end, setup_broken, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
