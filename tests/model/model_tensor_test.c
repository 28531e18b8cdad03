// Goal: with tensor cores a model writes its own plain decoding's text, bit by bit, in whatever batches and trees,
// on any number of ranks, and its logits are near the CPU's; its arithmetic has a name of its own.
// Method: one prefill of random tokens is the truth for the same tokens in chunks, and for trees whose every node is
// compared with plain steps along its path. Without a GPU plain sums in another order stand for the library's.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/gpu/gpu.h"
#include "tests/model/ranks_script.h"

#define TOKENS 70u // a tile, and some
#define NODES 12u
#define NEAR 0.05f // of the greatest logit's size: a BF16 has 8 bits

// The first ones are small enough for many passes of an emulator.
static const char *const models[] = {
    "tests/model/data/llama-linear-bf16.gguf",
    "tests/model/data/llama3-mixed.gguf", // both types, and others
    "tales-1m-f16.gguf",
};
#define MODELS (sizeof models / sizeof models[0])
#define SMALL_MODELS 2u

static const char *path_of(size_t i)
{
    return i < SMALL_MODELS ? models[i] : test_model(models[i]);
}

static or_gpu_choice_t tensor_cores(void)
{
    return (or_gpu_choice_t){.functions = or_gpu_functions(), .tensor = true};
}

static void open_model(model_fixture_t *fixture, const char *path, const or_gpu_choice_t *choice)
{
    const or_model_options_t options = {
        .threads = 1, .rows_max = TOKENS, .pages_max = 32, .gpu = choice};
    model_fixture_open(fixture, path, NULL, options);
}

// ---- a text ----

typedef struct {
    model_fixture_t fixture;
    int32_t tokens[TOKENS];
    float *logits; // [TOKENS][vocab_size], of one pass
} truth_t;

static void open_truth(truth_t *truth, const char *path, const or_gpu_choice_t *choice)
{
    uint64_t rng = test_seed();
    open_model(&truth->fixture, path, choice);
    random_tokens(&rng, truth->fixture.vocab_size, truth->tokens, TOKENS);
    truth->logits = test_alloc((size_t)TOKENS * truth->fixture.vocab_size, sizeof *truth->logits);
    or_kv_sequence_t *sequence = model_fixture_sequence(&truth->fixture, 0);
    model_fixture_prefill(&truth->fixture, sequence, truth->tokens, TOKENS, TOKENS, truth->logits);
    or_kv_sequence_close(&sequence);
}

static void close_truth(truth_t *truth)
{
    free(truth->logits);
    model_fixture_close(&truth->fixture);
}

// ---- chunks ----

static void check_chunks(const char *path)
{
    static const uint32_t chunks[] = {7, 64};
    const or_gpu_choice_t choice = tensor_cores();
    truth_t truth;
    open_truth(&truth, path, &choice);
    size_t floats = (size_t)TOKENS * truth.fixture.vocab_size;
    float *logits = test_alloc(floats, sizeof *logits);
    for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
        or_kv_sequence_t *sequence = model_fixture_sequence(&truth.fixture, 0);
        model_fixture_prefill(&truth.fixture, sequence, truth.tokens, TOKENS, chunks[i], logits);
        assert_same_bits(logits, truth.logits, floats);
        or_kv_sequence_close(&sequence);
    }
    free(logits);
    close_truth(&truth);
}

static void chunks_do_not_matter(void **state)
{
    (void)state;
    for (size_t i = 0; i < SMALL_MODELS; i++) {
        check_chunks(path_of(i));
    }
}

// ---- trees ----

typedef struct {
    int32_t tokens[NODES];
    uint32_t parents[NODES]; // OR_KV_NO_SLOT: of the last committed position
} tree_t;

static tree_t draw_tree(uint64_t *rng, uint32_t vocab_size)
{
    tree_t tree;
    random_tokens(rng, vocab_size, tree.tokens, NODES);
    for (uint32_t i = 0; i < NODES; i++) {
        uint32_t parent = (uint32_t)test_below(rng, i + 1);
        tree.parents[i] = parent == i ? OR_KV_NO_SLOT : parent;
    }
    return tree;
}

