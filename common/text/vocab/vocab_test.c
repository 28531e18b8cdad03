// Goal: tokens have the bytes, kinds, roles and noise keys that vocab.h promises, in either kind
// of vocabulary. Wrong files are refused with a sentence.
// Method: use vocabularies made by hand; the demonstration pair, which has two kinds; real
// vocabularies, for uniqueness; and a real file with random bytes changed.
#include "common/text/vocab/vocab.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/gguf/gguf_test_file.h"
#include "common/text/text_test_support.h"
#include "common/text/tokenizer.h"
#include "tests/support/test_support.h"

static void assert_bytes(const or_vocab_t *vocab, int32_t id, const char *expected)
{
    uint32_t length;
    const char *bytes = or_vocab_bytes(vocab, id, &length);
    assert_int_equal(length, strlen(expected));
    assert_memory_equal(bytes, expected, length);
    assert_int_equal(or_vocab_widths(vocab)[id], length);
}

static int32_t find_bytes(const or_vocab_t *vocab, const char *bytes)
{
    for (int32_t id = 0; id < (int32_t)or_vocab_size(vocab); id++) {
        uint32_t length;
        const char *found = or_vocab_bytes(vocab, id, &length);
        if (or_vocab_kind(vocab, id) == OR_TOKEN_TEXT && length == strlen(bytes) &&
            memcmp(found, bytes, length) == 0) {
            return id;
        }
    }
    fail_msg("no token \"%s\"", bytes);
    return OR_TOKEN_NONE;
}

static const test_token_t sentencepiece[] = {
    {"<unk>", 0, 2},           {"<s>", 0, 3}, {"</s>", 0, 3},
    {"\xE2\x96\x81of", -1, 1}, {"A", -2, 1},  {"\xE2\x96\x81keep", 0, 4},
    {"<pad>", 0, 5},           {"A", -3, 1},
};
enum { SENTENCEPIECE_TOKENS = sizeof sentencepiece / sizeof *sentencepiece };

static void sentencepiece_tokens_print_what_they_should(void **state)
{
    (void)state;
    or_vocab_t *vocab = NULL;
    uint32_t length;
    assert_int_equal(test_make_vocab(sentencepiece, SENTENCEPIECE_TOKENS,
                                     TEST_WITH_BYTES | TEST_WITH_BOS_EOS, &vocab),
                     OR_OK);
    assert_int_equal(or_vocab_size(vocab), SENTENCEPIECE_TOKENS + 256);
    assert_string_equal(or_vocab_model(vocab), "llama");
    assert_bytes(vocab, 0, "");
    assert_bytes(vocab, 1, "");
    assert_bytes(vocab, 3, " of");
    assert_bytes(vocab, 5, "\xE2\x96\x81keep"); // user-defined: verbatim
    assert_bytes(vocab, 6, "");
    assert_bytes(vocab, SENTENCEPIECE_TOKENS + 'A', "A");
    assert_int_equal(or_vocab_kind(vocab, 0), OR_TOKEN_SPECIAL);
    assert_int_equal(or_vocab_kind(vocab, 3), OR_TOKEN_TEXT);
    assert_int_equal(or_vocab_kind(vocab, 5), OR_TOKEN_USER);
    assert_int_equal(or_vocab_kind(vocab, 6), OR_TOKEN_UNUSED);
    assert_int_equal(or_vocab_kind(vocab, SENTENCEPIECE_TOKENS), OR_TOKEN_BYTE);
    assert_memory_equal(or_vocab_piece(vocab, 2, &length), "</s>", 4);
    assert_int_equal(or_vocab_bos(vocab), 1);
    assert_int_equal(or_vocab_eos(vocab), 2);
    assert_true(or_vocab_adds_bos(vocab));
    assert_true(or_vocab_is_end(vocab, 2));
    assert_false(or_vocab_is_end(vocab, 1));
    or_vocab_destroy(&vocab);
    assert_null(vocab);
}

