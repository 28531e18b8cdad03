// Goal: a report holds a completion as it grew, and two of them are equal only if every token and every byte is: `outrider demo`
// says so of what it wrote.
// Method: reports made of deltas in different pieces, and one that differs in each way there is.
#include "launch/generate/report.h"

#include <string.h>

#include "tests/support/test_support.h"

static void add(or_report_t *report, const char *text, const uint32_t *tokens, uint32_t count,
                uint32_t finish)
{
    const or_generate_delta_t delta = {.text = (uint8_t *)text,
                                       .text_bytes = (uint32_t)strlen(text),
                                       .tokens = (uint32_t *)tokens,
                                       .count = count,
                                       .finish = finish};
    assert_int_equal(or_report_add(report, &delta), OR_OK);
}

static const uint32_t ids[] = {7, 8, 9, 7}, later[] = {7, 8, 10};

static void pieces_do_not_matter(void **state)
{
    (void)state;
    or_report_t whole = {0}, pieces = {0};
    assert_true(or_report_is_equal(&whole, &pieces));
    add(&whole, "a king", ids, 3, OR_FINISH_LENGTH);
    add(&pieces, "a", ids, 1, OR_FINISH_NONE);
    assert_false(or_report_is_equal(&whole, &pieces));
    add(&pieces, "", ids + 1, 1, OR_FINISH_NONE);
    add(&pieces, " king", ids + 2, 1, OR_FINISH_LENGTH);
    assert_true(or_report_is_equal(&whole, &pieces));
    or_report_fini(&whole);
    or_report_fini(&pieces);
}

static void any_difference_is_one(void **state)
{
    (void)state;
    const struct {
        const char *text;
        const uint32_t *tokens;
        uint32_t count;
    } others[] = {
        {"a king", ids + 1, 3}, {"a king", ids, 2},   {"a king", ids, 4}, {"a kind", ids, 3},
        {"a kin", ids, 3},      {"a kings", ids, 3},  {"", ids, 3},       {"a king", ids, 0},
        {"", ids, 0},           {"a king", later, 3},
    };
    or_report_t whole = {0};
    add(&whole, "a king", ids, 3, OR_FINISH_LENGTH);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        or_report_t other = {0};
        add(&other, others[i].text, others[i].tokens, others[i].count, OR_FINISH_LENGTH);
        assert_false(or_report_is_equal(&whole, &other));
        assert_false(or_report_is_equal(&other, &whole));
        or_report_fini(&other);
    }
    or_report_fini(&whole);
}

// Four tokens in two calls, of which the first, with the prompt, is not timed.
static void speed_leaves_the_prompt_out(void **state)
{
    (void)state;
    or_report_t report = {0};
    assert_true(or_report_tokens_per_second(&report) == 0);
    assert_true(or_report_tokens_per_call(&report) == 0);
    add(&report, "a king", ids, 4, OR_FINISH_LENGTH);
    report.stats = (or_generate_stats_t){
        .completion_tokens = 4, .target_calls = 2, .round_us = 1000, .elapsed_us = 100000};
    assert_true(or_report_tokens_per_call(&report) == 2);
    assert_true(or_report_tokens_per_second(&report) == 2000);
    or_report_fini(&report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_do_not_matter),
        cmocka_unit_test(any_difference_is_one),
        cmocka_unit_test(speed_leaves_the_prompt_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
