#include "verifier/ranks_mpi.h"

#include <limits.h>
#include <mpi.h>
#include <stdlib.h>

static or_status_t check(int code, const char *what)
{
    if (code == MPI_SUCCESS) {
        return OR_OK;
    }
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    return or_fail(OR_ERR_IO, "MPI %s: %s", what, text);
}

static or_status_t all_gather(const or_ranks_t *ranks, const void *send, size_t bytes, void *recv)
{
    if (bytes > INT_MAX) {
        return or_fail(OR_ERR_INVALID, "an exchange of %zu bytes is too large for MPI", bytes);
    }
    const char *own = (const char *)recv + (size_t)ranks->rank * bytes;
    return check(MPI_Allgather(send == own ? MPI_IN_PLACE : send, (int)bytes, MPI_BYTE, recv,
                               (int)bytes, MPI_BYTE, MPI_COMM_WORLD),
                 "all-gather");
}

static or_status_t broadcast(const or_ranks_t *ranks, void *data, size_t bytes)
{
    (void)ranks;
    if (bytes > INT_MAX) {
        return or_fail(OR_ERR_INVALID, "a broadcast of %zu bytes is too large for MPI", bytes);
    }
    return check(MPI_Bcast(data, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD), "broadcast");
}

or_status_t or_ranks_mpi_start(int *argc, char ***argv, const or_ranks_t **ranks_p)
{
    static or_ranks_t ranks = {.all_gather = all_gather, .broadcast = broadcast};
    // A process started without mpirun needs no MPI daemon of its own, which would outlive a killed
    // verifier.
    setenv("OMPI_MCA_ess_singleton_isolated", "1", 0);
    int provided = 0;
    or_status_t status =
        check(MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided), "initialisation");
    if (status != OR_OK) {
        return status;
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &ranks.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks.size);
    *ranks_p = &ranks;
    return OR_OK;
}

void or_ranks_mpi_stop(void)
{
    MPI_Finalize();
}
