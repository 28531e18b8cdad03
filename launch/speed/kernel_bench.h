// kernel_bench - runs kernel cases, and the loops that say what the machine can do at most (kernels/ceilings.h).
//
// Weights that are to come from memory lie in an area of four times the last cache, and threads go through
// it round and round. One thread calls.
//
//     matmul of        weights                              runs on
//     256 -> 768       in a core's cache                    a thread alone
//     2048 -> 128      likewise: a few panels of the next
//     2048 -> 5632     from memory, whatever the caches     all threads together, a few panels at a time
//     5632 -> 2048     likewise
//
// The other kernels work in a cache on a thread alone.
#pragma once

#include <stdbool.h>

#include "common/base/status.h"
#include "kernels/kernels.h"

#define OR_KERNEL_CASES_MAX 512u
#define OR_KERNEL_ROWS_MAX 512u
#define OR_KERNEL_INPUTS_MAX 5632u
#define OR_KERNEL_CACHED_OUTPUTS_MAX 768u // of a matrix that lies in a cache

// Rows lie so far apart that equal places of neighbours do not fight for the same lines of a cache.
#define OR_KERNEL_X_STRIDE (OR_KERNEL_INPUTS_MAX + OR_PANEL)
#define OR_KERNEL_X_BLOCKS (OR_KERNEL_INPUTS_MAX / OR_QUANT_BLOCK + 1)
#define OR_KERNEL_Y_STRIDE (OR_KERNEL_CACHED_OUTPUTS_MAX + OR_PANEL)

// A call works on these, all borrowed.
typedef struct {
    const or_kernels_t *kernels;
    or_quant_t quant;
    const uint8_t *panels;
    size_t panel_bytes;
    uint32_t panel_count, inputs, rows;
    const float *x;               // [OR_KERNEL_ROWS_MAX][OR_KERNEL_X_STRIDE]
    const or_q8_block_t *x_quant; // [OR_KERNEL_ROWS_MAX][OR_KERNEL_X_BLOCKS]
    or_q8_block_t *y_quant;       // [OR_KERNEL_X_BLOCKS]
    const uint16_t *halves;       // [OR_KERNEL_INPUTS_MAX]
    float *y;                     // [OR_KERNEL_ROWS_MAX][OR_KERNEL_Y_STRIDE], the thread's own
} or_kernel_job_t;

typedef enum { OR_PEAK_NONE, OR_PEAK_FLOAT, OR_PEAK_DOT } or_kernel_peak_t;

// A line is one function of a kernel table; each matmul has a line for each type of weights.
typedef struct {
    const char *kernel, *type; // "matmul_quants", "Q8_0"; type is "" where there is but one
    void (*call)(const or_kernel_job_t *job);
    or_kernel_peak_t peak; // of what it is made
    or_quant_t quant;      // of matmul_quants
    double bytes;          // of a float weight; elsewhere, all that an input reads and writes
    double operations;     // of an input and output, or of an input
} or_kernel_line_t;

typedef struct {
    const or_kernel_line_t *line;
    uint32_t rows, inputs, outputs; // outputs 0: no matrix, a vector of `inputs`
    bool memory;                    // from memory, on all threads
    size_t panel_bytes;             // of a matmul's weights; 0: no matrix
    double bytes, operations;       // of all the shape; what is read or written, once
    double seconds;                 // of all the shape: what a bench finds out
} or_kernel_case_t;

#define OR_KERNEL_THREADS_MAX 256u

typedef struct {
    double read_bytes_per_s; // all threads together, from memory
    double flops_per_s;      // of one thread
    double dots_per_s;       // of one thread: operations on bytes
    double roofs
        [2]
        [2]; // of one thread: the same in canonical arithmetic, [groups of a block - 1][with minima]
} or_ceiling_figures_t;

// Return the canonical roof of a type of weights.
double or_kernel_roof(const or_ceiling_figures_t *ceilings, or_quant_t type);

// Time each case for about `seconds`, or for one call that takes longer, and between them the ceilings, of which the best are
// kept in *best (zeroed before). Says on standard error how far it is. `threads`: 1 to OR_KERNEL_THREADS_MAX.
// OR_ERR_NO_MEMORY; OR_ERR_UNSUPPORTED if nobody knows the ceilings of these kernels; OR_ERR_IO if the system starts no more
// threads.
or_status_t or_kernel_bench(const or_kernels_t *kernels, uint32_t threads, double seconds,
                            or_kernel_case_t *cases, uint32_t count, or_ceiling_figures_t *best);
