#include "common/base/clock.h"

#include <time.h>

static int64_t monotonic_now(const or_clock_t *clock)
{
    (void)clock;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * OR_NS_PER_S + now.tv_nsec;
}

const or_clock_t *or_clock_monotonic(void)
{
    static const or_clock_t clock = {monotonic_now};
    return &clock;
}

static int64_t virtual_now(const or_clock_t *clock)
{
    return ((const or_virtual_clock_t *)clock)->now_ns; // clock is the first member
}

void or_virtual_clock_init(or_virtual_clock_t *clock, int64_t now_ns)
{
    clock->clock.now_ns = virtual_now;
    clock->now_ns = now_ns;
}
