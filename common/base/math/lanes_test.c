// Goal: vector code gives the plain code's bits for any input, and the plain code does what the
// header says.
// Method: run both on the same random inputs of every length up to some vectors' worth and from
// unaligned addresses. The inputs include infinities, NaN, zeros of both signs, subnormals and
// numbers at the ends of the range. Results are compared as bytes, and bytes behind them must stay
// untouched.
#include "common/base/math/lanes.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "common/base/math/math.h"
#include "tests/support/test_support.h"

#define LENGTH_MAX 150
#define ROUNDS 4000
#define GUARD 8 // entries behind an output

static const or_lanes_t *plain;
static const or_lanes_t *vector; // the implementation under test
static double x[LENGTH_MAX + 1];
static union {
    double doubles[LENGTH_MAX + GUARD];
    uint64_t words[LENGTH_MAX + GUARD];
    uint32_t list[LENGTH_MAX + GUARD];
    uint16_t bands[LENGTH_MAX + GUARD];
} out[2], more[2];

static double special(uint64_t *random)
{
    static const double values[] = {INFINITY, -INFINITY,     NAN,          0.0,
                                    -0.0,     DBL_TRUE_MIN,  -DBL_MIN,     DBL_MAX,
                                    -DBL_MAX, 709.782712893, 709.78271290, -745.133219101,
                                    -745.14,  -708.5,        -744.9,       0.34657359027997264};
    return values[test_below(random, sizeof values / sizeof *values)];
}

// Fill in ordinary numbers and, in every other round, some special values. Returns the length.
static uint32_t fill(uint64_t *random, int round)
{
    static const double sizes[] = {1, 20, 800, 1e300};
    double size = sizes[test_below(random, 4)];
    uint32_t length = (uint32_t)test_below(random, LENGTH_MAX);
    for (uint32_t i = 0; i < LENGTH_MAX + 1; i++) {
        bool odd = round % 2 == 0 && test_below(random, 8) == 0;
        x[i] = odd ? special(random) : size * (2 * test_uniform(random) - 1);
    }
    memset(out, 0xAA, sizeof out);
    memset(more, 0xAA, sizeof more);
    return length;
}

static const or_lanes_t *lanes_of(int which)
{
    return which == 0 ? plain : vector;
}

static void assert_same(void)
{
    assert_memory_equal(&out[0], &out[1], sizeof out[0]);
    assert_memory_equal(&more[0], &more[1], sizeof more[0]);
    for (uint32_t i = LENGTH_MAX; i < LENGTH_MAX + GUARD; i++) {
        assert_true(out[1].words[i] == UINT64_C(0xAAAAAAAAAAAAAAAA));
    }
}

static void numbers_are_the_same(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t length = fill(&random, round);
        const double *from = x + round / 2 % 2;
        double origin = round % 3 == 0 ? from[length / 2] : 0;
        double most = -INFINITY;
        for (uint32_t i = 0; i < length; i++) {
            most = from[i] > most ? from[i] : most;
        }
        for (int which = 0; which < 2; which++) {
            lanes_of(which)->exp_from(from, length, origin, out[which].doubles);
            assert_true(lanes_of(which)->largest(from, length) == most);
        }
        assert_same();
        for (uint32_t i = 0; i < length; i++) {
            double expected = or_exp(from[i] - origin);
            assert_memory_equal(&out[0].doubles[i], &expected, sizeof expected);
        }
    }
}

static void scores_are_the_same(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    for (int round = 0; round < ROUNDS; round++) {
        float logits[LENGTH_MAX + 1];
        uint32_t length = fill(&random, round);
        const double divisors[] = {1, 0.7, 3, 1e-300};
        double divisor = divisors[test_below(&random, 4)];
        uint32_t kept[2], expected = 0;
        for (uint32_t i = 0; i < LENGTH_MAX + 1; i++) {
            logits[i] = (float)fmax(fmin(x[i], 1e38), -1e38);
            logits[i] = isfinite(x[i]) ? logits[i] : (float)x[i];
        }
        for (int which = 0; which < 2; which++) {
            double *scores = out[which].doubles;
            lanes_of(which)->widen(logits + 1, length, scores);
            kept[which] =
                lanes_of(which)->divide(scores, length, divisor, (int32_t *)more[which].list);
        }
        assert_int_equal(kept[0], kept[1]);
        memset(out[0].doubles + kept[0], 0, (length - kept[0]) * sizeof(double));
        memset(out[1].doubles + kept[0], 0, (length - kept[0]) * sizeof(double));
        assert_same();
        for (uint32_t i = 0; i < length; i++) {
            if (isfinite(logits[i + 1])) {
                assert_int_equal(more[0].list[expected], i);
                assert_true(out[0].doubles[expected++] == (double)logits[i + 1] / divisor);
            }
        }
        assert_int_equal(kept[0], expected);
    }
}

