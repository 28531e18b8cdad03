// This file checks in which memory nodes a model's threads would run.
#include <inttypes.h>
#include <stdio.h>

#include "common/base/numa_nodes.h"
#include "launch/doctor/doctor.h"

#define STAGE_RANKS_MAX 8u

// Write what starts a rank a node. A stage has 1, 2, 4 or 8 ranks.
static void advise(uint32_t nodes, char *advice, size_t capacity)
{
    uint32_t ranks = 1;
    while (ranks < STAGE_RANKS_MAX && nodes % (2 * ranks) == 0) {
        ranks *= 2;
    }
    int at = snprintf(advice, capacity, "run a rank of the target a node: --np %" PRIu32, nodes);
    if (ranks < nodes) {
        snprintf(advice + at, capacity - (size_t)at, " --pp %" PRIu32, nodes / ranks);
    }
}

static uint32_t count_with_memory(const or_numa_nodes_t *nodes)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < nodes->count; i++) {
        count += nodes->nodes[i].memory > 0;
    }
    return count;
}

void or_doctor_check_numa(or_doctor_t *doctor, const char *root, const or_cpus_t *cpus, bool on_gpu)
{
    or_numa_nodes_t nodes;
    char text[4096], advice[96];
    or_numa_nodes_read(root, cpus, &nodes);
    if (nodes.of_system == 1) {
        or_doctor_say(doctor, OR_CHECK_OK, "memory nodes", NULL, "one node");
        return;
    }
    or_numa_nodes_describe(&nodes, text, sizeof text);
    bool across = !on_gpu && count_with_memory(&nodes) > 1;
    advise(nodes.count, advice, sizeof advice);
    or_doctor_say(doctor, across ? OR_CHECK_WARN : OR_CHECK_OK, "memory nodes",
                  across ? advice : NULL, "%" PRIu32 " nodes: %s%s", nodes.of_system, text,
                  across ? "; one rank would read its weights across them" : "");
}
