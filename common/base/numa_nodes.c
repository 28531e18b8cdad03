#include "common/base/numa_nodes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER "sys/devices/system/node"
#define PATH_BYTES 4096
#define FILE_BYTES 8192u // a list of 1,024 CPUs without neighbours has 4,016

// Read a whole file of text. False if it is not there, too long or has a zero byte.
static bool read_text(const char *root, const char *name, char *text)
{
    char path[PATH_BYTES];
    int length = snprintf(path, sizeof path, "%s/" FOLDER "/%s", root, name);
    FILE *file = length < PATH_BYTES ? fopen(path, "re") : NULL;
    if (file == NULL) {
        return false;
    }
    size_t bytes = fread(text, 1, FILE_BYTES, file);
    fclose(file);
    if (bytes == FILE_BYTES) {
        return false;
    }
    text[bytes] = '\0';
    return strlen(text) == bytes;
}

static bool read_list(const char *root, const char *name, or_cpus_t *list)
{
    char text[FILE_BYTES];
    return read_text(root, name, text) && or_cpus_parse_list(text, list) == OR_OK;
}

// A line of meminfo is "Node 0 MemFree:  19095064 kB".
static bool read_kib(const char *text, const char *key, uint64_t *bytes)
{
    const char *at = strstr(text, key);
    char *end = NULL;
    uint64_t kib = at != NULL ? strtoull(at + strlen(key), &end, 10) : 0;
    if (at == NULL || end == at + strlen(key) || kib > UINT64_MAX / 4 / 1024) {
        return false;
    }
    *bytes = kib * 1024;
    return true;
}

static bool read_memory(const char *root, or_numa_node_t *node)
{
    static const char *const free_keys[] = {" MemFree:", " Active(file):", " Inactive(file):"};
    char name[32], text[FILE_BYTES];
    snprintf(name, sizeof name, "node%u/meminfo", node->number);
    bool good = read_text(root, name, text) && read_kib(text, " MemTotal:", &node->memory);
    for (size_t i = 0; good && i < sizeof free_keys / sizeof *free_keys; i++) {
        uint64_t bytes;
        good = read_kib(text, free_keys[i], &bytes);
        node->free += good ? bytes : 0;
    }
    node->free = node->free < node->memory ? node->free : node->memory;
    return good;
}

// Add the system's node of this number, if it has CPUs. `seen` are the CPUs of the nodes before it. False if its files
// are malformed.
static bool add_node(const char *root, uint32_t number, const or_cpus_t *cpus, or_cpus_t *seen,
                     or_numa_nodes_t *nodes)
{
    char name[32];
    or_numa_node_t node = {.number = number};
    or_cpus_t own, both;
    snprintf(name, sizeof name, "node%u/cpulist", number);
    if (!read_list(root, name, &own)) {
        return false;
    }
    CPU_AND(&both.set, &own.set, &seen->set);
    CPU_OR(&seen->set, &own.set, &seen->set);
    CPU_AND(&node.cpus.set, &own.set, &cpus->set);
    nodes->of_system += or_cpus_count(&own) > 0;
    if (or_cpus_count(&both) > 0 || or_cpus_count(&node.cpus) == 0) {
        return or_cpus_count(&both) == 0;
    }
    if (nodes->count == OR_NUMA_NODES_MAX || !read_memory(root, &node)) {
        return false;
    }
    nodes->nodes[nodes->count++] = node;
    return true;
}

static bool read_nodes(const char *root, const or_cpus_t *cpus, or_numa_nodes_t *nodes)
{
    or_cpus_t online, seen, missing; // nodes are numbered and listed as CPUs are
    CPU_ZERO(&seen.set);
    nodes->of_system = nodes->count = 0;
    if (!read_list(root, "online", &online)) {
        return false;
    }
    for (uint32_t i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &online.set) && !add_node(root, i, cpus, &seen, nodes)) {
            return false;
        }
    }
    CPU_AND(&missing.set, &seen.set, &cpus->set);
    return nodes->count > 0 && CPU_EQUAL(&missing.set, &cpus->set);
}

