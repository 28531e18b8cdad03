// Goal: the estimated cost of slrs is the sum it says it is, for any number of tokens in a distribution. A
// cost that is too high is refused with the figure and a way out.
// Method: use small vocabularies whose sums are done by hand; random ones, whose beginnings are cut by a
// search that knows no sorting; and the demonstration models' vocabularies, for figures of the usual size.
#include "common/text/vocab/string_cost.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/text/text_test_support.h"
#include "tests/support/test_support.h"

#define COUNT(table) (uint32_t)(sizeof(table) / sizeof *(table))
#define ROLES                                                                                      \
    {"<unk>", 0, 2}, {"<s>", 0, 3},                                                                \
    {                                                                                              \
        "</s>", 0, 3                                                                               \
    }
#define SPECIALS (TEST_WITH_UNKNOWN | TEST_WITH_BOS_EOS | TEST_WITHOUT_SPACE)
#define WORDS 40u
#define ROUNDS 50

static const test_token_t letters[] = {ROLES, {"a", 0, 1}, {"b", 0, 1}, {"c", 0, 1}};
static const test_token_t overlapping[] = {ROLES,        {"a", 0, 1},  {"b", 0, 1}, {"c", 0, 1},
                                           {"ab", 0, 1}, {"bc", 0, 1}, {"ca", 0, 1}};

static or_vocab_t *make(const test_token_t *tokens, uint32_t count)
{
    or_vocab_t *vocab = NULL;
    if (test_make_vocab(tokens, count, SPECIALS, &vocab) != OR_OK) {
        fail_msg("%s", or_error_text());
    }
    return vocab;
}

static or_string_cost_t count_ways(const or_vocab_t *draft, const or_vocab_t *target)
{
    or_string_cost_t cost;
    memset(&cost, 0xAA, sizeof cost);
    assert_int_equal(or_string_cost_count(draft, target, &cost), OR_OK);
    return cost;
}

static or_string_cost_t cost_of(const test_token_t *draft_tokens, uint32_t draft_count,
                                const test_token_t *target_tokens, uint32_t target_count)
{
    or_vocab_t *draft = make(draft_tokens, draft_count);
    or_vocab_t *target = make(target_tokens, target_count);
    or_string_cost_t cost = count_ways(draft, target);
    or_vocab_destroy(&target);
    or_vocab_destroy(&draft);
    return cost;
}

// ---- sums ----

static void the_cost_is_the_expected_number_of_rows(void **state)
{
    (void)state;
    static const test_token_t two[] = {ROLES, {"a", 0, 1}, {"ab", 0, 1}, {"abab", 0, 1}};
    // Beginnings: a, ab, aba. By letters there is one way to each, and distributions surely have them.
    or_string_cost_t cost = cost_of(letters, COUNT(letters), two, COUNT(two));
    assert_true(or_string_cost_rows(&cost, 1) == 3);
    assert_true(or_string_cost_rows(&cost, 99) == 3);
    // With "ab" there are two ways to ab and two to aba; a distribution of 1 of 6 tokens counts as 4 in 6.
    cost = cost_of(overlapping, COUNT(overlapping), two, COUNT(two));
    double c = 4. / 6;
    double rows = c + (c + c * c) + (c * c + c * c * c);
    assert_true(fabs(or_string_cost_rows(&cost, 1) - rows) < 1e-14);
    assert_true(or_string_cost_rows(&cost, 2) == 5);
    // A target of single letters never needs a row.
    cost = cost_of(overlapping, COUNT(overlapping), letters, COUNT(letters));
    assert_true(or_string_cost_rows(&cost, 32) == 0);
}

// Words of a and b, up to 6 letters, some more than once.
static uint32_t draw_words(uint64_t *random, char words[WORDS][8], test_token_t *tokens)
{
    static const test_token_t roles[] = {ROLES};
    memcpy(tokens, roles, sizeof roles);
    for (uint32_t i = 0; i < WORDS; i++) {
        uint32_t length = 1 + (uint32_t)test_below(random, 6);
        for (uint32_t at = 0; at < length; at++) {
            words[i][at] = "ab"[test_below(random, 2)];
        }
        words[i][length] = '\0';
        tokens[COUNT(roles) + i] = (test_token_t){words[i], 0, 1};
    }
    return COUNT(roles) + WORDS;
}

