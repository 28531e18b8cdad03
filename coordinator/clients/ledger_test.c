// Goal: what owners hold is counted to the byte, whatever happens to holds; no owner takes what others need; a refusal changes
// nothing and names the limit. Method: random holds of random owners beside sums of our own; an owner alone, two, many; threads.
#include "coordinator/clients/ledger.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/test_support.h"

#define MIB (UINT64_C(1) << 20)

static or_ledger_t *make_ledger(uint64_t memory_max, uint64_t disk_max)
{
    or_ledger_t *ledger = NULL;
    assert_int_equal(or_ledger_create(memory_max, disk_max, &ledger), OR_OK);
    return ledger;
}

// Bytes that one more hold of this owner is granted, in pieces.
static uint64_t fill(or_ledger_t *ledger, const char *owner, uint64_t piece, or_hold_t *hold)
{
    assert_int_equal(or_hold_open(hold, ledger, owner, OR_HELD_ANSWERS), OR_OK);
    while (or_hold_resize(hold, hold->bytes + piece) == OR_OK) {
    }
    return hold->bytes;
}

static void an_owner_may_hold_what_is_free(void **state)
{
    (void)state;
    or_ledger_t *ledger = make_ledger(120 * MIB, 0);
    or_hold_t holds[4];
    assert_int_equal(fill(ledger, "ada", MIB, &holds[0]), 60 * MIB); // half of all
    assert_int_equal(fill(ledger, "ben", MIB, &holds[1]), 30 * MIB); // half of what is left
    assert_int_equal(fill(ledger, "", MIB, &holds[2]), 15 * MIB);
    or_hold_close(&holds[0]);
    assert_int_equal(fill(ledger, "ben", MIB, &holds[3]), 22 * MIB); // 52 held, 53 free
    for (int i = 1; i < 4; i++) {
        or_hold_close(&holds[i]);
    }
    or_ledger_destroy(&ledger);
    assert_null(ledger);
}

static void equals_come_to_equal_parts(void **state)
{
    enum { OWNERS = 5 };
    (void)state;
    or_ledger_t *ledger = make_ledger(60 * MIB, 0);
    or_hold_t holds[OWNERS];
    char name[16];
    for (int i = 0; i < OWNERS; i++) {
        snprintf(name, sizeof name, "o%d", i);
        or_hold_open(&holds[i], ledger, name, OR_HELD_BODIES);
    }
    for (bool any = true; any;) { // a kilobyte each in turn
        any = false;
        for (int i = 0; i < OWNERS; i++) {
            any |= or_hold_resize(&holds[i], holds[i].bytes + 1024) == OR_OK;
        }
    }
    for (int i = 0; i < OWNERS; i++) {
        assert_in_range(holds[i].bytes, 10 * MIB - 1024, 10 * MIB); // a sixth, and one is free
        or_hold_close(&holds[i]);
    }
    or_ledger_destroy(&ledger);
}

static void a_refusal_changes_nothing_and_says_why(void **state)
{
    (void)state;
    or_ledger_t *ledger = make_ledger(10 * MIB, 4 * MIB);
    or_ledger_usage_t usage;
    or_hold_t body, row;
    or_hold_open(&body, ledger, "ada", OR_HELD_BODIES);
    or_hold_open(&row, ledger, "ada", OR_HELD_JOURNAL);
    assert_int_equal(or_hold_resize(&body, 4 * MIB), OR_OK);
    assert_int_equal(or_hold_resize(&body, 6 * MIB), OR_ERR_FULL);
    assert_non_null(
        strstr(or_error_text(), "owner 'ada' holds 4.0 MiB of the coordinator's memory"));
    assert_non_null(strstr(or_error_text(), "--memory-max"));
    assert_int_equal(body.bytes, 4 * MIB);
    assert_int_equal(or_hold_resize(&row, 2 * MIB), OR_OK); // disk is counted apart
    assert_int_equal(or_hold_resize(&row, 2 * MIB + 1), OR_ERR_FULL);
    assert_non_null(strstr(or_error_text(), "--journal-max"));
    assert_int_equal(or_hold_resize(&body, UINT64_MAX), OR_ERR_FULL); // no sum overflows
    or_ledger_usage(ledger, &usage);
    assert_int_equal(usage.bytes[OR_HELD_BODIES], 4 * MIB);
    assert_int_equal(usage.refused[OR_HELD_BODIES], 2);
    assert_int_equal(usage.refused[OR_HELD_JOURNAL], 1);
    assert_int_equal(usage.largest_owner, 4 * MIB);
    assert_int_equal(usage.owners, 1);
    or_hold_force(&body, 9 * MIB);
    assert_int_equal(or_hold_resize(&body, 8 * MIB), OR_OK); // less is granted, however much it is
    or_hold_close(&body);
    or_hold_close(&body); // again does no harm
    or_hold_close(&row);
    or_ledger_destroy(&ledger);
}

