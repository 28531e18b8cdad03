// Goal: every family computes what Hugging Face transformers computes, in chunks of a prefix and in trees alike.
// Method: small random models with their family's quirks, two seeds each, made from recipes (family_file.h), and
// transformers' F32 logits of 200 positions (oracle/make_families.py). All logits must lie within 1e-3. A family that
// is not run yet must be refused as unsupported.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/families/family_file.h"
#include "tests/model/model_fixture.h"

#define TOLERANCE 1e-3
#define VOCAB 64u
#define POSITIONS 200u
#define TREE_NODES 16u // of them the last is a guess 16 positions deep
#define SEEDS 2u

typedef struct {
    const char *name;
    bool runs; // else refused by name
} family_t;

static const family_t families[] = {
    {"cohere2", true},       {"command-r", true},      {"ernie4_5", true},
    {"exaone4", true},       {"falcon", true},         {"gemma", true},
    {"gemma2", true},        {"gemma3", true},         {"gemma4", true},
    {"gemma4-shared", true}, {"glm4", true},           {"gpt2", true},
    {"granite", true},       {"llama", true},          {"mistral", true},
    {"mistral3", true},      {"olmo2", true},          {"opt", true},
    {"phi3", true},          {"qwen2", true},          {"qwen3", true},
    {"smollm3", true},       {"starcoder2", true},     {"yarn", true},
    {"mixtral", true},       {"qwen2moe", true},       {"qwen3moe", true},
    {"olmoe", true},         {"glm4moe", true},        {"gpt-oss", true},
    {"deepseek-v2", true},   {"deepseek-v3", true},    {"deepseek-heads", true},
    {"phimoe", true},        {"gemma4-experts", true}, {"glm4moelite", true},
};

#define FAMILIES (sizeof families / sizeof families[0])

typedef struct {
    int32_t tokens[POSITIONS];
    float logits[POSITIONS * VOCAB]; // transformers'
} reference_t;

// Return the largest difference of `count` rows from the reference's, from position `first` on.
static double distance(const reference_t *reference, uint32_t first, uint32_t count,
                       const float *logits)
{
    const float *expected = reference->logits + (size_t)first * VOCAB;
    double largest = 0;
    for (size_t i = 0; i < (size_t)count * VOCAB; i++) {
        double apart = fabs((double)logits[i] - (double)expected[i]);
        largest = apart <= largest ? largest : apart; // NaN counts
    }
    return largest;
}

// All positions as prefix rows, in chunks.
static double run_prefix(model_fixture_t *fixture, const reference_t *reference, uint32_t chunk)
{
    float *logits = test_alloc((size_t)POSITIONS * VOCAB, sizeof *logits);
    or_kv_sequence_t *sequence = model_fixture_sequence(fixture, 0);
    model_fixture_prefill(fixture, sequence, reference->tokens, POSITIONS, chunk, logits);
    double largest = distance(reference, 0, POSITIONS, logits);
    or_kv_sequence_close(&sequence);
    free(logits);
    return largest;
}

// The last positions as a chain of guesses behind the others, each beside a guess that is wrong.
static double run_tree(model_fixture_t *fixture, const reference_t *reference)
{
    or_model_row_t rows[2 * TREE_NODES];
    float logits[2 * TREE_NODES * VOCAB];
    uint32_t prefix = POSITIONS - TREE_NODES;
    or_kv_sequence_t *sequence = model_fixture_sequence(fixture, 2 * TREE_NODES);
    model_fixture_prefill(fixture, sequence, reference->tokens, prefix, 64, NULL);
    for (uint32_t i = 0; i < TREE_NODES; i++) {
        uint32_t parent = i == 0 ? OR_KV_NO_SLOT : 2 * (i - 1);
        int32_t token = reference->tokens[prefix + i];
        rows[2 * i] = tree_row(sequence, token, 2 * i, parent);
        rows[2 * i + 1] = tree_row(sequence, (token + 1) % (int32_t)VOCAB, 2 * i + 1, parent);
    }
    model_fixture_pass(fixture, rows, 2 * TREE_NODES, logits);
    double largest = 0;
    for (uint32_t i = 0; i < TREE_NODES; i++) {
        double apart = distance(reference, prefix + i, 1, logits + (size_t)2 * i * VOCAB);
        largest = apart <= largest ? largest : apart;
    }
    or_kv_sequence_close(&sequence);
    return largest;
}

static void assert_close(const char *name, const char *rows, double largest)
{
    print_message("%s, %s: %.2g apart\n", name, rows, largest);
    if (!(largest < TOLERANCE)) {
        fail_msg("%s, %s: %g apart", name, rows, largest);
    }
}

static void check_model(const char *name)
{
    static reference_t reference;
    model_fixture_t fixture;
    char *path = family_file_make(name);
    model_fixture_open(&fixture, path, NULL, (or_model_options_t){.threads = 1});
    assert_int_equal(fixture.vocab_size, VOCAB);
    assert_int_equal(family_file_tokens(fixture.gguf, reference.tokens, POSITIONS), POSITIONS);
    family_file_logits(name, reference.logits, (size_t)POSITIONS * VOCAB);
    assert_close(name, "prefix by 7", run_prefix(&fixture, &reference, 7));
    assert_close(name, "prefix by 64", run_prefix(&fixture, &reference, 64));
    assert_close(name, "tree", run_tree(&fixture, &reference));
    model_fixture_close(&fixture);
    free(path);
}

static void check_refused(const char *name)
{
    or_gguf_t *gguf = NULL;
    or_model_t *model = NULL;
    or_model_options_t options = {.threads = 1};
    char *path = family_file_make(name);
    assert_int_equal(or_gguf_open(path, &gguf), OR_OK);
    assert_int_equal(or_model_load(gguf, &options, &model), OR_ERR_UNSUPPORTED);
    print_message("%s: %s\n", name, or_error_text());
    or_gguf_close(&gguf);
    free(path);
}

static void check_family(void **state)
{
    const family_t *family = *state;
    for (uint32_t seed = 0; seed < SEEDS; seed++) {
        char name[64];
        snprintf(name, sizeof name, "%s/%u", family->name, seed);
        if (family->runs) {
            check_model(name);
        } else {
            check_refused(name);
        }
    }
    if (!family->runs) {
        skip();
    }
}

int main(void)
{
    struct CMUnitTest tests[FAMILIES];
    for (size_t i = 0; i < FAMILIES; i++) {
        tests[i] = (struct CMUnitTest){
            .name = families[i].name,
            .test_func = check_family,
            .initial_state = (void *)&families[i],
        };
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
