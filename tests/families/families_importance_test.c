// Goal: a pass tells what every matrix of every family is multiplied with, once for each row, and the same bits in any passes and
// on any threads.
// Method: the models and texts of families_test, of every folder of data/. Each matrix of the file's layers must have an entry with
// a count for each row, or, of experts, for each row that takes one. What the first layer of Llama reads is computed here from the
// embedding, and rows of weight 0 are given by hand.
// test_llama_cpp_importance.py compares all sums with llama.cpp's.
#include <dirent.h>
#include <math.h>
#include <string.h>

#include "tests/families/family_file.h"
#include "tests/families/family_importance.h"

#define POSITIONS 200u

static const char *const families[] = {
    "cohere2",        "command-r",     "ernie4_5",       "exaone4",
    "falcon",         "gemma",         "gemma2",         "gemma3",
    "gemma4",         "gemma4-shared", "glm4",           "gpt2",
    "granite",        "llama",         "mistral",        "mistral3",
    "olmo2",          "opt",           "phi3",           "qwen2",
    "qwen3",          "smollm3",       "yarn",           "mixtral",
    "qwen2moe",       "olmoe",         "glm4moe",        "starcoder2",
    "qwen3moe",       "gpt-oss",       "deepseek-v2",    "deepseek-v3",
    "deepseek-heads", "phimoe",        "gemma4-experts", "glm4moelite",
};

#define FAMILIES (sizeof families / sizeof families[0])

static const or_importance_entry_t *entry_of(const or_importance_t *importance,
                                             or_gguf_string_t name)
{
    for (uint32_t i = 0; i < or_importance_count(importance); i++) {
        const or_importance_entry_t *entry = or_importance_entry(importance, i);
        if (strlen(entry->name) == name.length &&
            memcmp(entry->name, name.bytes, name.length) == 0) {
            return entry;
        }
    }
    return NULL;
}

// Rows that take an expert, or all of a matrix for each head.
static uint32_t times_of(const or_importance_entry_t *entry, const or_model_shape_t *shape)
{
    const bool by_head = strstr(entry->name, "attn_") != NULL;
    return entry->matrices == 1 ? 1 : by_head ? entry->matrices : shape->experts_used;
}

static void check_entry(const or_importance_entry_t *entry, const or_model_shape_t *shape)
{
    uint64_t rows = 0;
    double sum = 0;
    for (uint32_t m = 0; m < entry->matrices; m++) {
        rows += entry->counts[m];
    }
    for (size_t i = 0; i < (size_t)entry->inputs * entry->matrices; i++) {
        assert_true(isfinite(entry->sums[i]) && entry->sums[i] >= 0);
        sum += entry->sums[i];
    }
    assert_true(sum > 0);
    assert_int_equal(rows, POSITIONS * times_of(entry, shape));
}

static bool ends_with(or_gguf_string_t name, const char *end)
{
    size_t length = strlen(end);
    return name.length >= length && memcmp(name.bytes + name.length - length, end, length) == 0;
}

// Experts' biases have two dimensions, too, but are not multiplied.
static bool is_matrix_of_a_layer(const or_gguf_tensor_t *tensor)
{
    return tensor->dims[1] > 1 && tensor->name.length > 4 &&
           memcmp(tensor->name.bytes, "blk.", 4) == 0 && !ends_with(tensor->name, ".bias");
}

static void check_entries(const family_importance_t *it)
{
    const or_gguf_t *gguf = it->fixture.gguf;
    const or_model_shape_t *shape = or_model_shape(it->fixture.model);
    uint32_t matrices = 0;
    for (uint64_t i = 0; i < or_gguf_tensor_count(gguf); i++) {
        const or_gguf_tensor_t *tensor = or_gguf_tensor(gguf, i);
        if (is_matrix_of_a_layer(tensor)) {
            const or_importance_entry_t *entry = entry_of(it->importance, tensor->name);
            if (entry == NULL) {
                fail_msg("%.*s has no entry", (int)tensor->name.length, tensor->name.bytes);
                return;
            }
            assert_int_equal(entry->inputs, tensor->dims[0]);
            assert_int_equal(entry->matrices, tensor->dims[2]);
            check_entry(entry, shape);
            matrices++;
        }
    }
    assert_int_equal(or_importance_count(it->importance), matrices + 1); // the head
}

static void assert_same(const or_importance_t *a, const or_importance_t *b)
{
    assert_int_equal(or_importance_count(a), or_importance_count(b));
    for (uint32_t i = 0; i < or_importance_count(a); i++) {
        const or_importance_entry_t *left = or_importance_entry(a, i);
        const or_importance_entry_t *right =
            entry_of(b, (or_gguf_string_t){left->name, strlen(left->name)});
        size_t count = (size_t)left->inputs * left->matrices;
        assert_memory_equal(left->sums, right->sums, count * sizeof *left->sums);
        assert_memory_equal(left->counts, right->counts, left->matrices * sizeof *left->counts);
    }
}

