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

// Token i of the vocabulary: the caller's, then one for each byte, as the kind of vocabulary writes
// it.
static test_token_t token_at(const test_token_t *tokens, uint32_t count, uint32_t i,
                             bool byte_level, char *name)
{
    if (i < count) {
        return tokens[i];
    }
    unsigned byte = i - count;
    if (!byte_level) {
        snprintf(name, 7, "<0x%02X>", byte);
        return (test_token_t){name, 0, 6};
    }
    unsigned c = byte <= ' '    ? 0x100 + byte
                 : byte < 0x7F  ? byte
                 : byte <= 0xA0 ? 0x121 + byte - 0x7F
                 : byte == 0xAD ? 0x143
                                : byte;
    bool ascii = c < 0x80;
    name[0] = (char)(ascii ? c : 0xC0 | c >> 6);
    name[1] = (char)(ascii ? 0 : 0x80 | (c & 0x3F));
    name[2] = '\0';
    return (test_token_t){name, 0, 1};
}

static void put_tokens(test_gguf_t *file, const test_token_t *tokens, uint32_t count,
                       uint32_t total, bool byte_level)
{
    char name[7];
    test_gguf_put_array_key(file, "tokenizer.ggml.tokens", OR_GGUF_STRING, total);
    for (uint32_t i = 0; i < total; i++) {
        test_gguf_put_string(file, token_at(tokens, count, i, byte_level, name).piece);
    }
    test_gguf_put_array_key(file, "tokenizer.ggml.scores", OR_GGUF_F32, total);
    for (uint32_t i = 0; i < total; i++) {
        float score = token_at(tokens, count, i, byte_level, name).score;
        test_gguf_put(file, &score, sizeof score);
    }
    test_gguf_put_array_key(file, "tokenizer.ggml.token_type", OR_GGUF_I32, total);
    for (uint32_t i = 0; i < total; i++) {
        int32_t type = token_at(tokens, count, i, byte_level, name).type;
        test_gguf_put(file, &type, sizeof type);
    }
}

static or_status_t load(test_gguf_t *file, or_vocab_t **vocab_p)
{
    or_gguf_t *gguf = NULL;
    assert_int_equal(test_gguf_open(file, &gguf), OR_OK);
    or_status_t status = or_vocab_load(gguf, vocab_p);
    or_gguf_close(&gguf);
    test_gguf_fini(file);
    return status;
}

or_status_t test_make_vocab(const test_token_t *tokens, uint32_t count, unsigned wish,
                            or_vocab_t **vocab_p)
{
    test_gguf_t file;
    bool roles = (wish & TEST_WITH_BOS_EOS) != 0;
    bool unknown = (wish & TEST_WITH_UNKNOWN) != 0;
    test_gguf_init(&file, 3, 0, 5 + 2 * roles + unknown);
    test_gguf_put_string_entry(&file, "tokenizer.ggml.model", "llama");
    test_gguf_put_bool_entry(&file, "tokenizer.ggml.add_space_prefix",
                             (wish & TEST_WITHOUT_SPACE) == 0);
    put_tokens(&file, tokens, count, count + ((wish & TEST_WITH_BYTES) != 0 ? 256 : 0), false);
    if (roles) {
        test_gguf_put_u32_entry(&file, "tokenizer.ggml.bos_token_id", 1);
        test_gguf_put_u32_entry(&file, "tokenizer.ggml.eos_token_id", 2);
    }
    if (unknown) {
        test_gguf_put_u32_entry(&file, "tokenizer.ggml.unknown_token_id", 0);
    }
    return load(&file, vocab_p);
}

or_status_t test_make_byte_level(const test_token_t *tokens, uint32_t count,
                                 const char *const *merges, uint32_t merge_count, const char *pre,
                                 or_vocab_t **vocab_p)
{
    test_gguf_t file;
    test_gguf_init(&file, 3, 0, 4 + (pre != NULL) + (merges != NULL));
    test_gguf_put_string_entry(&file, "tokenizer.ggml.model", "gpt2");
    if (pre != NULL) {
        test_gguf_put_string_entry(&file, "tokenizer.ggml.pre", pre);
    }
    put_tokens(&file, tokens, count, count + 256, true);
    if (merges != NULL) {
        test_gguf_put_array_key(&file, "tokenizer.ggml.merges", OR_GGUF_STRING, merge_count);
    }
    for (uint32_t i = 0; i < merge_count; i++) {
        test_gguf_put_string(&file, merges[i]);
    }
    return load(&file, vocab_p);
}
