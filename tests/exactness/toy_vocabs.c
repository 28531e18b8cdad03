#include "tests/exactness/toy_vocabs.h"

#include <string.h>

#include "common/text/text_test_support.h"
#include "tests/support/test_support.h"

static const struct {
    const char *name;
    const char *target[TOY_STRINGS], *draft[TOY_STRINGS];
} pairs[TOY_VOCABS] = {
    {"three of five", {"a", "b", "ab", "ba", "aba"}, {"a", "b", "aa", "bb", "ab"}},
    {"longer guesses", {"a", "b", "ab", "ba", "bb"}, {"aba", "a", "bab", "b", "bba"}},
    {"longer targets", {"aba", "abab", "a", "b", "bab"}, {"b", "a", "ab", "ba", "aab"}},
    {"the same, permuted", {"a", "b", "ab", "ba", "aba"}, {"aba", "ab", "b", "a", "ba"}},
    {"letters at the end", {"ab", "ba", "aba", "a", "b"}, {"aa", "bb", "abb", "b", "a"}},
};

static or_vocab_t *open_vocab(const char *const *strings)
{
    enum { NORMAL = 1 }; // GGUF's token type
    test_token_t tokens[TOY_STRINGS];
    or_vocab_t *vocab = NULL;
    for (uint32_t i = 0; i < TOY_STRINGS; i++) {
        tokens[i] = (test_token_t){strings[i], -(float)i, NORMAL};
    }
    if (test_make_vocab(tokens, TOY_STRINGS, TEST_WITH_BYTES | TEST_WITHOUT_SPACE, &vocab) !=
        OR_OK) {
        fail_msg("%s", or_error_text());
    }
    return vocab;
}

toy_vocabs_t toy_vocabs_open(uint32_t i)
{
    toy_vocabs_t vocabs = {.name = pairs[i].name,
                           .target = open_vocab(pairs[i].target),
                           .draft = open_vocab(pairs[i].draft),
                           .target_strings = pairs[i].target,
                           .draft_strings = pairs[i].draft};
    if (or_vocab_pair_create(vocabs.draft, vocabs.target, &vocabs.pair) != OR_OK) {
        fail_msg("%s", or_error_text());
    }
    return vocabs;
}

void toy_vocabs_close(toy_vocabs_t *vocabs)
{
    or_vocab_pair_destroy(&vocabs->pair);
    or_vocab_destroy(&vocabs->draft);
    or_vocab_destroy(&vocabs->target);
}
