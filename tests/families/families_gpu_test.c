// Goal: a GPU runs a family with the CPU's bits or refuses it as unsupported, so that nothing is computed by another family's graph.
// Method: the families' small random models on the device (emulated, or a GPU), a text in chunks beside the CPU: with all
// layers in its memory, and with all but the first coming over from the host.
#include <stdlib.h>
#include <string.h>

#include "common/model/gpu/gpu.h"
#include "tests/families/family_file.h"
#include "tests/model/model_fixture.h"

#define VOCAB 64u
#define POSITIONS 40u // beyond the models' windows

static const struct {
    const char *name;
    const char *lack; // what a GPU cannot run; NULL: it runs the family
} families[] = {
    {"cohere2/0", "windows"},
    {"command-r/0", NULL},
    {"ernie4_5/0", NULL},
    {"exaone4/0", NULL},
    {"falcon/1", NULL},
    {"gemma/0", NULL},
    {"gemma2/0", "capped scores"},
    {"gemma3/0", "windows"},
    {"glm4/0", NULL},
    {"gpt2/0", NULL},
    {"granite/0", NULL},
    {"llama/0", NULL},
    {"llama/1", NULL},
    {"mistral/0", NULL},
    {"mistral3/0", "queries that grow"},
    {"olmo2/0", NULL},
    {"opt/0", NULL},
    {"phi3/0", "windows"},
    {"phi3/1", NULL},
    {"qwen2/0", NULL},
    {"qwen3/0", NULL},
    {"smollm3/0", NULL},
    {"starcoder2/0", NULL},
    {"yarn/0", NULL},
    {"mixtral/0", "experts"},
    {"qwen2moe/0", "experts"},
    {"qwen3moe/0", "experts"},
    {"olmoe/0", "experts"},
    {"glm4moe/1", "experts"},
    {"gpt-oss/0", "experts"},
    {"phimoe/0", "experts"},
    {"deepseek-v2/1", "latent attention"},
    {"deepseek-v3/0", "latent attention"},
};

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

static void check(const char *name, const char *lack, uint32_t host_layers)
{
    static float truth[POSITIONS * VOCAB], logits[POSITIONS * VOCAB];
    const or_gpu_choice_t gpu = {.functions = or_gpu_functions(), .host_layers = host_layers};
    char *path = family_file_make(name);
    model_fixture_t cpu;
    model_fixture_open(&cpu, path, NULL, (or_model_options_t){.threads = 1});
    run(cpu.model, truth);
    or_model_t *model = NULL;
    or_status_t status = or_model_load(cpu.gguf, &(or_model_options_t){.gpu = &gpu}, &model);
    print_message("%s: %s\n", name, status == OR_OK ? "runs" : or_error_text());
    if (lack == NULL) {
        assert_int_equal(status, OR_OK);
        run(model, logits);
        assert_same_bits(truth, logits, POSITIONS * VOCAB);
    } else {
        assert_int_equal(status, OR_ERR_UNSUPPORTED);
        assert_non_null(strstr(or_error_text(), lack));
    }
    or_model_destroy(&model);
    model_fixture_close(&cpu);
    free(path);
}

static void same_bits_or_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < FAMILIES; i++) {
        check(families[i].name, families[i].lack, 0);
    }
}

static void same_bits_with_layers_away(void **state)
{
    (void)state;
    for (size_t i = 0; i < FAMILIES; i++) {
        if (families[i].lack == NULL) {
            check(families[i].name, NULL, 2);
        }
    }
}

int main(void)
{
    fixture_need_gpu();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_or_refused),
        cmocka_unit_test(same_bits_with_layers_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
