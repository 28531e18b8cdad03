// Goal: ranks that share a host's CPUs stay in the nodes of their share; where there is one node, where mpirun has bound
// a rank, or where its weights are on a GPU, nothing changes.
// Method: a system made by hand of this machine's first two CPUs, a node each; what the scheduler and the log say then.
#include "verifier/ranks/rank_cpus.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log/log.h"
#include "tests/support/test_support.h"

static or_cpus_t before, two; // CPUs of this process
static char said[4096];       // by the log

static void put(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "sys/devices/system/node/%s", name);
    test_write_file(path, text);
}

static or_cpus_t nth(uint32_t n)
{
    return or_cpus_nth(&two, n);
}

static int begin(void **state)
{
    before = or_cpus_allowed();
    two = or_cpus_subset(&before, 0, 2);
    if (test_folder_setup(state) != 0 || or_cpus_confine(&two) != OR_OK) {
        return -1;
    }
    put("online", "0-1\n");
    for (uint32_t i = 0; i < 2; i++) {
        char name[32], list[16];
        or_cpus_t own = nth(i);
        or_cpus_list(&own, list, sizeof list);
        snprintf(name, sizeof name, "node%u/cpulist", i);
        put(name, list);
        snprintf(name, sizeof name, "node%u/meminfo", i);
        put(name, "Node 0 MemTotal: 8388608 kB\nNode 0 MemFree: 4194304 kB\n"
                  "Node 0 Active(file): 0 kB\nNode 0 Inactive(file): 0 kB\n");
    }
    return 0;
}

static int end(void **state)
{
    (void)test_folder_teardown(state);
    return or_cpus_confine(&before) == OR_OK ? 0 : -1;
}

// Call the function with standard error in a file, and read what it logged.
static or_cpus_t settle(const char *folder, or_ranks_mpi_place_t place, bool on_gpu)
{
    char path[128];
    int kept = dup(STDERR_FILENO);
    snprintf(path, sizeof path, "%s/log", test_folder());
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(kept >= 0 && file >= 0);
    or_log_flush();
    assert_true(dup2(file, STDERR_FILENO) >= 0);
    or_cpus_t share = or_rank_cpus_settle(folder, &place, on_gpu);
    or_log_flush();
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    ssize_t bytes = pread(file, said, sizeof said - 1, 0);
    assert_true(bytes >= 0);
    said[bytes] = '\0';
    close(kept);
    close(file);
    return share;
}

static or_ranks_mpi_place_t place_of(int neighbour, int neighbours)
{
    return (or_ranks_mpi_place_t){
        .rank = neighbour, .neighbour = neighbour, .neighbours = neighbours, .same_cpus = true};
}

static void assert_runs_on(or_cpus_t cpus)
{
    or_cpus_t now = or_cpus_allowed();
    assert_true(CPU_EQUAL(&now.set, &cpus.set));
}

static void need_two_cpus(void)
{
    if (or_cpus_count(&two) < 2) {
        skip();
    }
}

static void a_rank_stays_in_its_node(void **state)
{
    (void)state;
    char list[16], expected[64];
    need_two_cpus();
    or_cpus_t own = nth(1);
    or_cpus_t share = settle(test_folder(), place_of(1, 2), false);
    assert_true(CPU_EQUAL(&share.set, &own.set));
    assert_runs_on(own);
    or_cpus_list(&own, list, sizeof list);
    snprintf(expected, sizeof expected, "threads run on CPUs %s (node 1, 4.0 GiB free)\n", list);
    assert_non_null(strstr(said, expected));
}

static void a_rank_across_nodes_may_use_both(void **state)
{
    (void)state;
    need_two_cpus();
    or_cpus_t share = settle(test_folder(), place_of(0, 1), false);
    assert_true(CPU_EQUAL(&share.set, &two.set));
    assert_runs_on(two);
    assert_non_null(strstr(said, "(node 0, "));
    assert_non_null(strstr(said, "(node 1, "));
}

static void a_rank_that_is_bound_stays_as_it_is(void **state)
{
    (void)state;
    need_two_cpus();
    or_ranks_mpi_place_t place = place_of(1, 2);
    place.same_cpus = false;
    or_cpus_t share = settle(test_folder(), place, false);
    assert_true(CPU_EQUAL(&share.set, &two.set));
    assert_runs_on(two);
}

static void a_rank_on_a_gpu_stays_where_it_is(void **state)
{
    (void)state;
    need_two_cpus();
    or_cpus_t own = nth(1);
    or_cpus_t share = settle(test_folder(), place_of(1, 2), true);
    assert_true(CPU_EQUAL(&share.set, &own.set));
    assert_runs_on(two);
}

static void one_node_changes_nothing(void **state)
{
    (void)state;
    need_two_cpus();
    or_cpus_t own = nth(1);
    or_cpus_t share = settle("/nowhere", place_of(1, 2), false);
    assert_true(CPU_EQUAL(&share.set, &own.set));
    assert_runs_on(two);
    assert_string_equal(said, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_rank_stays_in_its_node, begin, end),
        cmocka_unit_test_setup_teardown(a_rank_across_nodes_may_use_both, begin, end),
        cmocka_unit_test_setup_teardown(a_rank_that_is_bound_stays_as_it_is, begin, end),
        cmocka_unit_test_setup_teardown(a_rank_on_a_gpu_stays_where_it_is, begin, end),
        cmocka_unit_test_setup_teardown(one_node_changes_nothing, begin, end),
    };
    or_log_init("test", OR_LOG_INFO);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
