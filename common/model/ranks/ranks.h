// ranks - the other processes that hold shards of the same model.
//
//     stage 0   rank 0 (the leader) ── 1 ── 2 ── 3       layers 0 .. L/2 - 1, each rank an eighth's multiple of every layer
//                 │                    │    │    │       pass_on: activations, to the same rank of the next stage
//     stage 1   rank 0 ─────────────── 1 ── 2 ── 3       layers L/2 .. L - 1, and the head
//
// A group is the `size` ranks of one stage; most worlds have one stage. The forward pass is written
// against this interface; verifier/ranks/ranks_mpi.c is the only file that knows MPI, and one process alone
// uses or_ranks_single(). Calls are collective as each one says: the ranks concerned make the same
// calls in the same order, from one thread. An error ends the world: nobody can go on alone.
#pragma once

#include "common/base/status.h"

typedef struct or_ranks {
    int rank;   // in its group
    int size;   // of each group: 1, 2, 4 or 8 (shards.h)
    int stage;  // 0 .. stages - 1
    int stages; // 0 means 1
    // Gather every rank's `bytes` bytes of a group, in rank order, into recv (size * bytes). send may alias its own
    // place in recv.
    or_status_t (*all_gather)(const struct or_ranks *ranks, const void *send, size_t bytes,
                              void *recv);
    // Send from the leader to all ranks of all stages. Ranks that wait for the leader here wait cheaply: it may have
    // nothing to say for hours.
    or_status_t (*broadcast)(const struct or_ranks *ranks, void *data, size_t bytes);
    // Collect `bytes` bytes from each rank of the last stage on the leader, in rank order, into recv (size * bytes),
    // which only the leader needs. Ranks of other stages do nothing here. send may alias its own place in the
    // leader's recv.
    or_status_t (*collect)(const struct or_ranks *ranks, const void *send, size_t bytes,
                           void *recv);
    // Gather every rank's `bytes` bytes of the whole world, stage by stage, into recv (stages * size * bytes). Used
    // at start.
    or_status_t (*gather_world)(const struct or_ranks *ranks, const void *send, size_t bytes,
                                void *recv);
    // Send to the same rank of the next stage, and receive from that of the stage before. NULL with one stage.
    or_status_t (*pass_on)(const struct or_ranks *ranks, const void *data, size_t bytes);
    or_status_t (*take_over)(const struct or_ranks *ranks, void *data, size_t bytes);
    // Report that a wait for other ranks by other means begins, for `what` (a constant), or ends (NULL). None of
    // these functions is called meanwhile. NULL if nobody watches such waits.
    void (*watch)(const struct or_ranks *ranks, const char *what);
} or_ranks_t;

// The one-process world: rank 0 of 1. Never NULL.
const or_ranks_t *or_ranks_single(void);

static inline int or_ranks_stages(const or_ranks_t *ranks)
{
    return ranks->stages > 1 ? ranks->stages : 1;
}

static inline void or_ranks_watch(const or_ranks_t *ranks, const char *what)
{
    if (ranks->watch != NULL) {
        ranks->watch(ranks, what);
    }
}

static inline bool or_ranks_is_leader(const or_ranks_t *ranks)
{
    return ranks->rank == 0 && ranks->stage == 0;
}

static inline bool or_ranks_is_alone(const or_ranks_t *ranks)
{
    return ranks->size == 1 && or_ranks_stages(ranks) == 1;
}
