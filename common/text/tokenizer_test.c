// Goal: text becomes the tokens that llama.cpp's family gives it, in either kind of vocabulary.
// Special tokens in it stay text unless asked for.
// Method: compare with published vectors both ways and with the prompts of reference.json.
// Compare with a slow merger that looks at every pair at every step and knows neither cuts nor
// cache. Vocabularies made by hand cover the special cases.
#include "common/text/tokenizer.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/text_test_support.h"
#include "common/text/utf8.h"
#include "common/text/vocab/vocab_internal.h"
#include "tests/support/test_support.h"

static void assert_ids(const or_vocab_t *vocab, const char *text, size_t length, unsigned flags,
                       const int32_t *expected, size_t expected_count)
{
    int32_t *ids = NULL;
    size_t count;
    assert_int_equal(or_tokenize(vocab, text, length, flags, &ids, &count), OR_OK);
    assert_int_equal(count, expected_count);
    assert_memory_equal(ids, expected, count * sizeof *ids);
    free(ids);
}

// -- published vectors
// ------------------------------------------------------------------------------------------------

static char *read_text(const char *path)
{
    FILE *stream = fopen(path, "rb");
    assert_non_null(stream);
    char *text = calloc(1, 1 << 16);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 16) - 1, stream) < (1 << 16) - 1);
    fclose(stream);
    return text;
}

static size_t parse_ids(char *line, int32_t *ids, size_t capacity)
{
    size_t count = 0;
    char *end;
    for (long id = strtol(line, &end, 10); end != line; id = strtol(line, &end, 10)) {
        assert_true(count < capacity);
        ids[count++] = (int32_t)id;
        line = end;
    }
    return count;
}

// Cut `*rest` at the next separator and move behind it; NULL at the end.
static char *next_part(char **rest, const char *separator)
{
    char *part = *rest;
    char *end = strstr(part, separator);
    if (end == NULL) {
        return NULL;
    }
    *end = '\0';
    *rest = end + strlen(separator);
    return part;
}

static void check_vectors(const char *vocab_name, const char *texts_name, const char *ids_name)
{
    or_vocab_t *vocab = test_load_vocab(test_data(vocab_name));
    char *texts = read_text(test_data(texts_name));
    char *lines = read_text(test_data(ids_name));
    char *next_text = texts;
    char *next_line = lines;
    unsigned checked = 0;
    for (char *text; (text = next_part(&next_text, "\n__ggml_vocab_test__\n")) != NULL;) {
        char *line = next_part(&next_line, "\n");
        int32_t ids[512];
        assert_non_null(line);
        size_t count = parse_ids(line, ids, 512);
        assert_ids(vocab, text, strlen(text), 0, ids, count);
        test_assert_round_trip(vocab, text, strlen(text));
        checked++;
    }
    assert_int_equal(checked, 46);
    free(lines);
    free(texts);
    or_vocab_destroy(&vocab);
}

static void published_vectors(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_VOCAB_FILES; i++) {
        char gguf[64];
        char texts[64];
        char ids[64];
        snprintf(gguf, sizeof gguf, "vocab/%s.gguf", test_vocab_names[i]);
        snprintf(texts, sizeof texts, "vocab/%s.inp", test_vocab_names[i]);
        snprintf(ids, sizeof ids, "vocab/%s.out", test_vocab_names[i]);
        print_message("%s\n", test_vocab_names[i]);
        check_vectors(gguf, texts, ids);
    }
}

static void check_prompts(const json_t *model, const or_vocab_t *vocab)
{
    size_t i;
    const json_t *prompt;
    json_array_foreach(json_object_get(model, "prompts"), i, prompt)
    {
        const json_t *text = json_object_get(prompt, "text");
        const json_t *ids = json_object_get(prompt, "ids");
        int32_t expected[512];
        size_t count = json_array_size(ids);
        assert_in_range(count, 1, 512);
        for (size_t k = 0; k < count; k++) {
            expected[k] = (int32_t)json_integer_value(json_array_get(ids, k));
        }
        assert_ids(vocab, json_string_value(text), json_string_length(text), OR_TOKENIZE_BOS,
                   expected, count);
    }
}