// Whatever the others hold, a refusal sounds the same.
static void a_refusal_tells_nothing_of_others(void **state)
{
    (void)state;
    or_ledger_t *ledger = make_ledger(64 * MIB, 0);
    or_hold_t ada, ben;
    char alone[256];
    or_hold_open(&ada, ledger, "ada", OR_HELD_BODIES);
    or_hold_open(&ben, ledger, "ben", OR_HELD_BODIES);
    assert_int_equal(or_hold_resize(&ben, MIB), OR_OK);
    assert_int_equal(or_hold_resize(&ben, 40 * MIB), OR_ERR_FULL);
    snprintf(alone, sizeof alone, "%s", or_error_text());
    assert_int_equal(or_hold_resize(&ada, 17 * MIB), OR_OK);
    assert_int_equal(or_hold_resize(&ben, 40 * MIB), OR_ERR_FULL);
    assert_string_equal(or_error_text(), alone);
    or_hold_close(&ada);
    or_hold_close(&ben);
    or_ledger_destroy(&ledger);
}

static void without_a_ledger_all_is_granted(void **state)
{
    (void)state;
    or_hold_t hold;
    assert_int_equal(or_hold_open(&hold, NULL, "ada", OR_HELD_BODIES), OR_OK);
    assert_int_equal(or_hold_resize(&hold, UINT64_MAX), OR_OK);
    or_hold_close(&hold);
}

static void sums_are_exact(void **state)
{
    enum { HOLDS = 64, STEPS = 20000 };
    (void)state;
    uint64_t rng = test_seed();
    or_ledger_t *ledger = make_ledger(1000, 500);
    or_hold_t holds[HOLDS] = {0};
    for (int step = 0; step < STEPS; step++) {
        or_hold_t *hold = &holds[test_below(&rng, HOLDS)];
        char name[16];
        snprintf(name, sizeof name, "o%u", (unsigned)test_below(&rng, 7));
        if (hold->ledger == NULL) {
            or_hold_open(hold, ledger, name, (or_held_t)test_below(&rng, OR_HELD_KINDS));
        } else if (test_below(&rng, 8) == 0) {
            or_hold_close(hold);
        } else {
            (void)or_hold_resize(hold, test_below(&rng, 100));
        }
        or_ledger_usage_t usage;
        uint64_t sums[OR_HELD_KINDS] = {0}, memory = 0;
        or_ledger_usage(ledger, &usage);
        for (int i = 0; i < HOLDS; i++) {
            sums[holds[i].kind] += holds[i].bytes;
        }
        assert_memory_equal(sums, usage.bytes, sizeof sums);
        for (int kind = 0; kind < OR_HELD_JOURNAL; kind++) {
            memory += sums[kind];
        }
        assert_true(memory <= 1000 && sums[OR_HELD_JOURNAL] <= 500);
    }
    for (int i = 0; i < HOLDS; i++) {
        or_hold_close(&holds[i]);
    }
    or_ledger_destroy(&ledger);
}

static void *work(void *context)
{
    or_hold_t hold;
    for (int i = 0; i < 2000; i++) {
        or_hold_open(&hold, context, i % 2 == 0 ? "ada" : "ben", OR_HELD_UNSENT);
        (void)or_hold_resize(&hold, (uint64_t)i);
        or_hold_close(&hold);
    }
    return NULL;
}

static void threads_leave_nothing_behind(void **state)
{
    enum { THREADS = 4 };
    (void)state;
    or_ledger_t *ledger = make_ledger(MIB, 0);
    pthread_t threads[THREADS];
    or_ledger_usage_t usage;
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, work, ledger), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    or_ledger_usage(ledger, &usage);
    assert_int_equal(usage.bytes[OR_HELD_UNSENT], 0);
    assert_int_equal(usage.owners, 0);
    or_ledger_destroy(&ledger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_owner_may_hold_what_is_free),
        cmocka_unit_test(equals_come_to_equal_parts),
        cmocka_unit_test(a_refusal_changes_nothing_and_says_why),
        cmocka_unit_test(a_refusal_tells_nothing_of_others),
        cmocka_unit_test(without_a_ledger_all_is_granted),
        cmocka_unit_test(sums_are_exact),
        cmocka_unit_test(threads_leave_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
