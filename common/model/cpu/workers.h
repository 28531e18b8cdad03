// workers - a model's own threads, for loops whose items are independent.
//
//     run(40 items, grain 2), 2 threads:   caller [0, 10) [17, 22) ...   worker [10, 17) [22, 26) ...
//
// Threads take items as they come to them, half of their share of what is left at a time. So one whose
// core is busy with something else does less. Items never share an output, so results do not depend on
// who does what. Idle workers spin a little, as the next loop of a pass usually follows at once, and
// then sleep; where there are more threads than cores they sleep at once. One thread needs no pool:
// everything then runs in the caller.
#pragma once

#include <stdint.h>

#include "common/base/cpus.h"
#include "common/base/status.h"

#define OR_THREADS_MAX 256u
// The bounds of an option that says how many (or_bounds_t); 0: as many as suit.
#define OR_THREADS_BOUNDS                                                                          \
    {                                                                                              \
        0, OR_THREADS_MAX                                                                          \
    }

typedef struct or_workers or_workers_t;

typedef struct {
    uint32_t threads; // with the caller; 0: as many as there are `pins`, or CPUs for the caller
    const or_cpus_t *pins; // thread i stays on the i-th, round and round; NULL: on any CPU
    int32_t poll;          // how long they spin, 1 to OR_POLL_MOST; 0: as usual; OR_POLL_NEVER
} or_workers_options_t;

// Items begin .. end - 1, run by worker `worker` (0: the caller), who has its own buffers.
typedef void (*or_work_t)(void *context, uint32_t worker, uint32_t begin, uint32_t end);

// Create workers. With pins the caller is thread 0 and is pinned too (or_cpus_pin). Copies all that it is given.
// OR_ERR_INVALID over OR_THREADS_MAX; OR_ERR_NO_MEMORY; OR_ERR_IO if the system starts no more threads, or pins none.
or_status_t or_workers_create(const or_workers_options_t *options, or_workers_t **workers_p);
void or_workers_destroy(or_workers_t **workers_p);
uint32_t or_workers_count(const or_workers_t *workers);

// Run all items and return when they are done; no thread takes fewer than `grain` (>= 1) items at a time
// unless it runs them all.
void or_workers_run(or_workers_t *workers, uint32_t items, uint32_t grain, or_work_t work,
                    void *context);

// Return the grain for items of so many multiply-adds each: to hand over less work costs more than it saves.
uint32_t or_workers_grain(uint64_t multiply_adds);
