// Goal: nodes are what the system's files say, or one where these cannot be believed. Shares of processes lie in as few
// nodes as can be, do not overlap and leave no node out.
// Method: folders made by hand in which a system's files lie; shares worked out by hand, and all small systems.
#include "common/base/numa_nodes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test_support.h"

#define GIB ((uint64_t)1 << 30)
#define FOLDER "sys/devices/system/node/"

static void put(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, FOLDER "%s", name);
    test_write_file(path, text);
}

static void put_node(unsigned number, const char *list, unsigned gib)
{
    char name[64], text[512];
    snprintf(name, sizeof name, "node%u/cpulist", number);
    snprintf(text, sizeof text, "%s\n", list);
    put(name, text);
    snprintf(name, sizeof name, "node%u/meminfo", number);
    snprintf(text, sizeof text,
             "Node %u MemTotal: %u kB\nNode %u MemFree: %u kB\nNode %u Active: 7 kB\n"
             "Node %u Active(file): %u kB\nNode %u Inactive(file): %u kB\n",
             number, gib << 20, number, gib << 18, number, number, gib << 17, number, gib << 17);
    put(name, text); // a quarter is free, and another is files
}

static or_cpus_t cpus_of(const char *list)
{
    or_cpus_t cpus;
    assert_int_equal(or_cpus_parse_list(list, &cpus), OR_OK);
    return cpus;
}

static void assert_list(or_cpus_t cpus, const char *expected)
{
    char list[512];
    or_cpus_list(&cpus, list, sizeof list);
    assert_string_equal(list, expected);
}

static or_numa_nodes_t read_for(const char *list)
{
    or_numa_nodes_t nodes;
    or_cpus_t cpus = cpus_of(list);
    memset(&nodes, 0xAA, sizeof nodes);
    or_numa_nodes_read(test_folder(), &cpus, &nodes);
    assert_in_range(nodes.count, 1, OR_NUMA_NODES_MAX);
    assert_in_range(nodes.of_system, nodes.count, CPU_SETSIZE);
    return nodes;
}

static void assert_described(const or_numa_nodes_t *nodes, const char *expected)
{
    char text[512];
    or_numa_nodes_describe(nodes, text, sizeof text);
    assert_string_equal(text, expected);
}

static void assert_one_node(const char *list)
{
    or_numa_nodes_t nodes = read_for(list);
    assert_int_equal(nodes.of_system, 1);
    assert_int_equal(nodes.count, 1);
    assert_list(nodes.nodes[0].cpus, list);
}

// ---- files ----

static void nodes_are_what_the_files_say(void **state)
{
    (void)state;
    put("online", "0-1\n");
    put_node(0, "0-7,16-23", 64);
    put_node(1, "8-15,24-31", 32);
    or_numa_nodes_t nodes = read_for("0-31");
    assert_int_equal(nodes.of_system, 2);
    assert_int_equal(nodes.count, 2);
    assert_int_equal(nodes.nodes[0].memory, 64 * GIB);
    assert_int_equal(nodes.nodes[0].free, 32 * GIB);
    assert_described(&nodes,
                     "CPUs 0-7,16-23 (node 0, 32.0 GiB free), 8-15,24-31 (node 1, 16.0 GiB free)");
    nodes = read_for("9,11-12");
    assert_int_equal(nodes.of_system, 2);
    assert_described(&nodes, "CPUs 9,11-12 (node 1, 16.0 GiB free)");
}

static void nodes_without_cpus_or_memory_and_offline_ones(void **state)
{
    (void)state;
    put("online", "0,2-4\n");
    put_node(0, "0-3", 8);
    put_node(1, "4-7", 8); // offline
    put_node(2, "", 512);  // memory alone
    put_node(3, "8-11", 0);
    put_node(4, "12-15", 8);
    or_numa_nodes_t nodes = read_for("0-3,8-15");
    assert_int_equal(nodes.of_system, 3);
    assert_described(
        &nodes,
        "CPUs 0-3 (node 0, 4.0 GiB free), 8-11 (node 3, no memory), 12-15 (node 4, 4.0 GiB free)");
    assert_one_node("0-15"); // who could run on CPUs of no node?
}

