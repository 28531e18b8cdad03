// Goal: the streaming detokeniser gives the tokens' text, never with half a character, and
// always UTF-8 if that is asked for.
// Method: push random token sequences one by one and compare with the whole converted at once.
// Most tokens are byte tokens at which UTF-8's rules change. The standard's own examples of
// ill-formed text are checked too.
#include "common/text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "common/text/text_test_support.h"
#include "common/text/utf8.h"
#include "tests/support/test_support.h"

#define FIRST_BYTE_TOKEN 3 // in the demonstration vocabulary
#define TOKENS 40
#define ROOM 4096

static bool is_utf8(const char *text, size_t length)
{
    size_t used;
    for (size_t at = 0; at < length; at += used) {
        if (or_utf8_next(text + at, length - at, &used) != OR_UTF8_CHARACTER) {
            return false;
        }
    }
    return true;
}

// Convert the whole at once: every ill-formed part becomes U+FFFD.
static size_t replace_at_once(const char *text, size_t length, char *out)
{
    size_t count = 0;
    size_t used;
    for (size_t at = 0; at < length; at += used) {
        bool good = or_utf8_next(text + at, length - at, &used) == OR_UTF8_CHARACTER;
        memcpy(out + count, good ? text + at : OR_UTF8_REPLACEMENT, good ? used : 3);
        count += good ? used : 3;
    }
    return count;
}

static int32_t random_token(const or_vocab_t *vocab, uint64_t *seed)
{
    static const unsigned char edges[] = {0x00, 'a',  ' ',  0x80, 0x90, 0xA0, 0xBF, 0xC0, 0xC3,
                                          0xDF, 0xE0, 0xE2, 0xED, 0xEF, 0xF0, 0xF4, 0xF5, 0xFF};
    if (test_below(seed, 8) == 0) {
        return (int32_t)test_below(seed, or_vocab_size(vocab));
    }
    return FIRST_BYTE_TOKEN + edges[test_below(seed, sizeof edges)];
}

// Push the ids and return what comes out. Each push is checked to stay in its room and, if
// `checked`, to be UTF-8.
static size_t push_all(const or_vocab_t *vocab, const int32_t *ids, size_t count, bool exact,
                       bool checked, char *out)
{
    or_detok_t detok;
    size_t length = 0;
    or_detok_init(&detok, vocab, false, exact);
    for (size_t i = 0; i < count; i++) {
        size_t got = or_detok_push(&detok, ids[i], out + length);
        assert_true(got <= OR_DETOK_ROOM(or_vocab_widths(vocab)[ids[i]]));
        assert_true(!checked || is_utf8(out + length, got));
        length += got;
    }
    size_t rest = or_detok_flush(&detok, out + length);
    assert_true(rest <= 12);
    assert_true(exact || is_utf8(out + length, rest));
    return length + rest;
}

static size_t concatenate(const or_vocab_t *vocab, const int32_t *ids, size_t count, char *out)
{
    size_t length = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t width;
        const char *bytes = or_vocab_bytes(vocab, ids[i], &width);
        memcpy(out + length, bytes, width);
        length += width;
    }
    return length;
}

static void pieces_add_up_to_the_whole(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    or_vocab_t *vocab = test_load_vocab(test_model("tales-6m-f16.gguf"));
    unsigned well_formed = 0;
    for (int round = 0; round < 20000; round++) {
        int32_t ids[TOKENS];
        char whole[ROOM];
        char expected[3 * ROOM];
        char got[3 * ROOM];
        size_t count = 1 + test_below(&seed, round % 2 == 0 ? 5 : TOKENS);
        for (size_t i = 0; i < count; i++) {
            ids[i] = random_token(vocab, &seed);
        }
        size_t length = concatenate(vocab, ids, count, whole);
        bool good = is_utf8(whole, length);
        well_formed += good;
        assert_int_equal(push_all(vocab, ids, count, true, good, got), length);
        assert_memory_equal(got, whole, length);
        length = replace_at_once(whole, length, expected);
        assert_int_equal(push_all(vocab, ids, count, false, true, got), length);
        assert_memory_equal(got, expected, length);
    }
    assert_true(well_formed > 100);
    or_vocab_destroy(&vocab);
}

// A character of `length` bytes comes out with its last byte and not before.
static void a_character_comes_out_whole(void **state)
{
    (void)state;
    static const char *const characters[] = {"a", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};
    or_vocab_t *vocab = test_load_vocab(test_model("tales-6m-f16.gguf"));
    for (size_t n = 0; n < 4; n++) {
        or_detok_t detok;
        char out[OR_DETOK_ROOM(1)];
        or_detok_init(&detok, vocab, true, n % 2 == 0);
        for (size_t i = 0; i < n; i++) {
            int32_t id = FIRST_BYTE_TOKEN + (unsigned char)characters[n][i];
            assert_int_equal(or_detok_push(&detok, id, out), 0);
            assert_int_equal(or_detok_push(&detok, or_vocab_eos(vocab), out), 0);
        }
        int32_t last = FIRST_BYTE_TOKEN + (unsigned char)characters[n][n];
        assert_int_equal(or_detok_push(&detok, last, out), n + 1);
        assert_memory_equal(out, characters[n], n + 1);
        assert_int_equal(or_detok_flush(&detok, out), 0);
    }
    or_vocab_destroy(&vocab);
}

