// Goal: rows are shared out fairly, first among owners and then among an owner's sessions; nobody starves,
// nobody earns anything by being idle or by leaving and coming back, equals are served in order of arrival.
// Method: the scheduler alone; passes of a fixed number of rows in which each session brings trees of its own
// size, counted over many passes.
#include <string.h>

#include "tests/support/test_support.h"
#include "verifier/pass/scheduler.h"

#define FLOWS 20

typedef struct {
    or_scheduler_t *scheduler;
    uint32_t rows[FLOWS];    // of a tree; 0: it is idle
    uint64_t served[FLOWS];  // rows so far
    uint32_t waited[FLOWS];  // passes since it was served
    uint32_t longest[FLOWS]; // of those
} bench_t;

static void init(bench_t *b)
{
    memset(b, 0, sizeof *b);
    assert_int_equal(or_scheduler_create(FLOWS, &b->scheduler), OR_OK);
}

static void join(bench_t *b, uint32_t flow, const char *owner, uint32_t rows)
{
    assert_int_equal(or_scheduler_join(b->scheduler, flow, owner), OR_OK);
    b->rows[flow] = rows;
}

// One pass: who fits goes, whoever is first goes in any case.
static void pass(bench_t *b, uint32_t rows_max)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < FLOWS; i++) {
        if (b->rows[i] > 0 || b->served[i] > 0) {
            or_scheduler_set_ready(b->scheduler, i, b->rows[i] > 0);
        }
        b->waited[i]++;
    }
    or_scheduler_begin(b->scheduler);
    while (used < rows_max) {
        uint32_t flow = or_scheduler_pick(b->scheduler);
        if (flow == OR_SCHEDULER_NOBODY) {
            break;
        }
        if (used > 0 && used + b->rows[flow] > rows_max) {
            continue;
        }
        used += b->rows[flow];
        b->served[flow] += b->rows[flow];
        b->waited[flow] = 0;
        or_scheduler_charge(b->scheduler, flow, b->rows[flow]);
    }
    for (uint32_t i = 0; i < FLOWS; i++) {
        b->longest[i] = b->waited[i] > b->longest[i] ? b->waited[i] : b->longest[i];
    }
}

static void passes(bench_t *b, uint32_t count, uint32_t rows_max)
{
    for (uint32_t i = 0; i < count; i++) {
        pass(b, rows_max);
    }
}

static uint64_t sum(const uint64_t *served, uint32_t first, uint32_t count)
{
    uint64_t total = 0;
    for (uint32_t i = first; i < first + count; i++) {
        total += served[i];
    }
    return total;
}

// One session against fifteen: as much for the one as for all of those.
static void owners_have_equal_shares(void **state)
{
    (void)state;
    bench_t b;
    init(&b);
    join(&b, 0, "ada", 16);
    for (uint32_t i = 1; i < 16; i++) {
        join(&b, i, "bob", 16);
    }
    passes(&b, 3000, 16); // one tree a pass: there is no room for all
    assert_int_equal(b.served[0], sum(b.served, 1, 15));
    for (uint32_t i = 1; i < 16; i++) {
        assert_in_range(b.served[i], 100 * 16, 100 * 16 + 16);
    }
    or_scheduler_destroy(&b.scheduler);
}

static void huge_trees_get_no_more_rows_than_others(void **state)
{
    (void)state;
    bench_t b;
    init(&b);
    join(&b, 0, "ada", 500);
    for (uint32_t i = 1; i < 5; i++) {
        join(&b, i, "ada", 10);
    }
    passes(&b, 20000, 20);
    for (uint32_t i = 1; i < 5; i++) {
        assert_true(b.served[i] + 500 >= b.served[0]);
    }
    assert_true(b.served[0] > 10000); // nor does it starve, although it never fits
    or_scheduler_destroy(&b.scheduler);
}

// Between two trees of one session that are alike everybody else has been served, within what a tree is worth.
static void nobody_starves(void **state)
{
    (void)state;
    uint64_t rng = test_seed();
    bench_t b;
    init(&b);
    static const char *owners[] = {"ada", "bob", "eve"};
    for (uint32_t i = 0; i < FLOWS; i++) {
        join(&b, i, owners[i % 3], 1 + (uint32_t)test_below(&rng, 60));
    }
    passes(&b, 4000, 64);
    for (uint32_t i = 0; i < FLOWS; i++) {
        assert_in_range(b.longest[i], 0, 60);
    }
    uint64_t share = sum(b.served, 0, FLOWS) / 3;
    for (uint32_t o = 0; o < 3; o++) {
        uint64_t total = 0;
        for (uint32_t i = o; i < FLOWS; i += 3) {
            total += b.served[i];
        }
        assert_in_range(total, share - 200, share + 200);
    }
    or_scheduler_destroy(&b.scheduler);
}

