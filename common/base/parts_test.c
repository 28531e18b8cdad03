// Goal: a list of arrays is taken zeroed and given back whole, also after a failure half way.
// Method: arrays of several types, one of no entries; the last allocation fails; pointers are poisoned before.
#include "common/base/parts.h"

#include <stdint.h>

#include "tests/support/short_memory.h"
#include "tests/support/test_support.h"

typedef struct {
    uint8_t *bytes;
    double *numbers;
    uint32_t *none;
    char *rest;
    size_t rest_count;
} object_t;

static bool each_array(object_t *object, or_parts_t *each)
{
    const or_part_t parts[] = {OR_PART(object->bytes, 3), OR_PART(object->numbers, 5),
                               OR_PART(object->none, 0), OR_PART(object->rest, object->rest_count)};
    return each(parts, sizeof parts / sizeof *parts);
}

static void arrays_are_taken_and_freed(void **state)
{
    (void)state;
    uint32_t poison;
    object_t object = {.none = &poison, .rest_count = 1};
    assert_true(each_array(&object, or_parts_take));
    for (uint32_t i = 0; i < 5; i++) {
        assert_true(object.numbers[i] == 0);
    }
    assert_non_null(object.bytes);
    assert_null(object.none);
    assert_non_null(object.rest);
    assert_true(each_array(&object, or_parts_free));
    assert_null(object.bytes);
    assert_null(object.numbers);
    assert_null(object.rest);
}

static void a_failure_leaves_what_can_be_freed(void **state)
{
    (void)state;
    object_t object = {.rest_count = 1};
    short_memory_arm(3);
    short_memory_watch(true);
    bool taken = each_array(&object, or_parts_take);
    short_memory_watch(false);
    short_memory_arm(0);
    assert_false(taken);
    assert_non_null(object.bytes);
    assert_null(object.rest);
    assert_true(each_array(&object, or_parts_free));
    assert_null(object.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_are_taken_and_freed),
        cmocka_unit_test(a_failure_leaves_what_can_be_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