static void check_reference_prompts(const char *name, const char *path)
{
    json_error_t error;
    json_t *root = json_load_file("tests/oracles/data/reference.json", 0, &error);
    assert_non_null(root);
    or_vocab_t *vocab = test_load_vocab(path);
    const json_t *model = json_object_get(json_object_get(root, "models"), name);
    assert_non_null(model);
    check_prompts(model, vocab);
    or_vocab_destroy(&vocab);
    json_decref(root);
}

static void reference_prompts(void **state)
{
    (void)state;
    check_reference_prompts("tales-6m-f16", test_model("tales-6m-f16.gguf"));
    check_reference_prompts("tales-1m-f16", test_model("tales-1m-f16.gguf"));
    check_reference_prompts("tales-bpe-1m-f16", test_model("tales-bpe-1m-f16.gguf"));
}

static void reference_prompts_of_stories(void **state)
{
    (void)state;
    check_reference_prompts("stories260K-f32", test_data("models/stories260K-f32.gguf"));
}

// -- merging
// ----------------------------------------------------------------------------------------------------------

enum { LONGEST = 300 };

// A piece that is being merged: symbol i is text[ends[i - 1]] to text[ends[i] - 1].
typedef struct {
    const or_vocab_t *vocab;
    const char *text;
    uint32_t ends[LONGEST];
    uint32_t count;
} slow_t;

static int32_t slow_id(const slow_t *slow, uint32_t first, uint32_t last)
{
    uint32_t start = first > 0 ? slow->ends[first - 1] : 0;
    return or_vocab_find_text(slow->vocab, slow->text + start, slow->ends[last] - start);
}

// The value of merging symbols i and i + 1; false if they do not merge. SentencePiece goes by
// the score of the union, byte-level by the order of the file's merges.
static bool slow_value(const slow_t *slow, uint32_t i, double *value)
{
    int32_t id = slow_id(slow, i, i + 1);
    if (!slow->vocab->byte_level) {
        *value = id != OR_TOKEN_NONE ? slow->vocab->tokens[id].score : 0;
        return id != OR_TOKEN_NONE;
    }
    const or_merge_t *merge = or_bpe_find(slow->vocab->bpe, (uint32_t)slow_id(slow, i, i),
                                          (uint32_t)slow_id(slow, i + 1, i + 1));
    *value = merge != NULL ? -(double)merge->rank : 0;
    assert_true(merge == NULL || merge->merged == id);
    return merge != NULL;
}

// Look at all pairs and merge the best, leftmost on ties; false if there is none.
static bool merge_slowly(slow_t *slow)
{
    uint32_t best = UINT32_MAX;
    double best_value = 0;
    for (uint32_t i = 0; i + 1 < slow->count; i++) {
        double value;
        if (slow_value(slow, i, &value) && (best == UINT32_MAX || value > best_value)) {
            best = i;
            best_value = value;
        }
    }
    if (best == UINT32_MAX) {
        return false;
    }
    slow->count--;
    memmove(slow->ends + best, slow->ends + best + 1, (slow->count - best) * sizeof *slow->ends);
    return true;
}

// Compute the ids of a piece without cuts, cache, or a table of merges for SentencePiece.
static size_t tokenize_slowly(const or_vocab_t *vocab, const char *text, size_t length,
                              int32_t *ids)
{
    slow_t slow = {.vocab = vocab, .text = text};
    size_t count = 0;
    size_t used = 1;
    for (size_t at = 0; at < length; at += used) {
        if (vocab->byte_level || or_utf8_next(text + at, length - at, &used) != OR_UTF8_CHARACTER) {
            used = 1;
        }
        slow.ends[slow.count++] = (uint32_t)(at + used);
    }
    while (merge_slowly(&slow)) {
    }
    for (uint32_t i = 0; i < slow.count; i++) {
        ids[count] = slow_id(&slow, i, i);
        for (uint32_t at = i > 0 ? slow.ends[i - 1] : 0; ids[count] == OR_TOKEN_NONE;) {
            ids[count] = vocab->byte_tokens[(unsigned char)text[at++]];
            assert_int_not_equal(ids[count], OR_TOKEN_NONE);
            count += at < slow.ends[i];
            ids[count] = at < slow.ends[i] ? OR_TOKEN_NONE : ids[count];
        }
        count++;
    }
    return count;
}

