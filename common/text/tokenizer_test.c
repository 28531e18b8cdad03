// Goal: text becomes the tokens that llama.cpp's family gives it, special tokens in it stay text
// unless asked for, and any bytes       come back from their tokens unchanged.
// Method: published vectors both ways; the prompts of reference.json; a slow merger that looks at
// every pair at every step;         vocabularies made by hand for the special cases; random and
// adversarial texts there and back.
#include "common/text/tokenizer.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/text/text_test_support.h"
#include "common/text/utf8.h"
#include "common/text/vocab_internal.h"
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

// Cuts `*rest` at the next separator and moves behind it; NULL at the end.
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
        assert_round_trip(vocab, text, strlen(text));
        checked++;
    }
    assert_int_equal(checked, 46);
    free(lines);
    free(texts);
    or_vocab_destroy(&vocab);
}

static void llama_vectors(void **state)
{
    (void)state;
    check_vectors("vocab/llama-spm.gguf", "vocab/llama-spm.inp", "vocab/llama-spm.out");
}

static void phi_3_vectors(void **state)
{
    (void)state;
    check_vectors("vocab/phi-3.gguf", "vocab/phi-3.inp", "vocab/phi-3.out");
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

static void reference_prompts(void **state)
{
    (void)state;
    static const char *const models[] = {"tales-6m-f32", "tales-1m-f32", "stories260K-f32"};
    json_error_t error;
    json_t *root = json_load_file(test_data("models/reference.json"), 0, &error);
    assert_non_null(root);
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char name[64];
        snprintf(name, sizeof name, "models/%s.gguf", models[i]);
        or_vocab_t *vocab = test_load_vocab(test_data(name));
        const json_t *model = json_object_get(json_object_get(root, "models"), models[i]);
        assert_non_null(model);
        check_prompts(model, vocab);
        or_vocab_destroy(&vocab);
    }
    json_decref(root);
}

// -- merging
// ----------------------------------------------------------------------------------------------------------

// The pieces of `text`, whose ends are ends[0..count-1]: merges the best pair, leftmost on ties;
// false if there is none.
static bool merge_slowly(const or_vocab_t *vocab, const char *text, uint32_t *ends, uint32_t *count)
{
    uint32_t best = UINT32_MAX;
    float best_score = 0;
    for (uint32_t i = 0; i + 1 < *count; i++) {
        uint32_t start = i > 0 ? ends[i - 1] : 0;
        int32_t id = or_vocab_find_text(vocab, text + start, ends[i + 1] - start);
        if (id == OR_TOKEN_NONE) {
            continue;
        }
        if (best == UINT32_MAX || vocab->tokens[id].score > best_score) {
            best = i;
            best_score = vocab->tokens[id].score;
        }
    }
    if (best == UINT32_MAX) {
        return false;
    }
    memmove(ends + best, ends + best + 1, (--*count - best) * sizeof *ends);
    return true;
}

