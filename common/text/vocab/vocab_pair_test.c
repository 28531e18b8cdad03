// Goal: a pair's maps hold exactly the tokens that both have, and the figures are those of the
// text.
// Method: check all ordered pairs of the real vocabularies token by token, and GPT-2's under
// other ids. The tokens of one text are counted by hand.
#include "common/text/vocab/vocab_pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/text/text_test_support.h"
#include "common/text/vocab/vocab_internal.h"
#include "tests/support/test_support.h"

static or_vocab_pair_t *make_pair(const or_vocab_t *draft, const or_vocab_t *target)
{
    or_vocab_pair_t *pair = NULL;
    assert_int_equal(or_vocab_pair_create(draft, target, &pair), OR_OK);
    return pair;
}

// -- maps
// -------------------------------------------------------------------------------------------------

static bool prints_nothing_by_nature(const or_vocab_t *vocab, int32_t id)
{
    or_token_kind_t kind = or_vocab_kind(vocab, id);
    return kind == OR_TOKEN_SPECIAL || kind == OR_TOKEN_UNUSED;
}

static void assert_same_token(const or_vocab_pair_t *pair, int32_t draft, int32_t target)
{
    uint32_t length, other_length;
    const char *bytes = or_vocab_bytes(pair->draft, draft, &length);
    const char *other = or_vocab_bytes(pair->target, target, &other_length);
    assert_int_equal(length, other_length);
    assert_memory_equal(bytes, other, length);
    assert_int_equal(prints_nothing_by_nature(pair->draft, draft),
                     prints_nothing_by_nature(pair->target, target));
}

// Check that the maps are injective, inverse to each other, within both vocabularies, and have
// the same bytes on both sides.
static void assert_maps_agree(const or_vocab_pair_t *pair)
{
    uint32_t there = 0, back = 0;
    for (uint32_t id = 0; id < or_vocab_size(pair->draft); id++) {
        int32_t target = pair->to_target[id];
        if (target == OR_TOKEN_NONE) {
            continue;
        }
        there++;
        assert_in_range(target, 0, or_vocab_size(pair->target) - 1);
        assert_int_equal(pair->to_draft[target], id);
        assert_same_token(pair, (int32_t)id, target);
    }
    for (uint32_t id = 0; id < or_vocab_size(pair->target); id++) {
        back += pair->to_draft[id] != OR_TOKEN_NONE;
    }
    assert_int_equal(there, pair->shared);
    assert_int_equal(back, pair->shared);
}

// Check that no text token that both have is left out.
static void assert_nothing_is_missed(const or_vocab_pair_t *pair)
{
    for (int32_t id = 0; id < (int32_t)or_vocab_size(pair->draft); id++) {
        uint32_t length;
        const char *bytes = or_vocab_bytes(pair->draft, id, &length);
        if (or_vocab_kind(pair->draft, id) == OR_TOKEN_TEXT && length > 0 &&
            or_vocab_find_text(pair->target, bytes, length) != OR_TOKEN_NONE) {
            assert_int_not_equal(pair->to_target[id], OR_TOKEN_NONE);
        }
    }
}

static double seconds_since(int64_t start_ns)
{
    return (double)(or_clock_now(or_clock_monotonic()) - start_ns) / (double)OR_NS_PER_S;
}

static void all_pairs_of_real_vocabularies(void **state)
{
    (void)state;
    enum { NAMES = TEST_VOCAB_FILES };
    or_vocab_t *vocabs[NAMES];
    double load_s[NAMES], worst_s = 0;
    for (size_t i = 0; i < NAMES; i++) {
        char path[64];
        snprintf(path, sizeof path, "vocab/%s.gguf", test_vocab_names[i]);
        int64_t start = or_clock_now(or_clock_monotonic());
        vocabs[i] = test_load_vocab(test_data(path));
        load_s[i] = seconds_since(start);
    }
    for (size_t i = 0; i < NAMES * NAMES; i++) {
        size_t d = i / NAMES, t = i % NAMES;
        or_vocab_figures_t figures;
        int64_t start = or_clock_now(or_clock_monotonic());
        or_vocab_pair_t *pair = make_pair(vocabs[d], vocabs[t]);
        assert_int_equal(or_vocab_pair_measure(pair, or_vocab_sample_text,
                                               strlen(or_vocab_sample_text), &figures),
                         OR_OK);
        double took_s = load_s[d] + load_s[t] + seconds_since(start);
        worst_s = took_s > worst_s ? took_s : worst_s;
        assert_int_equal(pair->same, d == t);
        assert_true(!pair->same || pair->bijective);
        assert_true(figures.draft_injective && figures.target_injective);
        assert_maps_agree(pair);
        assert_nothing_is_missed(pair);
        or_vocab_pair_destroy(&pair);
        assert_null(pair);
    }
    print_message("slowest of %d pairs: %.3f s, loading included\n", NAMES * NAMES, worst_s);
    for (size_t i = 0; i < NAMES; i++) {
        or_vocab_destroy(&vocabs[i]);
    }
}

