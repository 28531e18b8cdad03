// Goal: every rule cuts text where its models' own tokenizers cut it, keeps every byte, and
// takes linear time.
// Method: compare with cuts made by hand that tell the rules apart. Run every rule of the table
// on random texts, whose pieces must add up, and on long runs of anything that could make a
// pattern backtrack.
#include "common/text/pretokenize.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/support/test_support.h"

// -- cuts by hand
// -----------------------------------------------------------------------------------------------------

typedef struct {
    const char *text;
    char cut[256]; // the pieces so far, each followed by '|'
    size_t length;
    size_t end; // of the last piece
} seen_t;

static or_status_t see_piece(void *context, size_t start, size_t end)
{
    seen_t *seen = context;
    assert_int_equal(start, seen->end); // in order, no gaps
    assert_true(start < end);
    assert_true(seen->length + end - start < sizeof seen->cut);
    memcpy(seen->cut + seen->length, seen->text + start, end - start);
    seen->length += end - start;
    seen->cut[seen->length++] = '|';
    seen->end = end;
    return OR_OK;
}

static void assert_cut(const char *name, const char *text, const char *expected)
{
    or_pretokenizer_t *pretokenizer = NULL;
    const or_pre_rule_t *rule = or_pre_rule_find(name, strlen(name));
    assert_non_null(rule);
    assert_int_equal(or_pretokenizer_create(rule, &pretokenizer), OR_OK);
    seen_t seen = {.text = text};
    assert_int_equal(or_pretokenize(pretokenizer, text, strlen(text), see_piece, &seen), OR_OK);
    assert_int_equal(seen.end, strlen(text));
    seen.cut[seen.length] = '\0';
    if (strcmp(seen.cut, expected) != 0) {
        fail_msg("%s cuts \"%s\", expected \"%s\"", name, seen.cut, expected);
    }
    or_pretokenizer_destroy(&pretokenizer);
    assert_null(pretokenizer);
}

static void words_numbers_and_spaces(void **state)
{
    (void)state;
    const char *text = "I'LL say don't  (1234)\n\nx";
    assert_cut("gpt-2", text, "I|'|LL| say| don|'t| | (|1234|)|\n|\n|x|");
    assert_cut("starcoder", text, "I|'|LL| say| don|'t| | (|1|2|3|4|)|\n|\n|x|");
    assert_cut("default", text, "I|'|LL| say| don|'|t|  |(|123|4|)|\n|\n|x|");
    assert_cut("llama-bpe", text, "I|'LL| say| don|'t| | (|123|4|)\n\n|x|");
    assert_cut("qwen2", text, "I|'LL| say| don|'t| | (|1|2|3|4|)\n\n|x|");
    assert_cut("gpt-4o", text, "I'LL| say| don't| | (|123|4|)\n\n|x|");
    assert_cut("tekken", text, "I|'LL| say| don|'t| | (|1|2|3|4|)\n\n|x|");
    assert_cut("deepseek-v3", text, "I|'LL| say| don|'t| | (|123|4|)\n\n|x|");
    assert_cut("bloom", text, "I'LL| say| don't|  (|1234|)\n\n|x|");
}

static void space_before_a_word_stays_with_it(void **state)
{
    (void)state;
    assert_cut("gpt-2", "a   b \t c  ", "a|  | b| \t| c|  |");
    assert_cut("llama-bpe", "a   b \t\n c \n \n", "a|  | b| \t\n| c| \n \n|");
    assert_cut("llama-bpe", "a\xC2\xA0\xC2\xA0 b", "a|\xC2\xA0\xC2\xA0| b|"); // no-break spaces
    assert_cut("llama-bpe", "a\xE1\xA0\x8E", "a|\xE1\xA0\x8E|"); // U+180E is no space since 2016
    assert_cut("deepseek-llm", "a b  ", "a| b|  |");
    assert_cut("deepseek-llm", "a   1  ", "a|   |1|  |");
    assert_cut("jais-2", "a       b", "a|    |  | b|");
}

