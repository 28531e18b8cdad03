// interrupt - Ctrl-C and SIGTERM as a count that loops look at.
#pragma once

// From now on SIGINT and SIGTERM are counted instead of ending the process, and a closed pipe is an error of write.
void or_interrupt_watch(void);
// How many came.
int or_interrupt_count(void);