static void the_idle_earn_nothing(void **state)
{
    (void)state;
    bench_t b;
    init(&b);
    join(&b, 0, "ada", 10);
    join(&b, 1, "ada", 0);
    join(&b, 2, "bob", 10);
    join(&b, 3, "eve", 0);
    passes(&b, 1000, 10);
    b.rows[1] = b.rows[3] = 10; // after a long rest
    uint64_t before[FLOWS];
    memcpy(before, b.served, sizeof before);
    passes(&b, 60, 10);
    assert_in_range(b.served[0] - before[0], 90, 110);  // half of ada's third
    assert_in_range(b.served[1] - before[1], 90, 110);  //
    assert_in_range(b.served[2] - before[2], 190, 210); // a third
    assert_in_range(b.served[3] - before[3], 190, 210);
    or_scheduler_destroy(&b.scheduler);
}

// Ending each session behind its first tree and opening another is no way to get more.
static void leaving_and_coming_back_earns_nothing(void **state)
{
    (void)state;
    bench_t b;
    init(&b);
    join(&b, 0, "ada", 10);
    join(&b, 1, "bob", 100);
    for (uint32_t i = 0; i < 1100; i++) {
        uint64_t before = b.served[1];
        pass(&b, 10);
        if (b.served[1] > before) {
            or_scheduler_leave(b.scheduler, 1);
            join(&b, 1, "bob", 100);
        }
    }
    assert_in_range(b.served[1], b.served[0] - 200, b.served[0] + 200);
    or_scheduler_destroy(&b.scheduler);
}

static void equals_are_served_in_order_of_arrival(void **state)
{
    (void)state;
    static const uint32_t order[] = {4, 1, 3, 0, 2};
    or_scheduler_t *scheduler = NULL;
    assert_int_equal(or_scheduler_create(5, &scheduler), OR_OK);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(or_scheduler_join(scheduler, i, "ada"), OR_OK);
    }
    for (uint32_t i = 0; i < 5; i++) {
        or_scheduler_set_ready(scheduler, order[i], true);
    }
    assert_int_equal(or_scheduler_ready_count(scheduler), 5);
    for (uint32_t round = 0; round < 3; round++) {
        or_scheduler_begin(scheduler);
        for (uint32_t i = 0; i < 5; i++) {
            assert_int_equal(or_scheduler_pick(scheduler), order[i]);
            or_scheduler_charge(scheduler, order[i], 8);
        }
        assert_int_equal(or_scheduler_pick(scheduler), OR_SCHEDULER_NOBODY);
    }
    or_scheduler_begin(scheduler);
    or_scheduler_pick_first(scheduler, 3); // out of its turn, and only once
    or_scheduler_leave(scheduler, 1);
    assert_int_equal(or_scheduler_pick(scheduler), 4);
    assert_int_equal(or_scheduler_pick(scheduler), 0);
    assert_int_equal(or_scheduler_pick(scheduler), 2);
    assert_int_equal(or_scheduler_pick(scheduler), OR_SCHEDULER_NOBODY);
    assert_int_equal(or_scheduler_ready_count(scheduler), 4);
    or_scheduler_destroy(&scheduler);
    assert_null(scheduler);
}

// More owners come and go than there are places for.
static void owners_without_sessions_give_way(void **state)
{
    (void)state;
    or_scheduler_t *scheduler = NULL;
    assert_int_equal(or_scheduler_create(2, &scheduler), OR_OK);
    for (uint32_t i = 0; i < 50; i++) {
        char name[2] = {(char)('a' + i % 26), '\0'};
        assert_int_equal(or_scheduler_join(scheduler, 0, name), OR_OK);
        assert_int_equal(or_scheduler_join(scheduler, 1, i % 2 == 0 ? name : "other"), OR_OK);
        for (uint32_t flow = 0; flow < 2; flow++) {
            or_scheduler_set_ready(scheduler, flow, true);
        }
        or_scheduler_begin(scheduler);
        assert_in_range(or_scheduler_pick(scheduler), 0, 1);
        assert_in_range(or_scheduler_pick(scheduler), 0, 1);
        or_scheduler_charge(scheduler, i % 2, i);
        or_scheduler_leave(scheduler, 0);
        or_scheduler_leave(scheduler, 1);
        or_scheduler_leave(scheduler, 1);
        assert_int_equal(or_scheduler_ready_count(scheduler), 0);
    }
    or_scheduler_destroy(&scheduler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(owners_have_equal_shares),
        cmocka_unit_test(huge_trees_get_no_more_rows_than_others),
        cmocka_unit_test(nobody_starves),
        cmocka_unit_test(the_idle_earn_nothing),
        cmocka_unit_test(leaving_and_coming_back_earns_nothing),
        cmocka_unit_test(equals_are_served_in_order_of_arrival),
        cmocka_unit_test(owners_without_sessions_give_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
