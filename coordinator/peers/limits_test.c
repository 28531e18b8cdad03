// Goal: a key writes its tokens a minute and no more, on however many texts; a minute's worth may
// come at once, and what a round took too much is waited for; others are not slowed. What is turned
// away is logged once a minute a key, always counted, and bans end. Method: a virtual clock;
// writers that go by what they are told, counted over long times; more keys than there is room for.
#include "coordinator/peers/limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/peers/refusals.h"
#include "tests/support/test_support.h"

#define MINUTE_NS (60 * OR_NS_PER_S)

static or_key_grant_t grant_of(uint32_t key, uint32_t tokens_per_minute)
{
    or_key_grant_t grant = {.tokens_per_minute = tokens_per_minute};
    snprintf(grant.key, sizeof grant.key, "%040u", key);
    return grant;
}

static int setup(void **state)
{
    or_limits_t *limits;
    assert_int_equal(or_limits_create(&limits), OR_OK);
    *state = limits;
    return 0;
}

static int teardown(void **state)
{
    or_limits_t *limits = *state;
    or_limits_destroy(&limits);
    assert_null(limits);
    return 0;
}

// Return the tokens written from *now until `end`, in rounds of `round` tokens, by an owner that always has more.
static uint64_t write_until(or_limits_t *limits, const or_key_grant_t *grant, uint32_t round,
                            int64_t *now, int64_t end)
{
    uint64_t written = 0;
    while (*now < end) {
        int64_t due = -1;
        if (or_limits_may_write(limits, grant, *now, &due)) {
            or_limits_wrote(limits, grant, round, *now);
            written += round;
            *now += OR_NS_PER_MS;
        } else {
            assert_true(due > *now);
            *now = due;
            assert_true(or_limits_may_write(limits, grant, *now, &due)); // not a moment too early
        }
    }
    return written;
}

static void the_rate_holds_over_time(void **state)
{
    static const uint32_t rates[] = {1, 7, 600, 6000}, rounds[] = {1, 5, 60};
    for (size_t i = 0; i < 4; i++) {
        for (size_t k = 0; k < 3; k++) {
            or_key_grant_t grant = grant_of((uint32_t)(10 * i + k), rates[i]);
            int64_t start = 77 * OR_NS_PER_S, now = start;
            uint64_t written = write_until(*state, &grant, rounds[k], &now, start + 20 * MINUTE_NS);
            uint64_t allowed = 21 * (uint64_t)rates[i]; // the first minute's worth, and twenty
            assert_true(written <= allowed + rounds[k]);
            assert_true(written + 2 * rounds[k] + rates[i] / 50 >= allowed);
        }
    }
}

static void a_minutes_worth_comes_at_once_and_is_saved_up_no_further(void **state)
{
    or_key_grant_t grant = grant_of(1, 100);
    int64_t now = 10 * MINUTE_NS, due;
    for (int times = 0; times < 2; times++) {
        for (int i = 0; i < 100; i++) {
            assert_true(or_limits_may_write(*state, &grant, now, &due));
            or_limits_wrote(*state, &grant, 1, now);
        }
        assert_false(or_limits_may_write(*state, &grant, now, &due));
        assert_in_range((uintmax_t)(due - now), MINUTE_NS / 100, MINUTE_NS / 100 + 2);
        now += 1000 * MINUTE_NS;
    }
}

static void a_large_round_is_paid_for(void **state)
{
    or_key_grant_t grant = grant_of(1, 60);
    int64_t due;
    or_limits_wrote(*state, &grant, 120, 0); // 60 more than there was
    assert_false(or_limits_may_write(*state, &grant, 0, &due));
    assert_in_range((uintmax_t)due, 61 * OR_NS_PER_S, 61 * OR_NS_PER_S + 2);
}

