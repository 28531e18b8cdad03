// Goal: a GPU runs a family with the CPU's bits or refuses it as unsupported, so that nothing is computed by another family's graph.
// Method: the families' small random models on the device (emulated, or a GPU), a text beside the CPU: in chunks, then token
// by token, which is recorded and replayed, then a tree, of which a path is accepted, and a token more. Once all layers are in
// its memory, once all but the first come over from the host. One text is longer than a part of attention's sums
// (OR_ATTENTION_PART), and some weights are quantised.
#include <stdlib.h>
#include <string.h>

#include "common/model/gpu/gpu_internal.h"
#include "tests/families/family_file.h"
#include "tests/model/model_fixture.h"
#include "tests/support/requantize.h"

#define VOCAB 64u
#define POSITIONS 12u
#define POSITIONS_MOST 300u
#define STEPS 3u // of one token each, behind these
#define NODES 4u
#define ROWS_MOST (POSITIONS_MOST + STEPS + NODES + 1)
#define WINDOW ".sliding_window"
#define ORIGINAL ".original_context_length"
#define CONTEXT ".context_length"
#ifdef __SANITIZE_ADDRESS__ // ten times slower, and what comes over is the same for every family
#define EVERY 4u
#else
#define EVERY 1u
#endif

typedef struct {
    const char *name;
    const char *lack; // what a GPU cannot run; NULL: it runs the family
    const char
        *key; // that has another number, so that a short text meets a window's end; NULL: none
    uint32_t value;
    uint32_t positions; // 0: POSITIONS
} family_t;

static const family_t families[] = {
    {"cohere2/0", NULL, WINDOW, 5, 0},
    {"command-r/0", NULL, NULL, 0, 0},
    {"ernie4_5/0", NULL, NULL, 0, 0},
    {"exaone4/0", NULL, NULL, 0, 0},
    {"exaone4/1", NULL, WINDOW, 1, 0},
    {"falcon/1", NULL, NULL, 0, 0},
    {"gemma/0", NULL, NULL, 0, 0},
    {"gemma2/0", NULL, WINDOW, 9, 0},
    {"gemma3/0", NULL, WINDOW, 7, 0},
    {"gemma4/0", NULL, WINDOW, 7, 0},
    {"gemma4/1", NULL, NULL, 0, 0},
    {"gemma4-shared/0", NULL, WINDOW, 5, 0},
    {"glm4/0", NULL, NULL, 0, 0},
    {"gpt2/0", NULL, NULL, 0, 0},
    {"granite/0", NULL, NULL, 0, 0},
    {"llama/0", NULL, NULL, 0, 0},
    {"llama/1", NULL, NULL, 0, 0},
    {"mistral/0", NULL, NULL, 0, 0},
    {"mistral3/0", NULL, ORIGINAL, 4, 0}, // after which queries grow
    {"olmo2/0", NULL, NULL, 0, 0},
    {"opt/0", NULL, NULL, 0, 0},
    {"phi3/0", NULL, CONTEXT, 2 * POSITIONS_MOST, POSITIONS_MOST},
    {"phi3/1", NULL, NULL, 0, 0},
    {"qwen2/0", NULL, NULL, 0, 0},
    {"qwen3/0", NULL, NULL, 0, 0},
    {"smollm3/0", NULL, NULL, 0, 0},
    {"starcoder2/0", NULL, NULL, 0, 0},
    {"yarn/0", NULL, NULL, 0, 0},
    {"mixtral/0", NULL, NULL, 0, 0},
    {"qwen2moe/0", NULL, NULL, 0, 0},
    {"qwen3moe/0", NULL, NULL, 0, 0},
    {"olmoe/0", NULL, NULL, 0, 0},
    {"glm4moe/1", NULL, NULL, 0, 0},
    {"gpt-oss/0", NULL, WINDOW, 6, 0},
    {"phimoe/0", NULL, NULL, 0, 0},
    {"deepseek-v2/1", NULL, NULL, 0, 0},
    {"deepseek-v3/0", NULL, NULL, 0, 0},
    {"deepseek-v3/1", NULL, NULL, 0, 0},
    {"deepseek-heads/0", NULL, NULL, 0, 0},
    {"gemma4-experts/0", "experts beside a feed-forward network", NULL, 0, 0},
};

// Experts of quantised weights, some families with layers that have none; layers that differ; heads that have matrices of their own.
static const family_t quantised[] = {
    {"mixtral/0", NULL, NULL, 0, 0},         {"gemma4/0", NULL, NULL, 0, 0},
    {"gemma4-shared/0", NULL, WINDOW, 7, 0}, {"qwen2moe/0", NULL, NULL, 0, 0},
    {"phimoe/0", NULL, NULL, 0, 0},          {"glm4moe/0", NULL, NULL, 0, 0},
    {"deepseek-v2/1", NULL, NULL, 0, 0},     {"deepseek-v3/0", NULL, NULL, 0, 0},
};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

