// bench_support - what the benches of this folder share: a clock, medians, and what copies cost.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/cuda/cuda_device.h"

#define BENCH_NO_GPU 77 // exit code

// One of the figures that were wished for: a line that says what was measured, and whether it is met or why it could
// not be measured.
void bench_judge(bool met, const char *goal, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void bench_cannot_judge(const char *goal, const char *why);
// EXIT_FAILURE if something could not be measured.
int bench_exit_code(void);

// The first GPU, and lines that come out as they are written; ends the program where there is none.
void bench_begin(or_cuda_description_t *device);

// Ends the program with `what` and the last error unless `ok`.
void bench_require(bool ok, const char *what);

// Return the time by the clock of the host.
double bench_now_ms(void);

// Sorts the times.
double bench_median(double *times, uint32_t count);

// or_cuda_copy, or_cuda_upload.
typedef int bench_copy_t(or_cuda_t *cuda, void *to, const void *from, size_t bytes);

// Bytes a second in thousand millions, of the best of some copies into memory of the first device: from memory of its
// own, or from pinned memory of the host.
double bench_copy_rate(bench_copy_t *copy, bool from_host, size_t bytes);
