#include "launch/bench/bench_progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define ANEW_NS (100 * OR_NS_PER_MS) // on a terminal
#define LINE_NS (10 * OR_NS_PER_S)   // elsewhere

void or_bench_progress_init(or_bench_progress_t *progress, uint64_t all, const or_clock_t *clock)
{
    int64_t now = or_clock_now(clock);
    *progress = (or_bench_progress_t){.clock = clock,
                                      .terminal = isatty(STDERR_FILENO) == 1,
                                      .all = all,
                                      .started_ns = now,
                                      .said_ns = now};
}

void or_bench_progress_show(or_bench_progress_t *progress, uint64_t done, const char *name)
{
    int64_t now = or_clock_now(progress->clock);
    progress->done = done;
    if (now - progress->said_ns < (progress->terminal ? ANEW_NS : LINE_NS) || done == 0) {
        return;
    }
    double left_s = (double)(now - progress->started_ns) / (double)OR_NS_PER_S / (double)done *
                    (double)(progress->all - done);
    fprintf(stderr, "%s%" PRIu64 "/%" PRIu64 " runs, %.0f s left, %s%s",
            progress->terminal ? "\r" : "", done, progress->all, left_s, name,
            progress->terminal ? "\033[K" : "\n");
    progress->said_ns = now;
}

void or_bench_progress_clear(const or_bench_progress_t *progress)
{
    if (progress->terminal) {
        fputs("\r\033[K", stderr);
    }
}
