// Goal: the model computes what an independent implementation computed (reference.json, float32
// numpy), linear and tree.
// Method: follow the recorded greedy ids and compare the eight best logits at steps 0 and 32, and
// every choice but those of steps whose two best logits were closer than 0.01.
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/model/model_fixture.h"

#define TOLERANCE 1e-3
#define CLOSE_CALL 0.01
#define PREFIX_MAX 128u

static json_t *load_reference(void)
{
    json_error_t error;
    json_t *reference = json_load_file("tests/oracles/data/reference.json", 0, &error);
    assert_non_null(reference);
    return reference;
}

static void assert_top8(const json_t *top8, const float *logits)
{
    size_t i;
    const json_t *entry;
    assert_int_equal(json_array_size(top8), 8);
    json_array_foreach(top8, i, entry)
    {
        json_int_t token = json_integer_value(json_array_get(entry, 0));
        double expected = json_number_value(json_array_get(entry, 1));
        if (!(fabs(logits[token] - expected) < TOLERANCE)) {
            fail_msg("logit of %d is %.6f, expected %.6f", (int)token, (double)logits[token],
                     expected);
        }
    }
}

static uint32_t read_ids(const json_t *array, int32_t *ids, uint32_t max)
{
    uint32_t count = (uint32_t)json_array_size(array);
    assert_in_range(count, 1, max);
    for (uint32_t i = 0; i < count; i++) {
        ids[i] = (int32_t)json_integer_value(json_array_get(array, i));
    }
    return count;
}

static int32_t best(const float *logits, uint32_t count)
{
    uint32_t at = 0;
    for (uint32_t i = 1; i < count; i++) {
        at = logits[i] > logits[at] ? i : at;
    }
    return (int32_t)at;
}

static void follow_prompt(model_fixture_t *fixture, const json_t *prompt, float *logits)
{
    int32_t prefix[PREFIX_MAX];
    uint32_t count = read_ids(json_object_get(prompt, "ids"), prefix, PREFIX_MAX);
    const json_t *greedy = json_object_get(prompt, "greedy");
    const json_t *gaps = json_object_get(prompt, "gaps");
    const json_t *top8 = json_object_get(prompt, "top8");
    or_kv_sequence_t *sequence = model_fixture_sequence(fixture, 0);
    float *all = test_alloc((size_t)count * fixture->vocab_size, sizeof *all);
    model_fixture_prefill(fixture, sequence, prefix, count, count, all);
    memcpy(logits, all + (size_t)(count - 1) * fixture->vocab_size,
           fixture->vocab_size * sizeof *logits);
    for (size_t k = 0; k < json_array_size(greedy); k++) {
        char step[24];
        snprintf(step, sizeof step, "%zu", k);
        if (json_object_get(top8, step) != NULL) {
            assert_top8(json_object_get(top8, step), logits);
        }
        int32_t token = (int32_t)json_integer_value(json_array_get(greedy, k));
        if (json_number_value(json_array_get(gaps, k)) >= CLOSE_CALL) {
            assert_int_equal(best(logits, fixture->vocab_size), token);
        }
        model_fixture_prefill(fixture, sequence, &token, 1, 1, logits);
    }
    free(all);
    or_kv_sequence_close(&sequence);
}

static void check_model(const char *name, const char *path)
{
    json_t *reference = load_reference();
    const json_t *model = json_object_get(json_object_get(reference, "models"), name);
    const json_t *prompts = json_object_get(model, "prompts");
    assert_true(json_array_size(prompts) > 0);
    model_fixture_t fixture;
    model_fixture_open(&fixture, path, NULL, (or_model_options_t){0});
    float *logits = test_alloc(fixture.vocab_size, sizeof *logits);
    for (size_t i = 0; i < json_array_size(prompts); i++) {
        follow_prompt(&fixture, json_array_get(prompts, i), logits);
    }
    free(logits);
    model_fixture_close(&fixture);
    json_decref(reference);
}

