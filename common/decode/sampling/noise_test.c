// Goal: screening never changes a draw, and a draw is fast enough to be made at every visited
// node.
// Method: compare with the plain loop, which takes every logarithm, on random scores with ties,
// -infinity and NaN.
#include "common/decode/sampling/noise.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include "tests/support/test_support.h"

#define VOCAB 4096
#define ROUNDS 300

static int32_t ids[VOCAB];
static double scores[VOCAB];
static double perturbed[VOCAB];
static uint64_t token_keys[VOCAB];

static int32_t plain_argmax(or_rng_key_t key, or_noise_place_t place, uint32_t count)
{
    int32_t best_id = -1;
    double best = -INFINITY;
    for (uint32_t i = 0; i < count; i++) {
        double score = scores[i] + or_noise_gumbel(key, place, token_keys[ids[i]]);
        if (isnan(score)) {
            continue;
        }
        if (best_id < 0 || score > best || (score == best && ids[i] < best_id)) {
            best = score;
            best_id = ids[i];
        }
    }
    return best_id >= 0 ? best_id : ids[0];
}

// Fill in tokens with ids in random order. Every fourth round has equal noise keys, so that
// equal scores are exact ties.
static uint32_t fill(uint64_t *random, int round)
{
    static const double spreads[] = {0, 1, 10, 100};
    double spread = spreads[test_below(random, 4)];
    uint32_t count = 1 + (uint32_t)test_below(random, VOCAB);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t other = (uint32_t)test_below(random, i + 1);
        ids[i] = ids[other];
        ids[other] = (int32_t)i;
        token_keys[i] = round % 4 == 0 ? i % 8 : test_random(random);
        scores[i] =
            spread * (round % 4 == 0 ? (double)test_below(random, 3) : test_uniform(random));
        if (test_below(random, 50) == 0) {
            scores[i] = test_below(random, 2) == 0 ? -INFINITY : NAN;
        }
    }
    return count;
}

static void screening_never_changes_the_draw(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t count = fill(&random, round);
        or_rng_key_t key = or_noise_key(test_random(&random), 0);
        or_noise_place_t place = {(uint32_t)round, round % 3 == 0};
        assert_int_equal(or_noise_argmax(key, place, ids, scores, count, token_keys),
                         plain_argmax(key, place, count));
    }
}

static void scores_without_a_winner_still_give_a_token(void **state)
{
    (void)state;
    or_rng_key_t key = or_noise_key(1, 0);
    ids[0] = 7;
    ids[1] = 3;
    scores[0] = scores[1] = -INFINITY;
    assert_int_equal(or_noise_argmax(key, (or_noise_place_t){0}, ids, scores, 2, token_keys), 3);
    scores[1] = NAN;
    assert_int_equal(or_noise_argmax(key, (or_noise_place_t){0}, ids, scores, 2, token_keys), 7);
    scores[0] = NAN;
    assert_int_equal(or_noise_argmax(key, (or_noise_place_t){0}, ids, scores, 2, token_keys), 7);
}

static void perturbed_scores_are_exact_inside_the_window(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t count = fill(&random, round);
        or_rng_key_t key = or_noise_key(test_random(&random), 0);
        or_noise_place_t place = {9, (uint32_t)round};
        double best = or_noise_perturb(key, place, ids, scores, count, token_keys, 5, perturbed);
        double expected_best = -INFINITY;
        for (uint32_t i = 0; i < count; i++) {
            double exact = scores[i] + or_noise_gumbel(key, place, token_keys[ids[i]]);
            expected_best = exact > expected_best ? exact : expected_best;
            assert_true(perturbed[i] == exact ||
                        (perturbed[i] == -INFINITY && !(exact >= best - 5)));
        }
        assert_true(best == expected_best);
    }
}

// The scores are extreme: the variate is rounded away, or they and the windows are infinite.
// Ascending scores have a new best in every block; with descending ones most blocks are skipped.
static void extreme_scores_are_screened_alike(void **state)
{
    (void)state;
    static const double sizes[] = {1e-300, 40, 1000, 1e16, 1e300, INFINITY};
    static const double windows[] = {0, 3, 1e9, INFINITY};
    uint64_t random = test_seed();
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t count = fill(&random, round);
        or_rng_key_t key = or_noise_key(test_random(&random), 0);
        or_noise_place_t place = {1, (uint32_t)round};
        double size = sizes[test_below(&random, 6)];
        double window = windows[test_below(&random, 4)];
        for (uint32_t i = 0; i < count; i++) {
            double at = (round % 2 == 0 ? i : count - i) / (double)count;
            scores[i] = size == INFINITY && i % 500 != 3 ? at : size * at;
        }
        int32_t drawn = or_noise_argmax(key, place, ids, scores, count, token_keys);
        assert_int_equal(drawn, plain_argmax(key, place, count));
        double best =
            or_noise_perturb(key, place, ids, scores, count, token_keys, window, perturbed);
        for (uint32_t i = 0; i < count; i++) {
            double exact = scores[i] + or_noise_gumbel(key, place, token_keys[ids[i]]);
            assert_true(best >= exact);
            assert_true(perturbed[i] == exact ||
                        (perturbed[i] == -INFINITY && !(exact >= best - window)));
        }
    }
}

