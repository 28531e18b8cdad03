// kernel_cases - the kernels of a table on the shapes of a small and of a large model: what `outrider bench
// kernels` runs.
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

#include "kernels/kernels.h"

#define OR_KERNEL_CASES_MAX 512u
#define OR_KERNEL_ROWS_MAX 512u
#define OR_KERNEL_INPUTS_MAX 5632u
#define OR_KERNEL_CACHED_OUTPUTS_MAX 768u // of a matrix that lies in a cache

// Rows, so far apart that equal places of neighbours do not fight for the same lines of a cache.
#define OR_KERNEL_X_STRIDE (OR_KERNEL_INPUTS_MAX + OR_PANEL)
#define OR_KERNEL_X_BLOCKS (OR_KERNEL_INPUTS_MAX / OR_QUANT_BLOCK + 1)
#define OR_KERNEL_Y_STRIDE (OR_KERNEL_CACHED_OUTPUTS_MAX + OR_PANEL)

// What a call works on. All borrowed.
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

// One of a table's functions; the matmuls once for each type of weights.
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
    double bytes, operations;       // of all the shape; what is read or written, once
    double seconds;                 // of all the shape: what a bench finds out
} or_kernel_case_t;

// Those whose "kernel type" has `filter` in it, in any case of letters (NULL: all); those of a type next to
// each other. How many there are.
uint32_t or_kernel_cases(const char *filter, or_kernel_case_t cases[OR_KERNEL_CASES_MAX]);

// Of a matmul's weights.
size_t or_kernel_panel_bytes(const or_kernel_line_t *line, uint32_t inputs);
