// Goal: or_vocab_hash tells vocabularies apart by content. Any change to the meaning of ids, or
// to how text becomes ids, changes the hash, and nothing else does.
// Method: use the files of the same models in several precisions, and vocabularies made by hand
// that differ in one thing. Qwen 2's padding is cut, and more is added.
#include <stdlib.h>
#include <string.h>

#include "common/text/text_test_support.h"
#include "common/text/vocab/vocab.h"
#include "tests/support/test_support.h"

// Return the hash and destroy the vocabulary.
static uint64_t take_hash(or_vocab_t *vocab)
{
    uint64_t hash = or_vocab_hash(vocab);
    or_vocab_destroy(&vocab);
    return hash;
}

static uint64_t hash_of_words(const test_token_t *tokens, uint32_t count, unsigned wish)
{
    or_vocab_t *vocab = NULL;
    assert_int_equal(test_make_vocab(tokens, count, wish, &vocab), OR_OK);
    return take_hash(vocab);
}

static uint64_t hash_of_merges(const char *const *merges, uint32_t count, const char *pre)
{
    static const test_token_t tokens[] = {
        {"<|end|>", 0, 3}, {"ab", 0, 1}, {"bc", 0, 1}, {"abc", 0, 1}};
    or_vocab_t *vocab = NULL;
    assert_int_equal(test_make_byte_level(tokens, 4, merges, count, pre, &vocab), OR_OK);
    return take_hash(vocab);
}

// Peers of other versions compare these hashes.
static void hashes_are_what_they_always_were(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t hash;
    } files[] = {
        {"models/tales-6m-f16.gguf", UINT64_C(0xE47FAE093A49268F)},
        {"models/tales-6m-f32.gguf", UINT64_C(0xE47FAE093A49268F)},
        {"models/tales-6m-q8_0.gguf", UINT64_C(0xE47FAE093A49268F)},
        {"models/tales-1m-f16.gguf", UINT64_C(0xE47FAE093A49268F)},
        {"models/tales-1m-f32.gguf", UINT64_C(0xE47FAE093A49268F)},
        {"models/tales-1m-q8_0.gguf", UINT64_C(0xE47FAE093A49268F)},
        {"models/tales-bpe-1m-f16.gguf", UINT64_C(0x2D144094CFB9819F)},
        {"models/tales-bpe-1m-f32.gguf", UINT64_C(0x2D144094CFB9819F)},
        {"models/stories260K-f32.gguf", UINT64_C(0xDD41CE387DC57F52)},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (take_hash(test_load_vocab(test_data(files[i].name))) != files[i].hash) {
            fail_msg("%s has another hash", files[i].name);
        }
    }
    assert_true(take_hash(test_load_vocab(test_model("tales-1m-f16.gguf"))) == files[0].hash);
    assert_true(take_hash(test_load_vocab(test_model("tales-bpe-1m-f16.gguf"))) == files[6].hash);
}

static const test_token_t words[] = {{"<unk>", 0, 2}, {"<s>", 0, 3}, {"</s>", 0, 3}, {"a", -1, 1},
                                     {"b", -2, 1},    {"ab", -3, 1}, {"ba", -4, 1},  {"c", -5, 1},
                                     {"pad", 0, 5},   {"pad", 0, 5}};
enum { WORDS = 8, A = 3, B = 4, AB = 5, BA = 6, C = 7, ALL = 10 };
#define WISH (TEST_WITH_UNKNOWN | TEST_WITH_BOS_EOS)

static void padding_does_not_count(void **state)
{
    (void)state;
    test_token_t tokens[ALL];
    memcpy(tokens, words, sizeof tokens);
    uint64_t hash = hash_of_words(tokens, WORDS, WISH);
    assert_true(hash_of_words(tokens, WORDS + 1, WISH) == hash);
    assert_true(hash_of_words(tokens, ALL, WISH) == hash);
    tokens[WORDS].piece = "other";
    assert_true(hash_of_words(tokens, ALL, WISH) == hash);
    tokens[WORDS + 1].type = 3; // not unused: what is before it counts as well
    assert_true(hash_of_words(tokens, ALL, WISH) != hash);
}

static void unused_tokens_elsewhere_count(void **state)
{
    (void)state;
    const test_token_t gap[] = {words[0], words[1], words[2], words[ALL - 1], words[A]};
    const test_token_t no_gap[] = {words[0], words[1], words[2], words[A]};
    const test_token_t role[] = {words[0], words[1], {"</s>", 0, 5}};
    assert_true(hash_of_words(gap, 5, WISH) != hash_of_words(no_gap, 4, WISH));
    assert_true(hash_of_words(role, 3, WISH) != hash_of_words(role, 3, TEST_WITH_UNKNOWN));
}