static void tales_6m(void **state)
{
    (void)state;
    check_model("tales-6m-f16", test_model("tales-6m-f16.gguf"));
}

static void tales_1m(void **state)
{
    (void)state;
    check_model("tales-1m-f16", test_model("tales-1m-f16.gguf"));
}

static void tales_bpe_1m(void **state)
{
    (void)state;
    check_model("tales-bpe-1m-f16", test_model("tales-bpe-1m-f16.gguf"));
}

// The models as they were before their weights were rounded to halves: a file a test.
static void tales_6m_of_floats(void **state)
{
    (void)state;
    check_model("tales-6m-f32", test_data("models/tales-6m-f32.gguf"));
}

static void tales_1m_of_floats(void **state)
{
    (void)state;
    check_model("tales-1m-f32", test_data("models/tales-1m-f32.gguf"));
}

static void tales_bpe_1m_of_floats(void **state)
{
    (void)state;
    check_model("tales-bpe-1m-f32", test_data("models/tales-bpe-1m-f32.gguf"));
}

static void stories_260k(void **state)
{
    (void)state;
    check_model("stories260K-f32", test_data("models/stories260K-f32.gguf"));
}

static void check_tree(const char *name, const char *path)
{
    json_t *reference = load_reference();
    const json_t *tree = json_object_get(json_object_get(reference, "trees"), name);
    const json_t *nodes = json_object_get(tree, "nodes");
    int32_t prefix[PREFIX_MAX];
    uint32_t prefix_count = read_ids(json_object_get(tree, "prefix"), prefix, PREFIX_MAX);
    uint32_t node_count = (uint32_t)json_array_size(nodes);
    model_fixture_t fixture;
    model_fixture_open(&fixture, path, NULL, (or_model_options_t){0});
    or_kv_sequence_t *sequence = model_fixture_sequence(&fixture, node_count);
    uint32_t count = prefix_count + node_count;
    or_model_row_t *rows = test_alloc(count, sizeof *rows);
    float *logits = test_alloc((size_t)count * fixture.vocab_size, sizeof *logits);
    for (uint32_t i = 0; i < prefix_count; i++) {
        rows[i] = prefix_row(sequence, prefix[i]);
    }
    for (uint32_t i = 0; i < node_count; i++) {
        const json_t *node = json_array_get(nodes, i);
        json_int_t parent = json_integer_value(json_object_get(node, "parent"));
        rows[prefix_count + i] =
            tree_row(sequence, (int32_t)json_integer_value(json_object_get(node, "token")), i,
                     parent < 0 ? OR_KV_NO_SLOT : (uint32_t)parent);
    }
    model_fixture_pass(&fixture, rows, count, logits);
    assert_top8(json_object_get(tree, "prefix_top8"),
                logits + (size_t)(prefix_count - 1) * fixture.vocab_size);
    for (uint32_t i = 0; i < node_count; i++) {
        assert_top8(json_object_get(json_array_get(nodes, i), "top8"),
                    logits + (size_t)(prefix_count + i) * fixture.vocab_size);
    }
    free(logits);
    free(rows);
    or_kv_sequence_close(&sequence);
    model_fixture_close(&fixture);
    json_decref(reference);
}

static void a_tree(void **state)
{
    (void)state;
    check_tree("tales-6m-f16", test_model("tales-6m-f16.gguf"));
}

static void a_tree_of_floats(void **state)
{
    (void)state;
    check_tree("tales-6m-f32", test_data("models/tales-6m-f32.gguf"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tales_6m),           cmocka_unit_test(tales_1m),
        cmocka_unit_test(tales_bpe_1m),       cmocka_unit_test(tales_6m_of_floats),
        cmocka_unit_test(tales_1m_of_floats), cmocka_unit_test(tales_bpe_1m_of_floats),
        cmocka_unit_test(stories_260k),       cmocka_unit_test(a_tree),
        cmocka_unit_test(a_tree_of_floats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
