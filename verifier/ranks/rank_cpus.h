// rank_cpus - on which CPUs the threads of a rank run, where several ranks share a host.
//
//     allowed   0-31 to each of 4 ranks      rank   0     1      2     3
//     node 0    0-15                         share  0-7   8-15   16-23 24-31     as many threads as that
//     node 1    16-31                        near   0-15  0-15   16-31 16-31     where they run
//
// Weights lie in the node whose CPU wrote them first. So a rank chooses before it loads any.
#pragma once

#include "common/base/cpus.h"
#include "verifier/ranks/ranks_mpi.h"

// Return this rank's share of the CPUs that all ranks of the host may use, or all of its own where mpirun has bound it.
// Keep the calling thread, and those it starts from now on, to the nodes of that share, but not where the model is
// `on_gpu`: its weights are elsewhere. Say so in the log if the system has several nodes. `root` is the folder of the
// system's files (numa_nodes.h).
or_cpus_t or_rank_cpus_settle(const char *root, const or_ranks_mpi_place_t *place, bool on_gpu);