// The last logits of plain steps along a node's path.
static void step_along(model_fixture_t *fixture, or_kv_sequence_t *sequence, const tree_t *tree,
                       uint32_t node, float *logits)
{
    if (tree->parents[node] != OR_KV_NO_SLOT) {
        step_along(fixture, sequence, tree, tree->parents[node], logits);
    }
    const or_model_row_t row = prefix_row(sequence, tree->tokens[node]);
    model_fixture_pass(fixture, &row, 1, logits);
}

// A tree beside rows of another text, in one pass.
static void check_trees(const char *path)
{
    const or_gpu_choice_t choice = tensor_cores();
    uint64_t rng = test_seed();
    truth_t truth;
    open_truth(&truth, path, &choice);
    model_fixture_t *fixture = &truth.fixture;
    size_t vocab_size = fixture->vocab_size;
    const uint32_t begun = TOKENS / 2;
    or_kv_sequence_t *text = model_fixture_sequence(fixture, NODES);
    or_kv_sequence_t *other = model_fixture_sequence(fixture, 0);
    or_kv_sequence_t *plain = model_fixture_sequence(fixture, 0);
    model_fixture_prefill(fixture, text, truth.tokens, begun, TOKENS, NULL);
    model_fixture_prefill(fixture, plain, truth.tokens, begun, 16, NULL);
    const tree_t tree = draw_tree(&rng, fixture->vocab_size);
    or_model_row_t rows[TOKENS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < NODES; i++) {
        rows[count++] = tree_row(text, tree.tokens[i], i, tree.parents[i]);
        for (uint32_t j = 0; j < 3; j++) {
            rows[count++] = prefix_row(other, truth.tokens[3 * i + j]);
        }
    }
    float *logits = test_alloc(count * vocab_size, sizeof *logits);
    float *step = test_alloc(vocab_size, sizeof *step);
    model_fixture_pass(fixture, rows, count, logits);
    for (uint32_t i = 0; i < NODES; i++) {
        step_along(fixture, plain, &tree, i, step);
        assert_same_bits(logits + 4 * i * vocab_size, step, vocab_size);
        or_kv_sequence_truncate(plain, begun);
        for (uint32_t j = 0; j < 3; j++) {
            assert_same_bits(logits + (4 * i + 1 + j) * vocab_size,
                             truth.logits + (3 * i + j) * vocab_size, vocab_size);
        }
    }
    free(step);
    free(logits);
    or_kv_sequence_close(&plain);
    or_kv_sequence_close(&other);
    or_kv_sequence_close(&text);
    close_truth(&truth);
}

static void trees_are_plain_steps(void **state)
{
    (void)state;
    for (size_t i = 0; i < SMALL_MODELS; i++) {
        check_trees(path_of(i));
    }
}

// ---- beside the CPU ----

static float greatest(const float *numbers, size_t count)
{
    float most = 0.0f;
    for (size_t i = 0; i < count; i++) {
        most = fmaxf(most, fabsf(numbers[i]));
    }
    return most;
}

static void logits_are_near_the_cpus(void **state)
{
    (void)state;
    const or_gpu_choice_t choice = tensor_cores();
    for (size_t m = 0; m < MODELS; m++) {
        truth_t cpu, cores;
        open_truth(&cpu, path_of(m), NULL);
        open_truth(&cores, path_of(m), &choice);
        size_t floats = (size_t)TOKENS * cpu.fixture.vocab_size;
        float most = NEAR * greatest(cpu.logits, floats);
        for (size_t i = 0; i < floats; i++) {
            if (!(fabsf(cores.logits[i] - cpu.logits[i]) <= most)) {
                fail_msg("%s: logit %zu is %g, the CPU's is %g", models[m], i,
                         (double)cores.logits[i], (double)cpu.logits[i]);
            }
        }
        assert_memory_not_equal(cores.logits, cpu.logits, floats * sizeof *cpu.logits);
        close_truth(&cores);
        close_truth(&cpu);
    }
}

