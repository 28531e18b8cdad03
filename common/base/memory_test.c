// Goal: the memory that a process could have is the system's, or what is left of the tightest control group.
// Method: folders made by hand in which a system's files lie, of both versions of control groups.
#include "common/base/memory.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/test_support.h"

#define MIB ((uint64_t)1 << 20)
#define KIB_AVAILABLE "MemTotal:  8388608 kB\nMemFree: 1 kB\nMemAvailable:  4194304 kB\n"

static void without_a_limit_it_is_the_systems(void **state)
{
    (void)state;
    test_write_file("proc/meminfo", KIB_AVAILABLE);
    assert_int_equal(or_memory_available_in(test_folder()), 4096 * MIB);
    test_write_file("proc/self/cgroup", "0::/user.slice/a\n");
    test_write_file("sys/fs/cgroup/user.slice/a/memory.max", "max\n");
    test_write_file("sys/fs/cgroup/user.slice/a/memory.current", "1048576\n");
    assert_int_equal(or_memory_available_in(test_folder()), 4096 * MIB);
}

static void a_group_leaves_what_its_limit_has_left(void **state)
{
    (void)state;
    test_write_file("proc/meminfo", KIB_AVAILABLE);
    test_write_file("proc/self/cgroup", "0::/user.slice/a\n");
    test_write_file("sys/fs/cgroup/user.slice/a/memory.max", "1073741824\n");
    test_write_file("sys/fs/cgroup/user.slice/a/memory.current", "314572800\n"); // 300 MiB
    assert_int_equal(or_memory_available_in(test_folder()), 724 * MIB);
    test_write_file("sys/fs/cgroup/user.slice/a/memory.stat",
                    "anon 209715200\ninactive_file 104857600\n"); // of those, 100 MiB of files
    assert_int_equal(or_memory_available_in(test_folder()), 824 * MIB);
    test_write_file("sys/fs/cgroup/user.slice/memory.max", "536870912\n"); // above it: 512 MiB
    test_write_file("sys/fs/cgroup/user.slice/memory.current", "1073741824\n");
    assert_int_equal(or_memory_available_in(test_folder()), 0);
}

// The path is the host's, and the group is what is mounted.
static void a_container_sees_its_group_alone(void **state)
{
    (void)state;
    test_write_file("proc/meminfo", KIB_AVAILABLE);
    test_write_file("proc/self/cgroup", "0::/docker/1234\n");
    test_write_file("sys/fs/cgroup/memory.max", "1073741824\n");
    test_write_file("sys/fs/cgroup/memory.current", "0\n");
    assert_int_equal(or_memory_available_in(test_folder()), 1024 * MIB);
}

static void the_first_version_has_other_names(void **state)
{
    (void)state;
    test_write_file("proc/meminfo", KIB_AVAILABLE);
    test_write_file("proc/self/cgroup", "5:devices:/a\n4:memory:/a\n0::/\n");
    test_write_file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    test_write_file("sys/fs/cgroup/memory/memory.usage_in_bytes", "2147483648\n");
    assert_int_equal(or_memory_available_in(test_folder()), 4096 * MIB);
    test_write_file("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "2147483648\n");
    test_write_file("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "1073741824\n");
    test_write_file("sys/fs/cgroup/memory/a/memory.stat",
                    "inactive_file 1\ntotal_inactive_file 536870912\n");
    assert_int_equal(or_memory_available_in(test_folder()), 1536 * MIB);
}

static void nonsense_says_nothing(void **state)
{
    (void)state;
    assert_int_equal(or_memory_available_in(test_folder()), UINT64_MAX);
    test_write_file("proc/meminfo", "MemAvailable: none\n");
    test_write_file("proc/self/cgroup", "\n:\n::\n0::\n0::relative\n0:cpu:/\n");
    assert_int_equal(or_memory_available_in(test_folder()), UINT64_MAX);
}

static void this_machine_has_some(void **state)
{
    (void)state;
    assert_in_range(or_memory_available(), MIB, UINT64_MAX / 1024);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_a_limit_it_is_the_systems, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(a_group_leaves_what_its_limit_has_left, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(a_container_sees_its_group_alone, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(the_first_version_has_other_names, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(nonsense_says_nothing, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test(this_machine_has_some),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
