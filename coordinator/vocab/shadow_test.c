// Goal: a drafter's view of the text is what its own tokenizer makes of the whole text at once, and
// prints what the target wrote; and a round costs its own tokens.
// Method: awkward texts, made of the target's tokens in its tokenizer's way, in other ways and at
// random, followed a few tokens at a time; after each call the shadow is compared with the text
// tokenised from scratch, between the special tokens. All pairs of vocabularies; OR_TEST_RUNS texts
// in all. By hand: begin tokens, special tokens, bijections, empty texts, bytes a drafter lacks, a
// run without an end.
#include "coordinator/vocab/shadow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/text/text_test_support.h"
#include "common/text/tokenizer.h"
#include "tests/support/test_support.h"

enum { TOKENS_MAX = 4096 };

// -- from scratch
// -------------------------------------------------------------------------------------------------

typedef struct {
    int32_t tokens[2 * TOKENS_MAX];
    uint32_t count;
} expected_t;

static void expect_text(expected_t *expected, const or_vocab_t *draft, const char *text,
                        size_t length, bool continues)
{
    int32_t *ids = NULL;
    size_t count;
    assert_int_equal(
        or_tokenize(draft, text, length, continues ? OR_TOKENIZE_CONTINUES : 0, &ids, &count),
        OR_OK);
    assert_true(expected->count + count <= 2 * TOKENS_MAX);
    memcpy(expected->tokens + expected->count, ids, count * sizeof *ids);
    expected->count += (uint32_t)count;
    free(ids);
}

// Expect the tokens of what the target printed between two special tokens of the drafter's, and these themselves.
static void expect(expected_t *expected, const or_vocab_pair_t *pair, const int32_t *tokens,
                   uint32_t count)
{
    static char text[1 << 16];
    size_t length = 0;
    bool continues = false;
    or_detok_t detok;
    or_detok_init(&detok, pair->target, true, true);
    int32_t begin = or_vocab_bos(pair->draft);
    expected->count = 0;
    if (begin != OR_TOKEN_NONE && (count == 0 || pair->to_draft[tokens[0]] != begin)) {
        expected->tokens[expected->count++] = begin;
    }
    for (uint32_t i = 0; i < count; i++) {
        int32_t special = or_vocab_kind(pair->target, tokens[i]) == OR_TOKEN_SPECIAL
                              ? pair->to_draft[tokens[i]]
                              : OR_TOKEN_NONE;
        if (special == OR_TOKEN_NONE) {
            assert_true(length + 1024 < sizeof text);
            length += or_detok_push(&detok, tokens[i], text + length);
            continue;
        }
        length += or_detok_flush(&detok, text + length);
        expect_text(expected, pair->draft, text, length, continues);
        continues = continues || length > 0;
        expected->tokens[expected->count++] = special;
        length = 0;
    }
    length += or_detok_flush(&detok, text + length);
    expect_text(expected, pair->draft, text, length, continues);
    if (expected->count == 0) {
        expected->tokens[expected->count++] = or_vocab_eos(pair->draft);
    }
}

static void assert_prints_the_same(const or_vocab_pair_t *pair, const int32_t *tokens,
                                   uint32_t count, const or_token_log_t *log)
{
    char *wrote = NULL;
    char *held = NULL;
    size_t wrote_length, held_length;
    assert_int_equal(or_detokenize(pair->target, tokens, count, &wrote, &wrote_length), OR_OK);
    assert_int_equal(or_detokenize(pair->draft, log->tokens, log->length, &held, &held_length),
                     OR_OK);
    assert_int_equal(wrote_length, held_length);
    assert_memory_equal(wrote, held, wrote_length);
    free(held);
    free(wrote);
}

static void assert_log_is(const or_token_log_t *log, const int32_t *tokens, uint32_t count)
{
    assert_int_equal(log->length, count);
    assert_memory_equal(log->tokens, tokens, count * sizeof *tokens);
    assert_int_equal(log->hash, or_prefix_hash(0, (const uint32_t *)tokens, count));
}

// -- random texts
// -------------------------------------------------------------------------------------------------

typedef struct {
    int32_t tokens[TOKENS_MAX];
    uint32_t count;
} written_t;

