// workers - a model's own threads, for loops whose items are independent.
//
//     run(items = 10, 3 threads):   caller [0, 3)   worker 1 [3, 6)   worker 2 [6, 10)
//
// The cut depends on nothing but the counts; items never share an output, so results do not depend
// on it either. Idle workers spin for a few microseconds, as the next loop of a pass usually
// follows at once, and then sleep; where there are more threads than cores they sleep at once. One
// thread needs no pool: everything then runs in the caller.
#pragma once

#include <stdint.h>

#include "common/base/status.h"

#define OR_THREADS_MAX 256u

typedef struct or_workers or_workers_t;

// Items begin .. end - 1, run by worker `worker` (0: the caller), who has its own buffers.
typedef void (*or_work_t)(void *context, uint32_t worker, uint32_t begin, uint32_t end);

// `threads` counts the caller; 0: as many as the process may use cores. OR_ERR_INVALID over
// OR_THREADS_MAX; OR_ERR_NO_MEMORY; OR_ERR_IO if the system starts no more threads.
or_status_t or_workers_create(uint32_t threads, or_workers_t **workers_p);
void or_workers_destroy(or_workers_t **workers_p);
uint32_t or_workers_count(const or_workers_t *workers);

// Run all items and return when they are done; no thread gets fewer than `grain` (>= 1) items
// unless it runs them all.
void or_workers_run(or_workers_t *workers, uint32_t items, uint32_t grain, or_work_t work,
                    void *context);

// The grain for items of so many multiply-adds each: less work than that costs more to hand over
// than it saves.
uint32_t or_workers_grain(uint64_t multiply_adds);