static void sizes_are_what_they_are(void **state)
{
    (void)state;
    or_vocab_t *vocab = NULL;
    assert_int_equal(test_make_vocab(words, ALL, WISH, &vocab), OR_OK);
    assert_int_equal(or_vocab_size(vocab), ALL);
    assert_int_equal(or_vocab_unpadded_size(vocab), WORDS);
    or_vocab_destroy(&vocab);
}

// Make each change alone, with the size kept.
static void any_change_of_a_token_counts(void **state)
{
    (void)state;
    uint64_t hash = hash_of_words(words, WORDS, WISH);
    test_token_t tokens[WORDS];
    for (int change = 0; change < 7; change++) {
        memcpy(tokens, words, sizeof tokens);
        switch (change) {
        case 0: // permuted ids
            tokens[AB] = words[BA];
            tokens[BA] = words[AB];
            break;
        case 1:
            tokens[C].piece = "d";
            break;
        case 2: // the same bytes, matched verbatim
            tokens[C].type = 4;
            break;
        case 3: // the same piece, printing nothing
            tokens[C].type = 3;
            break;
        case 4: // "aba" is now "a", "ba"
            tokens[AB].score = -4.5F;
            break;
        case 5: // a text token that prints what a special one is called
            tokens[2].type = 1;
            break;
        default:
            tokens[1] =
                words[2]; // begin and end exchanged: what they are called does not matter...
            tokens[2] = words[1];
            assert_true(hash_of_words(tokens, WORDS, WISH) == hash);
            tokens[0] = words[1]; // ... but what others are
            break;
        }
        if (hash_of_words(tokens, WORDS, WISH) == hash) {
            fail_msg("change %d does not count", change);
        }
    }
}

static void how_text_becomes_tokens_counts(void **state)
{
    (void)state;
    static const char *const merges[] = {"a b", "b c", "ab c", "a bc"};
    static const char *const swapped[] = {"b c", "a b", "ab c", "a bc"};
    uint64_t hash = hash_of_merges(merges, 4, "gpt-2");
    assert_true(hash_of_merges(merges, 4, "gpt-2") == hash);
    assert_true(hash_of_merges(swapped, 4, "gpt-2") != hash);
    assert_true(hash_of_merges(merges, 3, "gpt-2") != hash);
    assert_true(hash_of_merges(merges, 4, "starcoder") != hash);
    assert_true(hash_of_merges(merges, 4, "llama-bpe") != hash);
    assert_true(hash_of_words(words, WORDS, WISH) !=
                hash_of_words(words, WORDS, WISH | TEST_WITHOUT_SPACE));
    assert_true(hash_of_words(words, WORDS, WISH) !=
                hash_of_words(words, WORDS, TEST_WITH_UNKNOWN)); // no roles, no begin token
}

static void names_for_one_pre_tokenizer_do_not_count(void **state)
{
    (void)state;
    static const char *const merges[] = {"a b"};
    assert_true(hash_of_merges(merges, 1, "llama3") == hash_of_merges(merges, 1, "llama-v3"));
    assert_true(hash_of_merges(merges, 1, "llama3") != hash_of_merges(merges, 1, "qwen2"));
    // The steps are the same, but one rule takes a piece that is a token as it is.
    assert_true(hash_of_merges(merges, 1, "llama3") != hash_of_merges(merges, 1, "dbrx"));
}

static void qwen2_is_the_same_with_any_padding(void **state)
{
    (void)state;
    enum { MORE = 100 };
    const char *path = test_data("vocab/qwen2.gguf");
    or_vocab_t *vocab = test_load_vocab(path);
    uint32_t size = or_vocab_size(vocab);
    uint32_t unpadded = or_vocab_unpadded_size(vocab);
    uint32_t *order = malloc((size + MORE) * sizeof *order);
    assert_non_null(order);
    for (uint32_t i = 0; i < size + MORE; i++) {
        order[i] = i < unpadded ? i : TEST_PADDING;
    }
    assert_true(unpadded < size);
    assert_true(take_hash(test_reorder_vocab(path, order, unpadded)) == or_vocab_hash(vocab));
    assert_true(take_hash(test_reorder_vocab(path, order, size + MORE)) == or_vocab_hash(vocab));
    assert_true(take_hash(test_reorder_vocab(path, order, unpadded - 1)) != or_vocab_hash(vocab));
    or_vocab_destroy(&vocab);
    free(order);
}

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes_are_what_they_always_were),
        cmocka_unit_test(padding_does_not_count),
        cmocka_unit_test(unused_tokens_elsewhere_count),
        cmocka_unit_test(sizes_are_what_they_are),
        cmocka_unit_test(any_change_of_a_token_counts),
        cmocka_unit_test(how_text_becomes_tokens_counts),
        cmocka_unit_test(names_for_one_pre_tokenizer_do_not_count),
        cmocka_unit_test(qwen2_is_the_same_with_any_padding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
