// Goal: no peer can make a vocabulary whose tables are slow, and nothing but the places in them hangs on their seeds.
// Method: tokens and merges are chosen so that all want one place under the hash without a seed; then the longest row of
// taken places is what chance makes it. A vocabulary that is loaded twice has other places, and the same hash and tokens.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/text/text_test_support.h"
#include "common/text/tokenizer.h"
#include "common/text/vocab/vocab_internal.h"
#include "common/text/vocab/vocab_pair.h"
#include "tests/support/test_support.h"

enum { CHOSEN = 512, BASES = 1024, LETTERS = 6, ROW_MAX = CHOSEN / 4 };

// Write `number` as so many letters.
static void spell(uint32_t number, uint32_t letters, char *piece)
{
    for (uint32_t i = letters; i > 0; i--) {
        piece[i - 1] = (char)('a' + number % 26);
        number /= 26;
    }
    piece[letters] = '\0';
}

// Return the longest row of taken places. In the table of merges a place is free if it has no rank.
static uint32_t longest_row(const or_vocab_t *vocab, bool of_merges)
{
    uint32_t longest = 0, row = 0;
    uint32_t places = (of_merges ? vocab->bpe->mask : vocab->table_mask) + 1;
    for (uint32_t i = 0; i < places; i++) {
        bool taken =
            of_merges ? vocab->bpe->merges[i].rank != OR_BPE_NO_RANK : vocab->table[i] != 0;
        row = taken ? row + 1 : 0;
        longest = row > longest ? row : longest;
    }
    return longest;
}

static void tokens_that_want_one_place_get_many(void **state)
{
    (void)state;
    static char pieces[CHOSEN][LETTERS + 1];
    test_token_t tokens[1 + CHOSEN] = {{"<unk>", 0, 2}};
    uint32_t chosen = 0;
    for (uint32_t number = 0; chosen < CHOSEN; number++) {
        spell(number, LETTERS, pieces[chosen]);
        if ((XXH3_64bits(pieces[chosen], LETTERS) & (4 * CHOSEN - 1)) == 0) {
            tokens[1 + chosen] = (test_token_t){pieces[chosen], -1, 1};
            chosen++;
        }
    }
    or_vocab_t *vocab = NULL;
    assert_int_equal(
        test_make_vocab(tokens, 1 + CHOSEN, TEST_WITH_BYTES | TEST_WITH_UNKNOWN, &vocab), OR_OK);
    assert_in_range(vocab->table_mask, CHOSEN, 4 * CHOSEN - 1);
    assert_in_range(longest_row(vocab, false), 1, ROW_MAX);
    or_vocab_destroy(&vocab);
}

// The place of a pair of ids, as it was before there was a seed.
static bool wants_the_first_place(uint32_t left, uint32_t right)
{
    uint64_t hash = ((uint64_t)left << 32 | right) * UINT64_C(0x9E3779B97F4A7C15);
    return (hash >> 32 & (2 * CHOSEN - 1)) == 0;
}

static bool wants_it_by_another_hash(uint32_t left, uint32_t right)
{
    const uint32_t pair[] = {left, right};
    return (XXH3_64bits(pair, sizeof pair) >> 32 & (2 * CHOSEN - 1)) == 0;
}

static void assert_merges_get_many_places(bool (*wants)(uint32_t left, uint32_t right))
{
    static char bases[BASES][4], unions[CHOSEN][7], merges[CHOSEN][8];
    static test_token_t tokens[BASES + CHOSEN];
    const char *lines[CHOSEN];
    uint32_t chosen = 0;
    for (uint32_t i = 0; i < BASES; i++) {
        spell(i, 3, bases[i]);
        tokens[i] = (test_token_t){bases[i], 0, 1};
    }
    for (uint32_t pair = 0; pair < BASES * BASES && chosen < CHOSEN; pair++) {
        uint32_t left = pair / BASES, right = pair % BASES;
        if (wants(left, right)) {
            snprintf(unions[chosen], sizeof *unions, "%s%s", bases[left], bases[right]);
            snprintf(merges[chosen], sizeof *merges, "%s %s", bases[left], bases[right]);
            tokens[BASES + chosen] = (test_token_t){unions[chosen], 0, 1};
            lines[chosen] = merges[chosen];
            chosen++;
        }
    }
    assert_int_equal(chosen, CHOSEN);
    or_vocab_t *vocab = NULL;
    assert_int_equal(test_make_byte_level(tokens, BASES + CHOSEN, lines, CHOSEN, "gpt-2", &vocab),
                     OR_OK);
    assert_int_equal(vocab->bpe->mask, 2 * CHOSEN - 1);
    assert_in_range(longest_row(vocab, true), 1, ROW_MAX);
    or_vocab_destroy(&vocab);
}

static void merges_that_want_one_place_get_many(void **state)
{
    (void)state;
    assert_merges_get_many_places(wants_the_first_place);
    assert_merges_get_many_places(wants_it_by_another_hash);
}

static void only_places_hang_on_the_seed(void **state)
{
    (void)state;
    or_vocab_t *vocabs[TEST_VOCABS], *again[TEST_VOCABS];
    test_load_vocabs(vocabs);
    test_load_vocabs(again);
    for (int i = 0; i < TEST_VOCABS; i++) {
        const or_vocab_t *a = vocabs[i], *b = again[i];
        int32_t *ids = NULL, *others = NULL;
        size_t count, other_count;
        assert_int_equal(a->table_mask, b->table_mask);
        assert_int_equal(a->bpe->mask, b->bpe->mask);
        assert_memory_not_equal(a->table, b->table, (a->table_mask + 1) * sizeof *a->table);
        assert_memory_not_equal(a->bpe->merges, b->bpe->merges,
                                (a->bpe->mask + 1) * sizeof *a->bpe->merges);
        assert_true(or_vocab_hash(a) == or_vocab_hash(b));
        size_t length = strlen(or_vocab_sample_text);
        assert_int_equal(or_tokenize(a, or_vocab_sample_text, length, 0, &ids, &count), OR_OK);
        assert_int_equal(or_tokenize(b, or_vocab_sample_text, length, 0, &others, &other_count),
                         OR_OK);
        assert_int_equal(count, other_count);
        assert_memory_equal(ids, others, count * sizeof *ids);
        free(others);
        free(ids);
        or_vocab_destroy(&again[i]);
        or_vocab_destroy(&vocabs[i]);
    }
}

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_that_want_one_place_get_many),
        cmocka_unit_test(merges_that_want_one_place_get_many),
        cmocka_unit_test(only_places_hang_on_the_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
