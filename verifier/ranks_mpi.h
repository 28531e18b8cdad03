// ranks_mpi - the rank interface over MPI. This module is the only user of MPI.
//
// MPI_THREAD_FUNNELED: all calls from the thread that started it. Started as a plain process it is
// rank 0 of 1; under mpirun it is one of N. One rank only in this version: more are refused by the
// program with a sentence.
#pragma once

#include "common/model/ranks.h"

// Initialise MPI. The interface lives until or_ranks_mpi_stop. OR_ERR_IO with MPI's own words.
or_status_t or_ranks_mpi_start(int *argc, char ***argv, const or_ranks_t **ranks_p);
// Finalise MPI. Collective.
void or_ranks_mpi_stop(void);
