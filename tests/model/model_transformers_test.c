// Goal: the model computes what Hugging Face transformers computes: qwen2's biases and order of
// pairs, Llama 3's and linear RoPE scaling, every type of weights, prefix and tree rows alike.
// Method: the small models of make_reference.py and transformers' logits of the same weights. With
// their matrices widened to F32, all logits must lie within 1e-3; as they are too, if they are
// floats. Quantised matrices also round what they read, and so does transformers for the logits
// called "rounded": within 1e-3 again, but for a few rows where a number on the edge was rounded to
// the other side (as between transformers' own float and double).
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/model/model_fixture.h"
#include "tests/support/requantize.h"

#define TOLERANCE 1e-3
#define EDGE_ROWS 4u       // of 96
#define EDGE_TOLERANCE 0.1 // all rounding together moves logits by 0.24 to 0.54
#define PREFIX_MAX 64u
#define BRANCH_MAX 16u
#define ROWS_MAX (PREFIX_MAX + 2 * BRANCH_MAX)

// A prefix and two continuations of it. Rows of logits: prefix, first branch, second branch.
typedef struct {
    json_t *json;
    uint32_t prefix_count;
    uint32_t branch_count;
    int32_t prefix[PREFIX_MAX];
    int32_t branches[2][BRANCH_MAX];
} reference_t;

static uint32_t read_ids(const json_t *array, int32_t *ids, uint32_t max)
{
    uint32_t count = (uint32_t)json_array_size(array);
    assert_in_range(count, 1, max);
    for (uint32_t i = 0; i < count; i++) {
        ids[i] = (int32_t)json_integer_value(json_array_get(array, i));
    }
    return count;
}

static void open_reference(reference_t *reference)
{
    json_error_t error;
    reference->json = json_load_file("tests/model/data/logits.json", 0, &error);
    assert_non_null(reference->json);
    const json_t *branches = json_object_get(reference->json, "branches");
    reference->prefix_count =
        read_ids(json_object_get(reference->json, "prefix"), reference->prefix, PREFIX_MAX);
    for (size_t b = 0; b < 2; b++) {
        reference->branch_count =
            read_ids(json_array_get(branches, b), reference->branches[b], BRANCH_MAX);
    }
}

// The distance of rows of logits from the reference's.
typedef struct {
    double largest;
    uint32_t beyond; // rows with a difference of TOLERANCE or more
} distance_t;

static double row_distance(const json_t *expected, const float *logits)
{
    size_t token;
    const json_t *value;
    double largest = 0;
    json_array_foreach(expected, token, value)
    {
        double apart = fabs((double)logits[token] - json_number_value(value));
        largest = isnan(largest) || apart <= largest ? largest : apart;
    }
    return largest;
}

// The first `count` rows.
static distance_t distance(const json_t *expected, uint32_t count, uint32_t vocab_size,
                           const float *logits)
{
    distance_t distance = {0};
    assert_in_range(count, 1, json_array_size(expected));
    for (uint32_t i = 0; i < count; i++) {
        const json_t *row = json_array_get(expected, i);
        assert_int_equal(json_array_size(row), vocab_size);
        double apart = row_distance(row, logits + (size_t)i * vocab_size);
        distance.largest = apart <= distance.largest ? distance.largest : apart;
        distance.beyond += !(apart < TOLERANCE);
    }
    return distance;
}

// Prefix and first branch as prefix rows, in small chunks.
static distance_t run_plain(model_fixture_t *fixture, const reference_t *reference,
                            const json_t *expected)
{
    uint32_t count = reference->prefix_count + reference->branch_count;
    float *logits = test_alloc((size_t)count * fixture->vocab_size, sizeof *logits);
    or_kv_sequence_t *sequence = model_fixture_sequence(fixture, 0);
    model_fixture_prefill(fixture, sequence, reference->prefix, reference->prefix_count, 7, logits);
    model_fixture_prefill(fixture, sequence, reference->branches[0], reference->branch_count, 1,
                          logits + (size_t)reference->prefix_count * fixture->vocab_size);
    distance_t result = distance(expected, count, fixture->vocab_size, logits);
    or_kv_sequence_close(&sequence);
    free(logits);
    return result;
}

