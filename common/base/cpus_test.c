// Goal: a range or list of CPUs contains exactly the CPUs it names. Subsets are neighbouring CPUs.
// Method: use this machine's CPUs, whichever they are, and sets made by hand for the arithmetic.
#include "common/base/cpus.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/test_support.h"

// Return a set of the CPUs first, first + 2, ...
static or_cpus_t every_second(int first, int count)
{
    or_cpus_t cpus;
    CPU_ZERO(&cpus.set);
    for (int i = 0; i < count; i++) {
        CPU_SET(first + 2 * i, &cpus.set);
    }
    return cpus;
}

static void assert_same(const or_cpus_t *cpus, const or_cpus_t *expected)
{
    assert_true(CPU_EQUAL(&cpus->set, &expected->set));
}

static void ranges_are_of_this_machine(void **state)
{
    (void)state;
    or_cpus_t allowed = or_cpus_allowed();
    assert_in_range(or_cpus_count(&allowed), 1, CPU_SETSIZE);
    for (int i = 0; i < CPU_SETSIZE; i++) {
        char text[32];
        or_cpus_t cpus;
        snprintf(text, sizeof text, "%d-%d", i, i);
        if (CPU_ISSET(i, &allowed.set)) {
            assert_int_equal(or_cpus_parse(text, &cpus), OR_OK);
            assert_int_equal(or_cpus_count(&cpus), 1);
            assert_true(CPU_ISSET(i, &cpus.set));
        } else {
            assert_int_equal(or_cpus_parse(text, &cpus), OR_ERR_INVALID);
        }
    }
}

static void what_is_no_range_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"",     "-",   "1-",  "-1",
                                        "a",    "0-b", "1-0", "0,1",
                                        "0-1-", " 0",  "0x1", "0-99999999999999999999",
                                        "1024", "+0"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        or_cpu_options_t options = or_cpu_options_default();
        or_cpus_t cpus;
        assert_int_equal(or_cpus_parse(texts[i], &cpus), OR_ERR_INVALID);
        options.range = (char *)texts[i];
        if (*texts[i] != '\0') {
            assert_int_equal(or_cpu_options_check(&options, "-draft"), OR_ERR_INVALID);
            assert_non_null(strstr(or_error_text(), "--cpu-range-draft: "));
        }
    }
}

static void other_options_have_bounds(void **state)
{
    (void)state;
    or_cpu_options_t options = or_cpu_options_default();
    assert_int_equal(or_cpu_options_check(&options, ""), OR_OK);
    options.strict = 2;
    assert_int_equal(or_cpu_options_check(&options, ""), OR_ERR_INVALID);
    options.strict = 1;
    options.poll = 101;
    assert_int_equal(or_cpu_options_check(&options, ""), OR_ERR_INVALID);
    options.poll = 0;
    assert_int_equal(or_cpu_options_check(&options, ""), OR_OK);
    assert_int_equal(or_cpu_options_poll(&options), OR_POLL_NEVER);
}

static void a_list_is_the_systems_form(void **state)
{
    (void)state;
    static const char *const same[] = {"", "0", "0-3", "0,2,4,6", "0-7,16-23", "1023", "0-1023"};
    static const struct {
        const char *text, *written;
    } others[] = {{"\n", ""}, {"5,0-3\n", "0-3,5"}, {"1-2,2-3,3", "1-3"}};
    static const char *const malformed[] = {",",    "0,",   ",0",   "0,,1",   "0-",    "-1",
                                            "3-0",  "a",    "0-3 ", " 0",     "0\n\n", "\n\n",
                                            "0\n1", "1024", "0:1",  "0-1024", "0x1",   "+0"};
    char written[64];
    or_cpus_t cpus;
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        assert_int_equal(or_cpus_parse_list(same[i], &cpus), OR_OK);
        or_cpus_list(&cpus, written, sizeof written);
        assert_string_equal(written, same[i]);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_int_equal(or_cpus_parse_list(others[i].text, &cpus), OR_OK);
        or_cpus_list(&cpus, written, sizeof written);
        assert_string_equal(written, others[i].written);
    }
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        assert_int_equal(or_cpus_parse_list(malformed[i], &cpus), OR_ERR_INVALID);
    }
}

static void a_list_is_cut_where_there_is_no_room(void **state)
{
    (void)state;
    or_cpus_t cpus = every_second(10, 5); // 10,12,14,16,18
    char written[16];
    for (size_t capacity = 1; capacity <= 15; capacity++) {
        memset(written, 'x', sizeof written);
        or_cpus_list(&cpus, written, capacity);
        assert_memory_equal(written, "10,12,14,16,18", capacity - 1);
        assert_int_equal(written[capacity - 1], '\0');
        assert_int_equal(written[capacity], 'x');
    }
}

static void subsets_are_neighbours(void **state)
{
    (void)state;
    or_cpus_t seven = every_second(3, 7);
    or_cpus_t middle = every_second(7, 2);
    or_cpus_t share = or_cpus_subset(&seven, 2, 2);
    assert_same(&share, &middle);
    or_cpus_t last = or_cpus_nth(&seven, 13);
    or_cpus_t fifteen = every_second(15, 1);
    assert_same(&last, &fifteen);
    share = or_cpus_subset(&seven, 6, 9);
    assert_same(&share, &fifteen);
    or_cpus_t none = every_second(0, 0);
    share = or_cpus_subset(&seven, 7, 1);
    assert_same(&share, &none);
}

static void a_pin_is_remembered(void **state)
{
    (void)state;
    or_cpus_t all = or_cpus_allowed();
    or_cpus_t last = or_cpus_nth(&all, or_cpus_count(&all) - 1);
    or_cpus_t before;
    assert_false(or_cpus_before_pin(&before));
    for (int i = 0; i < 2; i++) { // the second time the thread is pinned already
        assert_int_equal(or_cpus_pin(&last), OR_OK);
        or_cpus_t now = or_cpus_allowed();
        assert_same(&now, &last);
        assert_true(or_cpus_before_pin(&before));
        assert_same(&before, &all);
    }
    assert_int_equal(or_cpus_confine(&all), OR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_of_this_machine),
        cmocka_unit_test(what_is_no_range_is_refused),
        cmocka_unit_test(a_list_is_the_systems_form),
        cmocka_unit_test(a_list_is_cut_where_there_is_no_room),
        cmocka_unit_test(other_options_have_bounds),
        cmocka_unit_test(subsets_are_neighbours),
        cmocka_unit_test(a_pin_is_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
