// ranks_mpi - the rank interface over MPI. This module is the only user of MPI.
//
//     mpirun -np 8 outrider-verifier --pp 2        world   0 1 2 3 4 5 6 7
//                                                  stage   0 0 0 0 1 1 1 1
//                                                  rank    0 1 2 3 0 1 2 3
//
// MPI_THREAD_FUNNELED: all calls come from the thread that started it. A plain process is rank 0 of 1. A rank that
// waits for the leader or for another stage polls and sleeps, since the wait may last for hours. Exchanges inside a
// stage, where all arrive at once, poll and yield. The watchdog (watchdog.h), if it was started, watches all waits
// but those for the leader's next step and those while models load.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/model/ranks/ranks.h"

// The place of this process before the ranks are arranged.
typedef struct {
    int rank, size; // in the world
    int neighbours; // ranks on this host, this one included
    int neighbour;  // this one among them
    bool same_cpus; // they may all run on the same CPUs
    char host[64];  // without the domain
} or_ranks_mpi_place_t;

// Initialise MPI. OR_ERR_IO with MPI's own words.
or_status_t or_ranks_mpi_start(or_ranks_mpi_place_t *place);

// Arrange the world as `stages` groups of equal size. Collective, once; the interface lives until or_ranks_mpi_stop.
// OR_ERR_INVALID, on all ranks, if the groups would not have 1, 2, 4 or 8 ranks or `stages` is not the same
// everywhere.
or_status_t or_ranks_mpi_arrange(uint32_t stages, const or_ranks_t **ranks_p);

// Return the lowest world rank that says it failed; -1 if none did. Collective; only the failed rank need speak.
int or_ranks_mpi_first_failed(bool failed);

// Finalise MPI. Collective.
void or_ranks_mpi_stop(void);
// End the processes of all ranks, this one with them, after a failure that only this one knows of.
_Noreturn void or_ranks_mpi_abort(int code);
