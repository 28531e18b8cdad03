// Goal: any bytes come back from their tokens unchanged, in every vocabulary, and no text takes
// long.
// Method: random texts of what is awkward: white space of all kinds, combining marks, emoji with
// joiners, ill-formed UTF-8, runs, the spellings of special tokens, scripts mixed; a megabyte of
// one thing. OR_TEST_RUNS is the number of texts for each vocabulary.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/text/text_test_support.h"
#include "common/text/tokenizer.h"
#include "tests/support/test_support.h"

enum { LONGEST = 500, LONGEST_RUN = 250 };

static void assert_round_trip(const or_vocab_t *vocab, const char *text, size_t length)
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

// -- texts
// ------------------------------------------------------------------------------------------------------------

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
enum { BITS = sizeof bits / sizeof *bits };

static size_t random_text(uint64_t *seed, char *text)
{
    size_t length = 0;
    size_t wanted = test_below(seed, test_below(seed, 4) == 0 ? LONGEST - LONGEST_RUN : 40);
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

// -- vocabularies
// -----------------------------------------------------------------------------------------------------

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
        assert_true(count > 0 || i >= 0xC0); // StarCoder's: not in any text worth the name
        free(ids);
    }
}

static void check_texts(const char *path)
{
    const char *runs_text = getenv("OR_TEST_RUNS");
    long runs = runs_text != NULL ? strtol(runs_text, NULL, 10) : 2000;
    uint64_t seed = test_seed();
    subject_t subject = {.vocab = test_load_vocab(path)};
    find_lacking_bytes(&subject);
    for (long run = 0; run < runs; run++) {
        char text[LONGEST];
        size_t length = random_text(&seed, text);
        for (size_t i = 0; i < length; i++) {
            text[i] = subject.lacks[(unsigned char)text[i]] ? 'x' : text[i];
        }
        assert_round_trip(subject.vocab, text, length);
    }
    assert_round_trip(subject.vocab, "\0\0", 2);
    assert_round_trip(subject.vocab, "", 0);
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

// A run of one thing: the most merges, the most ties, the longest pieces.
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
        assert_round_trip(vocab, text, LENGTH);
        double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
        if (seconds > 10) { // quadratic time takes hours; the sanitizers are allowed theirs
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
        cmocka_unit_test(long_runs_are_quick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
