#include "common/text/text_test_support.h"

#include <stdio.h>

#include "common/gguf/gguf_test_file.h"
#include "tests/support/test_support.h"

or_vocab_t *test_load_vocab(const char *path)
{
    or_gguf_t *gguf = NULL;
    or_vocab_t *vocab = NULL;
    if (or_gguf_open(path, &gguf) != OR_OK || or_vocab_load(gguf, &vocab) != OR_OK) {
        fail_msg("%s", or_error_text());
    }
    or_gguf_close(&gguf);
    return vocab;
}

// Token i of the vocabulary: the caller's, then the byte tokens.
static test_token_t token_at(const test_token_t *tokens, uint32_t count, uint32_t i, char *name)
{
    if (i < count) {
        return tokens[i];
    }
    snprintf(name, 7, "<0x%02X>", (unsigned)(unsigned char)(i - count));
    return (test_token_t){name, 0, 6};
}

static void put_tokens(test_gguf_t *file, const test_token_t *tokens, uint32_t count,
                       uint32_t total)
{
    char name[7];
    test_gguf_put_array_key(file, "tokenizer.ggml.tokens", OR_GGUF_STRING, total);
    for (uint32_t i = 0; i < total; i++) {
        test_gguf_put_string(file, token_at(tokens, count, i, name).piece);
    }
    test_gguf_put_array_key(file, "tokenizer.ggml.scores", OR_GGUF_F32, total);
    for (uint32_t i = 0; i < total; i++) {
        float score = token_at(tokens, count, i, name).score;
        test_gguf_put(file, &score, sizeof score);
    }
    test_gguf_put_array_key(file, "tokenizer.ggml.token_type", OR_GGUF_I32, total);
    for (uint32_t i = 0; i < total; i++) {
        int32_t type = token_at(tokens, count, i, name).type;
        test_gguf_put(file, &type, sizeof type);
    }
}

or_status_t test_make_vocab(const test_token_t *tokens, uint32_t count, unsigned wish,
                            or_vocab_t **vocab_p)
{
    test_gguf_t file;
    or_gguf_t *gguf = NULL;
    bool roles = (wish & TEST_WITH_BOS_EOS) != 0;
    bool unknown = (wish & TEST_WITH_UNKNOWN) != 0;
    test_gguf_init(&file, 3, 0, 5 + 2 * roles + unknown);
    test_gguf_put_string_entry(&file, "tokenizer.ggml.model",
                               (wish & TEST_BYTE_LEVEL) != 0 ? "gpt2" : "llama");
    test_gguf_put_bool_entry(&file, "tokenizer.ggml.add_space_prefix",
                             (wish & TEST_WITHOUT_SPACE) == 0);
    put_tokens(&file, tokens, count, count + ((wish & TEST_WITH_BYTES) != 0 ? 256 : 0));
    if (roles) {
        test_gguf_put_u32_entry(&file, "tokenizer.ggml.bos_token_id", 1);
        test_gguf_put_u32_entry(&file, "tokenizer.ggml.eos_token_id", 2);
    }
    if (unknown) {
        test_gguf_put_u32_entry(&file, "tokenizer.ggml.unknown_token_id", 0);
    }
    assert_int_equal(test_gguf_open(&file, &gguf), OR_OK);
    or_status_t status = or_vocab_load(gguf, vocab_p);
    or_gguf_close(&gguf);
    test_gguf_fini(&file);
    return status;
}
