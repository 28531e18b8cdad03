// interrupt - SIGINT, SIGTERM and SIGHUP as a count that loops look at, and a descriptor that
// ends their waits.
//
// Without the descriptor, a signal that comes between the look and the wait would be noticed one
// time-out late. One per process, for the main thread.
#pragma once

#include <stdbool.h>

// Count SIGINT and SIGTERM from now on instead of letting them end the process. The same goes for
// SIGHUP, unless it was ignored (nohup). A closed pipe and a file over its limit become errors of
// write. Call it again after a library that may have installed handlers of its own; the count
// stays.
void or_interrupt_watch(void);
// The number of signals so far.
int or_interrupt_count(void);
// Was one of them another than SIGINT? Its sender wants the whole process to end.
bool or_interrupt_is_final(void);
// The descriptor is readable when a signal came since the last or_interrupt_drain; -1 if signals
// are not watched. Channels poll it beside their socket.
int or_interrupt_fd(void);
void or_interrupt_drain(void);
