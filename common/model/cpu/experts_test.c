// Goal: the experts of a row are those with the largest logits, and of equal ones those with the lower numbers. Where experts are
// in groups they are of the best groups.
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

// ---- groups ----

// The rank of a group, from all pairs of its numbers.
static float slow_rank(const float *numbers, uint32_t each, bool by_two)
{
    float best = -INFINITY;
    for (uint32_t a = 0; a < each; a++) {
        for (uint32_t b = by_two ? a + 1 : a; b < each; b++) {
            float rank = by_two ? numbers[a] + numbers[b] : numbers[a];
            best = rank > best ? rank : best;
        }
    }
    return best;
}

// Set the numbers of all groups but the best to -infinity. Those that stay are chosen among.
static void hide_other_groups(const or_model_shape_t *shape, float *numbers)
{
    const uint32_t groups = shape->expert_groups, each = shape->experts / groups;
    float ranks[16];
    for (uint32_t g = 0; g < groups; g++) {
        ranks[g] = slow_rank(numbers + (size_t)g * each, each, shape->routes_by_sigmoid);
    }
    for (uint32_t g = 0; g < groups; g++) {
        for (uint32_t e = 0; e < each; e++) {
            bool stays = should_be_chosen(ranks, groups, shape->expert_groups_used, g);
            numbers[g * each + e] = stays ? numbers[g * each + e] : -INFINITY;
        }
    }
}

static void experts_of_the_best_groups_are_chosen(void **state)
{
    (void)state;
    float numbers[16 * 16];
    uint32_t chosen[16 * 16];
    uint64_t rng = test_seed();
    for (uint32_t c = 0; c < CASES; c++) {
        const uint32_t groups = 2 + (uint32_t)test_below(&rng, 15);
        const uint32_t each = 2 + (uint32_t)test_below(&rng, 15);
        or_model_shape_t shape = {
            .experts = groups * each, .expert_groups = groups, .routes_by_sigmoid = c % 2 == 0};
        shape.expert_groups_used = 1 + (uint32_t)test_below(&rng, groups);
        shape.experts_used = 1 + (uint32_t)test_below(&rng, shape.expert_groups_used * each);
        for (uint32_t e = 0; e < shape.experts; e++) {
            numbers[e] = (float)test_below(&rng, LEVELS) - LEVELS / 2;
        }
        uint32_t filled = 0;
        or_experts_choose_in_groups(&shape, numbers, chosen);
        hide_other_groups(&shape, numbers);
        for (uint32_t e = 0; e < shape.experts; e++) {
            if (should_be_chosen(numbers, shape.experts, shape.experts_used, e)) {
                assert_int_equal(chosen[filled++], e);
            }
        }
        assert_int_equal(filled, shape.experts_used);
    }
}

// ---- two that are weighted apart ----

// What is within 2 % of the largest counts: 0.99 and 0.981 of 1.
static void two_experts_are_weighted_among_those_near_them(void **state)
{
    (void)state;
    const float logits[] = {0.5F, 0.981F, 0.4995F, 1.0F, 0.99F, -1.0F};
    const double near[] = {1.0, exp((double)0.99F - 1), exp((double)0.981F - 1)};
    uint32_t chosen[2];
    float weights[2];
    or_experts_mix(logits, 6, chosen, weights);
    assert_int_equal(chosen[0], 3);
    assert_int_equal(chosen[1], 4);
    assert_float_equal(weights[0], 1 / (near[0] + near[1] + near[2]), 1e-6F);
    assert_float_equal(weights[1], near[1] / (near[1] + near[2]), 1e-6F);
}

// Where all logits are below 0, the size of the one that is compared says what is near. Of zeros all are.
static void negative_logits_are_near_by_their_own_size(void **state)
{
    (void)state;
    const float logits[] = {-1.0F, -1.01F, -3.0F}, equal[] = {0, 0, 0, 0};
    uint32_t chosen[2];
    float weights[2];
    or_experts_mix(logits, 3, chosen, weights);
    assert_int_equal(chosen[0], 0);
    assert_int_equal(chosen[1], 1);
    assert_float_equal(weights[0], 1 / (1 + exp((double)-1.01F + 1)), 1e-6F);
    assert_float_equal(weights[1], 1, 0);
    or_experts_mix(equal, 4, chosen, weights);
    assert_int_equal(chosen[0], 0);
    assert_int_equal(chosen[1], 1);
    assert_float_equal(weights[0], 0.25F, 0);
    assert_float_equal(weights[1], 1.0F / 3, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_experts_are_weighted_among_those_near_them),
        cmocka_unit_test(negative_logits_are_near_by_their_own_size),
        cmocka_unit_test(experts_of_the_best_groups_are_chosen),
        cmocka_unit_test(the_largest_are_chosen_and_of_ties_the_first),
        cmocka_unit_test(equal_logits_choose_the_first),
        cmocka_unit_test(what_is_no_number_chooses_all_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
