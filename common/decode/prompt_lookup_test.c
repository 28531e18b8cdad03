// Goal: a lookup finds what a reader would find, keeps to its bounds, and its tree is well formed.
// Method: compare small texts with their trees written out. Compare random texts of a few tokens with
// the rule applied slowly: a guess's path occurred in the text behind a longest match, and no such
// path is missing if there is room.
#include "common/decode/prompt_lookup.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/test_support.h"

#define TEXT_MAX 24u
#define NODES_MAX 64u
#define TEXTS 3000

typedef struct {
    uint32_t count;
    int32_t text[16];
    uint32_t nodes, depth;
    const char *tree; // "token.parent" of each guess
} lookup_case_t;

static void lookups_find_what_a_reader_finds(void **state)
{
    (void)state;
    static const lookup_case_t cases[] = {
        {0, {0}, 8, 8, ""},
        {1, {1}, 8, 8, ""},
        {3, {1, 2, 3}, 8, 8, ""},
        {3, {1, 1, 1}, 8, 8, "1.0 "},
        // The more recent of two occurrences comes first; they share nothing.
        {9, {1, 2, 3, 4, 1, 2, 5, 1, 2}, 16, 2, "5.0 1.1 3.0 4.3 "},
        {9, {1, 2, 3, 4, 1, 2, 5, 1, 2}, 3, 2, "5.0 1.1 3.0 "},
        {9, {1, 2, 3, 4, 1, 2, 5, 1, 2}, 0, 2, ""},
        {9, {1, 2, 3, 4, 1, 2, 5, 1, 2}, 16, 0, ""},
        // A longer suffix beats a more recent one.
        {10, {1, 2, 3, 5, 2, 3, 4, 1, 2, 3}, 16, 2, "5.0 2.1 "},
        // Occurrences with the same beginning share it.
        {7, {1, 2, 3, 1, 2, 4, 1}, 16, 2, "2.0 4.1 3.1 "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char found[256] = "";
        or_lookup_guess_t guesses[16];
        const or_lookup_t lookup = {.text = cases[i].text,
                                    .count = cases[i].count,
                                    .nodes_max = cases[i].nodes,
                                    .depth_max = cases[i].depth};
        uint32_t count = or_prompt_lookup(&lookup, guesses);
        for (uint32_t g = 0; g < count; g++) {
            sprintf(found + strlen(found), "%d.%u ", guesses[g].token, guesses[g].parent);
        }
        assert_string_equal(found, cases[i].tree);
    }
}

static void what_the_map_lacks_ends_a_guess(void **state)
{
    (void)state;
    static const int32_t text[] = {1, 2, 3, 4, 1, 2, 5, 1, 2};
    static const int32_t map[] = {0, 1, 2, 3, -1, -1};
    or_lookup_guess_t guesses[8];
    const or_lookup_t lookup = {
        .text = text, .count = 9, .map = map, .nodes_max = 8, .depth_max = 8};
    assert_int_equal(or_prompt_lookup(&lookup, guesses), 1); // 3 of "3 4"; 5 may not be guessed
    assert_int_equal(guesses[0].token, 3);
}

static uint32_t slow_match(const int32_t *text, uint32_t count, uint32_t end)
{
    for (uint32_t length = OR_LOOKUP_SUFFIX_MAX; length > 0; length--) {
        if (length <= end &&
            memcmp(text + end - length, text + count - length, length * sizeof *text) == 0) {
            return length;
        }
    }
    return 0;
}

// Is there a guess with exactly the path of the `length` tokens at `at`?
static bool has_path(const or_lookup_guess_t *guesses, uint32_t count, const int32_t *at,
                     uint32_t length)
{
    uint32_t number = 0;
    for (uint32_t i = 0; i < length; i++) {
        uint32_t next = 0;
        for (uint32_t g = 0; g < count; g++) {
            if (guesses[g].parent == number && guesses[g].token == at[i]) {
                assert_int_equal(next, 0); // siblings differ
                assert_int_equal(guesses[g].depth, i + 1);
                next = g + 1;
            }
        }
        if (next == 0) {
            return false;
        }
        number = next;
    }
    return true;
}

static void random_texts_are_looked_up_completely(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    for (int t = 0; t < TEXTS; t++) {
        int32_t text[TEXT_MAX];
        or_lookup_guess_t guesses[NODES_MAX + 1];
        uint32_t count = 1 + (uint32_t)test_below(&random, TEXT_MAX);
        uint32_t depth = 1 + (uint32_t)test_below(&random, 3);
        uint32_t longest = 0;
        uint32_t ends = 0;
        for (uint32_t i = 0; i < count; i++) {
            text[i] = (int32_t)test_below(&random, 3);
        }
        memset(guesses, 0xAA, sizeof guesses);
        const or_lookup_t lookup = {
            .text = text, .count = count, .nodes_max = NODES_MAX, .depth_max = depth};
        uint32_t found = or_prompt_lookup(&lookup, guesses);
        assert_true(found <= NODES_MAX);
        assert_int_equal(guesses[NODES_MAX].parent, 0xAAAAAAAA);
        for (uint32_t end = 1; end < count; end++) {
            uint32_t match = slow_match(text, count, end);
            longest = match > longest ? match : longest;
        }
        for (uint32_t end = 1; end < count && longest > 0; end++) {
            if (slow_match(text, count, end) == longest) {
                uint32_t length = count - end < depth ? count - end : depth;
                assert_true(has_path(guesses, found, text + end, length));
                ends += length; // each continuation brings so many guesses at the most
            }
        }
        assert_true(found <= ends);
        assert_true((found > 0) == (longest > 0));
        for (uint32_t g = 0; g < found; g++) {
            assert_true(guesses[g].parent <= g && guesses[g].depth <= depth);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lookups_find_what_a_reader_finds),
        cmocka_unit_test(what_the_map_lacks_ends_a_guess),
        cmocka_unit_test(random_texts_are_looked_up_completely),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