// In harmony <|end|> closes a message and not the turn. Phi's <|end|> closes the turn.
static void messages_of_harmony_do_not_end_a_turn(void **state)
{
    static const test_token_t tokens[] = {{"ab", 0, 1},
                                          {"<|end|>", 0, 3},
                                          {"<|return|>", 0, 3},
                                          {"<|call|>", 0, 3},
                                          {"<|endoftext|>", 0, 3}};
    static const char *const merges[] = {"a b"};
    (void)state;
    for (uint32_t count = 2; count <= 5; count++) {
        or_vocab_t *vocab = NULL;
        bool is_harmony = count >= 4;
        assert_int_equal(test_make_byte_level(tokens, count, merges, 1, "gpt-4o", &vocab), OR_OK);
        assert_int_equal(or_vocab_is_end(vocab, 1), !is_harmony);
        for (int32_t id = 2; id < (int32_t)count; id++) {
            assert_int_equal(or_vocab_is_end(vocab, id), is_harmony);
        }
        or_vocab_destroy(&vocab);
    }
}

// GLM ends a turn with the beginning of the next one, which only opens a turn in phi's vocabulary.
static void turns_that_the_next_one_ends(void **state)
{
    static const test_token_t tokens[] = {{"ab", 0, 1},
                                          {"<|user|>", 0, 3},
                                          {"<|observation|>", 0, 3},
                                          {"[gMASK]", 0, 3},
                                          {"<sop>", 0, 3}};
    static const char *const merges[] = {"a b"};
    (void)state;
    for (uint32_t count = 4; count <= 5; count++) {
        or_vocab_t *vocab = NULL;
        assert_int_equal(test_make_byte_level(tokens, count, merges, 1, "gpt-4o", &vocab), OR_OK);
        assert_int_equal(or_vocab_is_end(vocab, 1), count == 5);
        assert_int_equal(or_vocab_is_end(vocab, 2), count == 5);
        or_vocab_destroy(&vocab);
    }
}

// The end token of a file may be another one.
static void turns_end_as_their_formats_say(void **state)
{
    (void)state;
    static const test_token_t tokens[] = {{"ab", 0, 1},
                                          {"<|role_sep|>", 0, 3},
                                          {"<|message_sep|>", 0, 3},
                                          {"[|assistant|]", 0, 3},
                                          {"[|endofturn|]", 0, 3},
                                          {"<|start_header_id|>", 0, 3},
                                          {"<|end_header_id|>", 0, 3},
                                          {"<|eom_id|>", 0, 3}};
    static const struct {
        uint32_t first, count;
        int32_t end;                                      // among these
    } vocabularies[] = {{0, 3, 2}, {2, 3, 2}, {5, 3, 2}}; // GigaChat's, EXAONE's, and Llama's
    static const char *const none[] = {""};
    for (size_t i = 0; i < sizeof vocabularies / sizeof *vocabularies; i++) {
        or_vocab_t *vocab = NULL;
        assert_int_equal(test_make_byte_level(tokens + vocabularies[i].first, vocabularies[i].count,
                                              none, 0, "gpt-4o", &vocab),
                         OR_OK);
        for (int32_t id = 0; id < 3; id++) {
            assert_int_equal(or_vocab_is_end(vocab, id), id == vocabularies[i].end);
        }
        or_vocab_destroy(&vocab);
    }
}