static void put_two(void)
{
    put("online", "0-1\n");
    put_node(0, "0-3", 8);
    put_node(1, "4-7", 8);
}

static void what_cannot_be_believed_is_one_node(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text;
    } faults[] = {
        {"online", ""},
        {"online", "0-2\n"},
        {"online", "nonsense"},
        {"online", "0-99999999999999999999\n"},
        {"node1/cpulist", "3-7\n"}, // CPU 3 twice
        {"node1/cpulist", "4-6\n"},
        {"node1/cpulist", "4-7,1024\n"},
        {"node1/cpulist", "4-"},
        {"node1/meminfo", ""},
        {"node1/meminfo", "Node 1 MemTotal: 8 kB\n"},
        {"node1/meminfo", "Node 1 MemTotal: kB\nNode 1 MemFree: 1 kB\n"},
        {"node1/meminfo", "Node 1 MemTotal: 99999999999999999999 kB\nNode 1 MemFree: 1 kB\n"
                          "Node 1 Active(file): 1 kB\nNode 1 Inactive(file): 1 kB\n"},
    };
    assert_one_node("0-7"); // no folder
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        put_two();
        assert_int_equal(read_for("0-7").count, 2);
        put(faults[i].name, faults[i].text);
        assert_one_node("0-7");
    }
}

static void long_files_are_not_read(void **state)
{
    (void)state;
    static char text[16384];
    put_two();
    for (size_t at = 0; at + 2 < sizeof text; at += 2) {
        memcpy(text + at, "4,", 2);
    }
    strcpy(text + sizeof text - 16, "5-7\n"); // a list, but for its length
    put("node1/cpulist", text);
    assert_one_node("0-7");
    strcpy(text + 8000, "5-7\n");
    put("node1/cpulist", text);
    assert_int_equal(read_for("0-7").count, 2);
}

static void too_many_nodes_are_one(void **state)
{
    (void)state;
    char list[16];
    put("online", "0-64\n");
    for (unsigned i = 0; i <= OR_NUMA_NODES_MAX; i++) {
        snprintf(list, sizeof list, "%u", i);
        put_node(i, list, 1);
    }
    assert_one_node("0-64");
    assert_int_equal(read_for("1-64").count, OR_NUMA_NODES_MAX);
}

static void this_system_has_some(void **state)
{
    (void)state;
    or_numa_nodes_t nodes;
    or_cpus_t cpus = or_cpus_allowed();
    or_numa_nodes_read("", &cpus, &nodes);
    assert_in_range(nodes.count, 1, OR_NUMA_NODES_MAX);
    or_cpus_t all = or_numa_nodes_around(&nodes, &cpus);
    assert_true(CPU_EQUAL(&all.set, &cpus.set));
}

// ---- shares ----

// A system's nodes have these CPUs; one of the processes has this share, and these CPUs are in its nodes.
typedef struct {
    const char *nodes[4]; // NULL: no more
    uint32_t which, processes;
    const char *share, *around;
} share_t;

static or_numa_nodes_t made(const char *const *lists, uint32_t most)
{
    or_numa_nodes_t nodes = {0};
    for (uint32_t i = 0; i < most && lists[i] != NULL; i++) {
        nodes.nodes[i] = (or_numa_node_t){.number = i, .cpus = cpus_of(lists[i])};
        nodes.of_system = nodes.count = i + 1;
    }
    return nodes;
}

