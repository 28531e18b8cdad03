// short_memory - makes one allocation of ours fail, as on a machine that is short of memory for a moment.
//
// A program that links this library must be linked with the options that come with it (its CMakeLists.txt). They
// send every call of malloc, calloc, realloc, reallocarray, strdup and strndup in our own objects through here.
// Allocations of shared libraries are neither counted nor refused. One thread counts at a time: the one that
// watches.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// Count the allocations of this thread from now on, or stop counting.
void short_memory_watch(bool on);
// Begin counting anew. The nth allocation that is counted fails, and no other. 0: none fails.
void short_memory_arm(uint64_t nth);
// The number of allocations that were counted since then.
uint64_t short_memory_counted(void);