static void permuted_ids_lose_nothing(void **state)
{
    (void)state;
    enum { PADDING = 7 };
    uint64_t seed = test_seed();
    const char *path = test_data("vocab/gpt-2.gguf");
    or_vocab_t *target = test_load_vocab(path);
    uint32_t size = or_vocab_size(target);
    uint32_t *order = malloc((size + PADDING) * sizeof *order);
    assert_non_null(order);
    for (uint32_t i = 0; i < size + PADDING; i++) {
        order[i] = i < size ? i : TEST_PADDING;
    }
    for (uint32_t i = size + PADDING - 1; i > 0; i--) {
        uint32_t other = (uint32_t)test_below(&seed, i + 1);
        uint32_t moved = order[i];
        order[i] = order[other];
        order[other] = moved;
    }
    or_vocab_t *draft = test_reorder_vocab(path, order, size + PADDING);
    or_vocab_pair_t *pair = make_pair(draft, target);
    assert_true(pair->bijective);
    assert_false(pair->same);
    assert_int_equal(pair->shared, size);
    for (uint32_t i = 0; i < size + PADDING; i++) {
        assert_int_equal(pair->to_target[i],
                         order[i] == TEST_PADDING ? OR_TOKEN_NONE : (int32_t)order[i]);
    }
    or_vocab_pair_destroy(&pair);
    or_vocab_destroy(&draft);
    free(order);
    or_vocab_destroy(&target);
}

static const char *const one_merge[] = {"a b"};
static const test_token_t one_word[] = {{"<|end|>", 0, 3}, {"ab", 0, 1}};
static const test_token_t no_word[] = {{"<unk>", 0, 2}, {"<s>", 0, 3}, {"</s>", 0, 3}};
enum { ONE_WORD = 2, NO_WORD = 3, BYTES = 256 };

static or_vocab_t *make_target(void)
{
    or_vocab_t *vocab = NULL;
    assert_int_equal(test_make_byte_level(one_word, ONE_WORD, one_merge, 1, "gpt-2", &vocab),
                     OR_OK);
    return vocab;
}

static or_vocab_t *make_draft(unsigned wish)
{
    or_vocab_t *vocab = NULL;
    assert_int_equal(test_make_vocab(no_word, NO_WORD, wish, &vocab), OR_OK);
    return vocab;
}

// If one vocabulary has a token twice and the other once, the first is paired and one is left
// over.
static void repeated_tokens_pair_in_order(void **state)
{
    (void)state;
    static const test_token_t twice[] = {
        {"<unk>", 0, 2}, {"A", -1, 1}, {"A", -2, 1}, {"<x>", 0, 3}};
    static const test_token_t once[] = {{"<x>", 0, 3}, {"A", 0, 4}, {"<unk>", 0, 2}, {"B", 0, 5}};
    or_vocab_t *draft = NULL, *target = NULL;
    assert_int_equal(test_make_vocab(twice, 4, TEST_WITH_BYTES, &draft), OR_OK);
    assert_int_equal(test_make_vocab(once, 4, TEST_WITH_BYTES, &target), OR_OK);
    or_vocab_pair_t *pair = make_pair(draft, target);
    static const int32_t expected[] = {2, 1, OR_TOKEN_NONE, 0};
    assert_memory_equal(pair->to_target, expected, sizeof expected);
    for (int32_t byte = 0; byte < BYTES; byte++) {
        assert_int_equal(pair->to_target[4 + byte], 4 + byte);
    }
    assert_int_equal(pair->shared, 3 + BYTES);
    assert_false(pair->bijective); // for the second "A" alone
    or_vocab_pair_destroy(&pair);
    or_vocab_destroy(&target);
    or_vocab_destroy(&draft);
}

// -- figures
// -------------------------------------------------------------------------------------------------

static void figures_are_those_of_the_text(void **state)
{
    (void)state;
    static const char text[] = "abab c"; // target: ab ab " " c
    or_vocab_t *target = make_target();
    or_vocab_t *draft = make_draft(TEST_WITH_BYTES | TEST_WITHOUT_SPACE);
    or_vocab_pair_t *pair = make_pair(draft, target);
    or_vocab_figures_t figures;
    memset(&figures, 0xAA, sizeof figures);
    assert_int_equal(or_vocab_pair_measure(pair, text, strlen(text), &figures), OR_OK);
    assert_int_equal(pair->shared, BYTES);
    assert_false(pair->bijective);
    assert_int_equal(figures.draft_tokens, 6);
    assert_int_equal(figures.target_tokens, 4);
    assert_true(figures.shared_of_target == (double)BYTES / (BYTES + ONE_WORD));
    assert_true(figures.shared_of_text == 2.0 / 4);
    assert_true(figures.shared_of_bytes == 2.0 / 6);
    assert_true(figures.draft_injective && figures.target_injective);
    assert_int_equal(or_vocab_pair_measure(pair, "", 0, &figures), OR_OK);
    assert_true(figures.shared_of_text == 0 && figures.shared_of_bytes == 0);
    or_vocab_pair_destroy(&pair);
    or_vocab_destroy(&draft);
    or_vocab_destroy(&target);
}

static void tokenizers_that_lose_text_are_noticed(void **state)
{
    (void)state;
    or_vocab_t *target = make_target();
    or_vocab_t *draft = make_draft(TEST_WITH_UNKNOWN); // any text is <unk>
    or_vocab_pair_t *there = make_pair(draft, target);
    or_vocab_pair_t *back = make_pair(target, draft);
    or_vocab_figures_t figures;
    assert_int_equal(or_vocab_pair_measure(there, "ab", 2, &figures), OR_OK);
    assert_true(figures.target_injective && !figures.draft_injective);
    assert_int_equal(or_vocab_pair_measure(back, "ab", 2, &figures), OR_OK);
    assert_true(!figures.target_injective && figures.draft_injective);
    or_vocab_pair_destroy(&back);
    or_vocab_pair_destroy(&there);
    or_vocab_destroy(&draft);
    or_vocab_destroy(&target);
}

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_pairs_of_real_vocabularies),
        cmocka_unit_test(permuted_ids_lose_nothing),
        cmocka_unit_test(repeated_tokens_pair_in_order),
        cmocka_unit_test(figures_are_those_of_the_text),
        cmocka_unit_test(tokenizers_that_lose_text_are_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
