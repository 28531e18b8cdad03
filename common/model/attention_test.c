// Goal: how many decoded blocks a worker has place for changes no bit, also where a text is longer.
// Method: the same text and tree in models that differ in nothing else; two sequences take turns.
#include <stdlib.h>
#include <string.h>

#include "common/model/model_internal.h"
#include "tests/support/test_support.h"

#define TOKENS 200u
#define NODES 40u

// Logits of the last prefix rows of two texts, and of a chain on the first of them.
static float *run(or_kv_type_t type, uint32_t decoded_max, size_t *bytes)
{
    or_gguf_t *gguf = NULL;
    or_model_t *model = NULL;
    or_kv_sequence_t *sequences[2] = {NULL, NULL};
    const or_model_options_t options = {
        .threads = 2, .rows_max = 50, .cache_type_k = type, .cache_type_v = type};
    assert_int_equal(or_gguf_open(test_model("tales-1m-f16.gguf"), &gguf), OR_OK);
    assert_int_equal(or_model_load(gguf, &options, &model), OR_OK);
    for (uint32_t i = 0; i < or_workers_count(model->workers); i++) {
        assert_true(model->scratch[i].decoded_max >= decoded_max);
        model->scratch[i].decoded_max = decoded_max;
    }
    assert_int_equal(or_model_open_sequence(model, NODES, &sequences[0]), OR_OK);
    assert_int_equal(or_model_open_sequence(model, 0, &sequences[1]), OR_OK);
    or_model_row_t rows[50];
    for (uint32_t first = 0; first < TOKENS; first += 25) {
        for (uint32_t i = 0; i < 50; i++) {
            int32_t token = (int32_t)(3 + (first + i % 25) * (5 + i / 25) % 97);
            rows[i] = (or_model_row_t){sequences[i / 25], token, OR_KV_NO_SLOT, OR_KV_NO_SLOT};
        }
        assert_int_equal(or_model_forward(model, rows, 50), OR_OK);
    }
    size_t vocab_size = or_model_shape(model)->vocab_size;
    *bytes = (50 + NODES) * vocab_size * sizeof(float);
    float *logits = malloc(*bytes);
    assert_non_null(logits);
    assert_int_equal(or_model_logits(model, 0, 50, logits), OR_OK);
    for (uint32_t i = 0; i < NODES; i++) {
        rows[i] =
            (or_model_row_t){sequences[0], (int32_t)(3 + i), i, i == 0 ? OR_KV_NO_SLOT : i - 1};
    }
    assert_int_equal(or_model_forward(model, rows, NODES), OR_OK);
    assert_int_equal(or_model_logits(model, 0, NODES, logits + 50 * vocab_size), OR_OK);
    or_kv_sequence_close(&sequences[1]);
    or_kv_sequence_close(&sequences[0]);
    or_model_destroy(&model);
    or_gguf_close(&gguf);
    return logits;
}

static void the_place_for_decoded_blocks_does_not_matter(void **state)
{
    (void)state;
    for (or_kv_type_t type = OR_KV_F16; type <= OR_KV_Q8_0; type++) {
        size_t bytes;
        float *whole = run(type, 7, &bytes);
        for (uint32_t decoded_max = 0; decoded_max < 4; decoded_max++) {
            float *some = run(type, decoded_max, &bytes);
            assert_memory_equal(some, whole, bytes);
            free(some);
        }
        free(whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_place_for_decoded_blocks_does_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
