// Goal: the trie finds the longest token that any text begins with. It tells rightly whether
// longer ones are still possible, and chooses among tokens with the same string.
// Method: use vocabularies made by hand, whose tokens overlap, and a real one. Every answer is
// compared with a search through all tokens.
#include "common/text/vocab/token_trie.h"

#include <string.h>

#include "common/text/text_test_support.h"
#include "tests/support/test_support.h"

// Control (3), user-defined (4) and unused (5) tokens are among the text tokens; "ab" comes
// three times.
static const test_token_t tokens[] = {
    {"<unk>", 0, 2}, {"<s>", 0, 3},      {"</s>", 0, 3}, {"a", 0, 1},   {"ab", 0, 1},
    {"abcd", 0, 1},  {"b", 0, 1},        {"ab", 0, 4},   {"ab", 0, 1},  {"bc", 0, 1},
    {"bcd", 0, 5},   {"\xC3\xA9", 0, 1}, {"d", 0, 1},    {"<x>", 0, 4}, {"abce", 0, 1},
};
#define TOKENS (sizeof tokens / sizeof *tokens)
#define SPECIALS (TEST_WITH_UNKNOWN | TEST_WITH_BOS_EOS)

static or_vocab_t *make(unsigned wish)
{
    or_vocab_t *vocab = NULL;
    if (test_make_vocab(tokens, TOKENS, wish | SPECIALS, &vocab) != OR_OK) {
        fail_msg("%s", or_error_text());
    }
    return vocab;
}

static bool is_string(const or_vocab_t *vocab, uint32_t id)
{
    or_token_kind_t kind = or_vocab_kind(vocab, (int32_t)id);
    return kind != OR_TOKEN_SPECIAL && kind != OR_TOKEN_UNUSED && or_vocab_widths(vocab)[id] > 0;
}

static bool begins(const or_vocab_t *vocab, uint32_t id, const char *text, size_t length)
{
    uint32_t width;
    const char *bytes = or_vocab_bytes(vocab, (int32_t)id, &width);
    return width >= length && memcmp(bytes, text, length) == 0;
}

// Return the bytes of the longest token that the text begins with.
static uint32_t longest_by_search(const or_vocab_t *vocab, const char *text, size_t length)
{
    uint32_t longest = 0;
    for (uint32_t id = 0; id < or_vocab_size(vocab); id++) {
        uint32_t width = or_vocab_widths(vocab)[id];
        if (is_string(vocab, id) && width > longest && width <= length &&
            begins(vocab, id, text, width)) {
            longest = width;
        }
    }
    return longest;
}

static bool longer_by_search(const or_vocab_t *vocab, const char *text, size_t length)
{
    for (uint32_t id = 0; id < or_vocab_size(vocab); id++) {
        if (is_string(vocab, id) && or_vocab_widths(vocab)[id] > length &&
            begins(vocab, id, text, length)) {
            return true;
        }
    }
    return false;
}

// Return the longest token that the bytes begin with and its length, or OR_TOKEN_NONE and 0.
static int32_t longest_by_walk(const or_token_trie_t *trie, const char *bytes, size_t length,
                               uint32_t *matched)
{
    or_trie_state_t state = or_token_trie_start(trie);
    int32_t longest = OR_TOKEN_NONE;
    *matched = 0;
    for (size_t i = 0; i < length && or_token_trie_walk(trie, &state, (uint8_t)bytes[i]); i++) {
        int32_t token = or_token_trie_token(trie, state);
        if (token != OR_TOKEN_NONE) {
            longest = token;
            *matched = state.depth;
        }
    }
    return longest;
}

// Walk the text byte by byte and compare each state with what a search finds.
static void check_text(const or_token_trie_t *trie, const char *text, size_t length)
{
    const or_vocab_t *vocab = or_token_trie_vocab(trie);
    or_trie_state_t state = or_token_trie_start(trie);
    bool goes_on = true;
    for (size_t i = 0; i < length; i++) {
        or_trie_state_t before = state;
        if (!or_token_trie_walk(trie, &state, (uint8_t)text[i])) {
            assert_memory_equal(&before, &state, sizeof state);
            assert_true(longest_by_search(vocab, text, length) <= i);
            assert_false(longer_by_search(vocab, text, i + 1));
            break;
        }
        assert_true(goes_on);
        goes_on = or_token_trie_goes_on(trie, state);
        assert_int_equal(goes_on, longer_by_search(vocab, text, i + 1));
        bool ends = longest_by_search(vocab, text, i + 1) == i + 1;
        assert_int_equal(or_token_trie_token(trie, state) != OR_TOKEN_NONE, ends);
    }
    uint32_t matched = 77;
    int32_t token = longest_by_walk(trie, text, length, &matched);
    assert_int_equal(matched, longest_by_search(vocab, text, length));
    assert_int_equal(token == OR_TOKEN_NONE, matched == 0);
    if (token != OR_TOKEN_NONE) {
        assert_int_equal(or_vocab_widths(vocab)[token], matched);
        assert_true(begins(vocab, (uint32_t)token, text, matched));
    }
}

