// Goal: test_requantize writes the weights that other tools write.
// Method: compare with a matrix of random floats that gguf-py converted
// (tests/oracles/make_quants.py). Widen Q8_0 and Q4_0 models made by it and convert them back, which
// is exact as a block's largest number is.
#include "tests/support/requantize.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test_support.h"

static or_gguf_t *open_file(const char *path)
{
    or_gguf_t *gguf = NULL;
    if (or_gguf_open(path, &gguf) != OR_OK) {
        fail_msg("%s", or_error_text());
    }
    return gguf;
}

// Check that each tensor of `expected` is in `made`, of the same type and bytes.
static void assert_same_tensors(const char *made_path, const char *expected_path)
{
    or_gguf_t *made = open_file(made_path);
    or_gguf_t *expected = open_file(expected_path);
    assert_true(or_gguf_tensor_count(expected) > 0);
    for (uint64_t i = 0; i < or_gguf_tensor_count(expected); i++) {
        const or_gguf_tensor_t *tensor = or_gguf_tensor(expected, i);
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)tensor->name.length, tensor->name.bytes);
        const or_gguf_tensor_t *other = or_gguf_find_tensor(made, name);
        assert_non_null(other);
        assert_int_equal(other->type, tensor->type);
        assert_int_equal(other->bytes, tensor->bytes);
        assert_memory_equal(other->data, tensor->data, tensor->bytes);
    }
    or_gguf_close(&expected);
    or_gguf_close(&made);
}

static void check_converted(or_tensor_type_t type, const char *expected)
{
    char *made = test_requantize("tests/oracles/data/floats-f32.gguf", type);
    assert_same_tensors(made, expected);
    free(made);
}

static void floats_become_what_others_write(void **state)
{
    (void)state;
    check_converted(OR_TENSOR_Q8_0, "tests/oracles/data/floats-q8_0.gguf");
    check_converted(OR_TENSOR_Q4_0, "tests/oracles/data/floats-q4_0.gguf");
    check_converted(OR_TENSOR_F16, "tests/oracles/data/floats-f16.gguf");
}

static void check_there_and_back(const char *expected, or_tensor_type_t type)
{
    char *floats = test_requantize(expected, OR_TENSOR_F32);
    char *made = test_requantize(floats, type);
    assert_same_tensors(made, expected);
    free(made);
    free(floats);
}

static void quantised_again_is_what_others_wrote(void **state)
{
    (void)state;
    check_there_and_back("tests/model/data/qwen2-q4_0.gguf", OR_TENSOR_Q4_0);
    check_there_and_back("tests/model/data/qwen2-q8_0.gguf", OR_TENSOR_Q8_0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats_become_what_others_write),
        cmocka_unit_test(quantised_again_is_what_others_wrote),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