// Both branches as one tree behind the prefix, in one pass.
static distance_t run_tree(model_fixture_t *fixture, const reference_t *reference,
                           const json_t *expected)
{
    uint32_t branch_count = reference->branch_count;
    uint32_t count = reference->prefix_count + 2 * branch_count;
    or_model_row_t rows[ROWS_MAX];
    float *logits = test_alloc((size_t)count * fixture->vocab_size, sizeof *logits);
    or_kv_sequence_t *sequence = model_fixture_sequence(fixture, 2 * branch_count);
    for (uint32_t i = 0; i < reference->prefix_count; i++) {
        rows[i] = prefix_row(sequence, reference->prefix[i]);
    }
    for (uint32_t i = 0; i < 2 * branch_count; i++) {
        uint32_t depth = i % branch_count;
        rows[reference->prefix_count + i] =
            tree_row(sequence, reference->branches[i / branch_count][depth], i,
                     depth == 0 ? OR_KV_NO_SLOT : i - 1);
    }
    model_fixture_pass(fixture, rows, count, logits);
    distance_t result = distance(expected, count, fixture->vocab_size, logits);
    or_kv_sequence_close(&sequence);
    free(logits);
    return result;
}

static void assert_close(const char *name, const char *rows, distance_t distance, bool rounded)
{
    print_message("%s, %s: %.2g apart, %u rows beyond %g\n", name, rows, distance.largest,
                  distance.beyond, TOLERANCE);
    if (distance.beyond > (rounded ? EDGE_ROWS : 0) || !(distance.largest < EDGE_TOLERANCE)) {
        fail_msg("%s, %s: %g apart, %u rows too far", name, rows, distance.largest,
                 distance.beyond);
    }
}

static void check_file(const char *path, const char *name, const reference_t *reference,
                       bool rounded)
{
    const json_t *expected =
        json_object_get(json_object_get(reference->json, rounded ? "rounded" : "logits"), name);
    model_fixture_t fixture;
    model_fixture_open(&fixture, path, NULL, (or_model_options_t){.threads = 1});
    assert_close(name, "prefix", run_plain(&fixture, reference, expected), rounded);
    assert_close(name, "tree", run_tree(&fixture, reference, expected), rounded);
    model_fixture_close(&fixture);
}

static void check_as_type(const char *name, or_tensor_type_t type, const reference_t *reference)
{
    char path[128];
    snprintf(path, sizeof path, "tests/model/data/%s.gguf", name);
    char *copy = test_requantize(path, type);
    check_file(copy, name, reference, false);
    free(copy);
}

static void check(const char *name, bool rounded)
{
    char path[128];
    snprintf(path, sizeof path, "tests/model/data/%s.gguf", name);
    reference_t reference;
    open_reference(&reference);
    check_as_type(name, OR_TENSOR_F32, &reference);
    check_file(path, name, &reference, rounded);
    json_decref(reference.json);
}

static void floats(void **state)
{
    (void)state;
    check("llama3-bf16", false);
    check("llama-linear-bf16", false);
    check("qwen2-bf16", false);
}

// Numbers of 8 bits near 1 are the same in a half.
static void halves(void **state)
{
    (void)state;
    reference_t reference;
    open_reference(&reference);
    check_as_type("llama3-bf16", OR_TENSOR_F16, &reference);
    check_as_type("qwen2-bf16", OR_TENSOR_F16, &reference);
    json_decref(reference.json);
}

static void quantised(void **state)
{
    (void)state;
    check("llama3-q8_0", true);
    check("llama3-q4_0", true);
    check("llama3-mixed", true);
    check("qwen2-q8_0", true);
    check("qwen2-q4_0", true);
    check("qwen2-14-heads-q8_0", true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats),
        cmocka_unit_test(halves),
        cmocka_unit_test(quantised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
