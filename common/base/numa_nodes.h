// numa_nodes - which of the machine's CPUs are near which memory.
//
//     node 0   CPUs 0-7,16-23   62 GiB          2 processes:  0-7,16-23 | 8-15,24-31
//     node 1   CPUs 8-15,24-31  60 GiB          4 processes:  0-7 | 16-23 | 8-15 | 24-31
//
// A page lies in the node of the CPU that writes it first, unless that node is full. So a process whose threads stay in
// one node before they make its weights reads them from near. Memory on other nodes is slower, and all CPUs share the
// links that lead there.
//
// The system's files are not trusted. Where they are missing, contradict themselves or do not name all CPUs that are
// asked for, there is one node with all of these. A node without CPUs is left out, one without memory is not.
#pragma once

#include <stdint.h>

#include "common/base/cpus.h"

#define OR_NUMA_NODES_MAX 64u

typedef struct {
    uint32_t number; // the system's
    or_cpus_t cpus;  // of those that were asked for; at least one
    uint64_t memory; // bytes; 0: none, or not known
    uint64_t free;   // of them, with what a cache of files could give back
} or_numa_node_t;

typedef struct {
    uint32_t of_system; // nodes that have CPUs, whichever
    uint32_t count;     // those that have CPUs that were asked for; at least 1
    or_numa_node_t nodes[OR_NUMA_NODES_MAX];
} or_numa_nodes_t;

// Read in which nodes these CPUs lie. The system's files are in the folder `root`; "": this system's.
void or_numa_nodes_read(const char *root, const or_cpus_t *cpus, or_numa_nodes_t *nodes);

// The CPUs for process number `which` of so many, neighbours in the order of the nodes. Nodes and processes are parted
// into as many groups as divide both numbers, and no share leaves its group, whose processes have as many CPUs each.
// There is one group alone if one of several had fewer than half of another's CPUs. Where a group has fewer CPUs than
// processes, a share is a single CPU.
or_cpus_t or_numa_nodes_share(const or_numa_nodes_t *nodes, uint32_t which, uint32_t processes);

// The CPUs of all nodes that have one of these.
or_cpus_t or_numa_nodes_around(const or_numa_nodes_t *nodes, const or_cpus_t *cpus);

// Write "CPUs 0-7,16-23 (node 0, 62.0 GiB free), 8-15,24-31 (node 1, no memory)"; cut where it does not fit.
void or_numa_nodes_describe(const or_numa_nodes_t *nodes, char *text, size_t capacity);