static void check_random_texts(const or_token_trie_t *trie, const char *alphabet, uint32_t letters,
                               uint32_t texts)
{
    uint64_t state = test_seed();
    for (uint32_t i = 0; i < texts; i++) {
        char text[8];
        size_t length = test_below(&state, sizeof text + 1);
        for (size_t j = 0; j < length; j++) {
            text[j] = alphabet[test_below(&state, letters)];
        }
        check_text(trie, text, length);
    }
}

static void the_longest_token_is_found(void **state)
{
    (void)state;
    static const char alphabet[] = "abcde\xC3\xA9<x>\xFF";
    for (unsigned wish = 0; wish <= TEST_WITH_BYTES; wish++) {
        or_vocab_t *vocab = make(wish);
        or_token_trie_t *trie = NULL;
        assert_int_equal(or_token_trie_create(vocab, &trie), OR_OK);
        check_random_texts(trie, alphabet, sizeof alphabet, 3000); // the end's zero included
        or_token_trie_destroy(&trie);
        assert_null(trie);
        or_vocab_destroy(&vocab);
    }
}

static int32_t token_of(const or_token_trie_t *trie, const char *text, size_t length)
{
    uint32_t matched;
    int32_t token = longest_by_walk(trie, text, length, &matched);
    return matched == length ? token : OR_TOKEN_NONE;
}

static void of_equal_strings_one_is_chosen(void **state)
{
    (void)state;
    or_vocab_t *vocab = make(TEST_WITH_BYTES);
    or_token_trie_t *trie = NULL;
    assert_int_equal(or_token_trie_create(vocab, &trie), OR_OK);
    assert_int_equal(token_of(trie, "ab", 2), 7);           // user-defined, not text 4 or 8
    assert_int_equal(token_of(trie, "a", 1), 3);            // not the byte token
    assert_int_equal(token_of(trie, "e", 1), TOKENS + 'e'); // nothing but a byte
    assert_int_equal(token_of(trie, "\0", 1), TOKENS);
    assert_int_equal(token_of(trie, "\xFF", 1), TOKENS + 0xFF);
    assert_int_equal(or_token_trie_count(trie), 256 + 6); // ab abcd abce bc é <x> and all bytes
    assert_int_equal(or_token_trie_widest(trie), 4);
    assert_int_equal(or_token_trie_entry(trie, 4), OR_TRIE_NO_ENTRY);
    assert_int_equal(or_token_trie_entry(trie, 1), OR_TRIE_NO_ENTRY);
    assert_int_equal(or_token_trie_entry(trie, 10), OR_TRIE_NO_ENTRY);
    // A state's entries are exactly those of the tokens that begin with it.
    or_trie_state_t at = or_token_trie_start(trie);
    assert_true(or_token_trie_walk(trie, &at, 'a'));
    for (uint32_t id = 0; id < or_vocab_size(vocab); id++) {
        uint32_t entry = or_token_trie_entry(trie, (int32_t)id);
        if (entry != OR_TRIE_NO_ENTRY) {
            assert_int_equal(entry >= at.first && entry < at.end, begins(vocab, id, "a", 1));
        }
    }
    or_token_trie_destroy(&trie);
    or_vocab_destroy(&vocab);
}

static void tokens_of_a_real_vocabulary_find_themselves(void **state)
{
    (void)state;
    or_vocab_t *vocab = test_load_vocab(test_model("tales-bpe-1m-f16.gguf"));
    or_token_trie_t *trie = NULL;
    assert_int_equal(or_token_trie_create(vocab, &trie), OR_OK);
    assert_int_equal(or_token_trie_count(trie), 1024 - 1); // but for <|endoftext|>
    for (uint32_t id = 0; id < or_vocab_size(vocab); id++) {
        uint32_t width;
        const char *bytes = or_vocab_bytes(vocab, (int32_t)id, &width);
        check_text(trie, bytes, width);
    }
    check_random_texts(trie, "the an.\n", 8, 500);
    or_token_trie_destroy(&trie);
    or_vocab_destroy(&vocab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_token_is_found),
        cmocka_unit_test(of_equal_strings_one_is_chosen),
        cmocka_unit_test(tokens_of_a_real_vocabulary_find_themselves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
