// Goal: the chooser of processes has the probabilities that were asked for, takes no choice
// twice, and gives the same choice the same value wherever it is asked.
// Method: test the edges of a coin, and frequencies within five standard deviations under fixed
// keys. Change one field of a choice at a time.
#include "common/decode/chooser.h"

#include <math.h>

#include "tests/support/test_support.h"

#define TOKENS 6
#define DRAWS 20000

static or_choice_t at(uint32_t node, uint32_t draw)
{
    return (or_choice_t){OR_RNG_TEST, node, draw};
}

static void assert_frequency(uint32_t seen, double share)
{
    double deviation = sqrt(DRAWS * share * (1 - share));
    if (!(fabs(seen - DRAWS * share) <= 5 * deviation)) {
        fail_msg("%u of %d where %g were expected", seen, DRAWS, DRAWS * share);
    }
}

static or_keyed_chooser_t of_round(uint64_t round)
{
    return or_keyed_chooser((or_rng_key_t){7}, round, (or_rng_key_t){8}, NULL);
}

static void a_coin_that_cannot_fall_does_not(void **state)
{
    (void)state;
    or_keyed_chooser_t keyed = of_round(1);
    or_chooser_t *chooser = &keyed.chooser;
    for (uint32_t i = 0; i < 100000; i++) {
        assert_false(chooser->bernoulli(chooser, at(i, 0), 0, 1e-300));
        assert_false(chooser->bernoulli(chooser, at(i, 0), -1, 1));
        assert_true(chooser->bernoulli(chooser, at(i, 1), 65536, 65536));
        assert_true(chooser->bernoulli(chooser, at(i, 1), 3, 2));
        double u = chooser->uniform(chooser, at(i, 2));
        assert_true(u > 0 && u < 1);
        // The coin compares with this uniform: true below it, false at it and above.
        assert_false(chooser->bernoulli(chooser, at(i, 2), u, 1));
        assert_true(chooser->bernoulli(chooser, at(i, 2), u * 1.000001, 1));
    }
}

static void a_coin_falls_as_often_as_it_should(void **state)
{
    (void)state;
    static const double odds[][2] = {{1, 3}, {1, 2}, {1, 100}, {65535, 65537}, {3e-20, 4e-20}};
    or_keyed_chooser_t keyed = of_round(2);
    for (uint32_t k = 0; k < sizeof odds / sizeof *odds; k++) {
        uint32_t fell = 0;
        for (uint32_t i = 0; i < DRAWS; i++) {
            fell += keyed.chooser.bernoulli(&keyed.chooser, at(i, k), odds[k][0], odds[k][1]);
        }
        assert_frequency(fell, odds[k][0] / odds[k][1]);
    }
}

static void draws_have_their_weights(void **state)
{
    (void)state;
    static const double weights[][TOKENS] = {
        {0, 3, 0, 2, 5, 0}, {1, 0, 0, 0, 0, 0},          {0, 0, 0, 0, 0, 1e-12},
        {1, 1, 1, 1, 1, 1}, {1e-9, 0, 2e-9, 3e-9, 0, 0}, {65000, 500, 36, 0, 0, 0}};
    or_keyed_chooser_t keyed = of_round(3);
    for (uint32_t k = 0; k < sizeof weights / sizeof *weights; k++) {
        uint32_t seen[TOKENS] = {0};
        double total = 0;
        for (uint32_t i = 0; i < DRAWS; i++) {
            uint32_t index = keyed.chooser.draw(&keyed.chooser, at(i, k), weights[k], TOKENS);
            assert_true(index < TOKENS && weights[k][index] > 0);
            seen[index]++;
        }
        for (uint32_t i = 0; i < TOKENS; i++) {
            total += weights[k][i];
        }
        for (uint32_t i = 0; i < TOKENS; i++) {
            assert_frequency(seen[i], weights[k][i] / total);
        }
    }
}

// Every field of a choice changes the result, and nothing else does.
static void choices_differ_in_every_field(void **state)
{
    (void)state;
    or_keyed_chooser_t base = of_round(5);
    or_keyed_chooser_t again = of_round(5);
    or_keyed_chooser_t round = of_round(6);
    or_keyed_chooser_t key = or_keyed_chooser((or_rng_key_t){9}, 5, (or_rng_key_t){8}, NULL);
    const struct {
        or_keyed_chooser_t *chooser;
        or_choice_t at;
    } choices[] = {
        {&base, {OR_RNG_ACCEPT, 3, 2}},        {&base, {OR_RNG_RESIDUAL, 3, 2}},
        {&base, {OR_RNG_DRAFT, 3, 2}},         {&base, {OR_RNG_ACCEPT, 2, 3}},
        {&base, {OR_RNG_ACCEPT, 3, 3}},        {&base, {OR_RNG_ACCEPT, 4, 2}},
        {&base, {OR_RNG_ACCEPT, 3, 1u << 20}}, {&round, {OR_RNG_ACCEPT, 3, 2}},
        {&key, {OR_RNG_ACCEPT, 3, 2}},
    };
    double first = base.chooser.uniform(&base.chooser, choices[0].at);
    base.chooser.uniform(&base.chooser, choices[1].at); // asking changes nothing
    assert_true(first == base.chooser.uniform(&base.chooser, choices[0].at));
    assert_true(first == again.chooser.uniform(&again.chooser, choices[0].at));
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        for (size_t k = 0; k < i; k++) {
            or_chooser_t *one = &choices[i].chooser->chooser;
            or_chooser_t *other = &choices[k].chooser->chooser;
            assert_true(one->uniform(one, choices[i].at) != other->uniform(other, choices[k].at));
        }
    }
}

static void the_targets_token_is_drawn_with_noise(void **state)
{
    (void)state;
    static const int32_t ids[] = {0, 1, 2, 3, 4, 5};
    static const double scores[] = {0, -1, -2, 0.5, -0.5, 0};
    static const uint64_t token_keys[] = {11, 12, 13, 14, 15, 16};
    const or_distribution_t dist = {.ids = ids, .scores = scores, .count = TOKENS};
    uint32_t differing = 0;
    for (uint32_t i = 0; i < 200; i++) {
        const or_noise_place_t place = {i, i % 3};
        or_keyed_chooser_t keyed =
            or_keyed_chooser((or_rng_key_t){7}, i, (or_rng_key_t){8}, token_keys);
        or_keyed_chooser_t other =
            or_keyed_chooser((or_rng_key_t){7}, i, (or_rng_key_t){9}, token_keys);
        int32_t token = keyed.chooser.token(&keyed.chooser, &dist, place);
        assert_int_equal(
            token, or_noise_argmax((or_rng_key_t){8}, place, ids, scores, TOKENS, token_keys));
        differing += token != other.chooser.token(&other.chooser, &dist, place);
    }
    assert_true(differing > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_coin_that_cannot_fall_does_not),
        cmocka_unit_test(a_coin_falls_as_often_as_it_should),
        cmocka_unit_test(draws_have_their_weights),
        cmocka_unit_test(choices_differ_in_every_field),
        cmocka_unit_test(the_targets_token_is_drawn_with_noise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