static void letters_of_all_scripts(void **state)
{
    (void)state;
    // Wörter, a decomposed e with acute, Devanagari with marks, Chinese with Latin.
    assert_cut("llama-bpe", " W\xC3\xB6rter", " W\xC3\xB6rter|");
    assert_cut("gpt-2", "e\xCC\x81t", "e|\xCC\x81|t|");
    assert_cut("llama-bpe", "e\xCC\x81t", "e|\xCC\x81t|");
    assert_cut("gpt-4o", "e\xCC\x81t", "e\xCC\x81t|");
    assert_cut("qwen35", "e\xCC\x81t", "e\xCC\x81t|");
    assert_cut("gpt-4o", "camelCaseHTMLPage", "camel|Case|HTMLPage|");
    assert_cut("kimi-k2", "a\xE4\xB8\xAD\xE6\x96\x87z", "a|\xE4\xB8\xAD\xE6\x96\x87|z|");
    assert_cut("deepseek-v3", "a\xE4\xB8\xAD\xE6\x96\x87z", "a|\xE4\xB8\xAD\xE6\x96\x87|z|");
    assert_cut("gpt-4o", "a\xE4\xB8\xAD\xE6\x96\x87z", "a\xE4\xB8\xAD\xE6\x96\x87z|");
}

static void digits_from_the_end(void **state)
{
    (void)state;
    assert_cut("superbpe", "a 1234567 12 123", "a |1|234|567| |12| |123|");
    assert_cut("tiny_aya", "1234567 12345x", "1|234|567| |123|45|x|");
    assert_cut("afmoe", "12345 12", "12|345| |12|");
    assert_cut("afmoe", "\xD9\xA3\xD9\xA3\xD9\xA3\xD9\xA3", "\xD9\xA3|\xD9\xA3\xD9\xA3\xD9\xA3|");
    assert_cut("falcon", "12345", "123|45|");
}

static void ill_formed_text_stands_apart(void **state)
{
    (void)state;
    assert_cut("gpt-2", "ab\xFF\xFE cd", "ab|\xFF\xFE| cd|");
    assert_cut("gpt-2", "ab \xE4\xB8", "ab| |\xE4\xB8|");
    assert_cut("llama-bpe",
               "\xED\xA0\x80"
               "a\xC0\xAF",
               "\xED\xA0\x80|a|\xC0\xAF|");
    assert_cut("llama-bpe", "", "");
}

// -- every rule
// -------------------------------------------------------------------------------------------------------

static or_status_t count_bytes(void *context, size_t start, size_t end)
{
    size_t *seen = context;
    assert_int_equal(start, *seen);
    assert_true(start < end);
    *seen = end;
    return OR_OK;
}

enum { RANDOM_BYTES = 200 };

typedef struct {
    bool ends[RANDOM_BYTES + 1]; // a piece ends here
    size_t offset;               // of the text that is cut
    size_t last;                 // pieces that end after it do not matter
} ends_t;

static or_status_t mark_end(void *context, size_t start, size_t end)
{
    ends_t *ends = context;
    assert_true(start < end);
    ends->ends[ends->offset + end] = ends->offset + end <= ends->last;
    return OR_OK;
}

// Check that pieces settled by the first `known` bytes are pieces of the whole text, and that
// the rest is cut by itself.
static void check_settled(const or_pretokenizer_t *pretokenizer, const char *text, size_t length,
                          size_t known)
{
    size_t settled = SIZE_MAX;
    size_t open = SIZE_MAX;
    assert_int_equal(or_pretokenize_settled(pretokenizer, text, known, &settled, &open), OR_OK);
    assert_true(settled <= open && open <= known);
    ends_t whole = {.last = length};
    ends_t parts = {.last = settled};
    assert_int_equal(or_pretokenize(pretokenizer, text, length, mark_end, &whole), OR_OK);
    assert_int_equal(or_pretokenize(pretokenizer, text, known, mark_end, &parts), OR_OK);
    parts.offset = settled;
    parts.last = length;
    assert_int_equal(
        or_pretokenize(pretokenizer, text + settled, length - settled, mark_end, &parts), OR_OK);
    assert_memory_equal(whole.ends, parts.ends, sizeof whole.ends);
    for (size_t at = settled + 1; at < open; at++) {
        assert_false(whole.ends[at]);
    }
}

