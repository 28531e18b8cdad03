// Goal: any bytes come back from their tokens unchanged, in every vocabulary, and no text takes
// long.
// Method: tokenise random texts of awkward parts: white space of all kinds, combining marks,
// emoji with joiners, ill-formed UTF-8, runs, the spellings of special tokens and mixed scripts.
// Then tokenise a megabyte of one thing. OR_TEST_RUNS is the number of texts for each
// vocabulary.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/text/text_test_support.h"
#include "common/text/tokenizer.h"
#include "tests/support/test_support.h"

// -- vocabularies
// -------------------------------------------------------------------------------------------------

typedef struct {
    or_vocab_t *vocab;
    bool lacks[256]; // bytes that no token of a byte-level vocabulary prints
} subject_t;

static void find_lacking_bytes(subject_t *subject)
{
    for (unsigned i = 0; i < 256; i++) {
        char byte = (char)i;
        int32_t *ids = NULL;
        size_t count;
        assert_int_equal(or_tokenize(subject->vocab, &byte, 1, 0, &ids, &count), OR_OK);
        subject->lacks[i] = count == 0;
        assert_true(count > 0 ||
                    i >= 0xC0); // StarCoder's vocabulary lacks bytes that are in no UTF-8 text
        free(ids);
    }
}

// Check what the first `known` bytes settle: those tokens stay whatever follows, and the rest
// continues them.
static void assert_settled(const or_vocab_t *vocab, const char *text, size_t length, size_t known)
{
    or_settled_t settled = {SIZE_MAX, SIZE_MAX};
    int32_t *whole = NULL;
    int32_t *first = NULL;
    int32_t *rest = NULL;
    size_t whole_count, first_count, rest_count;
    assert_int_equal(or_tokenize(vocab, text, length, 0, &whole, &whole_count), OR_OK);
    assert_int_equal(or_tokenize_growing(vocab, text, known, 0, &first, &first_count, &settled),
                     OR_OK);
    assert_true(settled.bytes <= known && settled.tokens <= first_count);
    unsigned flags = settled.bytes > 0 ? OR_TOKENIZE_CONTINUES : 0;
    assert_int_equal(
        or_tokenize(vocab, text + settled.bytes, length - settled.bytes, flags, &rest, &rest_count),
        OR_OK);
    assert_int_equal(settled.tokens + rest_count, whole_count);
    assert_memory_equal(whole, first, settled.tokens * sizeof *whole);
    assert_memory_equal(whole + settled.tokens, rest, rest_count * sizeof *whole);
    free(rest);
    free(first);
    free(whole);
}

static void check_texts(const char *path)
{
    const char *runs_text = getenv("OR_TEST_RUNS");
    long runs = runs_text != NULL ? strtol(runs_text, NULL, 10) : 2000;
    uint64_t seed = test_seed();
    subject_t subject = {.vocab = test_load_vocab(path)};
    find_lacking_bytes(&subject);
    for (long run = 0; run < runs; run++) {
        char text[TEST_TEXT_BYTES];
        size_t length = test_text(&seed, text);
        assert_settled(subject.vocab, text, length, test_below(&seed, length + 1));
        for (size_t i = 0; i < length; i++) {
            text[i] = subject.lacks[(unsigned char)text[i]] ? 'x' : text[i];
        }
        test_assert_round_trip(subject.vocab, text, length);
    }
    test_assert_round_trip(subject.vocab, "\0\0", 2);
    test_assert_round_trip(subject.vocab, "", 0);
    print_message("%s: %ld texts came back\n", path, runs);
    or_vocab_destroy(&subject.vocab);
}

static void any_bytes_come_back(void **state)
{
    (void)state;
    check_texts(test_model("tales-6m-f16.gguf"));
    check_texts(test_model("tales-bpe-1m-f16.gguf"));
}

static void any_bytes_come_back_from_real_vocabularies(void **state)
{
    (void)state;
    static const char *const names[] = {"vocab/llama-spm.gguf", "vocab/phi-3.gguf",
                                        "vocab/gpt-2.gguf",     "vocab/starcoder.gguf",
                                        "vocab/llama-bpe.gguf", "vocab/qwen2.gguf"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        check_texts(test_data(names[i]));
    }
}

// The text so far may end within a user-defined token, or within a longer one.
static void check_user_defined(uint64_t *seed, or_vocab_t *vocab)
{
    static const char *const bits[] = {"<tag", ">", "more", "<", "mor", "a", "b", " ", "<tag>"};
    for (int run = 0; run < 2000; run++) {
        char text[128];
        size_t length = 0;
        while (length < 60) {
            const char *bit = bits[test_below(seed, sizeof bits / sizeof *bits)];
            memcpy(text + length, bit, strlen(bit));
            length += strlen(bit);
        }
        assert_settled(vocab, text, length, test_below(seed, length + 1));
    }
    or_vocab_destroy(&vocab);
}

static void user_defined_tokens_settle(void **state)
{
    (void)state;
    static const test_token_t tokens[] = {{"<tag>", 0, 4}, {"<tag>more", 0, 4}, {"a", -1, 1},
                                          {"b", -2, 1},    {"ab", -3, 1},       {"abab", -4, 1}};
    static const test_token_t pieces[] = {{"<tag>", 0, 4}, {"<tag>more", 0, 4}, {"ab", 0, 1}};
    static const char *const merges[] = {"a b"};
    uint64_t seed = test_seed();
    or_vocab_t *vocab = NULL;
    assert_int_equal(test_make_vocab(tokens, 6, TEST_WITH_BYTES, &vocab), OR_OK);
    check_user_defined(&seed, vocab);
    assert_int_equal(test_make_byte_level(pieces, 3, merges, 1, "gpt-2", &vocab), OR_OK);
    check_user_defined(&seed, vocab);
}

// Runs of one character or word have the most merges, the most ties and the longest pieces.
static void check_runs(const char *path)
{
    enum { LENGTH = 1 << 20 };
    static const char *const things[] = {
        "a", " ", "=", "\xFF", "7", "\n", "\xCC\x81", "\xE4\xB8\xAD", "<", "ab"};
    or_vocab_t *vocab = test_load_vocab(path);
    char *text = malloc(LENGTH);
    assert_non_null(text);
    for (size_t i = 0; i < sizeof things / sizeof *things; i++) {
        size_t bytes = strlen(things[i]);
        for (size_t at = 0; at < LENGTH; at++) {
            text[at] = things[i][at % bytes];
        }
        clock_t start = clock();
        test_assert_round_trip(vocab, text, LENGTH);
        double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
        if (seconds > 10) { // quadratic time takes hours; sanitizers are slow
            fail_msg("1 MiB of \"%s\": %.2f s there and back", things[i], seconds);
        }
    }
    free(text);
    or_vocab_destroy(&vocab);
}

static void long_runs_are_quick(void **state)
{
    (void)state;
    check_runs(test_model("tales-6m-f16.gguf"));
    check_runs(test_model("tales-bpe-1m-f16.gguf"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_bytes_come_back),
        cmocka_unit_test(any_bytes_come_back_from_real_vocabularies),
        cmocka_unit_test(user_defined_tokens_settle),
        cmocka_unit_test(long_runs_are_quick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
