// interrupt - SIGINT, SIGTERM and SIGHUP as a count that loops look at, and a descriptor that ends
// their waits.
//
// A signal that comes between the look and the wait would otherwise be noticed one time-out late.
// One per process: main thread.
#pragma once

#include <stdbool.h>

// From now on SIGINT, SIGTERM and, unless it was ignored (nohup), SIGHUP are counted instead of ending
// the process; a closed pipe and a file over its limit are errors of write. Again after a library that
// may have installed handlers of its own; the count stays.
void or_interrupt_watch(void);
// How many came.
int or_interrupt_count(void);
// Was one of them another than SIGINT? Who sent it wants the whole process to end.
bool or_interrupt_is_final(void);
// Readable when one came since the last or_interrupt_drain; -1 if signals are not watched. Channels
// poll it beside their socket.
int or_interrupt_fd(void);
void or_interrupt_drain(void);