static void settled_before_the_last_word(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text;
        size_t settled;
    } cases[] = {{"gpt-2", "I am wond", 4},
                 {"starcoder", "I am wond", 4},
                 {"deepseek-v3", "I am wond", 4},
                 {"gpt-2", "I am  ", 4},
                 {"gpt-2", "I'", 1},
                 {"llama-bpe", "a 1234", 5},
                 {"tiny_aya", "a 1234", 1},
                 {"gpt-2", "I am \xE4\xB8", 4},
                 {"gpt-2", "", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *name = cases[i].name;
        or_pretokenizer_t *pretokenizer = NULL;
        size_t settled;
        size_t open;
        assert_int_equal(
            or_pretokenizer_create(or_pre_rule_find(name, strlen(name)), &pretokenizer), OR_OK);
        assert_int_equal(or_pretokenize_settled(pretokenizer, cases[i].text, strlen(cases[i].text),
                                                &settled, &open),
                         OR_OK);
        if (settled != cases[i].settled) {
            fail_msg("%s settles %zu bytes of \"%s\", not %zu", name, settled, cases[i].text,
                     cases[i].settled);
        }
        or_pretokenizer_destroy(&pretokenizer);
    }
}

// Check random texts made of `things` in random order.
static void check_random_texts(const or_pretokenizer_t *pretokenizer, uint64_t *seed)
{
    static const char *const things[] = {"a",
                                         "B",
                                         " ",
                                         "\n",
                                         "\r\n",
                                         "\t",
                                         "'s",
                                         "1",
                                         "23",
                                         ".",
                                         "\xCC\x81",
                                         "\xE4\xB8\xAD",
                                         "$",
                                         "\xFF",
                                         "_",
                                         "\xC2\xA0",
                                         "\xF0\x9F\x98\x80",
                                         "\xE4\xB8"};
    for (int round = 0; round < 50; round++) {
        char text[RANDOM_BYTES];
        size_t length = 0;
        size_t seen = 0;
        while (length < RANDOM_BYTES - 10) {
            const char *thing = things[test_below(seed, sizeof things / sizeof *things)];
            for (uint64_t run = test_below(seed, 6) == 0 ? 1 + test_below(seed, 7) : 1;
                 run > 0 && length < RANDOM_BYTES - 10; run--) {
                memcpy(text + length, thing, strlen(thing));
                length += strlen(thing);
            }
        }
        assert_int_equal(or_pretokenize(pretokenizer, text, length, count_bytes, &seen), OR_OK);
        assert_int_equal(seen, length);
        check_settled(pretokenizer, text, length, test_below(seed, length + 1));
    }
}

// Return the seconds for a run of `body` and then `last`, which makes a pattern look far ahead
// and fail.
static double seconds_for_run(const or_pretokenizer_t *pretokenizer, const char *body,
                              const char *last, char *text, size_t length)
{
    size_t bytes = strlen(body);
    size_t at = 0;
    for (; at + bytes <= length; at += bytes) {
        memcpy(text + at, body, bytes);
    }
    memcpy(text + at, last, strlen(last));
    at += strlen(last);
    size_t seen = 0;
    clock_t start = clock();
    assert_int_equal(or_pretokenize(pretokenizer, text, at, count_bytes, &seen), OR_OK);
    assert_int_equal(seen, at);
    return (double)(clock() - start) / CLOCKS_PER_SEC;
}