static void bands_are_the_same(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t length = fill(&random, round);
        double origin = plain->largest(x, length);
        uint16_t first = (uint16_t)test_below(&random, 9000);
        uint16_t last = (uint16_t)(first + test_below(&random, 4000));
        uint32_t listed[2], expected = 0;
        for (int which = 0; which < 2; which++) {
            lanes_of(which)->bands(x, length, origin, 256, 8191, out[which].bands);
            listed[which] =
                lanes_of(which)->within(out[which].bands, length, first, last, more[which].list);
        }
        assert_same();
        assert_int_equal(listed[0], listed[1]);
        for (uint32_t i = 0; i < length; i++) {
            uint16_t band = out[0].bands[i];
            double exact = floor((origin - x[i]) * 256);
            assert_int_equal(band, exact < 8191 ? (uint16_t)exact : 8191);
            if (band >= first && band <= last) {
                assert_int_equal(more[0].list[expected++], i);
            }
        }
        assert_int_equal(listed[0], expected);
    }
}

static void counters_are_the_same(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t low[LENGTH_MAX + 1];
        uint32_t length = fill(&random, round);
        or_rng_key_t key = {test_random(&random)};
        const uint32_t high[2] = {(uint32_t)test_random(&random), (uint32_t)test_random(&random)};
        unsigned ones = (unsigned)test_below(&random, 8);
        uint32_t listed[2], expected = 0;
        for (uint32_t i = 0; i < LENGTH_MAX + 1; i++) {
            low[i] = test_random(&random);
        }
        for (int which = 0; which < 2; which++) {
            lanes_of(which)->philox(key, high, low + 1, length, out[which].words);
            listed[which] =
                lanes_of(which)->philox_ones(key, high, low + 1, length, ones, more[which].list);
        }
        assert_same();
        assert_int_equal(listed[0], listed[1]);
        for (uint32_t i = 0; i < length; i++) {
            const uint32_t counter[4] = {(uint32_t)low[i + 1], (uint32_t)(low[i + 1] >> 32),
                                         high[0], high[1]};
            uint32_t words[4];
            or_philox(key, counter, words);
            assert_true(out[0].words[i] == ((uint64_t)words[1] << 32 | words[0]));
            if (ones == 0 || words[1] >> (32 - ones) == (1u << ones) - 1) {
                assert_int_equal(more[0].list[expected++], i);
            }
        }
        assert_int_equal(listed[0], expected);
    }
}

// 32 ones are the whole first word. No random counter has them, so each bit is tested alone.
static void many_ones_are_asked_of_the_first_word(void **state)
{
    (void)state;
    static const uint32_t high[2] = {1, 2};
    uint64_t random = test_seed();
    uint32_t list[GUARD];
    for (int i = 0; i < 200000; i++) {
        uint64_t low = test_random(&random);
        uint64_t bits;
        or_philox_many((or_rng_key_t){3}, high, &low, 1, &bits);
        unsigned ones = bits == UINT64_MAX ? 64 : (unsigned)__builtin_clzll(~bits);
        if (ones >= 10) {
            for (int which = 0; which < 2; which++) {
                const or_lanes_t *lanes = lanes_of(which);
                assert_int_equal(lanes->philox_ones((or_rng_key_t){3}, high, &low, 1, ones, list),
                                 1);
                assert_int_equal(
                    lanes->philox_ones((or_rng_key_t){3}, high, &low, 1, ones + 1, list), 0);
                assert_int_equal(lanes->philox_ones((or_rng_key_t){3}, high, &low, 1, 32, list),
                                 ones >= 32);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_the_same),
        cmocka_unit_test(scores_are_the_same),
        cmocka_unit_test(bands_are_the_same),
        cmocka_unit_test(counters_are_the_same),
        cmocka_unit_test(many_ones_are_asked_of_the_first_word),
    };
    static const char *const names[] = {"ref", "avx2", "avx512"};
    int failed = 0;
    plain = or_lanes_find("ref");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        vector = or_lanes_find(names[i]);
        print_message("%s%s\n", names[i], vector == NULL ? ": does not run here" : "");
        failed += vector == NULL ? 0 : cmocka_run_group_tests(tests, NULL, NULL);
    }
    return failed;
}
