// clock - time behind an interface, so that a simulation can own it.
//
// A module that waits, times out or measures takes an or_clock_t (borrowed) and never asks the
// system.
#pragma once

#include <stdint.h>

typedef struct or_clock {
    int64_t (*now_ns)(
        const struct or_clock *clock); // monotonic nanoseconds from an arbitrary start
} or_clock_t;

#define OR_NS_PER_MS INT64_C(1000000)
#define OR_NS_PER_S INT64_C(1000000000)
#define OR_TIME_NEVER INT64_MAX

static inline int64_t or_clock_now(const or_clock_t *clock)
{
    return clock->now_ns(clock);
}

// The machine's CLOCK_MONOTONIC. Never NULL; it lives for ever and any thread may use it.
const or_clock_t *or_clock_monotonic(void);

// A clock that moves only when its now_ns is set. Embed it and pass &v.clock. One thread.
typedef struct {
    or_clock_t clock; // first: the interface
    int64_t now_ns;
} or_virtual_clock_t;

void or_virtual_clock_init(or_virtual_clock_t *clock, int64_t now_ns);
