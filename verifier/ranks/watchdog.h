// watchdog - ends this process when a wait that is short by nature does not end.
//
// mpirun ends a rank whose partner died. A rank whose partner hangs (stopped, swapped out, its host frozen) would
// wait for ever inside MPI, which has no time-out. So a thread looks on. A watched wait costs two stores to an
// atomic. Time is counted in looks, not read from a clock, so a machine that slept finds nothing overdue when it
// wakes.
#pragma once

#include <stdint.h>

#include "common/base/status.h"

// Start the watchdog: a watched wait of more than `timeout_s` seconds (at least 1) ends the process with exit code 1
// and one line of log. It is never stopped. OR_ERR_IO.
or_status_t or_watchdog_start(uint32_t timeout_s);

// Begin a wait for `what` (a constant, as "the all-gather"), and end it. Without effect before the start.
void or_watchdog_begin(const char *what);
void or_watchdog_end(void);
