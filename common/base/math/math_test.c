// Goal: our own exp, ln, sin, cos and pow are as exact as the header says.
// Method: compare with the C library on random inputs of all sizes, in units of the last place;
// then test the special values.
#include "common/base/math/math.h"

#include <float.h>
#include <math.h>

#include "tests/support/test_support.h"

#define ROUNDS 400000

// |a - b| in units of b's last place; 0 where both are the same special value.
static double ulps(double a, double b)
{
    if (a == b || (isnan(a) && isnan(b))) {
        return 0;
    }
    if (!isfinite(a) || !isfinite(b)) {
        return INFINITY;
    }
    double unit = nextafter(fabs(b), INFINITY) - fabs(b);
    return fabs(a - b) / unit;
}

static double between(uint64_t *random, double low, double high)
{
    return low + (high - low) * test_uniform(random);
}

// A random magnitude between 2^low and 2^high.
static double of_any_size(uint64_t *random, double low, double high)
{
    return exp2(between(random, low, high));
}

static void exp_is_within_two_ulp(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    for (int i = 0; i < ROUNDS; i++) {
        double x = i % 2 ? between(&random, -760, 715) : between(&random, -3, 3);
        assert_true(ulps(or_exp(x), exp(x)) <= 2);
    }
}

static void ln_is_within_two_ulp(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    for (int i = 0; i < ROUNDS; i++) {
        double x = i % 2 ? of_any_size(&random, -1074, 1023.9) : between(&random, 0.4, 2.5);
        assert_true(ulps(or_ln(x), log(x)) <= 2);
    }
}

static void sin_cos_are_within_two_ulp(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    for (int i = 0; i < ROUNDS; i++) {
        double x = i % 2 ? of_any_size(&random, -40, 30) : between(&random, -10, 10);
        if (i % 4 == 3) {
            x = -(double)(int64_t)(x * M_2_PI) * M_PI_2; // next to a zero of one of them
        }
        double sine = 7;
        double cosine = 7;
        or_sin_cos(x, &sine, &cosine);
        assert_true(ulps(sine, sin(x)) <= 2);
        assert_true(ulps(cosine, cos(x)) <= 2);
    }
}

static void pow_is_within_its_relative_error(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    for (int i = 0; i < ROUNDS; i++) {
        double base = of_any_size(&random, -20, 20);
        double exponent = between(&random, -8, 8);
        double expected = pow(base, exponent);
        assert_true(fabs(or_pow(base, exponent) - expected) <= 1e-13 * expected);
    }
}

static void erfc_is_within_its_relative_error(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    for (int i = 0; i < ROUNDS; i++) {
        double x = between(&random, -6, 26);
        assert_true(fabs(or_erfc(x) - erfc(x)) <= 2e-10 * erfc(x));
    }
}

static void special_values(void **state)
{
    (void)state;
    double sine;
    double cosine;
    assert_true(or_exp(-INFINITY) == 0 && or_exp(0) == 1 && isinf(or_exp(INFINITY)));
    assert_true(or_exp(-746) == 0 && isinf(or_exp(710)) && or_exp(-745) > 0);
    assert_true(isnan(or_exp(NAN)));
    assert_true(isinf(or_ln(0)) && or_ln(0) < 0 && or_ln(1) == 0 && isinf(or_ln(INFINITY)));
    assert_true(isnan(or_ln(-1)) && isnan(or_ln(NAN)));
    assert_true(ulps(or_ln(DBL_TRUE_MIN), log(DBL_TRUE_MIN)) <= 2);
    or_sin_cos(0, &sine, &cosine);
    assert_true(sine == 0 && cosine == 1);
    or_sin_cos(INFINITY, &sine, &cosine);
    assert_true(isnan(sine) && isnan(cosine));
    or_sin_cos(NAN, &sine, &cosine);
    assert_true(isnan(sine) && isnan(cosine));
    assert_true(or_pow(3, 0) == 1);
    assert_true(or_erfc(INFINITY) == 0 && or_erfc(-INFINITY) == 2 && isnan(or_erfc(NAN)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_within_two_ulp),
        cmocka_unit_test(ln_is_within_two_ulp),
        cmocka_unit_test(sin_cos_are_within_two_ulp),
        cmocka_unit_test(pow_is_within_its_relative_error),
        cmocka_unit_test(erfc_is_within_its_relative_error),
        cmocka_unit_test(special_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
