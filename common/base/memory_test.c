// Goal: the memory that a process could have is the system's, or what is left of the tightest control group.
// Method: folders made by hand in which a system's files lie, of both versions of control groups.
#include "common/base/memory.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/test_support.h"

#define MIB ((uint64_t)1 << 20)
#define KIB_AVAILABLE "MemTotal:  8388608 kB\nMemFree: 1 kB\nMemAvailable:  4194304 kB\n"

static char root[] = "/tmp/or_memory_test_XXXXXX";

static void put(const char *name, const char *text)
{
    test_write_file(root, name, text);
}

static int begin(void **state)
{
    (void)state;
    strcpy(root + sizeof root - 7, "XXXXXX");
    return mkdtemp(root) != NULL ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    test_remove_folder(root);
    return 0;
}

static void without_a_limit_it_is_the_systems(void **state)
{
    (void)state;
    put("proc/meminfo", KIB_AVAILABLE);
    assert_int_equal(or_memory_available_in(root), 4096 * MIB);
    put("proc/self/cgroup", "0::/user.slice/a\n");
    put("sys/fs/cgroup/user.slice/a/memory.max", "max\n");
    put("sys/fs/cgroup/user.slice/a/memory.current", "1048576\n");
    assert_int_equal(or_memory_available_in(root), 4096 * MIB);
}

static void a_group_leaves_what_its_limit_has_left(void **state)
{
    (void)state;
    put("proc/meminfo", KIB_AVAILABLE);
    put("proc/self/cgroup", "0::/user.slice/a\n");
    put("sys/fs/cgroup/user.slice/a/memory.max", "1073741824\n");
    put("sys/fs/cgroup/user.slice/a/memory.current", "314572800\n"); // 300 MiB
    assert_int_equal(or_memory_available_in(root), 724 * MIB);
    put("sys/fs/cgroup/user.slice/a/memory.stat",
        "anon 209715200\ninactive_file 104857600\n"); // of those, 100 MiB of files
    assert_int_equal(or_memory_available_in(root), 824 * MIB);
    put("sys/fs/cgroup/user.slice/memory.max", "536870912\n"); // above it: 512 MiB
    put("sys/fs/cgroup/user.slice/memory.current", "1073741824\n");
    assert_int_equal(or_memory_available_in(root), 0);
}

// The path is the host's, and the group is what is mounted.
static void a_container_sees_its_group_alone(void **state)
{
    (void)state;
    put("proc/meminfo", KIB_AVAILABLE);
    put("proc/self/cgroup", "0::/docker/1234\n");
    put("sys/fs/cgroup/memory.max", "1073741824\n");
    put("sys/fs/cgroup/memory.current", "0\n");
    assert_int_equal(or_memory_available_in(root), 1024 * MIB);
}

static void the_first_version_has_other_names(void **state)
{
    (void)state;
    put("proc/meminfo", KIB_AVAILABLE);
    put("proc/self/cgroup", "5:devices:/a\n4:memory:/a\n0::/\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("sys/fs/cgroup/memory/memory.usage_in_bytes", "2147483648\n");
    assert_int_equal(or_memory_available_in(root), 4096 * MIB);
    put("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "2147483648\n");
    put("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "1073741824\n");
    put("sys/fs/cgroup/memory/a/memory.stat", "inactive_file 1\ntotal_inactive_file 536870912\n");
    assert_int_equal(or_memory_available_in(root), 1536 * MIB);
}

static void nonsense_says_nothing(void **state)
{
    (void)state;
    assert_int_equal(or_memory_available_in(root), UINT64_MAX);
    put("proc/meminfo", "MemAvailable: none\n");
    put("proc/self/cgroup", "\n:\n::\n0::\n0::relative\n0:cpu:/\n");
    assert_int_equal(or_memory_available_in(root), UINT64_MAX);
}

static void this_machine_has_some(void **state)
{
    (void)state;
    assert_in_range(or_memory_available(), MIB, UINT64_MAX / 1024);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_a_limit_it_is_the_systems, begin, end),
        cmocka_unit_test_setup_teardown(a_group_leaves_what_its_limit_has_left, begin, end),
        cmocka_unit_test_setup_teardown(a_container_sees_its_group_alone, begin, end),
        cmocka_unit_test_setup_teardown(the_first_version_has_other_names, begin, end),
        cmocka_unit_test_setup_teardown(nonsense_says_nothing, begin, end),
        cmocka_unit_test(this_machine_has_some),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