// Tables 3-8 to 3-11 of the Unicode Standard; R stands for U+FFFD.
static void ill_formed_text_is_replaced_as_the_standard_says(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        const char *expected;
    } cases[] = {
        {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", "RRRRRRRRA"},
        {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", "RRRRRRRRA"},
        {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", "RRRRRARRB"},
        {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", "RRRRA"},
        {"\xF0\x9F\x98", "R"},
    };
    or_vocab_t *vocab = test_load_vocab(test_model("tales-6m-f16.gguf"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int32_t ids[16];
        char expected[64];
        char got[64];
        size_t count = strlen(cases[i].bytes);
        for (size_t k = 0; k < count; k++) {
            ids[k] = FIRST_BYTE_TOKEN + (unsigned char)cases[i].bytes[k];
        }
        size_t expected_length = 0;
        for (const char *c = cases[i].expected; *c != '\0'; c++) {
            size_t bytes = *c == 'R' ? 3 : 1;
            memcpy(expected + expected_length, *c == 'R' ? OR_UTF8_REPLACEMENT : c, bytes);
            expected_length += bytes;
        }
        size_t length = push_all(vocab, ids, count, false, true, got);
        assert_int_equal(length, expected_length);
        assert_memory_equal(got, expected, length);
    }
    or_vocab_destroy(&vocab);
}

static void only_the_first_text_token_loses_its_space(void **state)
{
    (void)state;
    or_vocab_t *vocab = test_load_vocab(test_model("tales-6m-f16.gguf"));
    int32_t *ids = NULL;
    size_t count;
    assert_int_equal(or_tokenize(vocab, "king", 4, OR_TOKENIZE_BOS, &ids, &count), OR_OK);
    for (int start = 0; start <= 1; start++) {
        or_detok_t detok;
        char out[64];
        size_t length = 0;
        or_detok_init(&detok, vocab, start == 1, true);
        for (int twice = 0; twice < 2; twice++) {
            for (size_t i = 0; i < count; i++) {
                length += or_detok_push(&detok, ids[i], out + length);
            }
        }
        assert_int_equal(length, start == 1 ? 9 : 10);
        assert_memory_equal(out, start == 1 ? "king king" : " king king", length);
    }
    free(ids);
    or_vocab_destroy(&vocab);
}

static void ids_that_are_no_tokens_are_refused(void **state)
{
    (void)state;
    or_vocab_t *vocab = test_load_vocab(test_model("tales-6m-f16.gguf"));
    const int32_t wrong[] = {4096, -1};
    char *text = NULL;
    size_t length;
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(or_detokenize(vocab, &wrong[i], 1, &text, &length), OR_ERR_INVALID);
        assert_null(text);
    }
    assert_int_equal(or_detokenize(vocab, wrong, 0, &text, &length), OR_OK);
    assert_int_equal(length, 0);
    assert_string_equal(text, "");
    free(text);
    or_vocab_destroy(&vocab);
}

// Found by fuzzing. The space that a tokenizer puts before a text is a byte token in a vocabulary
// that has no other for it; it must not come out either.
static void an_added_space_of_bytes_is_dropped(void **state)
{
    (void)state;
    static const test_token_t letters[] = {{"z", 0, 1}};
    or_vocab_t *vocab = NULL;
    int32_t *ids = NULL;
    size_t count = 0, length = 0;
    char *text = NULL;
    assert_int_equal(test_make_vocab(letters, 1, TEST_WITH_BYTES | TEST_WITH_UNKNOWN, &vocab),
                     OR_OK);
    assert_int_equal(or_tokenize(vocab, "zz", 2, 0, &ids, &count), OR_OK);
    assert_int_equal(count, 3);
    assert_int_equal(or_vocab_kind(vocab, ids[0]), OR_TOKEN_BYTE);
    assert_int_equal(or_detokenize(vocab, ids, count, &text, &length), OR_OK);
    assert_string_equal(text, "zz");
    free(text);
    free(ids);
    or_vocab_destroy(&vocab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_add_up_to_the_whole),
        cmocka_unit_test(a_character_comes_out_whole),
        cmocka_unit_test(ill_formed_text_is_replaced_as_the_standard_says),
        cmocka_unit_test(only_the_first_text_token_loses_its_space),
        cmocka_unit_test(ids_that_are_no_tokens_are_refused),
        cmocka_unit_test(an_added_space_of_bytes_is_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
