// Goal: log-probabilities are those of the logits as they are, and the best tokens the best, best first.
// Method: seeded logits, with ties and what is not finite among them; sums, orders and a slow reference in
// long double.
#include <math.h>

#include "tests/support/test_support.h"
#include "verifier/pass/logprobs.h"

#define VOCAB 257u
#define BEST 5u

static double slow_log_sum(const float *logits)
{
    long double sum = 0;
    for (uint32_t i = 0; i < VOCAB; i++) {
        sum += isfinite(logits[i]) ? expl((long double)logits[i]) : 0;
    }
    return (double)logl(sum);
}

static void fill(float *logits, uint64_t *random)
{
    for (uint32_t i = 0; i < VOCAB; i++) {
        logits[i] = (float)(test_random(random) % 64) / 8; // many ties
    }
    logits[3] = -INFINITY;
    logits[7] = NAN;
}

// Is `id` before `other` among the best?
static bool comes_before(const float *logits, uint32_t id, uint32_t other)
{
    return logits[id] > logits[other] || (logits[id] == logits[other] && id < other);
}

static void check_entry(const or_token_logprob_t *entry, const float *logits)
{
    double origin = slow_log_sum(logits);
    assert_int_equal(entry->top_count, BEST);
    for (uint32_t i = 0; i < BEST; i++) {
        uint32_t id = entry->top_tokens[i], before = 0;
        assert_true(fabs((double)entry->top_logprobs[i] - ((double)logits[id] - origin)) < 1e-6);
        for (uint32_t other = 0; other < VOCAB; other++) {
            before += isfinite(logits[other]) && other != id && comes_before(logits, other, id);
        }
        assert_int_equal(before, i);
    }
    double own = (double)logits[entry->token] - origin;
    assert_true(isfinite(own) ? fabs((double)entry->logprob - own) < 1e-6
                              : entry->logprob == -INFINITY);
}

static void they_are_those_of_the_logits(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    or_logprobs_t *logprobs;
    float logits[3][VOCAB];
    assert_int_equal(or_logprobs_create(3, BEST, VOCAB, &logprobs), OR_OK);
    for (int round = 0; round < 100; round++) {
        for (uint32_t i = 0; i < 3; i++) {
            fill(logits[i], &random);
            or_logprobs_set(logprobs, i, i == 0 ? 3 : (uint32_t)(10 + test_random(&random) % 200),
                            logits[i]);
        }
        for (uint32_t i = 0; i < 3; i++) {
            check_entry(&or_logprobs_entries(logprobs)[i], logits[i]);
        }
    }
    or_logprobs_destroy(&logprobs);
}

static void none_of_the_best_is_fine_and_so_is_a_small_vocabulary(void **state)
{
    (void)state;
    or_logprobs_t *logprobs;
    const float logits[] = {0, 1};
    assert_int_equal(or_logprobs_create(1, 0, 2, &logprobs), OR_OK);
    or_logprobs_set(logprobs, 0, 1, logits);
    assert_int_equal(or_logprobs_entries(logprobs)->top_count, 0);
    or_logprobs_destroy(&logprobs);
    assert_int_equal(or_logprobs_create(1, 20, 2, &logprobs), OR_OK);
    or_logprobs_set(logprobs, 0, 0, logits);
    assert_int_equal(or_logprobs_entries(logprobs)->top_count, 2);
    assert_int_equal(or_logprobs_entries(logprobs)->top_tokens[0], 1);
    or_logprobs_destroy(&logprobs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_are_those_of_the_logits),
        cmocka_unit_test(none_of_the_best_is_fine_and_so_is_a_small_vocabulary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
