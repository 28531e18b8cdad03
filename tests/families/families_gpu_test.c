// Goal: a GPU runs a family with the CPU's bits or refuses it as unsupported, so that nothing is computed by another family's graph.
// Method: the families' small random models on the device (emulated, or a GPU), one chunk of a text beside the CPU.
#include <stdlib.h>

#include "common/model/gpu/gpu.h"
#include "tests/families/family_file.h"
#include "tests/model/model_fixture.h"

#define VOCAB 64u
#define POSITIONS 40u // beyond the models' windows

static const char *const families[] = {
    "cohere2/0", "command-r/0", "ernie4_5/0", "exaone4/0", "falcon/1",     "gemma/0",
    "gemma2/0",  "gemma3/0",    "glm4/0",     "gpt2/0",    "granite/0",    "llama/0",
    "llama/1",   "mistral/0",   "mistral3/0", "olmo2/0",   "opt/0",        "phi3/0",
    "phi3/1",    "qwen2/0",     "qwen3/0",    "smollm3/0", "starcoder2/0", "yarn/0",
    "mixtral/0", "qwen2moe/0",  "qwen3moe/0", "olmoe/0",   "glm4moe/1",    "gpt-oss/0"};

#define FAMILIES (sizeof families / sizeof families[0])

static void run(or_model_t *model, float *logits)
{
    model_fixture_t fixture = {.model = model, .vocab_size = VOCAB};
    int32_t tokens[POSITIONS];
    for (uint32_t i = 0; i < POSITIONS; i++) {
        tokens[i] = (int32_t)(3 + i * 37 % 61);
    }
    or_kv_sequence_t *sequence = model_fixture_sequence(&fixture, 0);
    model_fixture_prefill(&fixture, sequence, tokens, POSITIONS, 17, logits);
    or_kv_sequence_close(&sequence);
}

static bool runs_alike(const char *name)
{
    static float truth[POSITIONS * VOCAB], logits[POSITIONS * VOCAB];
    const or_gpu_choice_t gpu = {.functions = or_gpu_functions()};
    char *path = family_file_make(name);
    model_fixture_t cpu;
    model_fixture_open(&cpu, path, NULL, (or_model_options_t){.threads = 1});
    run(cpu.model, truth);
    or_model_t *model = NULL;
    or_status_t status = or_model_load(cpu.gguf, &(or_model_options_t){.gpu = &gpu}, &model);
    if (status == OR_OK) {
        run(model, logits);
        assert_same_bits(truth, logits, POSITIONS * VOCAB);
    } else {
        assert_int_equal(status, OR_ERR_UNSUPPORTED);
        print_message("%s: %s\n", name, or_error_text());
    }
    or_model_destroy(&model);
    model_fixture_close(&cpu);
    free(path);
    return status == OR_OK;
}

static void same_bits_or_refused(void **state)
{
    (void)state;
    uint32_t run_here = 0;
    for (size_t i = 0; i < FAMILIES; i++) {
        run_here += runs_alike(families[i]);
    }
    assert_true(run_here >= 2); // llama and qwen2
}

int main(void)
{
    fixture_need_gpu();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