// An id may be there twice, and ids that no token has change nothing. The content is the same.
static void suppressed_tokens_are_marked(void **state)
{
    (void)state;
    static const int32_t ids[] = {2, 1, 2, 1000, -1, 0};
    static const char *const pieces[] = {"a", "b", "<|end|>"};
    or_vocab_t *vocabs[3] = {NULL, NULL, NULL};
    for (uint32_t with = 0; with < 3; with++) { // without any, some, all
        test_gguf_t file;
        or_gguf_t *gguf = NULL;
        test_gguf_init(&file, 3, 0, 6 + (with > 0));
        test_gguf_put_string_entry(&file, "tokenizer.ggml.model", "gpt2");
        test_gguf_put_string_entry(&file, "tokenizer.ggml.pre", "llama-bpe");
        test_gguf_put_array_key(&file, "tokenizer.ggml.tokens", OR_GGUF_STRING, 3);
        for (size_t i = 0; i < 3; i++) {
            test_gguf_put_string(&file, pieces[i]);
        }
        test_gguf_put_array_key(&file, "tokenizer.ggml.token_type", OR_GGUF_I32, 3);
        test_gguf_put(&file, (int32_t[3]){1, 1, 3}, 3 * sizeof(int32_t));
        test_gguf_put_array_key(&file, "tokenizer.ggml.merges", OR_GGUF_STRING, 0);
        test_gguf_put_u32_entry(&file, "tokenizer.ggml.eos_token_id", 2);
        if (with > 0) {
            test_gguf_put_array_key(&file, "tokenizer.ggml.suppress_tokens", OR_GGUF_I32, 4 + with);
            test_gguf_put(&file, ids, (4 + with) * sizeof *ids);
        }
        assert_int_equal(or_gguf_open_bytes("file", file.bytes, file.count, &gguf), OR_OK);
        assert_int_equal(or_vocab_load(gguf, &vocabs[with]), with < 2 ? OR_OK : OR_ERR_FORMAT);
        or_gguf_close(&gguf);
        test_gguf_fini(&file);
    }
    assert_int_equal(or_vocab_suppressed_count(vocabs[0]), 0);
    assert_int_equal(or_vocab_suppressed_count(vocabs[1]), 2);
    for (int32_t id = 0; id < 3; id++) {
        assert_false(or_vocab_is_suppressed(vocabs[0], id));
        assert_int_equal(or_vocab_is_suppressed(vocabs[1], id), id > 0);
    }
    assert_int_equal(or_vocab_hash(vocabs[0]), or_vocab_hash(vocabs[1]));
    or_vocab_destroy(&vocabs[0]);
    or_vocab_destroy(&vocabs[1]);
}

static void byte_level_tokens_print_bytes(void **state)
{
    (void)state;
    static const test_token_t tokens[] = {{"<|endoftext|>", 0, 3},
                                          {"\xC4\xA0of", 0, 1},               // U+0120: a space
                                          {"\xC4\x80\xC3\xBF\xC5\x83", 0, 1}, // 00 FF AD
                                          {"\xE6\x9C\xAC", 0, 1}};            // outside the map
    static const char *const none[] = {""};
    or_vocab_t *vocab = NULL;
    uint32_t length;
    assert_int_equal(test_make_byte_level(tokens, 4, none, 0, "gpt-2", &vocab), OR_OK);
    assert_bytes(vocab, 0, "");
    assert_bytes(vocab, 1, " of");
    const char *bytes = or_vocab_bytes(vocab, 2, &length);
    assert_int_equal(length, 3);
    assert_memory_equal(bytes, "\x00\xFF\xAD", 3);
    assert_bytes(vocab, 3, "\xE6\x9C\xAC");
    for (unsigned i = 0; i < 256; i++) {
        bytes = or_vocab_bytes(vocab, 4 + (int32_t)i, &length);
        assert_int_equal(length, 1);
        assert_int_equal((unsigned char)*bytes, i);
    }
    assert_int_equal(or_vocab_bos(vocab), OR_TOKEN_NONE);
    assert_false(or_vocab_adds_bos(vocab));
    or_vocab_destroy(&vocab);
}

// The keys are XXH64 as published, with seed = class + 256 * rank. Changing any of this changes
// the text of a seed.
static void noise_keys_are_what_they_always_were(void **state)
{
    (void)state;
    or_vocab_t *vocab = NULL;
    assert_int_equal(test_make_vocab(sentencepiece, SENTENCEPIECE_TOKENS,
                                     TEST_WITH_BYTES | TEST_WITH_BOS_EOS, &vocab),
                     OR_OK);
    const uint64_t *keys = or_vocab_noise_keys(vocab);
    assert_true(keys[3] == UINT64_C(0x4383538DEAC4D597));
    assert_true(keys[4] == UINT64_C(0x13099D40D095B684));
    assert_true(keys[7] == UINT64_C(0x668DFE9A16A96C06));
    assert_true(keys[SENTENCEPIECE_TOKENS + 'A'] == UINT64_C(0x16D104AF21FBF884));
    assert_true(keys[2] == UINT64_C(0x4034C743057B0A70));
    assert_true(keys[0] == UINT64_C(0xA240C452CD69DAA7));
    // No text token prints this byte, so it is keyed as text.
    assert_true(keys[SENTENCEPIECE_TOKENS + '\n'] == UINT64_C(0xCAFC7706CEE4572B));
    or_vocab_destroy(&vocab);
}