// Write letters only, so that a byte-level vocabulary takes the text as one piece. Words are
// repeated, so that the cache is used, and long enough for the heap.
static size_t random_letters(uint64_t *seed, bool spaces, char *text)
{
    static const char *const bits[] = {"e",
                                       "t",
                                       "a",
                                       "o",
                                       "in",
                                       "the",
                                       "ion",
                                       "tion",
                                       "straw",
                                       "\xC3\xA9",
                                       "\xE4\xB8\xAD",
                                       "\xE6\x96\x87",
                                       "\xE7\x9A\x84",
                                       "\xD0\xB8",
                                       "\xD0\xBD",
                                       "Q",
                                       "xyz",
                                       " ",
                                       "  ",
                                       "\xFF",
                                       "\xE4\xB8",
                                       ".",
                                       " the"};
    size_t length = 0;
    size_t wanted = 1 + test_below(seed, LONGEST - 10);
    size_t choices = spaces ? sizeof bits / sizeof *bits : 17;
    while (length < wanted) {
        const char *bit = bits[test_below(seed, choices)];
        for (uint64_t run = test_below(seed, 16) == 0 ? 12 : 1; run > 0 && length < wanted; run--) {
            memcpy(text + length, bit, strlen(bit));
            length += strlen(bit);
        }
    }
    return length;
}

static void check_merging(const char *path, bool byte_level, uint64_t *seed)
{
    or_vocab_t *vocab = test_load_vocab(path);
    for (int round = 0; round < 400; round++) {
        char text[LONGEST + 1] = " ";
        int32_t expected[LONGEST];
        size_t space = byte_level ? 0 : 1; // the tokenizer's own
        size_t length = random_letters(seed, !byte_level, text + space) + space;
        size_t count = tokenize_slowly(vocab, text, length, expected);
        assert_ids(vocab, text + space, length - space, 0, expected, count);
    }
    or_vocab_destroy(&vocab);
}

static void merging_takes_the_best_pair_leftmost_first(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    check_merging(test_model("tales-6m-f16.gguf"), false, &seed);
    check_merging(test_model("tales-bpe-1m-f16.gguf"), true, &seed);
}

static void merging_is_right_in_real_vocabularies(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    check_merging(test_data("vocab/llama-spm.gguf"), false, &seed);
    check_merging(test_data("vocab/gpt-2.gguf"), true, &seed);
    check_merging(test_data("vocab/qwen2.gguf"), true, &seed);
}

// -- special cases, by hand
// -------------------------------------------------------------------------------------------

static const test_token_t tokens[] = {
    {"<unk>", 0, 2},
    {"<s>", 0, 3},
    {"</s>", 0, 3},
    {"\xE2\x96\x81", -9, 1},
    {"a", -9, 1},
    {"<s", -2, 1},
    {"<", -9, 1},
    {"s", -9, 1},
    {">", -9, 1},
    {"/", -9, 1},
    {"<s>more", 0, 3},
    {"##", 0, 4},
    {"\xE2\x96\x81"
     "a",
     -1, 1},
    {"#", -9, 1},
    {"aa", -3, 1},
};
enum { TOKENS = sizeof tokens / sizeof *tokens };
enum { BOS = 1, EOS, SPACE, A, LT_S, LT, S, GT, SLASH, S_MORE, HASHES, SPACE_A, HASH, AA, BYTES };

typedef struct {
    const char *text;
    unsigned flags;
    int32_t ids[8];
    size_t count;
} case_t;

