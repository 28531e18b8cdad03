// Goal: every item runs exactly once, in one place, for any number of threads, items and grain.
// Method: count visits per item over many runs in a row, so that spinning and sleeping workers both
// happen.
#include "common/model/cpu/workers.h"

#include <string.h>
#include <time.h>

#include "tests/support/test_support.h"

#define ITEMS_MAX 50u

typedef struct {
    uint32_t visits[ITEMS_MAX];
    uint32_t threads;
    uint32_t grain;
    uint32_t items;
    bool wrong;
} tally_t;

static void visit(void *context, uint32_t worker, uint32_t begin, uint32_t end)
{
    tally_t *tally = context;
    if (worker >= tally->threads || (end - begin < tally->grain && end - begin != tally->items)) {
        tally->wrong = true;
    }
    for (uint32_t i = begin; i < end; i++) {
        tally->visits[i]++;
    }
}

static or_status_t create(uint32_t threads, or_workers_t **workers_p)
{
    return or_workers_create(&(or_workers_options_t){.threads = threads}, workers_p);
}

static void every_item_runs_once(void **state)
{
    (void)state;
    const uint32_t threads[] = {1, 2, 3, 7};
    uint64_t rng = test_seed();
    for (size_t t = 0; t < sizeof threads / sizeof threads[0]; t++) {
        or_workers_t *workers = NULL;
        assert_int_equal(create(threads[t], &workers), OR_OK);
        assert_int_equal(or_workers_count(workers), threads[t]);
        for (uint32_t run = 0; run < 2000; run++) {
            tally_t tally = {.threads = threads[t],
                             .grain = 1 + (uint32_t)test_below(&rng, 5),
                             .items = (uint32_t)test_below(&rng, ITEMS_MAX + 1)};
            or_workers_run(workers, tally.items, tally.grain, visit, &tally);
            assert_false(tally.wrong);
            for (uint32_t i = 0; i < ITEMS_MAX; i++) {
                assert_int_equal(tally.visits[i], i < tally.items);
            }
            if (run % 500 == 0) { // let them fall asleep
                nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
            }
        }
        or_workers_destroy(&workers);
        assert_null(workers);
    }
}

static void as_many_as_cores_by_default(void **state)
{
    (void)state;
    or_workers_t *workers = NULL;
    assert_int_equal(create(0, &workers), OR_OK);
    assert_in_range(or_workers_count(workers), 1, OR_THREADS_MAX);
    or_workers_destroy(&workers);
    assert_int_equal(create(OR_THREADS_MAX + 1, &workers), OR_ERR_INVALID);
    assert_null(workers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_runs_once),
        cmocka_unit_test(as_many_as_cores_by_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