// All logits of a text of `positions` tokens, STEPS more, a tree behind it (two guesses, below the first another two), and a
// token behind the longest path.
static uint32_t run(or_model_t *model, uint32_t positions, float *logits)
{
    static const uint32_t parents[NODES] = {OR_KV_NO_SLOT, OR_KV_NO_SLOT, 0, 2}, path[] = {0, 2, 3};
    model_fixture_t fixture = {.model = model, .vocab_size = VOCAB};
    int32_t tokens[ROWS_MOST];
    for (uint32_t i = 0; i < ROWS_MOST; i++) {
        tokens[i] = (int32_t)(3 + i * 37 % 61);
    }
    const uint32_t text = positions + STEPS;
    or_kv_sequence_t *sequence = model_fixture_sequence(&fixture, NODES);
    model_fixture_prefill(&fixture, sequence, tokens, positions, positions / 2 + 1, logits);
    model_fixture_prefill(&fixture, sequence, tokens + positions, STEPS, 1,
                          logits + (size_t)positions * VOCAB);
    or_model_row_t rows[NODES];
    for (uint32_t i = 0; i < NODES; i++) {
        rows[i] = tree_row(sequence, tokens[text + i], i, parents[i]);
    }
    model_fixture_pass(&fixture, rows, NODES, logits + (size_t)text * VOCAB);
    assert_int_equal(or_kv_sequence_accept(sequence, path, COUNT(path)), OR_OK);
    model_fixture_prefill(&fixture, sequence, tokens + text + NODES, 1, 1,
                          logits + (size_t)(text + NODES) * VOCAB);
    or_kv_sequence_close(&sequence);
    return text + NODES + 1;
}

// The experts that the last pass took, of all layers.
static void check_reads(const or_model_t *cpu, const or_model_t *gpu)
{
    const or_model_reads_t expected = or_model_reads(cpu), actual = or_model_reads(gpu);
    assert_int_equal(actual.experts, expected.experts);
    assert_int_equal(actual.weights, expected.weights);
}

static void check_refusal(const char *path, const char *lack)
{
    const or_gpu_choice_t gpu = {.functions = or_gpu_functions()};
    or_gguf_t *gguf = NULL;
    or_model_t *model = NULL;
    assert_int_equal(or_gguf_open(path, &gguf), OR_OK);
    assert_int_equal(or_model_load(gguf, &(or_model_options_t){.gpu = &gpu}, &model),
                     OR_ERR_UNSUPPORTED);
    assert_non_null(strstr(or_error_text(), lack));
    assert_null(model);
    or_gguf_close(&gguf);
}

static void check_file(const char *path, uint32_t positions, uint32_t host_layers)
{
    static float truth[ROWS_MOST * VOCAB], logits[ROWS_MOST * VOCAB];
    const or_gpu_choice_t gpu = {.functions = or_gpu_functions(), .host_layers = host_layers};
    model_fixture_t cpu, device;
    model_fixture_open(&cpu, path, NULL, (or_model_options_t){.threads = 1});
    const uint32_t rows = run(cpu.model, positions, truth);
    model_fixture_open(&device, path, NULL, (or_model_options_t){.gpu = &gpu});
    assert_int_equal(run(device.model, positions, logits), rows);
    assert_same_bits(truth, logits, (size_t)rows * VOCAB);
    assert_int_equal(device.model->gpu->steps.replays, host_layers > 0 ? 0 : STEPS);
    check_reads(cpu.model, device.model);
    model_fixture_close(&device);
    model_fixture_close(&cpu);
}

static void check(const family_t *family, bool quantises, uint32_t host_layers)
{
    const uint32_t positions = family->positions > 0 ? family->positions : POSITIONS;
    char *path = family_file_make_with(family->name, family->key, family->value);
    print_message("%s\n", family->name);
    if (quantises) {
        char *floats = path;
        path = test_requantize(floats, OR_TENSOR_Q8_0);
        free(floats);
    }
    if (family->lack != NULL) {
        check_refusal(path, family->lack);
    } else {
        check_file(path, positions, host_layers);
    }
    free(path);
}

static void same_bits_or_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(families); i++) {
        check(&families[i], false, 0);
    }
}

static void same_bits_with_layers_away(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(families); i += EVERY) {
        if (families[i].lack == NULL && families[i].positions < POSITIONS_MOST) {
            check(&families[i], false, 2);
        }
    }
}

static void same_bits_of_quantised_weights(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(quantised); i++) {
        check(&quantised[i], true, 0);
    }
}

static void check_tensor_refusal(const char *name, const char *lack)
{
    const or_gpu_choice_t gpu = {.functions = or_gpu_functions(), .tensor = true};
    char *path = family_file_make(name);
    or_gguf_t *gguf = NULL;
    or_model_t *model = NULL;
    assert_int_equal(or_gguf_open(path, &gguf), OR_OK);
    assert_int_equal(or_model_load(gguf, &(or_model_options_t){.gpu = &gpu}, &model),
                     OR_ERR_UNSUPPORTED);
    assert_non_null(strstr(or_error_text(), lack));
    assert_null(model);
    or_gguf_close(&gguf);
    free(path);
}

// Their products are canonical only.
static void tensor_cores_refuse_experts_and_layers_that_differ(void **state)
{
    (void)state;
    check_tensor_refusal("mixtral/0", "multiply experts");
    check_tensor_refusal("gemma4/0", "heads of their own");
}

int main(void)
{
    fixture_need_gpu();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_or_refused),
        cmocka_unit_test(same_bits_with_layers_away),
        cmocka_unit_test(same_bits_of_quantised_weights),
        cmocka_unit_test(tensor_cores_refuse_experts_and_layers_that_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