static void write_text(written_t *written, const or_vocab_t *vocab, const char *text, size_t length)
{
    int32_t *ids = NULL;
    size_t count;
    unsigned flags = written->count > 1 ? OR_TOKENIZE_CONTINUES : 0;
    assert_int_equal(or_tokenize(vocab, text, length, flags, &ids, &count), OR_OK);
    assert_true(written->count + count <= TOKENS_MAX);
    memcpy(written->tokens + written->count, ids, count * sizeof *ids);
    written->count += (uint32_t)count;
    free(ids);
}

static int32_t random_special(uint64_t *seed, const or_vocab_t *vocab)
{
    if (test_below(seed, 2) == 0 && or_vocab_eos(vocab) != OR_TOKEN_NONE) {
        return or_vocab_eos(vocab);
    }
    int32_t id = (int32_t)test_below(seed, or_vocab_size(vocab));
    for (int tries = 0; tries < 1000 && or_vocab_kind(vocab, id) != OR_TOKEN_SPECIAL; tries++) {
        id = (int32_t)((id + 1u) % or_vocab_size(vocab));
    }
    return id;
}

// A text in one piece, in several that were tokenised apart, with special tokens between, or tokens
// at random.
static void write_random(uint64_t *seed, const or_vocab_t *vocab, written_t *written)
{
    char text[TEST_TEXT_BYTES];
    size_t length = test_text(seed, text);
    uint64_t way = test_below(seed, 4);
    written->count = 0;
    if (or_vocab_adds_bos(vocab) && test_below(seed, 4) != 0) {
        written->tokens[written->count++] = or_vocab_bos(vocab);
    }
    if (way == 0) {
        for (uint64_t i = test_below(seed, 60); i > 0; i--) {
            written->tokens[written->count++] = (int32_t)test_below(seed, or_vocab_size(vocab));
        }
        return;
    }
    for (size_t at = 0, end; at < length; at = end) {
        end = way == 1 ? length : at + 1 + test_below(seed, length - at);
        write_text(written, vocab, text + at, end - at);
        if (way == 3 && test_below(seed, 2) == 0) {
            written->tokens[written->count++] = random_special(seed, vocab);
        }
    }
}

// Return the number of equal leading tokens of two texts.
static uint32_t common_length(const expected_t *a, const expected_t *b)
{
    uint32_t i = 0;
    while (i < a->count && i < b->count && a->tokens[i] == b->tokens[i]) {
        i++;
    }
    return i;
}

static void check_text(uint64_t *seed, const or_vocab_pair_t *pair, bool lacks_bytes)
{
    static expected_t now;
    static expected_t before;
    written_t written;
    or_shadow_t *shadow = NULL;
    write_random(seed, pair->target, &written);
    assert_int_equal(or_shadow_create(pair, &shadow), OR_OK);
    before.count = 0;
    for (uint32_t known = (uint32_t)test_below(seed, 3);; known += 1 + test_below(seed, 6)) {
        known = known < written.count ? known : written.count;
        uint32_t changed = UINT32_MAX;
        assert_int_equal(or_shadow_follow(shadow, written.tokens, known, &changed), OR_OK);
        expect(&now, pair, written.tokens, known);
        assert_log_is(or_shadow_log(shadow), now.tokens, now.count);
        assert_int_equal(changed, common_length(&now, &before));
        before = now;
        if (known == written.count) {
            break;
        }
    }
    if (!lacks_bytes) {
        assert_prints_the_same(pair, written.tokens, written.count, or_shadow_log(shadow));
    }
    or_shadow_destroy(&shadow);
    assert_null(shadow);
}

static void is_the_whole_text_tokenised(void **state)
{
    (void)state;
    enum { VOCABS = TEST_VOCABS, PAIRS = VOCABS * (VOCABS - 1) };
    const char *runs_text = getenv("OR_TEST_RUNS");
    long runs = runs_text != NULL ? strtol(runs_text, NULL, 10) : 1000;
    uint64_t seed = test_seed();
    or_vocab_t *vocabs[VOCABS];
    test_load_vocabs(vocabs);
    for (uint32_t d = 0; d < VOCABS; d++) {
        bool lacks = test_lacks_bytes(vocabs[d]);
        for (uint32_t t = 0; t < VOCABS; t++) {
            or_vocab_pair_t *pair = NULL;
            assert_int_equal(or_vocab_pair_create(vocabs[d], vocabs[t], &pair), OR_OK);
            for (long run = 0; !pair->bijective && run < 1 + runs / PAIRS; run++) {
                check_text(&seed, pair, lacks);
            }
            or_vocab_pair_destroy(&pair);
        }
    }
    for (uint32_t i = 0; i < VOCABS; i++) {
        or_vocab_destroy(&vocabs[i]);
    }
}

