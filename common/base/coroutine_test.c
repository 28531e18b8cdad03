// Goal: a coroutine goes on where it paused, its variables are its own, it can be used again after it has returned, and
// one that never returns is given up without harm, also to the next one.
// Method: several count side by side, each in a deep call; the order in which they note their numbers is known. The
// sanitizer builds show whether they know of the stacks.
#include "common/base/coroutine.h"

#include <stdint.h>

#include "tests/support/test_support.h"

#define COUNTERS 3
#define STEPS 4
#define DEPTH 40

static int noted[COUNTERS * STEPS];
static int noted_count;

typedef struct {
    or_coroutine_t *coroutine;
    int first;
} counter_t;

// Note a number at the bottom of so many calls, each with memory of its own that must survive the pause.
static int note_deep(const counter_t *counter, int number, int depth)
{
    volatile uint8_t own[256];
    own[0] = own[sizeof own - 1] = (uint8_t)(number + depth);
    if (depth == 0) {
        noted[noted_count++] = number;
        or_coroutine_pause(counter->coroutine);
    } else {
        number = note_deep(counter, number, depth - 1);
    }
    assert_int_equal(own[0], (uint8_t)(number + depth));
    assert_int_equal(own[sizeof own - 1], (uint8_t)(number + depth));
    return number;
}

static void count(void *context)
{
    const counter_t *counter = context;
    for (int i = 0; i < STEPS; i++) {
        note_deep(counter, counter->first + i, DEPTH);
    }
}

static void each_goes_on_where_it_paused(void **state)
{
    (void)state;
    counter_t counters[COUNTERS];
    for (int i = 0; i < COUNTERS; i++) {
        counters[i].first = 100 * i;
        assert_int_equal(or_coroutine_create(&counters[i].coroutine), OR_OK);
    }
    for (int use = 0; use < 2; use++) {
        noted_count = 0;
        for (int i = 0; i < COUNTERS; i++) {
            or_coroutine_set(counters[i].coroutine, count, &counters[i]);
        }
        for (int step = 0; step <= STEPS; step++) {
            for (int i = 0; i < COUNTERS; i++) {
                assert_int_equal(or_coroutine_resume(counters[i].coroutine), step < STEPS);
            }
        }
        assert_int_equal(noted_count, COUNTERS * STEPS);
        for (int i = 0; i < noted_count; i++) {
            assert_int_equal(noted[i], 100 * (i % COUNTERS) + i / COUNTERS);
        }
    }
    for (int i = 0; i < COUNTERS; i++) {
        or_coroutine_destroy(&counters[i].coroutine);
        assert_null(counters[i].coroutine);
    }
}

static void one_that_never_returns_is_given_up(void **state)
{
    (void)state;
    counter_t counter = {.first = 7};
    noted_count = 0;
    assert_int_equal(or_coroutine_create(&counter.coroutine), OR_OK);
    or_coroutine_set(counter.coroutine, count, &counter);
    assert_true(or_coroutine_resume(counter.coroutine));
    or_coroutine_destroy(&counter.coroutine);
    assert_int_equal(noted[0], 7);
}

// Write to all memory that note_deep's frames had. AddressSanitizer checks each write, and reports red zones that were left behind.
static void write_deep(void *context)
{
    (void)context;
    volatile uint8_t own[512 * DEPTH];
    for (size_t i = 0; i < sizeof own; i++) {
        own[i] = 1;
    }
}

// The system is likely to map the next stack where the last one was.
static void the_next_one_inherits_nothing(void **state)
{
    counter_t counter;
    one_that_never_returns_is_given_up(state);
    assert_int_equal(or_coroutine_create(&counter.coroutine), OR_OK);
    or_coroutine_set(counter.coroutine, write_deep, NULL);
    assert_false(or_coroutine_resume(counter.coroutine));
    or_coroutine_destroy(&counter.coroutine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_goes_on_where_it_paused),
        cmocka_unit_test(one_that_never_returns_is_given_up),
        cmocka_unit_test(the_next_one_inherits_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
