// Goal: what a text's policy makes of others at work, of lookups and of a drafter that has fallen silent.
// Method: rounds and answers as they would be measured, one by one; what is chosen then.
#include "coordinator/budget/policy.h"

#include <math.h>

#include "common/base/clock.h"
#include "coordinator/budget/policy_model.h"
#include "tests/support/test_support.h"

#define MS (double)OR_NS_PER_MS

static or_policy_t make_policy(uint32_t texts, bool decided)
{
    or_policy_t policy;
    const or_policy_terms_of_session_t terms = {.kind = OR_POLICY_AUTO,
                                                .most = {.nodes = 64, .depth = 16, .ahead = 4},
                                                .lookup = true,
                                                .late_is_good = true};
    or_policy_init(&policy, &terms);
    or_policy_load(&policy, texts);
    or_policy_limit(&policy, OR_WAY_AHEAD, texts, decided);
    return policy;
}

static void judge(or_policy_t *policy, or_guess_source_t source, uint32_t nodes, double ms)
{
    const or_policy_round_t round = {.source = source,
                                     .nodes = nodes,
                                     .accepted = (uint32_t)log1p(nodes),
                                     .first_right = nodes > 0,
                                     .round_ns = (int64_t)(ms * MS)};
    or_policy_judged(policy, &round);
    or_policy_heard(policy, OR_NS_PER_MS, 100, nodes);
}

// The nodes that a text comes to choose among others that do alike, where a row takes 0.1 ms and the rest of a pass 10.
static uint32_t nodes_beside(uint32_t others)
{
    or_policy_t policy = make_policy(1 + others, false);
    for (int i = 0; i < 200; i++) {
        uint32_t nodes = i % 20 == 1 ? 0 : policy.budget.nodes;
        uint32_t rows = others * (1 + policy.budget.nodes) + 1 + nodes;
        judge(&policy, nodes > 0 ? OR_SOURCE_DRAFTER : OR_SOURCE_PLAIN, nodes, 10 + 0.1 * rows);
        or_policy_budget(&policy, (1 + i) * OR_NS_PER_S / 10);
    }
    return policy.budget.nodes;
}

// A shared pass is cheap, its rows are not.
static void a_loaded_verifier_gets_smaller_trees(void **state)
{
    (void)state;
    uint32_t alone = nodes_beside(0), few = nodes_beside(7), many = nodes_beside(63);
    print_message("%u nodes alone, %u beside 7 texts, %u beside 63\n", alone, few, many);
    assert_true(alone >= few && few > many);
}

// Two passes where one was enough: what trees of that size take is known then, and chosen against.
static void a_second_pass_is_no_straight_line(void **state)
{
    (void)state;
    or_policy_t policy = make_policy(4, false);
    assert_int_equal(policy.budget.nodes, 16); // not 64: nothing was measured
    for (int i = 0; i < 100; i++) {
        uint32_t nodes = i % 20 == 1 ? 0 : policy.budget.nodes;
        judge(&policy, nodes > 0 ? OR_SOURCE_DRAFTER : OR_SOURCE_PLAIN, nodes,
              4 * (1 + nodes) > 128 ? 80 : 40);
        or_budget_t budget = or_policy_budget(&policy, (1 + i) * OR_NS_PER_S / 10);
        assert_true(budget.nodes <= 2 * fmax(nodes, 16)); // by steps
    }
    assert_in_range(policy.budget.nodes, 8, 31);
    or_policy_t next = make_policy(4, false);
    or_policy_inherit(&next, &policy);
    or_policy_limit(&next, OR_WAY_AHEAD, 4, false);
    assert_in_range(next.budget.nodes, 8, 31);
}

// Among several texts a round may wait for a pass of others. That says nothing of what other sizes take.
static void a_wait_for_others_is_no_change_of_the_target(void **state)
{
    (void)state;
    or_policy_t policy = make_policy(4, false);
    for (int i = 0; i < 20; i++) {
        judge(&policy, OR_SOURCE_PLAIN, 0, 40);
        judge(&policy, OR_SOURCE_DRAFTER, 8, 40);
        judge(&policy, OR_SOURCE_DRAFTER, 16, 41);
    }
    for (int i = 0; i < 3; i++) {
        judge(&policy, OR_SOURCE_DRAFTER, 8, 120);
    }
    assert_true(or_policy_round_ns(&policy, 0) < 41 * MS &&
                or_policy_round_ns(&policy, 16) < 125 * MS);
    judge(&policy, OR_SOURCE_DRAFTER, 8, 40);
    judge(&policy, OR_SOURCE_DRAFTER, 8, 40);
    assert_true(or_policy_round_ns(&policy, 16) < 45 * MS);
}