static void shares_follow_the_nodes(void **state)
{
    (void)state;
#define INTERLEAVED                                                                                \
    {                                                                                              \
        "0,2,4,6", "1,3,5,7"                                                                       \
    }
#define THREADS                                                                                    \
    {                                                                                              \
        "0-7,16-23", "8-15,24-31"                                                                  \
    }
#define FOUR                                                                                       \
    {                                                                                              \
        "0-3", "4-7", "8-11", "12-15"                                                              \
    }
#define THREE                                                                                      \
    {                                                                                              \
        "0-3", "4-7", "8-11"                                                                       \
    }
    static const share_t shares[] = {
        {INTERLEAVED, 0, 1, "0-7", "0-7"},
        {INTERLEAVED, 0, 2, "0,2,4,6", "0,2,4,6"},
        {INTERLEAVED, 1, 2, "1,3,5,7", "1,3,5,7"},
        {INTERLEAVED, 2, 4, "1,3", "1,3,5,7"}, // two in a node may use all of it
        {THREADS, 1, 2, "8-15,24-31", "8-15,24-31"},
        {THREADS, 1, 4, "16-23", "0-7,16-23"},
        {THREADS, 2, 4, "8-15", "8-15,24-31"},
        {THREADS, 7, 8, "28-31", "8-15,24-31"},
        {FOUR, 0, 2, "0-7", "0-7"},
        {FOUR, 1, 2, "8-15", "8-15"},
        {FOUR, 2, 4, "8-11", "8-11"},
        {FOUR, 2, 6, "4-5", "4-7"}, // three to two nodes: 2 CPUs each
        {FOUR, 1, 6, "2-3", "0-3"},
        {THREE, 0, 2, "0-5", "0-7"},
        {THREE, 1, 2, "6-11", "4-11"},
        {INTERLEAVED, 0, 3, "0,2", "0,2,4,6"},
        {INTERLEAVED, 1, 3, "4,6", "0,2,4,6"},
        {INTERLEAVED, 2, 3, "1,3", "1,3,5,7"},
        {{"0-5", "6-11"}, 1, 3, "4-7", "0-11"}, // the middle one reads from both
        {{"0-3", "4-6"}, 0, 2, "0-3", "0-3"},   // nodes of about one size
        {{"0-3", "4-6"}, 1, 2, "4-6", "4-6"},   // ...
        {{"0-6", "7"}, 0, 2, "0-3", "0-6"},     // a node of nearly nothing
        {{"0-6", "7"}, 1, 2, "4-7", "0-7"},     // ...
        {{"0-6"}, 1, 3, "2-3", "0-6"},          // one node
        {{"0", "1"}, 4, 8, "1", "1"},           // more processes than CPUs
        {{"0", "1"}, 3, 8, "0", "0"},           // ...
        {{"0,2", "1"}, 4, 5, "2", "0,2"},       // ..., round and round: 0 2 1 0 2
    };
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        const share_t *s = &shares[i];
        or_numa_nodes_t nodes = made(s->nodes, 4);
        or_cpus_t share = or_numa_nodes_share(&nodes, s->which, s->processes);
        assert_list(share, s->share);
        assert_list(or_numa_nodes_around(&nodes, &share), s->around);
    }
}

// Nodes of equal size: the shares are of one size and do not overlap, and none has CPUs of more nodes than it must.
static void shares_of_all_small_systems(void **state)
{
    (void)state;
    static const char *const lists[] = {"0-3,32-35", "4-7,36-39", "8-11,40-43", "12-15,44-47"};
    for (uint32_t n = 1; n <= 4; n++) {
        or_numa_nodes_t nodes = made(lists, n);
        for (uint32_t processes = 1; processes <= 8; processes++) {
            or_cpus_t taken = cpus_of(""), both;
            for (uint32_t which = 0; which < processes; which++) {
                or_cpus_t share = or_numa_nodes_share(&nodes, which, processes);
                or_cpus_t around = or_numa_nodes_around(&nodes, &share);
                assert_int_equal(or_cpus_count(&share), 8 * nodes.count / processes);
                CPU_AND(&both.set, &share.set, &taken.set);
                assert_int_equal(or_cpus_count(&both), 0);
                CPU_OR(&taken.set, &share.set, &taken.set);
                CPU_AND(&both.set, &share.set, &around.set);
                assert_true(CPU_EQUAL(&both.set, &share.set));
                if (processes % nodes.count == 0) {
                    assert_int_equal(or_cpus_count(&around), 8);
                }
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nodes_are_what_the_files_say, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(nodes_without_cpus_or_memory_and_offline_ones,
                                        test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_believed_is_one_node, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(long_files_are_not_read, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(too_many_nodes_are_one, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test(this_system_has_some),
        cmocka_unit_test(shares_follow_the_nodes),
        cmocka_unit_test(shares_of_all_small_systems),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
