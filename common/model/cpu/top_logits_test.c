// Goal: the greatest few are exactly those of a full sort, the lowest ids first among equals.
// Method: seeded random logits of few values, so that most are equal, with some that are not finite; a
// slow selection beside.
#include "common/model/cpu/logits.h"

#include <math.h>
#include <string.h>

#include "tests/support/test_support.h"

#define COUNT_MAX 300u
#define FIRST_ID 1000u
#define TRIALS 3000

static float any_logit(uint64_t *rng, uint32_t values)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY, -0.0f};
    uint64_t n = test_below(rng, values + 2);
    return n < values ? (float)n - 3 : odd[test_below(rng, 4)];
}

// Does the sampler put x[a] before x[b]?
static bool is_before(const float *x, uint32_t a, uint32_t b)
{
    float left = isfinite(x[a]) ? x[a] : -INFINITY;
    float right = isfinite(x[b]) ? x[b] : -INFINITY;
    return left > right || (left == right && a < b);
}

static void the_top_is_that_of_a_full_sort(void **state)
{
    (void)state;
    uint64_t rng = test_seed();
    for (int t = 0; t < TRIALS; t++) {
        float x[COUNT_MAX];
        or_top_logit_t top[COUNT_MAX + 1];
        uint32_t count = 1 + (uint32_t)test_below(&rng, COUNT_MAX);
        uint32_t wanted = 1 + (uint32_t)test_below(&rng, test_below(&rng, 2) == 0 ? count : 1);
        uint32_t values = 1 + (uint32_t)test_below(&rng, 2 * count);
        for (uint32_t i = 0; i < count; i++) {
            x[i] = any_logit(&rng, values);
        }
        memset(top, 0xAA, sizeof top);
        or_top_logits(x, count, FIRST_ID, wanted, top);
        bool seen[COUNT_MAX] = {false};
        for (uint32_t k = 0; k < wanted; k++) {
            uint32_t id = top[k].id - FIRST_ID;
            assert_true(id < count && !seen[id]);
            seen[id] = true;
            assert_true(isfinite(x[id]) ? memcmp(&top[k].logit, &x[id], sizeof x[id]) == 0
                                        : top[k].logit == -INFINITY);
            uint32_t before = 0;
            for (uint32_t i = 0; i < count; i++) {
                before += is_before(x, i, id);
            }
            assert_true(before < wanted);
        }
        assert_int_equal(top[wanted].id, 0xAAAAAAAA);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_top_is_that_of_a_full_sort)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