static void a_lookup_gives_as_many_as_pay(void **state)
{
    (void)state;
    or_policy_t policy = make_policy(1, false);
    assert_int_equal(or_policy_lookup_nodes(&policy), 16); // what a guess costs is not known
    for (int i = 0; i < 40; i++) {
        judge(&policy, OR_SOURCE_PLAIN, 0, 10);
        judge(&policy, OR_SOURCE_LOOKUP, 16, 10.1);
    }
    assert_int_equal(or_policy_lookup_nodes(&policy), 64);
    policy = make_policy(1, false);
    for (int i = 0; i < 40; i++) {
        judge(&policy, OR_SOURCE_PLAIN, 0, 10);
        judge(&policy, OR_SOURCE_LOOKUP, 4, 14);
        judge(&policy, OR_SOURCE_LOOKUP, 16, 26);
        judge(&policy, OR_SOURCE_LOOKUP, 64, 70);
    }
    assert_in_range(or_policy_lookup_nodes(&policy), 1, 15);
}

// Rounds of 40 ms beside a drafter that answers in 60, and stops doing so; return what is waited for it in the next second.
static int64_t waits_for_a_silent_drafter(void)
{
    or_policy_t policy = make_policy(1, false);
    int64_t now = OR_NS_PER_S, waited = 0;
    for (int i = 0; i < 40; i++) {
        judge(&policy, i % 2 == 0 ? OR_SOURCE_PLAIN : OR_SOURCE_DRAFTER, i % 2 * 16, 40);
        or_policy_heard(&policy, 60 * OR_NS_PER_MS, 20000, 16);
    }
    for (int64_t end = now + OR_NS_PER_S; now < end; now += 40 * OR_NS_PER_MS) {
        or_policy_state_t state = {.awaited = true, .asked_ns = now};
        or_policy_choice_t choice = or_policy_choose(&policy, &state, now);
        while (choice.until_ns > now) {
            int64_t least = choice.until_ns < end ? choice.until_ns : end;
            waited += least - now;
            now = least;
            choice = now < end ? or_policy_choose(&policy, &state, now) : choice;
            if (now == end) {
                return waited;
            }
        }
        or_policy_judged(&policy, &(or_policy_round_t){.round_ns = 40 * OR_NS_PER_MS});
        or_policy_budget(&policy, now);
    }
    return waited;
}

static void a_silent_drafter_is_not_waited_for(void **state)
{
    (void)state;
    int64_t waited = waits_for_a_silent_drafter();
    print_message("%.0f ms\n", (double)waited / MS);
    assert_in_range(waited, 0, 250 * OR_NS_PER_MS);
}

// Rounds with as many guesses as it is asked for, which take no time; return how many those are then.
static uint32_t guesses_after(or_policy_t *policy, uint32_t rounds)
{
    for (uint32_t i = 0; i < rounds; i++) {
        judge(policy, OR_SOURCE_DRAFTER, or_policy_budget(policy, OR_NS_PER_S).nodes, 20);
    }
    return or_policy_budget(policy, OR_NS_PER_S).nodes;
}

// A text after the round that has read its prompt, with guesses or without: what that round took says nothing.
static or_policy_t make_begun(uint32_t texts, bool decided, uint32_t guesses)
{
    or_policy_t policy = make_policy(texts, decided);
    const or_policy_round_t prefill = {.source = OR_SOURCE_DRAFTER,
                                       .nodes = guesses,
                                       .accepted = guesses / 4,
                                       .first_right = guesses > 0,
                                       .round_ns = 60 * OR_NS_PER_MS,
                                       .prefill = true};
    or_policy_judged(&policy, &prefill);
    return policy;
}

// What a text alone tries costs no other text anything where its drafter is elsewhere, and it may be a short text: half of it
// would be over if its trees grew every eight rounds.
static void a_text_alone_soon_has_the_guesses_that_pay(void **state)
{
    (void)state;
    const or_policy_state_t awaited = {.awaited = true, .asked_ns = 1};
    for (uint32_t texts = 1; texts <= 2; texts++) {
        for (uint32_t i = 0; i < 4; i++) {
            const bool decided = i % 2 == 1, freely = texts == 1 && !decided;
            or_policy_t policy = make_begun(texts, decided, i < 2 ? 16 : 0);
            const uint32_t first = policy.budget.nodes;
            or_policy_choice_t second = or_policy_choose(&policy, &awaited, OR_NS_PER_S);
            bool plain = second.source == OR_SOURCE_PLAIN && second.until_ns == 0;
            assert_true(plain == freely); // it loses least while trees are small
            or_policy_t untimed = policy;
            assert_int_equal(guesses_after(&untimed, 3), first); // what guesses cost is not known
            judge(&policy, OR_SOURCE_PLAIN, 0, 20);
            uint32_t then = guesses_after(&policy, 2);
            assert_true(freely ? first == 16 && then == 64 : then <= 2 * first);
        }
    }
}

