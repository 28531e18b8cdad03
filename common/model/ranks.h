// ranks - the other processes that hold shards of the same model.
//
// The forward pass is written against this interface; verifier/ranks_mpi.c is the only file that
// knows MPI, and one process alone uses or_ranks_single(). All calls are collective: every rank
// makes the same calls in the same order, from one thread.
#pragma once

#include "common/base/status.h"

typedef struct or_ranks {
    int rank;
    int size; // 1, 2, 4 or 8 (shards.h)
    // Every rank's `bytes` bytes, in rank order, into recv (size * bytes). send may alias its own
    // place in recv.
    or_status_t (*all_gather)(const struct or_ranks *ranks, const void *send, size_t bytes,
                              void *recv);
    // rank 0's bytes to all.
    or_status_t (*broadcast)(const struct or_ranks *ranks, void *data, size_t bytes);
} or_ranks_t;

// The one-process world: rank 0 of 1. Never NULL.
const or_ranks_t *or_ranks_single(void);
