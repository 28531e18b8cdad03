#include "common/text/text_test_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/gguf/gguf_test_file.h"
#include "common/text/tokenizer.h"
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

const char *const test_vocab_names[TEST_VOCAB_FILES] = {"llama-spm", "phi-3",     "gpt-2",
                                                        "starcoder", "llama-bpe", "qwen2"};

void test_load_vocabs(or_vocab_t *vocabs[TEST_VOCABS])
{
    // The files that may be absent come first: a test that is skipped has nothing to free.
    for (int i = 0; i < TEST_VOCAB_FILES; i++) {
        char name[64];
        snprintf(name, sizeof name, "vocab/%s.gguf", test_vocab_names[i]);
        vocabs[i] = test_load_vocab(test_data(name));
    }
    vocabs[TEST_VOCAB_FILES] = test_load_vocab(test_model("tales-6m-f16.gguf"));
    vocabs[TEST_VOCAB_FILES + 1] = test_load_vocab(test_model("tales-bpe-1m-f16.gguf"));
}

#define ENTRY_COUNT_AT 16 // magic, version and number of tensors come first

static or_status_t load(test_gguf_t *file, or_vocab_t **vocab_p)
{
    or_gguf_t *gguf = NULL;
    assert_int_equal(test_gguf_open(file, &gguf), OR_OK);
    or_status_t status = or_vocab_load(gguf, vocab_p);
    or_gguf_close(&gguf);
    test_gguf_fini(file);
    return status;
}

static void put_bytes(test_gguf_t *file, or_gguf_string_t string)
{
    test_gguf_put_u64(file, string.length);
    test_gguf_put(file, string.bytes, string.length);
}

static void put_reordered(test_gguf_t *file, const or_gguf_t *gguf, const uint32_t *order,
                          uint32_t count)
{
    enum { UNUSED = 5 }; // GGUF's number
    or_gguf_array_t pieces, types;
    assert_int_equal(or_gguf_get_array(gguf, "tokenizer.ggml.tokens", OR_GGUF_STRING, &pieces),
                     OR_OK);
    assert_int_equal(or_gguf_get_array(gguf, "tokenizer.ggml.token_type", OR_GGUF_I32, &types),
                     OR_OK);
    test_gguf_put_array_key(file, "tokenizer.ggml.tokens", OR_GGUF_STRING, count);
    for (uint32_t i = 0; i < count; i++) {
        char name[32];
        int length = snprintf(name, sizeof name, "[PAD%u]", (unsigned)i);
        put_bytes(file, order[i] != TEST_PADDING ? or_gguf_array_string(&pieces, order[i])
                                                 : (or_gguf_string_t){name, (size_t)length});
    }
    test_gguf_put_array_key(file, "tokenizer.ggml.token_type", OR_GGUF_I32, count);
    for (uint32_t i = 0; i < count; i++) {
        int32_t type = order[i] != TEST_PADDING ? or_gguf_array_i32(&types, order[i]) : UNUSED;
        test_gguf_put(file, &type, sizeof type);
    }
}

// A role gets no entry if the file does not give it, or gives it to a token that is left out.
static void put_role(test_gguf_t *file, const or_gguf_t *gguf, const char *key,
                     const uint32_t *order, uint32_t count, uint64_t *entries)
{
    uint32_t id;
    if (!or_gguf_has(gguf, key) || or_gguf_get_u32(gguf, key, &id) != OR_OK) {
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (order[i] == id) {
            test_gguf_put_u32_entry(file, key, i);
            ++*entries;
            return;
        }
    }
}

or_vocab_t *test_reorder_vocab(const char *path, const uint32_t *order, uint32_t count)
{
    or_gguf_t *gguf = NULL;
    or_vocab_t *vocab = NULL;
    or_gguf_array_t merges;
    or_gguf_string_t pre;
    test_gguf_t file;
    uint64_t entries = 5;
    assert_int_equal(or_gguf_open(path, &gguf), OR_OK);
    assert_int_equal(or_gguf_get_array(gguf, "tokenizer.ggml.merges", OR_GGUF_STRING, &merges),
                     OR_OK);
    assert_int_equal(or_gguf_get_string(gguf, "tokenizer.ggml.pre", &pre), OR_OK);
    test_gguf_init(&file, 3, 0, entries);
    test_gguf_put_string_entry(&file, "tokenizer.ggml.model", "gpt2");
    test_gguf_put_key(&file, "tokenizer.ggml.pre", OR_GGUF_STRING);
    put_bytes(&file, pre);
    put_reordered(&file, gguf, order, count);
    test_gguf_put_array_key(&file, "tokenizer.ggml.merges", OR_GGUF_STRING, merges.count);
    for (uint64_t i = 0; i < merges.count; i++) {
        put_bytes(&file, or_gguf_array_string(&merges, i));
    }
    put_role(&file, gguf, "tokenizer.ggml.bos_token_id", order, count, &entries);
    put_role(&file, gguf, "tokenizer.ggml.eos_token_id", order, count, &entries);
    memcpy(file.bytes + ENTRY_COUNT_AT, &entries, sizeof entries);
    assert_int_equal(load(&file, &vocab), OR_OK);
    or_gguf_close(&gguf);
    return vocab;
}

