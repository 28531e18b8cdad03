// short_memory - a machine that is short of memory for a moment: one allocation of ours fails.
//
// A program that links this library must be linked with the options that come with it (its CMakeLists.txt), which sends every
// call of malloc, calloc, realloc, reallocarray, strdup and strndup in our own objects through here. What shared libraries
// allocate for themselves is neither counted nor refused. One thread counts at a time: the one that watches.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// Count allocations of this thread from here on, or no more.
void short_memory_watch(bool on);
// Begin counting anew; the nth allocation that is counted fails, and no other. 0: none fails.
void short_memory_arm(uint64_t nth);
// Allocations that were counted since.
uint64_t short_memory_counted(void);
