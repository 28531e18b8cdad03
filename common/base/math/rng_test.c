// Goal: the generator is Philox 4x32-10, and keys and draws keep what must be independent apart.
// Method: compare with Random123's known answers; then check that distinct inputs give distinct
// bits and that uniforms stay within the open interval.
#include "common/base/math/rng.h"

#include "tests/support/test_support.h"

static void philox_gives_the_known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t out[4] = {0};
        or_rng_key_t key = {(uint64_t)known[i].key[1] << 32 | known[i].key[0]};
        or_philox(key, known[i].counter, out);
        assert_memory_equal(out, known[i].out, sizeof out);
    }
}

static void many_counters_give_what_each_gives(void **state)
{
    (void)state;
    static const uint32_t high[2] = {11, 22};
    uint64_t random = test_seed();
    uint64_t low[100];
    uint64_t bits[100] = {0};
    for (int i = 0; i < 100; i++) {
        low[i] = test_random(&random);
    }
    or_rng_key_t key = or_rng_key(1, 2);
    or_philox_many(key, high, low, 100, bits);
    for (int i = 0; i < 100; i++) {
        const uint32_t counter[4] = {(uint32_t)low[i], (uint32_t)(low[i] >> 32), 11, 22};
        uint32_t out[4];
        or_philox(key, counter, out);
        assert_true(bits[i] == ((uint64_t)out[1] << 32 | out[0]));
    }
}

static void keys_and_draws_depend_on_every_input(void **state)
{
    (void)state;
    or_rng_key_t key = or_rng_key(7, 1);
    assert_int_equal(key.value, or_rng_key(7, 1).value);
    assert_true(key.value != or_rng_key(7, 2).value);
    assert_true(key.value != or_rng_key(8, 1).value);
    assert_true(key.value != or_rng_key(7, UINT64_C(1) << 32).value);
    uint64_t bits = or_rng_draw(key, OR_RNG_TEST, 1, 2, 3);
    assert_int_equal(bits, or_rng_draw(key, OR_RNG_TEST, 1, 2, 3));
    assert_true(bits != or_rng_draw(key, OR_RNG_DRAFT, 1, 2, 3));
    assert_true(bits != or_rng_draw(key, OR_RNG_TEST, 2, 2, 3));
    assert_true(bits != or_rng_draw(key, OR_RNG_TEST, 1, 3, 3));
    assert_true(bits != or_rng_draw(key, OR_RNG_TEST, 1, 2, 4));
}

static void uniforms_stay_inside_the_open_interval(void **state)
{
    (void)state;
    assert_true(or_rng_uniform(0) > 0);
    assert_true(or_rng_uniform(UINT64_MAX) < 1);
    or_rng_key_t key = or_rng_key(test_seed(), 0);
    double sum = 0;
    for (uint32_t i = 0; i < 10000; i++) {
        sum += or_rng_uniform(or_rng_draw(key, OR_RNG_TEST, 0, 0, i));
    }
    assert_true(sum > 4850 && sum < 5150); // 5 standard deviations
}

static void system_seeds_differ(void **state)
{
    (void)state;
    assert_true(or_rng_system_seed() != or_rng_system_seed());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_known_answers),
        cmocka_unit_test(many_counters_give_what_each_gives),
        cmocka_unit_test(keys_and_draws_depend_on_every_input),
        cmocka_unit_test(uniforms_stay_inside_the_open_interval),
        cmocka_unit_test(system_seeds_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
