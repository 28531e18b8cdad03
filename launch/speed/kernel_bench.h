// kernel_bench - runs kernel cases, and the loops that say what the machine can do at most (kernels/ceilings.h).
//
// Weights that are to come from memory lie in an area of four times the last cache, and threads go through
// it round and round. One thread calls.
#pragma once

#include "common/base/status.h"
#include "launch/speed/kernel_cases.h"

typedef struct {
    double read_bytes_per_s; // all threads together, from memory
    double flops_per_s;      // of one thread
    double dots_per_s;       // of one thread: operations on bytes
} or_ceiling_figures_t;

typedef struct or_kernel_bench or_kernel_bench_t;

// Memory for it all. Borrows the table. threads: 1 to OR_TIMER_THREADS_MAX. OR_ERR_NO_MEMORY;
// OR_ERR_UNSUPPORTED if nobody knows the table's ceilings.
or_status_t or_kernel_bench_create(const or_kernels_t *kernels, uint32_t threads,
                                   or_kernel_bench_t **bench_p);
// Free *bench_p and set it to NULL; *bench_p may already be NULL.
void or_kernel_bench_destroy(or_kernel_bench_t **bench_p);

// Time a case for about `seconds`, or for one call that takes longer. OR_ERR_NO_MEMORY, OR_ERR_IO as
// or_timer_together.
or_status_t or_kernel_bench_run(or_kernel_bench_t *bench, or_kernel_case_t *it, double seconds);

// Measure the ceilings, for about `seconds` each, and keep the best of what `best` had and now has. OR_ERR_IO
// likewise.
or_status_t or_kernel_bench_ceilings(or_kernel_bench_t *bench, double seconds,
                                     or_ceiling_figures_t *best);