// -- by hand
// -------------------------------------------------------------------------------------------------

typedef struct {
    or_vocab_t *draft, *target;
    or_vocab_pair_t *pair;
    or_shadow_t *shadow;
} fixture_t;

static fixture_t fixture_of(or_vocab_t *draft, or_vocab_t *target)
{
    fixture_t fixture = {draft, target, NULL, NULL};
    assert_int_equal(or_vocab_pair_create(draft, target, &fixture.pair), OR_OK);
    assert_int_equal(or_shadow_create(fixture.pair, &fixture.shadow), OR_OK);
    return fixture;
}

static void fixture_fini(fixture_t *fixture)
{
    or_shadow_destroy(&fixture->shadow);
    or_vocab_pair_destroy(&fixture->pair);
    or_vocab_destroy(&fixture->target);
    or_vocab_destroy(&fixture->draft);
}

static uint32_t follow(const fixture_t *fixture, const int32_t *tokens, uint32_t count)
{
    uint32_t changed = UINT32_MAX;
    assert_int_equal(or_shadow_follow(fixture->shadow, tokens, count, &changed), OR_OK);
    return changed;
}

static void begins_as_in_training(void **state)
{
    (void)state;
    // GPT-2 has one token for both ends of a text and does not ask for it.
    fixture_t fixture = fixture_of(test_load_vocab(test_data("vocab/gpt-2.gguf")),
                                   test_load_vocab(test_model("tales-6m-f16.gguf")));
    written_t written = {.tokens = {or_vocab_bos(fixture.target)}, .count = 1};
    assert_false(or_vocab_adds_bos(fixture.draft));
    int32_t begin = or_vocab_bos(fixture.draft);
    assert_int_equal(follow(&fixture, written.tokens, 0), 0);
    assert_log_is(or_shadow_log(fixture.shadow), &begin, 1);
    assert_int_equal(follow(&fixture, written.tokens, 1), 1);
    assert_log_is(or_shadow_log(fixture.shadow), &begin, 1);
    // " Once" prints "Once" at the start: that is what the drafter gets.
    write_text(&written, fixture.target, "Once", 4);
    follow(&fixture, written.tokens, written.count);
    expected_t expected = {.tokens = {begin}, .count = 1};
    expect_text(&expected, fixture.draft, "Once", 4, true);
    assert_log_is(or_shadow_log(fixture.shadow), expected.tokens, expected.count);
    fixture_fini(&fixture);
}

static void begin_token_is_not_doubled(void **state)
{
    (void)state;
    or_vocab_t *draft = test_load_vocab(test_data("models/stories260K-f32.gguf"));
    fixture_t fixture = fixture_of(draft, test_load_vocab(test_model("tales-6m-f16.gguf")));
    written_t written = {.tokens = {or_vocab_bos(fixture.target)}, .count = 1};
    write_text(&written, fixture.target, "Once upon", 9);
    follow(&fixture, written.tokens, written.count);
    expected_t expected = {.tokens = {or_vocab_bos(draft)}, .count = 1};
    expect_text(&expected, draft, "Once upon", 9, false);
    assert_log_is(or_shadow_log(fixture.shadow), expected.tokens, expected.count);
    fixture_fini(&fixture);
}

// The same tokens in another order: nothing is tokenised, whatever way the text was cut.
static void bijection_goes_token_by_token(void **state)
{
    (void)state;
    static const test_token_t target[] = {
        {"<unk>", 0, 2}, {"<s>", 0, 3}, {"</s>", 0, 3},     {"a", -1, 1},
        {"b", -2, 1},    {"ab", -3, 1}, {"<|user|>", 0, 3}, {"\xE2\x96\x81", -4, 1}};
    static const test_token_t draft[] = {{"<unk>", 0, 2},        {"<s>", 0, 3}, {"</s>", 0, 3},
                                         {"ab", -3, 1},          {"b", -2, 1},  {"a", -1, 1},
                                         {"\xE2\x96\x81", -4, 1}};
    unsigned wish = TEST_WITH_BYTES | TEST_WITH_UNKNOWN | TEST_WITH_BOS_EOS;
    or_vocab_t *d = NULL;
    or_vocab_t *t = NULL;
    assert_int_equal(test_make_vocab(draft, 7, wish, &d), OR_OK);
    assert_int_equal(test_make_vocab(target, 8, wish, &t), OR_OK);
    fixture_t fixture = fixture_of(d, t);
    assert_true(fixture.pair->bijective);
    const int32_t written[] = {3, 4, 6, 5, 2, 8 + 0x80, 3, 4};
    const int32_t expected[] = {5, 4, 3, 2, 7 + 0x80, 5, 4};
    assert_int_equal(follow(&fixture, written, 2), 0);
    assert_int_equal(follow(&fixture, written, 5), 2);
    assert_int_equal(follow(&fixture, written, 8), 4);
    assert_log_is(or_shadow_log(fixture.shadow), expected, 7);
    fixture_fini(&fixture);
}