static void check_cases(unsigned wish, const case_t *cases, size_t count)
{
    or_vocab_t *vocab = NULL;
    assert_int_equal(
        test_make_vocab(tokens, TOKENS, wish | TEST_WITH_UNKNOWN | TEST_WITH_BOS_EOS, &vocab),
        OR_OK);
    for (size_t i = 0; i < count; i++) {
        assert_ids(vocab, cases[i].text, strlen(cases[i].text), cases[i].flags, cases[i].ids,
                   cases[i].count);
        if (cases[i].flags == 0 && (wish & TEST_WITH_BYTES) != 0) {
            test_assert_round_trip(vocab, cases[i].text, strlen(cases[i].text));
        }
    }
    or_vocab_destroy(&vocab);
}

static void special_tokens_in_text_are_text_unless_asked_for(void **state)
{
    (void)state;
    static const case_t cases[] = {
        {"", 0, {0}, 0},
        {"", OR_TOKENIZE_BOS, {BOS}, 1},
        {"<s>", 0, {SPACE, LT_S, GT}, 3},
        {"<s>", OR_TOKENIZE_BOS, {BOS, SPACE, LT_S, GT}, 4},
        {"<s>", OR_TOKENIZE_SPECIAL, {BOS}, 1},
        {"a</s>a", OR_TOKENIZE_SPECIAL, {SPACE_A, EOS, SPACE_A}, 3},
        {"<s>more", OR_TOKENIZE_SPECIAL, {S_MORE}, 1}, // the longest
        {"a<s>a", OR_TOKENIZE_SPECIAL | OR_TOKENIZE_BOS, {BOS, SPACE_A, BOS, SPACE_A}, 4},
    };
    check_cases(TEST_WITH_BYTES, cases, sizeof cases / sizeof *cases);
}

static void user_defined_tokens_are_cut_out_always(void **state)
{
    (void)state;
    static const case_t cases[] = {
        {"##", 0, {HASHES}, 1},
        {"###", 0, {HASHES, HASH}, 2},
        {"a##a", 0, {SPACE_A, HASHES, A}, 3}, // no space of the tokenizer's own inside the text
        {"aa##", 0, {SPACE_A, A, HASHES}, 3},
    };
    check_cases(TEST_WITH_BYTES, cases, sizeof cases / sizeof *cases);
}

static void the_space_in_front_is_the_files_choice(void **state)
{
    (void)state;
    static const case_t with[] = {{"a", 0, {SPACE_A}, 1}, {" a", 0, {SPACE, SPACE_A}, 2}};
    static const case_t without[] = {{"a", 0, {A}, 1}, {" a", 0, {SPACE_A}, 1}};
    check_cases(TEST_WITH_BYTES, with, 2);
    check_cases(TEST_WITH_BYTES | TEST_WITHOUT_SPACE, without, 2);
}

static void what_has_no_token_becomes_bytes_or_unknown(void **state)
{
    (void)state;
    static const case_t bytes[] = {
        {"\xC3\xA9", 0, {SPACE, BYTES + 0xC3, BYTES + 0xA9}, 3},
        {"\xC3"
         "a",
         0,
         {SPACE, BYTES + 0xC3, A},
         3},
        {"\xE2\x96\x81", 0, {SPACE, BYTES + 0xE2, BYTES + 0x96, BYTES + 0x81}, 4},
    };
    static const case_t unknown[] = {{"\xC3\xA9"
                                      "a",
                                      0,
                                      {SPACE, 0, A},
                                      3}};
    check_cases(TEST_WITH_BYTES, bytes, 3);
    check_cases(0, unknown, 1);
}

// -- byte-level, by hand
// --------------------------------------------------------------------------------------------------

static const test_token_t pieces[] = {
    {"<end>", 0, 3},
    {"ab", 0, 1},
    {"bc", 0, 1},
    {"abc", 0, 1},
    {"abcd", 0, 1},
    {"##", 0, 4},
    {"\xC4\xA0"
     "a",
     0, 1},
    {"'s", 0, 1},
};
static const char *const merges[] = {"b c", "a b", "a bc", "' s", "\xC4\xA0 a", "b c"};
enum { PIECES = sizeof pieces / sizeof *pieces, MERGES = sizeof merges / sizeof *merges };
enum { END, AB, BC, ABC, ABCD, USER, SPACE_LETTER, IS, BYTE };