// Token i of the vocabulary. The caller's tokens come first, then one for each byte, written as
// the kind of vocabulary does.
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

or_status_t test_make_by_lines(const test_token_t *tokens, uint32_t count,
                               const char *const *merges, uint32_t merge_count,
                               or_vocab_t **vocab_p)
{
    test_gguf_t file;
    test_gguf_init(&file, 3, 0, 5);
    test_gguf_put_string_entry(&file, "tokenizer.ggml.model", "gemma4");
    put_tokens(&file, tokens, count, count + 256, false);
    test_gguf_put_array_key(&file, "tokenizer.ggml.merges", OR_GGUF_STRING, merge_count);
    for (uint32_t i = 0; i < merge_count; i++) {
        test_gguf_put_string(&file, merges[i]);
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

// -- texts
// -------------------------------------------------------------------------------------------------

static const char *const bits[] = {" ",
                                   "  ",
                                   "\t",
                                   "\n",
                                   "\r\n",
                                   "\r",
                                   "\v\f",
                                   "\xC2\xA0",
                                   "\xC2\x85",
                                   "\xE2\x80\x83",
                                   "\xE3\x80\x80",
                                   "\xE1\xA0\x8E",
                                   "\xE2\x80\xA8",
                                   "\xE2\x96\x81",
                                   "the ",
                                   " a",
                                   "ing",
                                   "I'll",
                                   "'S",
                                   "don't",
                                   "HTML",
                                   "camelCase",
                                   "x",
                                   "0",
                                   "12",
                                   "345",
                                   "6789012",
                                   "\xC2\xBD",
                                   "\xD9\xA3",
                                   "3.14",
                                   "e",
                                   "\xCC\x81",
                                   "\xE0\xA4\x95\xE0\xA5\x8D\xE0\xA4\xB7",
                                   "\xE0\xB8\x97\xE0\xB8\xB5",
                                   "\xC3\xA9",
                                   "\xC5\xBF",
                                   "\xD0\x9F\xD1\x80",
                                   "\xCE\xA9",
                                   "\xD7\xA9\xD7\x9C",
                                   "\xD8\xB3",
                                   "\xE4\xB8\xAD\xE6\x96\x87",
                                   "\xE3\x81\x8B\xE3\x82\xAB",
                                   "\xED\x95\x9C",
                                   "\xF0\xA0\x80\x80",
                                   "\xF0\x9F\x98\x80",
                                   "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x92\xBB",
                                   "\xEF\xB8\x8F",
                                   "\xE2\x80\x8D",
                                   "\xF0\x9F\x87\xA9\xF0\x9F\x87\xAA",
                                   "<s>",
                                   "</s>",
                                   "<|endoftext|>",
                                   "<|im_start|>",
                                   "<|begin_of_text|>",
                                   "<0x41>",
                                   "<unk>",
                                   "\xEF\xBF\xBD",
                                   "\xEF\xBB\xBF",
                                   "\xED\xA0\x80",
                                   "\xC0\xAF",
                                   "\xE4\xB8",
                                   "\xF0\x9F",
                                   "\x80",
                                   "\xF4\x90\x80\x80",
                                   "!?",
                                   "...",
                                   "//",
                                   "()",
                                   "{}\n",
                                   ";\n\n",
                                   "_",
                                   "\x7F",
                                   "\x01"};
enum { BITS = sizeof bits / sizeof *bits, LONGEST_RUN = 250 };

size_t test_text(uint64_t *seed, char *text)
{
    size_t length = 0;
    size_t wanted = test_below(seed, test_below(seed, 4) == 0 ? TEST_TEXT_BYTES - LONGEST_RUN : 40);
    while (length < wanted) {
        uint64_t choice = test_below(seed, BITS + 20);
        size_t run = test_below(seed, 10) == 0 ? 1 + test_below(seed, 12) : 1;
        if (choice < BITS) {
            size_t bytes = strlen(bits[choice]);
            for (; run > 0; run--, length += bytes) {
                memcpy(text + length, bits[choice], bytes);
            }
        } else if (choice < BITS + 10) {
            memset(text + length, (int)test_below(seed, 256), run);
            length += run;
        } else {
            text[length++] = (char)test_random(seed);
        }
    }
    return length;
}

bool test_lacks_bytes(const or_vocab_t *vocab)
{
    bool lacks = false;
    for (unsigned i = 0; i < 256; i++) {
        char byte = (char)i;
        int32_t *ids = NULL;
        size_t count;
        assert_int_equal(or_tokenize(vocab, &byte, 1, OR_TOKENIZE_CONTINUES, &ids, &count), OR_OK);
        lacks = lacks || count == 0;
        free(ids);
    }
    return lacks;
}

void test_assert_round_trip(const or_vocab_t *vocab, const char *text, size_t length)
{
    int32_t *ids = NULL;
    size_t count;
    char *back = NULL;
    size_t back_length;
    assert_int_equal(or_tokenize(vocab, text, length, OR_TOKENIZE_BOS, &ids, &count), OR_OK);
    assert_int_equal(or_detokenize(vocab, ids, count, &back, &back_length), OR_OK);
    assert_int_equal(back_length, length);
    assert_memory_equal(back, text, length);
    assert_int_equal(back[length], '\0');
    free(back);
    free(ids);
}
