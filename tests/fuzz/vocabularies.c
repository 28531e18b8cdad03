#include "tests/fuzz/vocabularies.h"

#include <stdbool.h>

#include "common/text/pretokenize.h"
#include "common/text/text_test_support.h"
#include "tests/fuzz/fuzz.h"

enum { NORMAL = 1, UNKNOWN, CONTROL, USER, UNUSED }; // GGUF's token types

#define SPACE "\xE2\x96\x81" // U+2581

static const test_token_t sentencepiece[] = {
    {"<unk>", 0, UNKNOWN},
    {"<s>", 0, CONTROL},
    {"</s>", 0, CONTROL},
    {SPACE, -20, NORMAL},
    {SPACE SPACE, -9, NORMAL},
    {SPACE SPACE SPACE SPACE, -8, NORMAL},
    {"a", -21, NORMAL},
    {"b", -21, NORMAL},
    {"ab", -3, NORMAL},
    {"ba", -3, NORMAL}, // ties with the one before
    {SPACE "a", -4, NORMAL},
    {SPACE "ab", -1, NORMAL},
    {"aba", -5, NORMAL},
    {"bab" SPACE, -2, NORMAL},
    {"\xC3\xA9", -22, NORMAL},
    {"e\xCC\x81", -6, NORMAL}, // two characters, one without a token
    {"\xF0\x9F\x98\x80", -23, NORMAL},
    {"\n", -24, NORMAL},
    {"\n\n", -7, NORMAL},
    {"<u>", 0, USER},
    {"<u>a", 0, USER},
    {"  b", 0, USER},
    {SPACE "u", 0, USER}, // prints its U+2581
    {"\xC3", 0, USER},    // half a character
    {"<|x|>", 0, CONTROL},
    {"a<s>", 0, CONTROL},
    {"never", 0, UNUSED},
};
enum { SENTENCEPIECE_TOKENS = sizeof sentencepiece / sizeof *sentencepiece };

// Byte-level names: "\304\240" is a space, "\304\212" a newline, "\303\203\302\251" the two bytes
// of U+00E9, "\303\203" its first.
static const test_token_t byte_level[] = {
    {"<|end|>", 0, CONTROL},
    {"ab", 0, NORMAL},
    {"ba", 0, NORMAL},
    {"aba", 0, NORMAL},
    {"\304\240a", 0, NORMAL},
    {"\304\240ab", 0, NORMAL},
    {"\304\240\304\240", 0, NORMAL},
    {"\304\212\304\212", 0, NORMAL},
    {"\303\203\302\251", 0, NORMAL},
    {"a\303\203", 0, NORMAL}, // ends inside a character
    {"12", 0, NORMAL},
    {"123", 0, NORMAL},
    {"'s", 0, NORMAL},
    {"b'sb", 0, NORMAL}, // no merge makes it
    {"<u>", 0, USER},
    {"  b", 0, USER},
    {"<|x|>", 0, CONTROL},
};
enum { BYTE_LEVEL_TOKENS = sizeof byte_level / sizeof *byte_level };

static const char *const merges[] = {
    "b a",
    "a b",
    "\304\240 a",
    "\304\240a b",
    "ab a",
    "\304\240 \304\240",
    "\304\212 \304\212",
    "1 2",
    "' s",
    "12 3",
    "\303\203 \302\251",
    "a \303\203",
};
enum { MERGES = sizeof merges / sizeof *merges };

static or_vocab_t *make_sentencepiece(bool with_space)
{
    or_vocab_t *vocab = NULL;
    or_status_t status = test_make_vocab(sentencepiece, SENTENCEPIECE_TOKENS,
                                         TEST_WITH_BYTES | TEST_WITH_UNKNOWN | TEST_WITH_BOS_EOS |
                                             (with_space ? 0 : TEST_WITHOUT_SPACE),
                                         &vocab);
    assert(status == OR_OK);
    return vocab;
}

static const char *const line_merges[] = {
    "b a", "a b", SPACE " " SPACE, SPACE " a", SPACE "a b", "\n \n", "ab a",
};
enum { LINE_MERGES = sizeof line_merges / sizeof *line_merges };

// The same tokens, with merges from the file.
static or_vocab_t *make_by_lines(void)
{
    or_vocab_t *vocab = NULL;
    or_status_t status =
        test_make_by_lines(sentencepiece, SENTENCEPIECE_TOKENS, line_merges, LINE_MERGES, &vocab);
    assert(status == OR_OK);
    return vocab;
}

static or_vocab_t *make_byte_level(size_t rule)
{
    const char *name = NULL;
    or_vocab_t *vocab = NULL;
    or_pre_rule_at(rule, &name);
    or_status_t status =
        test_make_byte_level(byte_level, BYTE_LEVEL_TOKENS, merges, MERGES, name, &vocab);
    assert(status == OR_OK);
    return vocab;
}

const or_vocab_t *fuzz_vocabulary(unsigned choice)
{
    static or_vocab_t
        *vocabularies[256]; // as made; sentencepiece with and without space, by lines, then by rule
    static size_t count;
    if (count == 0) {
        const char *name;
        for (count = 3; or_pre_rule_at(count - 3, &name) != NULL; count++) {
        }
        assert(count <= sizeof vocabularies / sizeof *vocabularies);
    }
    size_t which = choice % count;
    if (vocabularies[which] == NULL) {
        vocabularies[which] = which < 2    ? make_sentencepiece(which == 0)
                              : which == 2 ? make_by_lines()
                                           : make_byte_level(which - 3);
    }
    return vocabularies[which];
}