static void check_family(void **state)
{
    char name[64];
    family_importance_t by_seven, by_many;
    snprintf(name, sizeof name, "%s/0", (const char *)*state);
    family_importance_open(&by_seven, name, 7, 1);
    family_importance_open(&by_many, name, 100, 3);
    check_entries(&by_seven);
    assert_same(by_seven.importance, by_many.importance);
    family_importance_close(&by_many);
    family_importance_close(&by_seven);
}

static bool is_here(const char *family)
{
    for (size_t i = 0; i < FAMILIES; i++) {
        if (strcmp(families[i], family) == 0) {
            return true;
        }
    }
    return false;
}

static void every_family_is_here(void **state)
{
    (void)state;
    size_t count = 0;
    DIR *entries = opendir("tests/families/data");
    assert_non_null(entries);
    for (const struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        if (entry->d_name[0] != '.') {
            count++;
            if (!is_here(entry->d_name)) {
                fail_msg("%s is not tested", entry->d_name);
            }
        }
    }
    closedir(entries);
    assert_int_equal(count, FAMILIES);
}

// ---- weights of rows ----

static const or_importance_entry_t *entry_named(const or_importance_t *importance, const char *name)
{
    return entry_of(importance, (or_gguf_string_t){name, strlen(name)});
}

// What was multiplied with 0 is nothing, whatever it was before.
static void rows_of_weight_0_do_not_count(void **state)
{
    (void)state;
    static const float weights[] = {0, 0.5f, 0};
    static float values[3][4096];
    const or_activations_t x = {.values = values[0], .stride = 4096};
    const or_importance_rows_t rows = {.x = &x, .count = 3, .weights = weights};
    double before[4096];
    family_importance_t it;
    family_importance_open(&it, "mixtral/0", 100, 1);
    const or_importance_entry_t *entry = entry_named(it.importance, "blk.0.ffn_down_exps.weight");
    assert_non_null(entry);
    assert_in_range(entry->inputs, 1, 4096);
    uint64_t count = entry->counts[1];
    memcpy(before, entry->sums + entry->inputs, entry->inputs * sizeof *before);
    for (uint32_t i = 0; i < entry->inputs; i++) {
        values[0][i] = INFINITY;
        values[1][i] = 3;
        values[2][i] = 1;
    }
    or_importance_add(it.importance, entry->matrix, 1, &rows);
    assert_int_equal(entry->counts[1], count + 1);
    for (uint32_t i = 0; i < entry->inputs; i++) {
        assert_true(entry->sums[entry->inputs + i] == before[i] + 36);
    }
    family_importance_close(&it);
}

// ---- the first layer of Llama ----

// Add the squares of a token's normalised embedding.
static void add_token(const or_gguf_t *gguf, int32_t token, double *sums)
{
    const or_gguf_tensor_t *embedding = or_gguf_find_tensor(gguf, "token_embd.weight");
    const float *norm = or_gguf_find_tensor(gguf, "blk.0.attn_norm.weight")->data;
    uint64_t width = embedding->dims[0];
    const float *x = (const float *)embedding->data + (uint64_t)token * width;
    float epsilon;
    double square = 0;
    assert_int_equal(or_gguf_get_f32(gguf, "llama.attention.layer_norm_rms_epsilon", &epsilon),
                     OR_OK);
    for (uint64_t i = 0; i < width; i++) {
        square += (double)x[i] * (double)x[i];
    }
    for (uint64_t i = 0; i < width; i++) {
        double h = (double)x[i] / sqrt(square / (double)width + (double)epsilon) * (double)norm[i];
        sums[i] += h * h;
    }
}

static void what_the_first_layer_reads(void **state)
{
    (void)state;
    static const char *const names[] = {"blk.0.attn_q.weight", "blk.0.attn_k.weight",
                                        "blk.0.attn_v.weight"};
    int32_t tokens[POSITIONS];
    double sums[4096] = {0};
    family_importance_t it;
    family_importance_open(&it, "llama/0", 64, 2);
    const or_gguf_t *gguf = it.fixture.gguf;
    uint32_t count = family_file_tokens(gguf, tokens, POSITIONS);
    for (uint32_t i = 0; i < count; i++) {
        add_token(gguf, tokens[i], sums);
    }
    for (size_t n = 0; n < 3; n++) {
        const or_importance_entry_t *entry = entry_named(it.importance, names[n]);
        for (uint32_t i = 0; i < entry->inputs; i++) {
            assert_true(fabs(entry->sums[i] - sums[i]) <= 1e-5 * sums[i]);
        }
    }
    family_importance_close(&it);
}

int main(void)
{
    struct CMUnitTest tests[FAMILIES + 3];
    for (size_t i = 0; i < FAMILIES; i++) {
        tests[i] = (struct CMUnitTest){
            .name = families[i],
            .test_func = check_family,
            .initial_state = (void *)(uintptr_t)families[i],
        };
    }
    tests[FAMILIES] = (struct CMUnitTest)cmocka_unit_test(what_the_first_layer_reads);
    tests[FAMILIES + 1] = (struct CMUnitTest)cmocka_unit_test(rows_of_weight_0_do_not_count);
    tests[FAMILIES + 2] = (struct CMUnitTest)cmocka_unit_test(every_family_is_here);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