static void something_is_always_sent(void **state)
{
    (void)state;
    static const test_token_t tokens[] = {{"\xE2\x96\x81", -1, 1}};
    or_vocab_t *draft = NULL;
    or_vocab_t *target = NULL;
    assert_int_equal(test_make_vocab(tokens, 1, TEST_WITH_BYTES, &draft), OR_OK);
    assert_int_equal(
        test_make_byte_level(NULL, 0, (const char *const[]){"a b"}, 0, "gpt-2", &target), OR_OK);
    fixture_t fixture = fixture_of(draft, target);
    uint32_t changed;
    assert_int_equal(or_shadow_follow(fixture.shadow, NULL, 0, &changed), OR_ERR_UNSUPPORTED);
    assert_non_null(strstr(or_error_text(), "prompt"));
    const int32_t a = 'a';
    assert_int_equal(follow(&fixture, &a, 1), 0); // and afterwards all is well
    assert_true(or_shadow_log(fixture.shadow)->length > 0);
    fixture_fini(&fixture);
}

// StarCoder's vocabulary has no token for 0xF1.
static void lacking_byte_is_left_out(void **state)
{
    (void)state;
    or_vocab_t *draft = test_load_vocab(test_data("vocab/starcoder.gguf")); // or it is skipped
    fixture_t fixture = fixture_of(draft, test_load_vocab(test_model("tales-6m-f16.gguf")));
    written_t written = {.count = 0};
    write_text(&written, fixture.target,
               "ab\xF1"
               "cd",
               5);
    follow(&fixture, written.tokens, written.count);
    char *text = NULL;
    size_t length;
    const or_token_log_t *log = or_shadow_log(fixture.shadow);
    assert_int_equal(or_detokenize(fixture.draft, log->tokens, log->length, &text, &length), OR_OK);
    assert_int_equal(length, 4);
    assert_memory_equal(text, "abcd", 4);
    free(text);
    fixture_fini(&fixture);
}

// Two kinds of run that never settle, a byte at a time: no round may pay for all of it.
static void endless_run_is_cut(void **state)
{
    (void)state;
    enum { LENGTH = 20000 };
    static int32_t run[LENGTH];
    fixture_t fixture = fixture_of(test_load_vocab(test_model("tales-bpe-1m-f16.gguf")),
                                   test_load_vocab(test_model("tales-6m-f16.gguf")));
    written_t written = {.count = 2}; // continues a text: no space of its own
    write_text(&written, fixture.target, " ", 1);
    for (int i = 0; i < LENGTH; i++) {
        run[i] = written.tokens[2];
    }
    clock_t start = clock();
    for (uint32_t count = 1; count <= LENGTH; count += 7) {
        follow(&fixture, run, count);
    }
    follow(&fixture, run, LENGTH);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    assert_prints_the_same(fixture.pair, run, LENGTH, or_shadow_log(fixture.shadow));
    if (seconds > 20) { // the sanitizers take ten times as long
        fail_msg("%d rounds of a run took %.1f s", LENGTH / 7, seconds);
    }
    fixture_fini(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(begins_as_in_training),
        cmocka_unit_test(begin_token_is_not_doubled),
        cmocka_unit_test(bijection_goes_token_by_token),
        cmocka_unit_test(something_is_always_sent),
        cmocka_unit_test(lacking_byte_is_left_out),
        cmocka_unit_test(endless_run_is_cut),
        cmocka_unit_test(is_the_whole_text_tokenised),
    };
    test_log_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
