// Goal: test_permute and test_pad give the same model under other ids: the same logits, text and
// kinds of tokens.
// Method: use demonstration models of both tokenizers, with a head of their own and without. After a
// prompt in either's ids compare the logits of every token bit for bit, and the tokenizations of a
// text token by token.
#include "tests/support/permute.h"

#include <stdlib.h>
#include <string.h>

#include "common/model/model.h"
#include "common/text/tokenizer.h"
#include "tests/support/test_support.h"

#define PADDING 37u
#define SEED 11u

static const char text[] =
    "Once upon a time, t\xC3\xA9t\xC3\xA9's\tcat\r\nsaid: \xF0\x9F\x98\x80 12!";

typedef struct {
    or_gguf_t *gguf;
    or_vocab_t *vocab;
    or_model_t *model;
    float *logits; // after `text`
    int32_t *ids;  // of `text`
    size_t count;
} loaded_t;

static void run(loaded_t *m)
{
    or_kv_sequence_t *kv = NULL;
    assert_int_equal(or_tokenize(m->vocab, text, strlen(text), OR_TOKENIZE_BOS, &m->ids, &m->count),
                     OR_OK);
    assert_int_equal(or_model_open_sequence(m->model, 1, &kv), OR_OK);
    for (size_t i = 0; i < m->count; i++) {
        or_model_row_t row = {kv, m->ids[i], OR_KV_NO_SLOT, OR_KV_NO_SLOT};
        assert_int_equal(or_model_forward(m->model, &row, 1), OR_OK);
    }
    m->logits = calloc(or_vocab_size(m->vocab), sizeof *m->logits);
    assert_int_equal(or_model_logits(m->model, 0, 1, m->logits), OR_OK);
    or_kv_sequence_close(&kv);
}

static loaded_t load(const char *path)
{
    const or_model_options_t options = {.threads = 1, .rows_max = 1, .pages_max = 8};
    loaded_t m = {0};
    if (or_gguf_open(path, &m.gguf) != OR_OK || or_vocab_load(m.gguf, &m.vocab) != OR_OK ||
        or_model_load(m.gguf, &options, &m.model) != OR_OK) {
        fail_msg("%s", or_error_text());
    }
    run(&m);
    return m;
}

static void unload(loaded_t *m)
{
    free(m->ids);
    free(m->logits);
    or_model_destroy(&m->model);
    or_vocab_destroy(&m->vocab);
    or_gguf_close(&m->gguf);
}

static int32_t moved_id(const uint32_t *moved, int32_t id)
{
    return id == OR_TOKEN_NONE ? id : (int32_t)moved[id];
}

static void assert_same_tokens(const loaded_t *original, const loaded_t *made,
                               const uint32_t *moved)
{
    uint32_t count = or_vocab_size(original->vocab);
    for (uint32_t id = 0; id < count; id++) {
        int32_t old = (int32_t)id;
        int32_t new = (int32_t)moved[id];
        assert_int_equal(or_vocab_kind(made->vocab, new), or_vocab_kind(original->vocab, old));
        assert_int_equal(or_vocab_is_end(made->vocab, new), or_vocab_is_end(original->vocab, old));
        assert_true(or_vocab_noise_keys(made->vocab)[new] ==
                    or_vocab_noise_keys(original->vocab)[old]);
        assert_memory_equal(&made->logits[new], &original->logits[old], sizeof(float));
    }
    assert_int_equal(or_vocab_bos(made->vocab), moved_id(moved, or_vocab_bos(original->vocab)));
    assert_int_equal(or_vocab_eos(made->vocab), moved_id(moved, or_vocab_eos(original->vocab)));
    assert_int_equal(or_vocab_size(made->vocab), count + PADDING);
    for (uint32_t id = count; id < count + PADDING; id++) {
        assert_int_equal(or_vocab_kind(made->vocab, (int32_t)id), OR_TOKEN_UNUSED);
    }
}

static void assert_same_text(const loaded_t *original, const loaded_t *made, const uint32_t *moved)
{
    char *back;
    size_t length;
    assert_int_equal(made->count, original->count);
    for (size_t i = 0; i < made->count; i++) {
        assert_int_equal(made->ids[i], moved[original->ids[i]]);
    }
    assert_int_equal(or_detokenize(made->vocab, made->ids, made->count, &back, &length), OR_OK);
    assert_int_equal(length, strlen(text));
    assert_memory_equal(back, text, length);
    free(back);
}

// Padding must be something a drafter can guess, so its rows must not be zeros.
static void assert_padding_is_likely(const loaded_t *made)
{
    uint32_t size = or_vocab_size(made->vocab);
    float best = made->logits[size - PADDING];
    float worst = best;
    for (uint32_t id = size - PADDING; id < size; id++) {
        best = made->logits[id] > best ? made->logits[id] : best;
        worst = made->logits[id] < worst ? made->logits[id] : worst;
    }
    assert_true(best - worst > 0.1F);
}

static void check(const char *path)
{
    loaded_t original = load(path);
    uint32_t count = or_vocab_size(original.vocab);
    uint32_t *moved = calloc(count, sizeof *moved);
    assert_non_null(moved);
    char *permuted = test_permute(path, SEED, PADDING);
    char *padded = test_pad(path, PADDING);
    const char *const paths[] = {permuted, padded};
    for (int i = 0; i < 2; i++) {
        loaded_t made = load(paths[i]);
        test_permutation(SEED, count, moved);
        uint32_t stayed = 0;
        for (uint32_t id = 0; id < count; id++) {
            stayed += moved[id] == id;
            moved[id] = i == 0 ? moved[id] : id;
        }
        assert_true(stayed < 10); // one is expected
        assert_same_tokens(&original, &made, moved);
        assert_same_text(&original, &made, moved);
        assert_padding_is_likely(&made);
        unload(&made);
    }
    free(padded);
    free(permuted);
    free(moved);
    unload(&original);
}

static void sentencepiece_models_are_the_same(void **state)
{
    (void)state;
    check(test_model("tales-1m-f16.gguf"));
}

static void byte_level_models_are_the_same(void **state)
{
    (void)state;
    check(test_model("tales-bpe-1m-f16.gguf"));
}

static void models_with_a_head_of_their_own_are_the_same(void **state)
{
    (void)state;
    check(test_data("models/stories260K-f32.gguf"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sentencepiece_models_are_the_same),
        cmocka_unit_test(byte_level_models_are_the_same),
        cmocka_unit_test(models_with_a_head_of_their_own_are_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