static bool is_first(char words[WORDS][8], uint32_t index)
{
    for (uint32_t i = 0; i < index; i++) {
        if (strcmp(words[i], words[index]) == 0) {
            return false;
        }
    }
    return true;
}

// The sum of c^k over the ways to cut the text into k of the words.
static double cut(char words[WORDS][8], const char *text, uint32_t length, double c)
{
    double sum = length == 0;
    for (uint32_t i = 0; i < WORDS; i++) {
        uint32_t width = (uint32_t)strlen(words[i]);
        if (is_first(words, i) && width <= length && memcmp(words[i], text, width) == 0) {
            sum += c * cut(words, text + width, length - width, c);
        }
    }
    return sum;
}

// Does an earlier word of the target begin with the same `length` letters and have at least one
// more?
static bool is_counted(char words[WORDS][8], uint32_t index, uint32_t length)
{
    for (uint32_t i = 0; i < index; i++) {
        if (strlen(words[i]) > length && memcmp(words[i], words[index], length) == 0) {
            return true;
        }
    }
    return false;
}

static void every_way_to_cut_a_beginning_is_counted_once(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    for (int round = 0; round < ROUNDS; round++) {
        char draft[WORDS][8], target[WORDS][8];
        test_token_t draft_tokens[3 + WORDS], target_tokens[3 + WORDS];
        uint32_t draft_count = draw_words(&random, draft, draft_tokens);
        uint32_t target_count = draw_words(&random, target, target_tokens);
        or_string_cost_t cost = cost_of(draft_tokens, draft_count, target_tokens, target_count);
        uint32_t distinct = 0;
        for (uint32_t i = 0; i < WORDS; i++) {
            distinct += is_first(draft, i);
        }
        uint32_t entries = 1 + (uint32_t)test_below(&random, 8);
        double c = 4 * entries < distinct ? 4. * entries / distinct : 1;
        double rows = 0;
        for (uint32_t i = 0; i < WORDS; i++) {
            for (uint32_t length = 1; length < strlen(target[i]); length++) {
                rows += is_counted(target, i, length) ? 0 : cut(draft, target[i], length, c);
            }
        }
        assert_int_equal(cost.draft_tokens, distinct);
        assert_true(fabs(or_string_cost_rows(&cost, entries) - rows) <= 1e-12 * (1 + rows));
    }
}

// ---- refusals ----

static void what_costs_too_much_is_refused_with_the_figure(void **state)
{
    (void)state;
    char text[256];
    or_vocab_t *bytes = test_load_vocab(test_model("tales-bpe-1m-f16.gguf"));
    or_vocab_t *words = test_load_vocab(test_model("tales-6m-f16.gguf"));
    or_string_cost_t cost = count_ways(bytes, words);
    uint32_t most = 1;
    while (or_string_cost_check(&cost, most + 1) == OR_OK) {
        most++;
    }
    assert_true(or_string_cost_rows(&cost, most) <= OR_STRING_ROWS_MAX);
    assert_in_range(most, 32, 255);
    // The refusal says which number of entries would do: half as many, as often as it takes.
    uint32_t wanted = most + 1;
    snprintf(text, sizeof text, "about %.6g model rows for one answer, 4096 are the most",
             round(or_string_cost_rows(&cost, wanted)));
    assert_int_equal(or_string_cost_check(&cost, wanted), OR_ERR_UNSUPPORTED);
    assert_non_null(strstr(or_error_text(), text));
    snprintf(text, sizeof text, "--distribution-entries %u,", wanted / 2);
    assert_non_null(strstr(or_error_text(), text));
    or_vocab_destroy(&words);
    or_vocab_destroy(&bytes);
}

