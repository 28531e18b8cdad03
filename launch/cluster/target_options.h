// target_options - how a local cluster runs its target: on how many ranks, and with which KV cache; and on
// which CPUs and GPUs it and the draft model run. The same options in `outrider generate`, `up` and `bench`.
#pragma once

#include <stdint.h>

#include "common/base/cpus.h"
#include "common/model/gpu/gpu_choice.h"

typedef struct {
    uint32_t ranks;                    // in all; 1: a plain process, without mpirun
    uint32_t stages;                   // --pp
    uint64_t cache_bytes;              // 0: the verifier's own choice
    char *cache_type_k, *cache_type_v; // NULL: f32
    or_cpu_options_t cpus, draft_cpus;
    or_gpu_options_t gpu, draft_gpu;
    bool list_devices; // the program prints them and ends: commands.h
} or_target_options_t;

// Their rows in a program's table; `field` is an or_target_options_t in the struct `type`.
// clang-format off
#define OR_TARGET_OPTIONS(type, field)                                                             \
    {"np", NULL, OR_OPTION_UINT32, offsetof(type, field.ranks), "N",                               \
     "run the target on N processes of this machine, by mpirun: 1, 2, 4 or 8 a stage"},            \
    {"pp", NULL, OR_OPTION_UINT32, offsetof(type, field.stages), "N",                              \
     "pipeline stages: its layers are split over N groups of processes, each of 1, 2, 4 or 8"},    \
    {"kv-cache-size", NULL, OR_OPTION_SIZE, offsetof(type, field.cache_bytes), "SIZE",             \
     "the target's keys and values of all sessions, as 512M or 2G; 0: what suits the memory"},     \
    {"cache-type-k", "ctk", OR_OPTION_STRING, offsetof(type, field.cache_type_k), "TYPE",          \
     "the target's keys are kept as f32, f16 or q8_0; f32 if not given"},                          \
    {"cache-type-v", "ctv", OR_OPTION_STRING, offsetof(type, field.cache_type_v), "TYPE",          \
     "the same for its values"},                                                                   \
    OR_CPU_OPTIONS_OF(type, field.cpus, "the target's ", "", ""),                                  \
    OR_CPU_OPTIONS_OF(type, field.draft_cpus, "the draft model's ", "-draft", "d"),                \
    OR_GPU_OPTIONS_OF(type, field.gpu, "the target's ", "", ""),                                   \
    OR_GPU_OPTIONS_OF(type, field.draft_gpu, "the draft model's ", "-draft", "d"),                 \
    OR_GPU_LIST_OPTION(type, field.list_devices)
// clang-format on

or_target_options_t or_target_options_default(void);

// Before anything is started. `connect`: the endpoint of a cluster that runs already, where none of these
// has a meaning; NULL for one of our own. OR_ERR_INVALID names the option and what is allowed.
or_status_t or_target_options_check(const or_target_options_t *options, const char *connect);