static void check_runs(const char *name, const or_pretokenizer_t *pretokenizer)
{
    enum { LENGTH = 1 << 16 };
    static const char *const bodies[] = {
        " ",  "\n",         "a",   "A",        "\xCC\x81", "7", "=",       "\xE4\xB8\xAD",
        "a ", " a\xCC\x81", " \t", "\xCA\xB0", "'",        "(", "\xC2\xBD"};
    static const char *const lasts[] = {"", "x", "\xE4\xB8\xAD", "\n", "\xC2\xBD", "("};
    static char text[LENGTH + 8];
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        for (size_t k = 0; k < sizeof lasts / sizeof *lasts; k++) {
            double seconds = seconds_for_run(pretokenizer, bodies[i], lasts[k], text, LENGTH);
            if (seconds > 0.5) { // linear time is 2 ms
                fail_msg("%s takes %.1f s for a run of \"%s\", then \"%s\"", name, seconds,
                         bodies[i], lasts[k]);
            }
        }
    }
}

static void every_rule_keeps_every_byte_in_linear_time(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    const char *name;
    const or_pre_rule_t *rule;
    const or_split_t *checked = NULL;
    size_t count = 0;
    for (; (rule = or_pre_rule_at(count, &name)) != NULL; count++) {
        or_pretokenizer_t *pretokenizer = NULL;
        assert_ptr_equal(or_pre_rule_find(name, strlen(name)), rule); // no name twice
        assert_int_equal(or_pretokenizer_create(rule, &pretokenizer), OR_OK);
        check_random_texts(pretokenizer, &seed);
        if (rule->splits != checked) { // families stand together
            check_runs(name, pretokenizer);
            checked = rule->splits;
        }
        or_pretokenizer_destroy(&pretokenizer);
    }
    assert_true(count > 70);
}

static void flags_are_the_models(void **state)
{
    (void)state;
    static const char *const ignoring[] = {"llama-bpe", "llama3", "falcon3", "tekken", "youtu"};
    for (size_t i = 0; i < sizeof ignoring / sizeof *ignoring; i++) {
        assert_true(or_pre_rule_find(ignoring[i], strlen(ignoring[i]))->ignores_merges);
    }
    assert_true(or_pre_rule_find("llama-bpe", 9)->adds_bos);
    assert_false(or_pre_rule_find("youtu", 5)->adds_bos);
    assert_false(or_pre_rule_find("dbrx", 4)->ignores_merges); // the same pattern as llama-bpe
    assert_false(or_pre_rule_find("qwen2", 5)->adds_bos);
    assert_null(or_pre_rule_find("qwen", 4));
    assert_null(or_pre_rule_find("qwen22", 6));
    assert_null(or_pre_rule_find("", 0));
}

static or_status_t refuse(void *context, size_t start, size_t end)
{
    (void)end;
    (*(int *)context)++;
    return start == 0 ? OR_OK : OR_ERR_CANCELLED;
}

static void a_refusal_ends_the_call(void **state)
{
    (void)state;
    static const char *const texts[] = {"a b c d", "1234567", "a\xFF\xFE b"};
    or_pretokenizer_t *pretokenizer = NULL;
    assert_int_equal(or_pretokenizer_create(or_pre_rule_find("afmoe", 5), &pretokenizer), OR_OK);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        int calls = 0;
        assert_int_equal(or_pretokenize(pretokenizer, texts[i], strlen(texts[i]), refuse, &calls),
                         OR_ERR_CANCELLED);
        assert_int_equal(calls, 2);
    }
    or_pretokenizer_destroy(&pretokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_numbers_and_spaces),
        cmocka_unit_test(space_before_a_word_stays_with_it),
        cmocka_unit_test(letters_of_all_scripts),
        cmocka_unit_test(digits_from_the_end),
        cmocka_unit_test(ill_formed_text_stands_apart),
        cmocka_unit_test(settled_before_the_last_word),
        cmocka_unit_test(every_rule_keeps_every_byte_in_linear_time),
        cmocka_unit_test(flags_are_the_models),
        cmocka_unit_test(a_refusal_ends_the_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
