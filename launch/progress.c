#include "launch/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "common/base/clock.h"

#define TERMINAL_NS (100 * OR_NS_PER_MS) // between two lines on a terminal
#define LINE_NS (10 * OR_NS_PER_S)       // and elsewhere

void or_progress_init(or_progress_t *progress, uint64_t all, bool in_bytes)
{
    int64_t now = or_clock_now(or_clock_monotonic());
    *progress = (or_progress_t){.terminal = isatty(STDERR_FILENO) == 1,
                                .in_bytes = in_bytes,
                                .all = all,
                                .started_ns = now,
                                .shown_ns = now};
}

void or_progress_show(or_progress_t *progress, uint64_t done, const char *name)
{
    int64_t now = or_clock_now(or_clock_monotonic());
    int64_t pause_ns = progress->terminal ? TERMINAL_NS : LINE_NS;
    progress->done = done;
    if (now - progress->shown_ns < pause_ns || done == 0) {
        return;
    }
    double part = (double)done / (double)progress->all;
    double left_s = (double)(now - progress->started_ns) / (double)OR_NS_PER_S / part * (1 - part);
    fputs(progress->terminal ? "\r" : "", stderr);
    if (progress->in_bytes) {
        fprintf(stderr, "%.0f %% of %.0f MiB", 100 * part, (double)progress->all * 0x1p-20);
    } else {
        fprintf(stderr, "%" PRIu64 "/%" PRIu64 " runs", done, progress->all);
    }
    fprintf(stderr, ", %.0f s left, %s%s", left_s, name, progress->terminal ? "\033[K" : "\n");
    progress->shown_ns = now;
}

void or_progress_clear(const or_progress_t *progress)
{
    if (progress->terminal) {
        fputs("\r\033[K", stderr);
    }
}