static void check_byte_level(const char *pre, const case_t *cases, size_t count)
{
    or_vocab_t *vocab = NULL;
    assert_int_equal(test_make_byte_level(pieces, PIECES, merges, MERGES, pre, &vocab), OR_OK);
    for (size_t i = 0; i < count; i++) {
        assert_ids(vocab, cases[i].text, strlen(cases[i].text), cases[i].flags, cases[i].ids,
                   cases[i].count);
    }
    or_vocab_destroy(&vocab);
}

static void merges_go_by_rank_not_by_token(void **state)
{
    (void)state;
    static const case_t cases[] = {
        {"ab", 0, {AB}, 1},
        {"abc", 0, {ABC}, 1},              // (b c) first, then (a bc)
        {"abcd", 0, {ABC, BYTE + 'd'}, 2}, // a token, but no merge makes it
        {"aab", 0, {BYTE + 'a', AB}, 2},
        {"a", 0, {BYTE + 'a'}, 1}, // no space of the tokenizer's own
        {" a", 0, {SPACE_LETTER}, 1},
        {"a's", 0, {BYTE + 'a', IS}, 2},
        {"\xC3\xA9", 0, {BYTE + 0xC3, BYTE + 0xA9}, 2},
        {"ab\xFF"
         "bc",
         0,
         {AB, BYTE + 0xFF, BC},
         3},
    };
    check_byte_level("gpt-2", cases, sizeof cases / sizeof *cases);
}

// Gemma 4's kind: characters, spaces as in SentencePiece, merges by rank, and ends of lines apart.
static void lines_are_merged_apart(void **state)
{
    (void)state;
    static const test_token_t letters[] = {
        {"a", 0, 1},
        {"b", 0, 1},
        {"c", 0, 1},
        {"ab", 0, 1},
        {"bc", 0, 1},
        {"abc", 0, 1},
        {"\n", 0, 1},
        {"\n\n", 0, 1},
        {"\n\n\n", 0, 1},
        {"\na", 0, 1},
        {"\xE2\x96\x81", 0, 1},
        {"\xE2\x96\x81"
         "a",
         0, 1},
    };
    static const char *const ranked[] = {"b c", "a b", "a bc", "\xE2\x96\x81 a", "\n \n", "\n a"};
    enum { COUNT = sizeof letters / sizeof *letters, RANKED = sizeof ranked / sizeof *ranked };
    enum {
        LN_A,
        LN_B,
        LN_C,
        LN_A_B,
        LN_B_C,
        LN_A_B_C,
        LN_LINE,
        LN_LINES,
        LN_THREE,
        LN_LINE_A,
        LN_SPACE,
        LN_SPACE_A,
        LN_FIRST_BYTE
    };
    static const case_t cases[] = {
        {"abc", 0, {LN_A_B_C}, 1}, // (b c) first, then (a bc)
        {"ab", 0, {LN_A_B}, 1},
        {"aab", 0, {LN_A, LN_A_B}, 2}, // no space of the tokenizer's own
        {" a a", 0, {LN_SPACE_A, LN_SPACE_A}, 2},
        {"  b", 0, {LN_SPACE, LN_SPACE, LN_B}, 3},
        {"\n\n\n", 0, {LN_THREE}, 1}, // a token, though no merge makes it
        {"\n\n\n\n", 0, {LN_LINES, LN_LINES}, 2},
        {"a\na",
         0,
         {LN_A, LN_LINE, LN_A},
         3}, // a merge, but of the end of a line and something else
        {"ad", 0, {LN_A, LN_FIRST_BYTE + 'd'}, 2},
        {"\xC3\xA9", 0, {LN_FIRST_BYTE + 0xC3, LN_FIRST_BYTE + 0xA9}, 2},
    };
    or_vocab_t *vocab = NULL;
    assert_int_equal(test_make_by_lines(letters, COUNT, ranked, RANKED, &vocab), OR_OK);
    assert_string_equal(or_vocab_model(vocab), "gemma4");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_ids(vocab, cases[i].text, strlen(cases[i].text), cases[i].flags, cases[i].ids,
                   cases[i].count);
    }
    or_vocab_destroy(&vocab);
}