// ---- wherever weights are ----

static void ranks_do_not_matter(void **state)
{
    (void)state;
    const struct {
        int size;
        int stages;
    } worlds[] = {{2, 1}, {4, 1}, {8, 1}, {2, 2}};
    const or_gpu_choice_t choice = tensor_cores();
    const or_model_options_t options = {.threads = 1, .gpu = &choice};
    const char *path = "tests/model/data/llama3-mixed.gguf";
    record_t expected = record_play(path, &(world_t){1, 1, options, options}, play_script);
    for (size_t i = 0; i < sizeof worlds / sizeof worlds[0]; i++) {
        const world_t world = {worlds[i].size, worlds[i].stages, options, options};
        check_world(path, &world, play_script, &expected);
    }
    free(expected.bytes);
}

static void layers_that_are_away_do_not_matter(void **state)
{
    (void)state;
    or_gpu_choice_t choice = tensor_cores();
    for (size_t m = 0; m < SMALL_MODELS; m++) {
        truth_t here, away;
        choice.host_layers = 0;
        open_truth(&here, path_of(m), &choice);
        choice.host_layers = 2;
        open_truth(&away, path_of(m), &choice);
        assert_same_bits(away.logits, here.logits, (size_t)TOKENS * here.fixture.vocab_size);
        close_truth(&away);
        close_truth(&here);
    }
}

// ---- names and refusals ----

static void the_arithmetic_has_a_name(void **state)
{
    (void)state;
    static const char *const begins[MODELS] = {"tensor-2/bf16/", "tensor-2/bf16/", "tensor-2/f16/"};
    const or_gpu_choice_t choice = tensor_cores();
    for (size_t m = 0; m < MODELS; m++) {
        model_fixture_t fixture;
        const or_model_options_t options = {.threads = 1,
                                            .pages_max = 1,
                                            .cache_type_k = OR_KV_F16,
                                            .cache_type_v = OR_KV_F16,
                                            .gpu = &choice};
        model_fixture_open(&fixture, path_of(m), NULL, options);
        const char *name = or_model_arith_id(fixture.model);
        assert_memory_equal(name, begins[m], strlen(begins[m]));
        assert_non_null(strstr(name, "/k-f16/v-f16"));
        model_fixture_close(&fixture);
    }
}

static void refuse(const char *path, const or_gpu_choice_t *choice, or_status_t expected,
                   const char *why)
{
    or_gguf_t *gguf = NULL;
    or_model_t *model = NULL;
    const or_model_options_t options = {.threads = 1, .pages_max = 1, .gpu = choice};
    assert_int_equal(or_gguf_open(path, &gguf), OR_OK);
    assert_int_equal(or_model_load(gguf, &options, &model), expected);
    assert_null(model);
    assert_non_null(strstr(or_error_text(), why));
    or_gguf_close(&gguf);
}

static int no_library(or_cuda_t *cuda, or_cuda_tensor_t **tensor_p)
{
    (void)cuda;
    (void)tensor_p;
    return OR_CUDA_TENSOR;
}

static void what_they_do_not_do_is_refused(void **state)
{
    (void)state;
    or_gpu_choice_t choice = tensor_cores();
    refuse("tests/model/data/llama3-q8_0.gguf", &choice, OR_ERR_UNSUPPORTED, "has none");
    or_gpu_functions_t functions = *choice.functions;
    functions.tensor_open = no_library;
    choice.functions = &functions;
    refuse(models[0], &choice, OR_ERR_IO, "cuBLASLt");
}

int main(void)
{
    fixture_need_gpu();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_do_not_matter),
        cmocka_unit_test(trees_are_plain_steps),
        cmocka_unit_test(logits_are_near_the_cpus),
        cmocka_unit_test(ranks_do_not_matter),
        cmocka_unit_test(layers_that_are_away_do_not_matter),
        cmocka_unit_test(the_arithmetic_has_a_name),
        cmocka_unit_test(what_they_do_not_do_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
