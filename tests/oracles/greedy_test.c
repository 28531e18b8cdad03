// Goal: at temperature 0 the demonstration models write what mainline llama.cpp writes.
// Method: 20 prompts of 64 tokens and their ids by llama.cpp (make_greedy.py, data/greedy.json). It
// bans end tokens: with them banned here too (a logit bias) the texts are equal. Without the ban ours
// is the same up to the step at which llama.cpp's best token was a banned end token, which ours writes.
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/tokenizer.h"
#include "tests/simulation/cluster.h"
#include "tests/simulation/plain.h"
#include "tests/support/test_support.h"

#define PROMPTS 20u
#define TOKENS 64u
#define ENDS_MAX 8u

typedef struct {
    sim_model_t model;
    or_logit_bias_t bans[ENDS_MAX];
    uint32_t ban_count;
} writer_t;

static writer_t open_writer(const char *name)
{
    writer_t writer = {0};
    char file[64];
    snprintf(file, sizeof file, "%s.gguf", name);
    sim_model_load(test_model(file), 1, 64, &writer.model);
    for (uint32_t id = 0; id < or_vocab_size(writer.model.vocab); id++) {
        if (or_vocab_is_end(writer.model.vocab, (int32_t)id)) {
            assert_true(writer.ban_count < ENDS_MAX);
            writer.bans[writer.ban_count++] = (or_logit_bias_t){(int32_t)id, -INFINITY};
        }
    }
    assert_true(writer.ban_count > 0);
    return writer;
}

static uint32_t decode(const writer_t *writer, const char *prompt, size_t prompt_tokens, bool ban,
                       int32_t out[TOKENS])
{
    int32_t *ids = NULL;
    size_t count = 0;
    assert_int_equal(
        or_tokenize(writer->model.vocab, prompt, strlen(prompt), OR_TOKENIZE_BOS, &ids, &count),
        OR_OK);
    assert_int_equal(count, prompt_tokens);
    or_sampling_t sampling = or_sampling_default();
    sampling.temperature = 0;
    sampling.bias = writer->bans;
    sampling.bias_count = ban ? writer->ban_count : 0;
    uint32_t written = plain_decode(writer->model.model, writer->model.vocab, ids, (uint32_t)count,
                                    &sampling, 1, TOKENS, out);
    free(ids);
    return written;
}

static void assert_tokens(const char *prompt, const int32_t *tokens, const json_t *text,
                          size_t count)
{
    for (size_t i = 0; i < count; i++) {
        json_int_t expected =
            json_integer_value(json_array_get(json_object_get(text, "tokens"), i));
        if (tokens[i] != expected) {
            fail_msg("'%s', token %zu is %d, llama.cpp's is %d, which was better by %g", prompt, i,
                     tokens[i], (int)expected,
                     json_number_value(json_array_get(json_object_get(text, "gaps"), i)));
        }
    }
}

static void check_text(const writer_t *writer, const json_t *text)
{
    const char *prompt = json_string_value(json_object_get(text, "text"));
    const json_t *tokens = json_object_get(text, "tokens");
    const json_t *end = json_array_get(json_object_get(text, "ends"), 0);
    size_t prompt_tokens = (size_t)json_integer_value(json_object_get(text, "prompt_tokens"));
    assert_int_equal(json_array_size(tokens), TOKENS);
    int32_t out[TOKENS];
    assert_int_equal(decode(writer, prompt, prompt_tokens, true, out), TOKENS);
    assert_tokens(prompt, out, text, TOKENS);
    if (end == NULL) {
        return;
    }
    uint32_t at = (uint32_t)json_integer_value(json_array_get(end, 0));
    assert_int_equal(decode(writer, prompt, prompt_tokens, false, out), at + 1);
    assert_tokens(prompt, out, text, at);
    assert_int_equal(out[at], json_integer_value(json_array_get(end, 1)));
}

static void check_model(const char *name)
{
    json_error_t error;
    json_t *root = json_load_file("tests/oracles/data/greedy.json", 0, &error);
    if (root == NULL) {
        fail_msg("greedy.json: %s", error.text);
    }
    const json_t *texts = json_object_get(json_object_get(root, "models"), name);
    assert_int_equal(json_array_size(texts), PROMPTS);
    writer_t writer = open_writer(name);
    for (size_t i = 0; i < PROMPTS; i++) {
        check_text(&writer, json_array_get(texts, i));
    }
    sim_model_free(&writer.model);
    json_decref(root);
}

static void tales_6m(void **state)
{
    (void)state;
    check_model("tales-6m-f16");
}

static void tales_1m(void **state)
{
    (void)state;
    check_model("tales-1m-f16");
}

static void tales_bpe_1m(void **state)
{
    (void)state;
    check_model("tales-bpe-1m-f16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tales_6m),
        cmocka_unit_test(tales_1m),
        cmocka_unit_test(tales_bpe_1m),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
