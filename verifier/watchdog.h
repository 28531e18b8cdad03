// watchdog - ends this process when a wait that is short by nature does not end.
//
// A rank whose partner died is ended by mpirun; one whose partner hangs (stopped, swapped out, its host
// frozen) would wait for ever inside MPI, where no time-out exists. So a thread looks on. What is waited
// for costs two stores to an atomic, nothing else. Time is counted in looks, not read from a clock: a machine
// that slept finds nothing overdue when it wakes.
//
// One per process; all calls from one thread.
#pragma once

#include <stdint.h>

#include "common/base/status.h"

// From now on a watched wait of more than `timeout_s` seconds (at least 1) ends the process with exit code 1
// and one line of log. Never stopped: the process ends it. OR_ERR_IO.
or_status_t or_watchdog_start(uint32_t timeout_s);

// A wait begins, for `what` (a constant, as "the all-gather"), and is over. Without effect before the start.
void or_watchdog_begin(const char *what);
void or_watchdog_end(void);
