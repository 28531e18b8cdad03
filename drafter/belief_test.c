// Goal: the fitted tau is the one the draws were made with, and nothing the target does can break
// it.
// Method: draws from softmax(scores / tau) for several tau; then surprises only.
#include "drafter/belief.h"

#include <math.h>

#include "tests/support/test_support.h"

#define SCORES 16

// A rank drawn from softmax(scores / tau).
static uint32_t draw(const double scores[SCORES], double tau, uint64_t *random)
{
    double total = 0;
    for (int i = 0; i < SCORES; i++) {
        total += exp((scores[i] - scores[0]) / tau);
    }
    double left = test_uniform(random) * total;
    uint32_t rank = 0;
    while (rank < SCORES - 1 && left >= exp((scores[rank] - scores[0]) / tau)) {
        left -= exp((scores[rank] - scores[0]) / tau);
        rank++;
    }
    return rank;
}

static void tau_is_found_again(void **state)
{
    (void)state;
    static const double taus[] = {0.15, 0.4, 0.9, 1.7};
    uint64_t random = test_seed();
    for (int t = 0; t < 4; t++) {
        or_belief_t belief;
        or_belief_init(&belief);
        for (int i = 0; i < 400; i++) {
            double scores[SCORES] = {0};
            for (int j = 1; j < SCORES; j++) {
                scores[j] = scores[j - 1] - 0.6 * test_uniform(&random);
            }
            or_belief_learn(&belief, scores, SCORES, draw(scores, taus[t], &random));
        }
        double ratio = or_belief_tau(&belief) / taus[t];
        assert_true(ratio > 0.5 && ratio < 2);
    }
}

static void the_prior_is_near_0_6_and_weak(void **state)
{
    (void)state;
    static const double scores[] = {0, -1, -2};
    or_belief_t belief;
    or_belief_init(&belief);
    assert_true(fabs(or_belief_tau(&belief) - 0.6) < 0.1);
    for (int i = 0; i < 20; i++) {
        or_belief_learn(&belief, scores, 3, 0); // always the best: trust it
    }
    assert_true(or_belief_tau(&belief) < 0.3);
}

static void surprises_are_survived(void **state)
{
    (void)state;
    static const double scores[] = {0, -500};
    or_belief_t belief;
    or_belief_init(&belief);
    for (uint32_t i = 0; i < 1000; i++) {
        or_belief_learn(&belief, scores, 2, i % 3); // 2: not among them
        or_belief_learn(&belief, scores, 0, 0);     // nothing known at all
        for (uint32_t j = 0; j < OR_BELIEF_GRID; j++) {
            assert_true(isfinite(belief.log_likelihood[j]));
        }
    }
    double tau = or_belief_tau(&belief);
    assert_true(tau >= 0.1 && tau <= 2.001);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tau_is_found_again),
        cmocka_unit_test(the_prior_is_near_0_6_and_weak),
        cmocka_unit_test(surprises_are_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