static void merging_takes_the_best_pair_leftmost_first(void **state)
{
    (void)state;
    enum { LENGTH = 60 };
    uint64_t seed = test_seed();
    or_vocab_t *vocab = test_load_vocab(test_model("tales-6m-f16.gguf"));
    for (int round = 0; round < 2000; round++) {
        char text[LENGTH + 1] = " "; // the tokenizer's own space
        uint32_t ends[LENGTH];
        uint32_t count = LENGTH;
        int32_t expected[LENGTH];
        for (uint32_t i = 0; i < LENGTH; i++) {
            text[i] = i > 0 ? "etaoin shrdl  .,'"[test_below(&seed, 17)] : ' ';
            ends[i] = i + 1;
        }
        while (merge_slowly(vocab, text, ends, &count)) {
        }
        for (uint32_t i = 0; i < count; i++) {
            uint32_t start = i > 0 ? ends[i - 1] : 0;
            expected[i] = or_vocab_find_text(vocab, text + start, ends[i] - start);
        }
        assert_ids(vocab, text + 1, LENGTH - 1, 0, expected, count);
    }
    or_vocab_destroy(&vocab);
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
            assert_round_trip(vocab, cases[i].text, strlen(cases[i].text));
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

static void byte_level_vocabularies_are_refused_by_name(void **state)
{
    (void)state;
    int32_t *ids = NULL;
    size_t count;
    or_vocab_t *vocab = test_load_vocab(test_model("tales-bpe-1m-f16.gguf"));
    assert_int_equal(or_tokenize(vocab, "a", 1, 0, &ids, &count), OR_ERR_UNSUPPORTED);
    assert_non_null(strstr(or_error_text(), "gpt2"));
    assert_null(ids);
    or_vocab_destroy(&vocab);
}

// -- any text there and back
// ------------------------------------------------------------------------------------------

// A text of random stuff: words, runs of spaces, any bytes, characters of all lengths, zeros, runs
// of one byte.
static size_t random_text(uint64_t *seed, char *text, size_t capacity)
{
    static const char *const bits[] = {"the ", "  ",       "\n",           "\t",
                                       " a",   "\xC3\xA9", "\xE2\x96\x81", "\xF0\x9F\x98\x80",
                                       "<s>",  "<0x41>",   "\xED\xA0\x80", "ing"};
    size_t length = 0;
    size_t wanted = test_below(seed, capacity - 40);
    while (length < wanted) {
        unsigned run = 1 + (unsigned)test_below(seed, 12);
        uint64_t choice = test_below(seed, 20);
        if (choice < 12) {
            memcpy(text + length, bits[choice], strlen(bits[choice]));
            length += strlen(bits[choice]);
        } else if (choice < 14) {
            memset(text + length, (int)test_below(seed, 256), run);
            length += run;
        } else {
            text[length++] = (char)test_random(seed);
        }
    }
    return length;
}

static void any_bytes_come_back(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    or_vocab_t *vocab = test_load_vocab(test_model("tales-6m-f16.gguf"));
    for (int round = 0; round < 5000; round++) {
        char text[300];
        assert_round_trip(vocab, text, random_text(&seed, text, sizeof text));
    }
    assert_round_trip(vocab, "\0\0", 2);
    or_vocab_destroy(&vocab);
}

static void any_bytes_come_back_from_a_real_vocabulary(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    or_vocab_t *vocab = test_load_vocab(test_data("vocab/phi-3.gguf"));
    for (int round = 0; round < 2000; round++) {
        char text[300];
        assert_round_trip(vocab, text, random_text(&seed, text, sizeof text));
    }
    assert_round_trip(vocab, "</s> a</s>b </s>", 16); // user-defined there
    or_vocab_destroy(&vocab);
}

// One long run of one byte: the most merges, and the most ties.
static void long_runs_are_quick(void **state)
{
    (void)state;
    enum { LENGTH = 1 << 20 };
    static const char runs[] = {'a', ' ', '=', '\xFF'};
    or_vocab_t *vocab = test_load_vocab(test_model("tales-6m-f16.gguf"));
    char *text = malloc(LENGTH);
    assert_non_null(text);
    for (size_t i = 0; i < sizeof runs; i++) {
        clock_t start = clock();
        memset(text, runs[i], LENGTH);
        assert_round_trip(vocab, text, LENGTH);
        double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
        print_message("1 MiB of 0x%02X: %.2f s there and back\n", (unsigned char)runs[i], seconds);
        assert_true(seconds < 20); // quadratic time takes hours; the sanitizers are allowed theirs
    }
    free(text);
    or_vocab_destroy(&vocab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_vectors),
        cmocka_unit_test(phi_3_vectors),
        cmocka_unit_test(reference_prompts),
        cmocka_unit_test(merging_takes_the_best_pair_leftmost_first),
        cmocka_unit_test(special_tokens_in_text_are_text_unless_asked_for),
        cmocka_unit_test(user_defined_tokens_are_cut_out_always),
        cmocka_unit_test(the_space_in_front_is_the_files_choice),
        cmocka_unit_test(what_has_no_token_becomes_bytes_or_unknown),
        cmocka_unit_test(byte_level_vocabularies_are_refused_by_name),
        cmocka_unit_test(any_bytes_come_back),
        cmocka_unit_test(any_bytes_come_back_from_a_real_vocabulary),
        cmocka_unit_test(long_runs_are_quick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