static void a_target_that_no_distribution_is_small_enough_for_is_refused(void **state)
{
    (void)state;
    static const test_token_t runs[] = {ROLES,
                                        {"a", 0, 1},
                                        {"aa", 0, 1},
                                        {"aaa", 0, 1},
                                        {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 0, 1}};
    or_string_cost_t cost = cost_of(runs, COUNT(runs), runs, COUNT(runs));
    assert_true(or_string_cost_rows(&cost, 1) > 1e6);
    assert_int_equal(or_string_cost_check(&cost, 1), OR_ERR_UNSUPPORTED);
    assert_null(strstr(or_error_text(), "--distribution-entries"));
    assert_non_null(strstr(or_error_text(), "--vocab-map tli"));
}

static void tokens_that_are_too_long_are_refused(void **state)
{
    (void)state;
    char longest[OR_STRING_BYTES_MAX + 2];
    memset(longest, 'a', sizeof longest);
    for (uint32_t more = 0; more < 2; more++) {
        longest[OR_STRING_BYTES_MAX + more] = '\0';
        const test_token_t target[] = {ROLES, {longest, 0, 1}};
        or_string_cost_t cost = cost_of(letters, COUNT(letters), target, COUNT(target));
        assert_int_equal(cost.widest, OR_STRING_BYTES_MAX + more);
        assert_int_equal(or_string_cost_check(&cost, 32), more ? OR_ERR_UNSUPPORTED : OR_OK);
        longest[OR_STRING_BYTES_MAX + more] = 'a';
    }
    assert_non_null(strstr(or_error_text(), "449"));
    or_string_cost_t cost = cost_of(letters, COUNT(letters), letters, 3);
    assert_int_equal(or_string_cost_check(&cost, 32), OR_ERR_UNSUPPORTED);
    assert_non_null(strstr(or_error_text(), "print"));
}

// The tokens are runs of one letter, which can be cut everywhere, after a prefix that no two of
// the target's tokens share. Packed they are a few kilobytes, and counting thousands of them
// would take minutes.
static void what_would_be_counted_for_minutes_is_given_up(void **state)
{
    enum { BYTES = 440, TOKENS = 300 };
    (void)state;
    static char runs[BYTES][BYTES + 1], texts[TOKENS][BYTES + 1];
    static test_token_t draft[3 + BYTES] = {ROLES}, target[3 + TOKENS] = {ROLES};
    for (uint32_t i = 0; i < BYTES; i++) {
        memset(runs[i], 'a', i + 1);
        draft[3 + i] = (test_token_t){runs[i], 0, 1};
    }
    for (uint32_t i = 0; i < TOKENS; i++) {
        memset(texts[i], 'a', BYTES);
        texts[i][0] = (char)('b' + i / 20);
        texts[i][1] = (char)('b' + i % 20);
        target[3 + i] = (test_token_t){texts[i], 0, 1};
    }
    or_string_cost_t cost = cost_of(draft, COUNT(draft), target, 3 + TOKENS / 30);
    assert_true(isfinite(cost.ways[1]));
    cost = cost_of(draft, COUNT(draft), target, COUNT(target));
    assert_true(isinf(cost.ways[1]));
    assert_int_equal(or_string_cost_check(&cost, 0), OR_ERR_UNSUPPORTED);
    assert_int_equal(or_string_cost_check(&cost, 32), OR_ERR_UNSUPPORTED);
    assert_non_null(strstr(or_error_text(), "--vocab-map tli"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cost_is_the_expected_number_of_rows),
        cmocka_unit_test(every_way_to_cut_a_beginning_is_counted_once),
        cmocka_unit_test(what_costs_too_much_is_refused_with_the_figure),
        cmocka_unit_test(a_target_that_no_distribution_is_small_enough_for_is_refused),
        cmocka_unit_test(tokens_that_are_too_long_are_refused),
        cmocka_unit_test(what_would_be_counted_for_minutes_is_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
