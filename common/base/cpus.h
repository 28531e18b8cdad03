// cpus - on which of the machine's CPUs a process's threads run, and the options that say so.
//
//     --cpu-range 0-3                   all threads of the process, each on any of the four
//     --cpu-range 0-3 --cpu-strict 1    of the threads that compute, the first on 0, the second on 1, ...
//
// Numbers are the operating system's, and only CPUs that the process may use anyway can be named.
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/options/options.h"

#define OR_POLL_MOST 100
#define OR_POLL_USUAL 50
#define OR_POLL_NEVER (-1) // where 0 stands for the usual

typedef struct {
    cpu_set_t set;
} or_cpus_t;

typedef struct {
    char *range;     // "lo-hi"; NULL or "": all that the process may use
    uint32_t strict; // 1: threads that compute stay where they are
    uint32_t poll;   // how long they wait for work before they sleep: 0 to OR_POLL_MOST
} or_cpu_options_t;

// clang-format off
// The rows of a program's option table that fill the or_cpu_options_t `field` of the struct
// `type`.
#define OR_CPU_OPTIONS(type, field) OR_CPU_OPTIONS_OF(type, field, "", "", "")
// The same for the processes of a local cluster: `whose` begins the help, `suffix` ends the long names
// and `d` the short one.
#define OR_CPU_OPTIONS_OF(type, field, whose, suffix, d)                                           \
    {"cpu-range" suffix, "Cr" d, OR_OPTION_STRING, offsetof(type, field.range), "LO-HI",           \
     whose "threads run on these CPUs of the machine only, as 0-3"},                               \
    {"cpu-strict" suffix, NULL, OR_OPTION_UINT32, offsetof(type, field.strict), "0|1",             \
     whose "threads that compute stay on a CPU each"},                                             \
    {"poll" suffix, NULL, OR_OPTION_UINT32, offsetof(type, field.poll), "0-100",                   \
     whose "threads look for work so eagerly before they sleep; 0: they sleep at once"}
// clang-format on

// The default: no range, not strict, OR_POLL_USUAL.
or_cpu_options_t or_cpu_options_default(void);
// Check the options before anything is started. OR_ERR_INVALID names the option with its suffix and
// says what is allowed. A range is refused if it is malformed or names CPUs that this process may not
// use.
or_status_t or_cpu_options_check(const or_cpu_options_t *options, const char *suffix);
// Keep the calling thread, and those it starts from now on, to the range that was checked.
// OR_ERR_IO.
or_status_t or_cpu_options_confine(const or_cpu_options_t *options);

// Convert `poll` to what workers.h expects.
int32_t or_cpu_options_poll(const or_cpu_options_t *options);

// A number that processes on the same machine have in common, as long as it is up, and no others; 0: not known.
uint64_t or_cpus_machine(void);
// The CPUs that the calling thread may run on.
or_cpus_t or_cpus_allowed(void);
uint32_t or_cpus_count(const or_cpus_t *cpus);
// Parse "lo-hi" or one number. OR_ERR_INVALID if it is neither, or names CPUs outside of
// or_cpus_allowed.
or_status_t or_cpus_parse(const char *text, or_cpus_t *cpus);
// Parse the system's form of a set, "0-3,8", which may be empty and may end a line. OR_ERR_INVALID if it is malformed or
// names numbers that no set has.
or_status_t or_cpus_parse_list(const char *text, or_cpus_t *cpus);
// Write this form; cut where it does not fit.
void or_cpus_list(const or_cpus_t *cpus, char *text, size_t capacity);
// So many of the CPUs, beginning with the one that has `first` others before it. Past the last one there are none.
or_cpus_t or_cpus_subset(const or_cpus_t *cpus, uint32_t first, uint32_t count);
// The n-th of the CPUs alone. Numbers past the last one begin again at the first.
or_cpus_t or_cpus_nth(const or_cpus_t *cpus, uint32_t n);
// Let the calling thread, and those it starts from now on, run on these CPUs alone. OR_ERR_IO.
or_status_t or_cpus_confine(const or_cpus_t *cpus);
// The same for a thread that computes. Threads that it starts inherit the restriction; those that do
// something else should be moved back to what or_cpus_before_pin gives. OR_ERR_IO.
or_status_t or_cpus_pin(const or_cpus_t *cpus);
// Is the calling thread pinned? If so, *before is set to the CPUs it could use before its first
// pin.
bool or_cpus_before_pin(or_cpus_t *before);
