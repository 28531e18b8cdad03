// Goal: numbers of sessions are known again, never come twice, and do not tell how many are between two of them.
// Method: many of them, sorted; what was not given out yet; two processes' worth.
#include "coordinator/session/sessions.h"

#include <stdlib.h>

#include "tests/support/test_support.h"

#define COUNT 20000u

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void numbers_come_once_and_in_no_order(void **state)
{
    (void)state;
    static uint64_t given[COUNT];
    or_session_ids_t ids, others;
    uint32_t rises = 0, close = 0;
    or_session_ids_init(&ids);
    or_session_ids_init(&others);
    for (uint32_t i = 0; i < COUNT; i++) {
        or_session_id_t id = or_session_ids_next(&ids);
        assert_int_equal(id.value % 2, 1);
        assert_false(or_session_ids_was(&ids, id));
        or_session_ids_take(&ids);
        assert_true(or_session_ids_was(&ids, id));
        assert_false(or_session_ids_was(&others, id));
        given[i] = id.value;
        rises += i > 0 && given[i] > given[i - 1];
        close += i > 0 && given[i] - given[i - 1] < (UINT64_C(1) << 40);
    }
    assert_in_range(rises, COUNT / 2 - COUNT / 20, COUNT / 2 + COUNT / 20);
    assert_in_range(close, 0, 4);
    qsort(given, COUNT, sizeof *given, compare);
    for (uint32_t i = 1; i < COUNT; i++) {
        assert_true(given[i] != given[i - 1]);
    }
    assert_false(or_session_ids_was(&ids, (or_session_id_t){0}));
    assert_false(or_session_ids_was(&ids, (or_session_id_t){UINT64_MAX}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_come_once_and_in_no_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
