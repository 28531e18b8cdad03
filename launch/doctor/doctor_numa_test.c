// Goal: `outrider doctor` says in which memory nodes threads would run, and what to do where one rank would read across
// several of them.
// Method: folders made by hand in which a system's files lie; the check that is printed.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch/doctor/doctor.h"
#include "tests/support/test_support.h"

#define FOLDER "sys/devices/system/node/"

// Make so many nodes of four CPUs. The first three have memory, and half of it is free.
static void put_nodes(unsigned count, unsigned gib)
{
    char name[64], text[512];
    snprintf(text, sizeof text, "0-%u\n", count - 1);
    test_write_file(FOLDER "online", text);
    for (unsigned i = 0; i < count; i++) {
        unsigned kib = i < 3 ? gib << 20 : 0;
        snprintf(name, sizeof name, FOLDER "node%u/cpulist", i);
        snprintf(text, sizeof text, "%u-%u\n", 4 * i, 4 * i + 3);
        test_write_file(name, text);
        snprintf(name, sizeof name, FOLDER "node%u/meminfo", i);
        snprintf(text, sizeof text,
                 "Node %u MemTotal: %u kB\nNode %u MemFree: %u kB\n"
                 "Node %u Active(file): 0 kB\nNode %u Inactive(file): 0 kB\n",
                 i, kib, i, kib / 2, i, i);
        test_write_file(name, text);
    }
}

static void assert_says(const char *list, bool on_gpu, const char *detail, const char *advice)
{
    or_doctor_t doctor;
    or_cpus_t cpus;
    assert_int_equal(or_cpus_parse_list(list, &cpus), OR_OK);
    assert_int_equal(or_doctor_init(&doctor, true), OR_OK);
    or_doctor_check_numa(&doctor, test_folder(), &cpus, on_gpu);
    assert_int_equal(json_array_size(doctor.checks), 1);
    const json_t *check = json_array_get(doctor.checks, 0);
    const char *state = json_string_value(json_object_get(check, "state"));
    const char *said = json_string_value(json_object_get(check, "advice"));
    assert_string_equal(json_string_value(json_object_get(check, "name")), "memory nodes");
    assert_string_equal(json_string_value(json_object_get(check, "detail")), detail);
    assert_string_equal(state, advice != NULL ? "warn" : "ok");
    assert_string_equal(said != NULL ? said : "", advice != NULL ? advice : "");
    json_decref(doctor.checks);
}

static void one_node_is_fine(void **state)
{
    (void)state;
    assert_says("0-7", false, "one node", NULL); // no such folder
    put_nodes(1, 64);
    assert_says("0-3", false, "one node", NULL);
}

static void across_nodes_it_advises_a_rank_a_node(void **state)
{
    (void)state;
    put_nodes(2, 64);
    assert_says("0-7", false,
                "2 nodes: CPUs 0-3 (node 0, 32.0 GiB free), 4-7 (node 1, 32.0 GiB free); one rank "
                "would read its weights across them",
                "run a rank of the target a node: --np 2");
    put_nodes(3, 64);
    assert_says("0-11", false,
                "3 nodes: CPUs 0-3 (node 0, 32.0 GiB free), 4-7 (node 1, 32.0 GiB free), 8-11 "
                "(node 2, 32.0 GiB free); one rank would read its weights across them",
                "run a rank of the target a node: --np 3 --pp 3");
}

static void inside_a_node_or_on_a_gpu_all_is_well(void **state)
{
    (void)state;
    put_nodes(2, 64);
    assert_says("5-6", false, "2 nodes: CPUs 5-6 (node 1, 32.0 GiB free)", NULL);
    assert_says("3-4", true, "2 nodes: CPUs 3 (node 0, 32.0 GiB free), 4 (node 1, 32.0 GiB free)",
                NULL);
}

static void memory_in_one_node_is_near_or_not_for_all(void **state)
{
    (void)state;
    put_nodes(4, 64);
    assert_says("8-15", false,
                "4 nodes: CPUs 8-11 (node 2, 32.0 GiB free), 12-15 (node 3, no memory)", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_node_is_fine, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(across_nodes_it_advises_a_rank_a_node, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(inside_a_node_or_on_a_gpu_all_is_well, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(memory_in_one_node_is_near_or_not_for_all,
                                        test_folder_setup, test_folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