static void keys_do_not_share(void **state)
{
    or_key_grant_t a = grant_of(1, 1), b = grant_of(2, 1), free_one = grant_of(3, 0), none = {0};
    none.tokens_per_minute = 1; // without a key
    int64_t due;
    or_limits_wrote(*state, &a, 1000, 0);
    or_limits_wrote(*state, &free_one, 1000000, 0);
    or_limits_wrote(*state, &none, 1000000, 0);
    assert_false(or_limits_may_write(*state, &a, 0, &due));
    assert_true(or_limits_may_write(*state, &b, 0, &due));
    assert_true(or_limits_may_write(*state, &free_one, 0, &due));
    assert_true(or_limits_may_write(*state, &none, 0, &due));
}

static void another_limit_holds_at_once(void **state)
{
    or_key_grant_t grant = grant_of(1, 1000000);
    int64_t due;
    assert_true(or_limits_may_write(*state, &grant, 0, &due));
    grant.tokens_per_minute = 10; // what was saved up is cut to it
    or_limits_wrote(*state, &grant, 10, 0);
    assert_false(or_limits_may_write(*state, &grant, 0, &due));
    grant.tokens_per_minute = 0;
    assert_true(or_limits_may_write(*state, &grant, 0, &due));
}

// However many keys write once, who is at its limit is not forgotten for one who is not.
static void a_crowd_of_keys_frees_nobody(void **state)
{
    or_key_grant_t heavy = grant_of(1, 10);
    int64_t due;
    or_limits_wrote(*state, &heavy, 1000, 0);
    for (uint32_t i = 0; i < 20 * OR_LIMITED_KEYS_MAX; i++) {
        or_key_grant_t light = grant_of(100 + i, 10);
        or_limits_wrote(*state, &light, 1, OR_NS_PER_MS);
    }
    assert_false(or_limits_may_write(*state, &heavy, OR_NS_PER_S, &due));
}

static void refusals_are_counted_always_and_logged_seldom(void **state)
{
    (void)state;
    static or_refusals_t refusals;
    uint32_t unlogged = 77;
    assert_true(or_refusals_note(&refusals, "a", 5, &unlogged));
    assert_int_equal(unlogged, 0);
    for (int i = 1; i < 100; i++) {
        assert_false(or_refusals_note(&refusals, "a", 5 + i * OR_NS_PER_MS, &unlogged));
    }
    assert_true(or_refusals_note(&refusals, "b", 6, &unlogged)); // another one's first
    assert_true(or_refusals_note(&refusals, "", 6, &unlogged));
    assert_true(or_refusals_note(&refusals, "a", 5 + MINUTE_NS, &unlogged));
    assert_int_equal(unlogged, 99);
    assert_int_equal(refusals.count, 103);
}

static void bans_end_and_outlast_a_crowd(void **state)
{
    (void)state;
    static or_refusals_t refusals;
    uint32_t unlogged;
    or_refusals_ban(&refusals, "bad", OR_NS_PER_S, MINUTE_NS);
    for (uint32_t i = 0; i < 4 * OR_REFUSALS_KEPT; i++) {
        char key[OR_KEY_BYTES];
        snprintf(key, sizeof key, "%u", i);
        or_refusals_note(&refusals, key, 2 * OR_NS_PER_S, &unlogged);
    }
    assert_true(or_refusals_is_banned(&refusals, "bad", MINUTE_NS - 1));
    assert_false(or_refusals_is_banned(&refusals, "bad", MINUTE_NS));
    assert_false(or_refusals_is_banned(&refusals, "1", 3 * OR_NS_PER_S));
    assert_false(or_refusals_is_banned(&refusals, "", 3 * OR_NS_PER_S));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_rate_holds_over_time, setup, teardown),
        cmocka_unit_test_setup_teardown(a_minutes_worth_comes_at_once_and_is_saved_up_no_further,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_large_round_is_paid_for, setup, teardown),
        cmocka_unit_test_setup_teardown(keys_do_not_share, setup, teardown),
        cmocka_unit_test_setup_teardown(another_limit_holds_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(a_crowd_of_keys_frees_nobody, setup, teardown),
        cmocka_unit_test(refusals_are_counted_always_and_logged_seldom),
        cmocka_unit_test(bans_end_and_outlast_a_crowd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