// Texts that accepted nothing have taught that guesses do not pay. A try ends that: its tree is judged, although those figures
// speak against it.
static void what_a_try_brought_is_judged(void **state)
{
    (void)state;
    or_policy_t policy = make_policy(1, false);
    int64_t now = OR_NS_PER_S;
    policy.session.most.ahead = 0;
    policy.session.late_is_good = false;
    for (int i = 0; i < 60; i++, now += 40 * OR_NS_PER_MS) {
        const or_policy_round_t useless = {
            .source = OR_SOURCE_DRAFTER, .nodes = 16, .round_ns = 400 * OR_NS_PER_MS};
        const or_policy_round_t plain = {.round_ns = 40 * OR_NS_PER_MS};
        or_policy_heard(&policy, 15 * OR_NS_PER_MS, 1000, 16);
        or_policy_judged(&policy, policy.budget.nodes > 0 && i % 10 != 3 ? &useless : &plain);
        or_policy_budget(&policy, now);
    }
    assert_true(policy.off);
    for (int i = 0; i < 1000 && policy.budget.nodes == 0; i++, now += 40 * OR_NS_PER_MS) {
        or_policy_judged(&policy, &(or_policy_round_t){.round_ns = 40 * OR_NS_PER_MS});
        or_policy_budget(&policy, now);
    }
    const or_policy_state_t here = {.ready = policy.budget.nodes, .asked_ns = now};
    assert_true(policy.off && policy.budget.nodes > 0);
    assert_int_equal(or_policy_choose(&policy, &here, now).source, OR_SOURCE_DRAFTER);
}

// Two guesses would pay and 16 do not, but a tree of this shape has all 16 or none.
static void a_tree_of_a_fixed_shape_is_compared_whole(void **state)
{
    (void)state;
    or_policy_t policy = make_policy(1, false);
    policy.session.whole_trees = true;
    policy.session.most.nodes = policy.budget.nodes = 16;
    or_policy_limit(&policy, OR_WAY_AHEAD, 1, false);
    for (int i = 0; i < 40; i++) {
        uint32_t nodes = policy.budget.nodes;
        assert_true(nodes == 0 || nodes == 16);
        judge(&policy, nodes > 0 && i != 1 ? OR_SOURCE_DRAFTER : OR_SOURCE_PLAIN,
              i != 1 ? nodes : 0, nodes > 0 && i != 1 ? 60 : 10);
        or_policy_budget(&policy, (1 + i) * OR_NS_PER_S / 100);
    }
    assert_true(policy.off);
}

// As the drafter builds it: 16 guesses pay here and the 64 that were asked for would not.
static void a_fixed_shape_is_compared_as_it_is_built(void **state)
{
    (void)state;
    or_policy_t policy = make_policy(1, false);
    policy.session.whole_trees = true;
    policy.session.most.nodes = 64;
    or_policy_builds(&policy, 16);
    or_policy_limit(&policy, OR_WAY_AHEAD, 1, false);
    for (int i = 0; i < 60; i++) {
        bool drafted = policy.budget.nodes > 0 && i % 10 != 1;
        judge(&policy, drafted ? OR_SOURCE_DRAFTER : OR_SOURCE_PLAIN, drafted ? 16 : 0,
              drafted ? 20 : 10);
        or_policy_budget(&policy, (1 + i) * OR_NS_PER_S / 50);
        assert_true(!policy.off);
    }
    assert_int_equal(policy.budget.nodes, 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_try_brought_is_judged),
        cmocka_unit_test(a_tree_of_a_fixed_shape_is_compared_whole),
        cmocka_unit_test(a_fixed_shape_is_compared_as_it_is_built),
        cmocka_unit_test(a_text_alone_soon_has_the_guesses_that_pay),
        cmocka_unit_test(a_loaded_verifier_gets_smaller_trees),
        cmocka_unit_test(a_second_pass_is_no_straight_line),
        cmocka_unit_test(a_wait_for_others_is_no_change_of_the_target),
        cmocka_unit_test(a_lookup_gives_as_many_as_pay),
        cmocka_unit_test(a_silent_drafter_is_not_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