static void a_piece_that_is_a_token_may_ignore_merges(void **state)
{
    (void)state;
    static const case_t cases[] = {
        {"abcd", 0, {ABCD}, 1},
        {"abcd abcd", 0, {ABCD, BYTE + ' ', ABC, BYTE + 'd'}, 4}, // " abcd" is a piece
        {"abc", 0, {ABC}, 1},
    };
    check_byte_level("llama-bpe", cases, sizeof cases / sizeof *cases);
}

static void byte_level_marked_tokens_are_cut_out(void **state)
{
    (void)state;
    static const case_t cases[] = {
        {"a##b", 0, {BYTE + 'a', USER, BYTE + 'b'}, 3},
        {"ab<end>ab", OR_TOKENIZE_SPECIAL, {AB, END, AB}, 3},
        {"<end>", 0, {BYTE + '<', BYTE + 'e', BYTE + 'n', BYTE + 'd', BYTE + '>'}, 5},
    };
    check_byte_level("gpt-2", cases, sizeof cases / sizeof *cases);
}

// StarCoder's vocabulary has no token for byte 0xFF; its unknown token would end the text.
static void a_byte_without_any_token_is_left_out(void **state)
{
    (void)state;
    or_vocab_t *vocab = test_load_vocab(test_data("vocab/starcoder.gguf"));
    int32_t a = or_vocab_find_text(vocab, "a", 1);
    assert_ids(vocab, "a\xFF", 2, 0, &a, 1);
    assert_ids(vocab,
               "\xFF\xFF"
               "a\xC0",
               4, 0, &a, 1);
    or_vocab_destroy(&vocab);
}

// For a user's text a hole is an error that names the byte.
static void a_whole_text_has_no_byte_without_a_token(void **state)
{
    (void)state;
    or_vocab_t *vocab = test_load_vocab(test_data("vocab/starcoder.gguf"));
    int32_t a = or_vocab_find_text(vocab, "a", 1);
    assert_ids(vocab, "aa\n", 3, OR_TOKENIZE_WHOLE,
               (int32_t[]){or_vocab_find_text(vocab, "aa", 2), or_vocab_find_text(vocab, "\n", 1)},
               2);
    assert_ids(vocab, "a", 1, OR_TOKENIZE_WHOLE, &a, 1);
    int32_t *ids = NULL;
    size_t count;
    assert_int_equal(or_tokenize(vocab, "a\xF1z", 3, OR_TOKENIZE_WHOLE, &ids, &count),
                     OR_ERR_INVALID);
    assert_non_null(strstr(or_error_text(), "no token for byte 0xF1"));
    assert_null(ids);
    or_vocab_destroy(&vocab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_vectors),
        cmocka_unit_test(reference_prompts),
        cmocka_unit_test(reference_prompts_of_stories),
        cmocka_unit_test(merging_takes_the_best_pair_leftmost_first),
        cmocka_unit_test(merging_is_right_in_real_vocabularies),
        cmocka_unit_test(special_tokens_in_text_are_text_unless_asked_for),
        cmocka_unit_test(user_defined_tokens_are_cut_out_always),
        cmocka_unit_test(the_space_in_front_is_the_files_choice),
        cmocka_unit_test(what_has_no_token_becomes_bytes_or_unknown),
        cmocka_unit_test(merges_go_by_rank_not_by_token),
        cmocka_unit_test(lines_are_merged_apart),
        cmocka_unit_test(a_piece_that_is_a_token_may_ignore_merges),
        cmocka_unit_test(byte_level_marked_tokens_are_cut_out),
        cmocka_unit_test(a_byte_without_any_token_is_left_out),
        cmocka_unit_test(a_whole_text_has_no_byte_without_a_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