static void noise_keys_are_shared_between_vocabularies(void **state)
{
    (void)state;
    static const char *const words[] = {" the", " of", "e", "."};
    or_vocab_t *a = test_load_vocab(test_model("tales-6m-f16.gguf"));
    or_vocab_t *b = test_load_vocab(test_model("tales-bpe-1m-f16.gguf"));
    const uint64_t *keys_a = or_vocab_noise_keys(a);
    const uint64_t *keys_b = or_vocab_noise_keys(b);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        assert_true(keys_a[find_bytes(a, words[i])] == keys_b[find_bytes(b, words[i])]);
    }
    assert_true(keys_a[or_vocab_eos(a)] == keys_b[or_vocab_eos(b)]);
    assert_int_equal(or_vocab_kind(a, 3 + '\n'), OR_TOKEN_BYTE);
    assert_true(keys_a[3 + '\n'] == keys_b[find_bytes(b, "\n")]);
    assert_true(keys_a[3 + 'e'] != keys_a[find_bytes(a, "e")]); // the byte token is another token
    assert_true(or_vocab_hash(a) != or_vocab_hash(b));
    or_vocab_destroy(&a);
    or_vocab_destroy(&b);
}

// A user-defined token prints text too, so the byte token beside it is another token.
static void byte_tokens_beside_text_are_others(void **state)
{
    (void)state;
    static const test_token_t tokens[] = {{"<unk>", 0, 2}, {"A", -1, 1}, {"B", 0, 4},
                                          {"CC", -2, 1},   {"D", 0, 3},  {"E", 0, 5}};
    or_vocab_t *text = NULL;
    or_vocab_t *bytes = NULL;
    static const char *const none[] = {""};
    assert_int_equal(test_make_vocab(tokens, 6, TEST_WITH_BYTES, &text), OR_OK);
    assert_int_equal(test_make_byte_level(tokens, 1, none, 0, "gpt-2", &bytes), OR_OK);
    const uint64_t *keys = or_vocab_noise_keys(text);
    const uint64_t *texts = or_vocab_noise_keys(bytes);
    for (unsigned byte = 0; byte < 256; byte++) {
        bool beside = byte == 'A' || byte == 'B';
        assert_int_equal(keys[6 + byte] != texts[1 + byte], beside);
    }
    assert_true(keys[1] == texts[1 + 'A'] && keys[2] == texts[1 + 'B']);
    or_vocab_destroy(&bytes);
    or_vocab_destroy(&text);
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void noise_keys_are_unique_in_real_vocabularies(void **state)
{
    (void)state;
    static const char *const names[] = {"vocab/llama-spm.gguf", "vocab/phi-3.gguf",
                                        "vocab/gpt-2.gguf",     "vocab/starcoder.gguf",
                                        "vocab/llama-bpe.gguf", "vocab/qwen2.gguf"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        or_vocab_t *vocab = test_load_vocab(test_data(names[i]));
        size_t count = or_vocab_size(vocab);
        uint64_t *keys = malloc(count * sizeof *keys);
        assert_non_null(keys);
        memcpy(keys, or_vocab_noise_keys(vocab), count * sizeof *keys);
        qsort(keys, count, sizeof *keys, compare_u64);
        for (size_t k = 1; k < count; k++) {
            assert_true(keys[k - 1] != keys[k]);
        }
        free(keys);
        or_vocab_destroy(&vocab);
    }
}

static void assert_refused(const test_token_t *tokens, uint32_t count, unsigned wish,
                           const char *reason)
{
    or_vocab_t *vocab = NULL;
    assert_int_equal(test_make_vocab(tokens, count, wish, &vocab), OR_ERR_FORMAT);
    assert_null(vocab);
    if (strstr(or_error_text(), reason) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", or_error_text(), reason);
    }
}

static void refuses_vocabularies_that_make_no_sense(void **state)
{
    (void)state;
    const test_token_t plain = {"a", 0, 1};
    const test_token_t strange = {"a", 0, 7};
    const test_token_t no_byte = {"<0xZZ>", 0, 6};
    const test_token_t no_score = {"a", NAN, 1};
    assert_refused(&plain, 0, 0, "0 tokens");
    assert_refused(&plain, 1, 0, "neither a token for byte 0x00 nor an unknown token");
    assert_refused(&plain, 1, TEST_WITH_BOS_EOS, "only 1 tokens");
    assert_refused(&strange, 1, TEST_WITH_BYTES, "unknown kind");
    assert_refused(&no_byte, 1, TEST_WITH_BYTES, "not named like <0x0A>");
    assert_refused(&no_score, 1, TEST_WITH_BYTES, "no valid score");
}

static void assert_byte_level(const char *merge, const char *pre, or_status_t expected,
                              const char *reason)
{
    static const test_token_t tokens[] = {{"ab", 0, 1}, {"abc", 0, 1}, {"b\xC4\xA0", 0, 3}};
    const char *const merges[] = {"a b", merge};
    or_vocab_t *vocab = NULL;
    assert_int_equal(test_make_byte_level(tokens, 3, merges, 2, pre, &vocab), expected);
    if (strstr(or_error_text(), reason) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", or_error_text(), reason);
    }
    or_vocab_destroy(&vocab);
}

static void refuses_merges_that_make_no_token(void **state)
{
    (void)state;
    assert_byte_level("ab c", "gpt-2", OR_OK, "");
    assert_byte_level("abc", "gpt-2", OR_ERR_FORMAT, "merge 1 (\"abc\")"); // no space
    assert_byte_level("", "gpt-2", OR_ERR_FORMAT, "merge 1");
    assert_byte_level(" a", "gpt-2", OR_ERR_FORMAT, "merge 1");
    assert_byte_level("b ", "gpt-2", OR_ERR_FORMAT, "merge 1");
    assert_byte_level("bc d", "gpt-2", OR_ERR_FORMAT, "merge 1");       // unknown left
    assert_byte_level("a bc", "gpt-2", OR_ERR_FORMAT, "merge 1");       // unknown right
    assert_byte_level("a a", "gpt-2", OR_ERR_FORMAT, "merge 1");        // unknown union
    assert_byte_level("b \xC4\xA0", "gpt-2", OR_ERR_FORMAT, "merge 1"); // a special token
}

static void refuses_unknown_pre_tokenizers_by_name(void **state)
{
    (void)state;
    assert_byte_level("ab c", "gpt-22", OR_ERR_UNSUPPORTED, "\"gpt-22\"");
    assert_byte_level("ab c", "gpt", OR_ERR_UNSUPPORTED, "\"gpt\"");
    assert_byte_level("ab c", "", OR_ERR_UNSUPPORTED, "\"\"");
    assert_byte_level("ab c", NULL, OR_OK, ""); // "default", with a warning
}

// Falcon's file lacks control characters: what a vocabulary lacks concerns only texts that have it.
static void a_byte_level_vocabulary_may_lack_bytes(void **state)
{
    (void)state;
    static const char token_of_03[] = "\x02\0\0\0\0\0\0\0\xC4\x83";
    test_gguf_t file;
    or_gguf_t *gguf = NULL;
    or_vocab_t *vocab = NULL;
    int32_t *ids = NULL;
    size_t count;
    test_gguf_load(&file, test_data("vocab/gpt-2.gguf"));
    unsigned char *token = memmem(file.bytes, file.count, token_of_03, sizeof token_of_03 - 1);
    assert_non_null(token);
    memcpy(token + 8, "\xDF\xBF", 2); // a character that stands for no byte
    assert_int_equal(test_gguf_open(&file, &gguf), OR_OK);
    assert_int_equal(or_vocab_load(gguf, &vocab), OR_OK);
    assert_int_equal(or_tokenize(vocab, "a\x03z", 3, 0, &ids, &count), OR_OK);
    assert_int_equal(count, 2);
    free(ids);
    assert_int_equal(or_tokenize(vocab, "a\x03z", 3, OR_TOKENIZE_WHOLE, &ids, &count),
                     OR_ERR_INVALID);
    assert_non_null(strstr(or_error_text(), "no token for byte 0x03"));
    or_vocab_destroy(&vocab);
    or_gguf_close(&gguf);
    test_gguf_fini(&file);
}

static void refuses_byte_level_files_without_merges(void **state)
{
    (void)state;
    static const test_token_t a = {"aa", 0, 1};
    or_vocab_t *vocab = NULL;
    assert_int_equal(test_make_byte_level(&a, 1, NULL, 0, "gpt-2", &vocab), OR_ERR_NOT_FOUND);
    assert_null(vocab);
    assert_non_null(strstr(or_error_text(), "tokenizer.ggml.merges"));
}

static void refuses_other_tokenizers_by_name(void **state)
{
    (void)state;
    test_gguf_t file;
    or_gguf_t *gguf = NULL;
    or_vocab_t *vocab = NULL;
    test_gguf_init(&file, 3, 0, 1);
    test_gguf_put_string_entry(&file, "tokenizer.ggml.model", "bert");
    assert_int_equal(test_gguf_open(&file, &gguf), OR_OK);
    assert_int_equal(or_vocab_load(gguf, &vocab), OR_ERR_UNSUPPORTED);
    assert_non_null(strstr(or_error_text(), "\"bert\""));
    or_gguf_close(&gguf);
    test_gguf_fini(&file);
    test_gguf_init(&file, 3, 0, 0);
    assert_int_equal(test_gguf_open(&file, &gguf), OR_OK);
    assert_int_equal(or_vocab_load(gguf, &vocab), OR_ERR_NOT_FOUND);
    or_gguf_close(&gguf);
    test_gguf_fini(&file);
}

// Check that a vocabulary that loads can also tokenise.
static void try_file(test_gguf_t *file, unsigned *loaded)
{
    static const char text[] = "Once upon a time </s> \xF0\x9F\x98\x80\xFF";
    or_gguf_t *gguf = NULL;
    or_vocab_t *vocab = NULL;
    if (test_gguf_open(file, &gguf) != OR_OK) {
        return;
    }
    if (or_vocab_load(gguf, &vocab) == OR_OK) {
        int32_t *ids = NULL;
        size_t count;
        (*loaded)++;
        if (or_tokenize(vocab, text, sizeof text, OR_TOKENIZE_SPECIAL, &ids, &count) == OR_OK) {
            free(ids);
        }
        or_vocab_destroy(&vocab);
    }
    or_gguf_close(&gguf);
}

static void damage_at_random(const char *name)
{
    enum { HEADER_BYTES = 1200, ROUNDS = 400 };
    uint64_t seed = test_seed();
    unsigned loaded = 0;
    test_gguf_t file;
    test_gguf_load(&file, test_model(name));
    for (int round = 0; round < ROUNDS; round++) {
        size_t limit = round % 2 == 0 ? HEADER_BYTES : file.count / 16;
        size_t place = test_below(&seed, limit);
        unsigned char saved = file.bytes[place];
        file.bytes[place] = (unsigned char)test_random(&seed);
        try_file(&file, &loaded);
        file.bytes[place] = saved;
    }
    print_message("%s: %u of %d damaged vocabularies still loaded\n", name, loaded, (int)ROUNDS);
    test_gguf_fini(&file);
}

static void survives_random_damage(void **state)
{
    (void)state;
    damage_at_random("tales-1m-f16.gguf");
    damage_at_random("tales-bpe-1m-f16.gguf");
}

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sentencepiece_tokens_print_what_they_should),
        cmocka_unit_test(messages_of_harmony_do_not_end_a_turn),
        cmocka_unit_test(turns_that_the_next_one_ends),
        cmocka_unit_test(turns_end_as_their_formats_say),
        cmocka_unit_test(suppressed_tokens_are_marked),
        cmocka_unit_test(byte_level_tokens_print_bytes),
        cmocka_unit_test(noise_keys_are_what_they_always_were),
        cmocka_unit_test(noise_keys_are_shared_between_vocabularies),
        cmocka_unit_test(byte_tokens_beside_text_are_others),
        cmocka_unit_test(noise_keys_are_unique_in_real_vocabularies),
        cmocka_unit_test(refuses_vocabularies_that_make_no_sense),
        cmocka_unit_test(refuses_merges_that_make_no_token),
        cmocka_unit_test(refuses_unknown_pre_tokenizers_by_name),
        cmocka_unit_test(a_byte_level_vocabulary_may_lack_bytes),
        cmocka_unit_test(refuses_byte_level_files_without_merges),
        cmocka_unit_test(refuses_other_tokenizers_by_name),
        cmocka_unit_test(survives_random_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
