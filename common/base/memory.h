// memory - how much memory a process could still have.
#pragma once

#include <stdint.h>

// Return the bytes that this process could have without pushing others out. That is what the system has available
// (MemAvailable of proc(5)), or less where a control group (cgroups(7)), its own or one above it, has a limit. Where the
// system says neither, it is all of the machine's memory.
uint64_t or_memory_available(void);

// Return the same for a system whose files lie in the folder `root`, or UINT64_MAX where none of them says anything.
uint64_t or_memory_available_in(const char *root);
