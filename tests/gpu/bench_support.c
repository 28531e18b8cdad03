#include "tests/gpu/bench_support.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/status.h"

#define COPIES 8u

static bool all_measured = true;

void bench_begin(or_cuda_description_t *device)
{
    setvbuf(stdout, NULL, _IOLBF, 0); // whoever cuts us off has what was measured
    if (or_cuda_count() == 0 || or_cuda_describe(0, device) != OR_CUDA_OK) {
        puts("no GPU");
        exit(BENCH_NO_GPU);
    }
}

void bench_judge(bool met, const char *goal, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    printf("goal: %s: %s (measured ", goal, met ? "met" : "NOT met");
    vprintf(format, args);
    puts(")");
    va_end(args);
}

void bench_cannot_judge(const char *goal, const char *why)
{
    printf("goal: %s: NOT MEASURED (%s)\n", goal, why);
    all_measured = false;
}

int bench_exit_code(void)
{
    return all_measured ? EXIT_SUCCESS : EXIT_FAILURE;
}

void bench_require(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, or_error_text());
        exit(EXIT_FAILURE);
    }
}

double bench_now_ms(void)
{
    return (double)or_clock_now(or_clock_monotonic()) / (double)OR_NS_PER_MS;
}

static int compare_times(const void *a, const void *b)
{
    const double *x = a;
    const double *y = b;
    return (*x > *y) - (*x < *y);
}

double bench_median(double *times, uint32_t count)
{
    qsort(times, count, sizeof *times, compare_times);
    return times[count / 2];
}

static float time_of_copy(or_cuda_t *cuda, bench_copy_t *copy, void *to, const void *from,
                          size_t bytes)
{
    float ms = 0;
    bool done = or_cuda_mark(cuda, 0) == OR_CUDA_OK && copy(cuda, to, from, bytes) == OR_CUDA_OK &&
                or_cuda_mark(cuda, 1) == OR_CUDA_OK &&
                or_cuda_elapsed(cuda, 0, 1, &ms) == OR_CUDA_OK;
    bench_require(done, "a copy fails");
    return ms;
}

double bench_copy_rate(bench_copy_t *copy, bool from_host, size_t bytes)
{
    or_cuda_t *cuda = NULL;
    void *from = NULL;
    void *to = NULL;
    bench_require(or_cuda_open(0, &cuda) == OR_CUDA_OK, "the GPU cannot be opened");
    int status =
        from_host ? or_cuda_alloc_pinned(cuda, bytes, &from) : or_cuda_alloc(cuda, bytes, &from);
    bench_require(status == OR_CUDA_OK && or_cuda_alloc(cuda, bytes, &to) == OR_CUDA_OK,
                  "no memory to copy");
    float least_ms = time_of_copy(cuda, copy, to, from, bytes);
    for (uint32_t i = 1; i < COPIES; i++) {
        float ms = time_of_copy(cuda, copy, to, from, bytes);
        least_ms = ms < least_ms ? ms : least_ms;
    }
    or_cuda_free(cuda, to);
    if (from_host) {
        or_cuda_free_pinned(cuda, from);
    } else {
        or_cuda_free(cuda, from);
    }
    or_cuda_close(&cuda);
    return 1e-6 * (double)bytes / (double)least_ms;
}
