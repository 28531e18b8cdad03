// bench_timer - how long a piece of work takes that is done again and again: on this thread alone, by the
// time that the processor spent on it, or on several threads at once, by the clock on the wall.
//
// Alone is for what a core computes: whoever else wants the processor does not count. Together is for what
// all cores share, the memory. Both are medians of several batches.
#pragma once

#include <stdint.h>

#include "common/base/status.h"

#define OR_TIMER_THREADS_MAX 256u

// A piece of work; `thread` counts from 0.
typedef void (*or_timed_work_t)(void *context, uint32_t thread);

// The middle one, or the mean of both; sorts them. At least one.
double or_timer_median(double *values, uint32_t count);

// Seconds of processor time a call, measured for about `seconds`. The first call is not counted.
double or_timer_alone(or_timed_work_t work, void *context, double seconds);

// Seconds between two calls' ends, whichever of the threads they run on: less than a call takes. The
// threads are started anew for each batch. OR_ERR_IO if the system starts no more.
or_status_t or_timer_together(uint32_t threads, or_timed_work_t work, void *context, double seconds,
                              double *seconds_a_call);
