// Goal: the experts of a row are those with the largest logits, and of equal ones those with the lower numbers.
// Method: random logits with many ties beside a slow choice; logits that are no numbers; all experts at once.
#include <math.h>
#include <string.h>

#include "common/model/cpu/experts.h"
#include "tests/support/test_support.h"

#define CASES 2000u
#define LEVELS 7u // of logits: few, so that most are tied

// Is expert `a` taken before `b`?
static bool is_before(const float *logits, uint32_t a, uint32_t b)
{
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
}

static bool should_be_chosen(const float *logits, uint32_t count, uint32_t used, uint32_t expert)
{
    uint32_t before = 0;
    for (uint32_t e = 0; e < count; e++) {
        before += is_before(logits, e, expert);
    }
    return before < used;
}

static void the_largest_are_chosen_and_of_ties_the_first(void **state)
{
    (void)state;
    float logits[OR_EXPERTS_MAX];
    uint32_t chosen[OR_EXPERTS_MAX];
    uint64_t rng = test_seed();
    for (uint32_t c = 0; c < CASES; c++) {
        uint32_t count = 1 + (uint32_t)test_below(&rng, c % 100 == 0 ? OR_EXPERTS_MAX : 130);
        uint32_t used = 1 + (uint32_t)test_below(&rng, count < 12 ? count : 12);
        for (uint32_t e = 0; e < count; e++) {
            logits[e] = (float)test_below(&rng, LEVELS) - LEVELS / 2;
        }
        uint32_t filled = 0;
        or_experts_choose(logits, count, used, chosen);
        for (uint32_t e = 0; e < count; e++) {
            if (should_be_chosen(logits, count, used, e)) {
                assert_int_equal(chosen[filled++], e);
            }
        }
        assert_int_equal(filled, used);
    }
}

static void equal_logits_choose_the_first(void **state)
{
    (void)state;
    const float logits[] = {0.0f, -0.0f, 0.0f, 0.0f, 0.0f};
    uint32_t chosen[3];
    or_experts_choose(logits, 5, 3, chosen);
    assert_int_equal(chosen[0], 0);
    assert_int_equal(chosen[1], 1);
    assert_int_equal(chosen[2], 2);
}

static void what_is_no_number_chooses_all_the_same(void **state)
{
    (void)state;
    float logits[] = {NAN, INFINITY, -INFINITY, NAN, 1, -INFINITY};
    uint32_t chosen[6];
    for (uint32_t used = 1; used <= 6; used++) {
        memset(chosen, 0xFF, sizeof chosen);
        or_experts_choose(logits, 6, used, chosen);
        for (uint32_t i = 0; i < used; i++) {
            assert_in_range(chosen[i], i == 0 ? 0 : chosen[i - 1] + 1, 5);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_are_chosen_and_of_ties_the_first),
        cmocka_unit_test(equal_logits_choose_the_first),
        cmocka_unit_test(what_is_no_number_chooses_all_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