void or_numa_nodes_read(const char *root, const or_cpus_t *cpus, or_numa_nodes_t *nodes)
{
    if (!read_nodes(root, cpus, nodes)) {
        nodes->of_system = nodes->count = 1;
        nodes->nodes[0] = (or_numa_node_t){.cpus = *cpus};
    }
}

// ---- shares ----

static uint32_t common_divisor(uint32_t a, uint32_t b)
{
    return b == 0 ? a : common_divisor(b, a % b);
}

static uint32_t count_cpus(const or_numa_node_t *nodes, uint32_t count)
{
    uint32_t cpus = 0;
    for (uint32_t i = 0; i < count; i++) {
        cpus += or_cpus_count(&nodes[i].cpus);
    }
    return cpus;
}

// Into how many groups of nodes that have about as many CPUs each are the processes parted?
static uint32_t choose_groups(const or_numa_nodes_t *nodes, uint32_t processes)
{
    uint32_t groups = common_divisor(nodes->count, processes);
    uint32_t each = nodes->count / groups, least = UINT32_MAX, most = 0;
    for (uint32_t i = 0; i < nodes->count; i += each) {
        uint32_t cpus = count_cpus(nodes->nodes + i, each);
        least = cpus < least ? cpus : least;
        most = cpus > most ? cpus : most;
    }
    return 2 * least < most ? 1 : groups;
}

// Return so many CPUs of the nodes, one node's after the other's, beginning with the one that has `first` others before
// it.
static or_cpus_t cut(const or_numa_node_t *nodes, uint32_t count, uint32_t first, uint32_t cpus)
{
    or_cpus_t found;
    CPU_ZERO(&found.set);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t here = or_cpus_count(&nodes[i].cpus);
        or_cpus_t part = or_cpus_subset(&nodes[i].cpus, first, cpus);
        CPU_OR(&found.set, &found.set, &part.set);
        cpus -= or_cpus_count(&part);
        first -= first < here ? first : here;
    }
    return found;
}

or_cpus_t or_numa_nodes_share(const or_numa_nodes_t *nodes, uint32_t which, uint32_t processes)
{
    uint32_t groups = choose_groups(nodes, processes);
    uint32_t members = processes / groups, count = nodes->count / groups;
    const or_numa_node_t *group = nodes->nodes + which / members * count;
    uint32_t cpus = count_cpus(group, count), member = which % members;
    uint32_t each = cpus / members;
    return each == 0 ? cut(group, count, member % cpus, 1) : cut(group, count, member * each, each);
}

or_cpus_t or_numa_nodes_around(const or_numa_nodes_t *nodes, const or_cpus_t *cpus)
{
    or_cpus_t found, both;
    CPU_ZERO(&found.set);
    for (uint32_t i = 0; i < nodes->count; i++) {
        const or_cpus_t *own = &nodes->nodes[i].cpus;
        CPU_AND(&both.set, &own->set, &cpus->set);
        if (or_cpus_count(&both) > 0) {
            CPU_OR(&found.set, &found.set, &own->set);
        }
    }
    return found;
}

void or_numa_nodes_describe(const or_numa_nodes_t *nodes, char *text, size_t capacity)
{
    size_t at = 0;
    for (uint32_t i = 0; i < nodes->count && at < capacity; i++) {
        const or_numa_node_t *node = &nodes->nodes[i];
        char list[FILE_BYTES], memory[48] = "no memory";
        or_cpus_list(&node->cpus, list, sizeof list);
        if (node->memory > 0) {
            snprintf(memory, sizeof memory, "%.1f GiB free", (double)node->free / (1 << 30));
        }
        at += (size_t)snprintf(text + at, capacity - at, "%s%s (node %u, %s)",
                               i == 0 ? "CPUs " : ", ", list, node->number, memory);
    }
}
