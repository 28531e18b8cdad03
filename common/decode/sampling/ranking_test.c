// Goal: items come in the order that sorting them all would give, whatever their scores.
// Method: compare with qsort on random scores with ties, near and far from the best, with
// infinities, of more bands and of fewer than one gathering takes. A ranking is also used again
// after it was left early.
#include "common/decode/sampling/ranking.h"

#include <math.h>
#include <stdlib.h>

#include "tests/support/test_support.h"

#define ITEMS 3000
#define ROUNDS 300

static double scores[ITEMS];
static uint32_t expected[ITEMS];

static int best_first(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    if (scores[x] != scores[y]) {
        return scores[x] > scores[y] ? -1 : 1;
    }
    return x < y ? -1 : 1;
}

// Fill in scores over a range from one band's to far beyond the last band. Every third round has
// few values.
static void fill(uint64_t *random, int round, uint32_t count)
{
    static const double ranges[] = {0, 1e-3, 1, 30, 200, 1e300};
    double range = ranges[test_below(random, 6)];
    for (uint32_t i = 0; i < count; i++) {
        double value = 2 * test_uniform(random) - 1;
        scores[i] = range * (round % 3 == 0 ? floor(4 * value) : value);
        if (round % 5 == 0 && test_below(random, 100) == 0) {
            scores[i] = test_below(random, 2) == 0 ? INFINITY : -INFINITY;
        }
        expected[i] = i;
    }
    qsort(expected, count, sizeof *expected, best_first);
}

static void items_come_as_sorting_says(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    or_ranking_t *ranking;
    assert_int_equal(or_ranking_create(ITEMS, &ranking), OR_OK);
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t count = 1 + (uint32_t)test_below(&random, ITEMS);
        uint32_t asked = round % 2 == 0 ? count : 1 + (uint32_t)test_below(&random, count);
        fill(&random, round, count);
        or_ranking_open(ranking, scores, count, scores[expected[0]],
                        1 + (uint32_t)test_below(&random, ITEMS));
        for (uint32_t rank = 0; rank < asked; rank++) {
            assert_int_equal(or_ranking_next(ranking), expected[rank]);
        }
    }
    or_ranking_destroy(&ranking);
    assert_null(ranking);
    or_ranking_destroy(&ranking);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_come_as_sorting_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