// The screen asks for leading ones of a uniform. Its bound must hold next to each power of two from
// 1.
static void the_likeliest_uniforms_are_never_screened_out(void **state)
{
    (void)state;
    enum { DRAWS = 1000 };
    or_rng_key_t key = or_noise_key(test_seed(), 0);
    for (uint64_t draw = 0; draw < DRAWS; draw++) {
        // Take the token with the largest uniform of many, and a rival that it beats by
        // very little.
        uint64_t best = 0;
        or_noise_place_t place = {(uint32_t)draw, 0};
        for (uint64_t token = 1; token < 64; token++) {
            bool larger = or_noise_uniform(key, place, token) > or_noise_uniform(key, place, best);
            best = larger ? token : best;
        }
        token_keys[0] = best;
        token_keys[1] = 1000;
        ids[0] = 1;
        ids[VOCAB / 2] = 0; // in a later block, the others there are hopeless
        for (uint32_t i = 1; i < VOCAB / 2; i++) {
            ids[i] = (int32_t)i + 1;
            token_keys[i + 1] = 2000 + i;
            scores[i] = -1e6;
        }
        scores[VOCAB / 2] = 0;
        double noise = or_noise_gumbel(key, place, best);
        scores[0] = noise - or_noise_gumbel(key, place, 1000) - 1e-12;
        assert_int_equal(or_noise_argmax(key, place, ids, scores, VOCAB / 2 + 1, token_keys), 0);
        scores[0] += 2e-12;
        assert_int_equal(or_noise_argmax(key, place, ids, scores, VOCAB / 2 + 1, token_keys), 1);
    }
}

static void every_part_of_the_counter_matters(void **state)
{
    (void)state;
    or_rng_key_t key = or_noise_key(3, 0);
    or_noise_place_t place = {10, 0};
    double noise = or_noise_gumbel(key, place, 42);
    assert_true(noise == or_noise_gumbel(key, place, 42));
    assert_true(noise != or_noise_gumbel(or_noise_key(4, 0), place, 42));
    assert_true(noise != or_noise_gumbel(or_noise_key(3, 1), place, 42));
    assert_true(noise != or_noise_gumbel(key, or_noise_advance(place, 1), 42));
    assert_true(noise != or_noise_gumbel(key, or_noise_advance(place, 0), 42));
    assert_true(noise != or_noise_gumbel(key, place, 43));
    assert_true(noise != or_noise_gumbel(key, place, 42 | UINT64_C(1) << 32));
    or_noise_place_t next = or_noise_advance(or_noise_advance(place, 0), 3);
    assert_int_equal(next.byte_offset, 13);
    assert_int_equal(next.zero_width, 0);
}

static void gumbel_is_minus_log_minus_log(void **state)
{
    (void)state;
    for (uint64_t token = 0; token < 1000; token++) {
        double u = or_noise_uniform(or_noise_key(5, 0), (or_noise_place_t){1, 2}, token);
        double noise = or_noise_gumbel(or_noise_key(5, 0), (or_noise_place_t){1, 2}, token);
        assert_true(fabs(noise + log(-log(u))) < 1e-12);
    }
}

static void a_draw_is_quick(void **state)
{
    (void)state;
    enum { DRAWS = 200 };
    uint64_t random = test_seed();
    for (int32_t i = 0; i < VOCAB; i++) {
        ids[i] = i;
        token_keys[i] = test_random(&random);
        scores[i] = 12 * test_uniform(&random);
    }
    clock_t start = clock();
    for (uint32_t i = 0; i < DRAWS; i++) {
        or_noise_argmax(or_noise_key(5, 0), (or_noise_place_t){i, 0}, ids, scores, VOCAB,
                        token_keys);
    }
    double us = (double)(clock() - start) * 1e6 / CLOCKS_PER_SEC / DRAWS;
    print_message("%.1f us a draw of %d tokens\n", us, VOCAB);
    assert_true(us < 2000); // 20 times the usual time; sanitizers and busy machines are slow
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(screening_never_changes_the_draw),
        cmocka_unit_test(scores_without_a_winner_still_give_a_token),
        cmocka_unit_test(perturbed_scores_are_exact_inside_the_window),
        cmocka_unit_test(extreme_scores_are_screened_alike),
        cmocka_unit_test(the_likeliest_uniforms_are_never_screened_out),
        cmocka_unit_test(every_part_of_the_counter_matters),
        cmocka_unit_test(gumbel_is_minus_log_minus_log),
        cmocka_unit_test(a_draw_is_quick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
