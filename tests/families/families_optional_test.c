// Goal: a file without the tensors that its family may lack runs, and computes what one with zeros in their place does.
// Method: GLM 4's random model is written twice, without its biases and with biases of 0; the logits must be the same bits.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/gguf/gguf_writer.h"
#include "tests/families/family_file.h"
#include "tests/model/model_fixture.h"

#define VOCAB 64u
#define POSITIONS 200u

static bool is_bias(const or_gguf_tensor_t *tensor)
{
    static const char ending[] = ".bias";
    size_t bytes = sizeof ending - 1;
    return tensor->name.length > bytes &&
           memcmp(tensor->name.bytes + tensor->name.length - bytes, ending, bytes) == 0;
}

// Write a copy of the model whose biases are 0, or left out.
static void write_copy(const or_gguf_t *gguf, bool has_biases, const char *path)
{
    or_gguf_writer_t *writer = NULL;
    uint64_t count = or_gguf_tensor_count(gguf), biases = 0;
    assert_int_equal(or_gguf_writer_create(path, &writer), OR_OK);
    assert_int_equal(or_gguf_writer_copy(writer, gguf), OR_OK);
    for (uint64_t i = 0; i < count; i++) {
        const or_gguf_tensor_t *tensor = or_gguf_tensor(gguf, i);
        biases += is_bias(tensor);
        if (has_biases || !is_bias(tensor)) {
            assert_int_equal(or_gguf_writer_add_tensor(writer, tensor->name, tensor->dim_count,
                                                       tensor->dims, OR_TENSOR_F32),
                             OR_OK);
        }
    }
    assert_true(biases > 0);
    assert_int_equal(or_gguf_writer_begin(writer), OR_OK);
    for (uint64_t i = 0; i < count; i++) {
        const or_gguf_tensor_t *tensor = or_gguf_tensor(gguf, i);
        void *zeros = calloc(1, tensor->bytes);
        assert_non_null(zeros);
        if (has_biases || !is_bias(tensor)) {
            const void *data = is_bias(tensor) ? zeros : tensor->data;
            assert_int_equal(or_gguf_writer_put(writer, data, tensor->bytes), OR_OK);
        }
        free(zeros);
    }
    assert_int_equal(or_gguf_writer_finish(writer), OR_OK);
    or_gguf_writer_destroy(&writer);
}

static void run(const char *path, const int32_t *tokens, float *logits)
{
    model_fixture_t fixture;
    model_fixture_open(&fixture, path, NULL, (or_model_options_t){.threads = 1});
    assert_int_equal(fixture.vocab_size, VOCAB);
    or_kv_sequence_t *sequence = model_fixture_sequence(&fixture, 0);
    model_fixture_prefill(&fixture, sequence, tokens, POSITIONS, 64, logits);
    or_kv_sequence_close(&sequence);
    model_fixture_close(&fixture);
}

static void biases_may_be_absent(void **state)
{
    (void)state;
    static int32_t tokens[POSITIONS];
    static float logits[2][POSITIONS * VOCAB];
    char folder[] = "/tmp/or_families_XXXXXX";
    char path[64];
    or_gguf_t *gguf = NULL;
    char *whole = family_file_make("glm4/0");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/model.gguf", folder);
    assert_int_equal(or_gguf_open(whole, &gguf), OR_OK);
    assert_int_equal(family_file_tokens(gguf, tokens, POSITIONS), POSITIONS);
    for (int with = 0; with < 2; with++) {
        write_copy(gguf, with == 1, path);
        run(path, tokens, logits[with]);
    }
    assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
    or_gguf_close(&gguf);
    test_remove_folder(folder);
    free(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(biases_may_be_absent)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
