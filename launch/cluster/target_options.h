// target_options - how a local cluster runs its target: its ranks and its KV cache, and the CPUs and GPUs of the
// target and the draft model. `outrider generate`, `chat`, `up`, `bench` and `bench load` have these options.
#pragma once

#include <stdint.h>

#include "common/base/cpus.h"
#include "common/model/cpu/workers.h"
#include "common/model/gpu/gpu_choice.h"

typedef struct {
    uint32_t ranks;                    // in all; 1: a plain process, without mpirun
    uint32_t stages;                   // --pp
    uint64_t cache_bytes;              // 0: the verifier's own choice
    uint32_t window_slack;             // likewise
    char *cache_type_k, *cache_type_v; // NULL: auto
    char *packed, *draft_packed;       // likewise
    uint64_t weights_memory;           // of the target; 0: what it needs, or what there is
    or_cpu_options_t cpus, draft_cpus;
    or_gpu_options_t gpu, draft_gpu;
    bool list_devices; // the program prints them and ends: commands.h
} or_target_options_t;

// Their rows, for an or_target_options_t (OR_OPTION_PART).
extern const or_option_t or_target_options[];

// The rows of a program that starts models, whose struct has the fields context, threads and draft_threads.
// clang-format off
#define OR_SIZE_OPTIONS(type)                                                                      \
    {"ctx-size", "c", OR_OPTION_UINT32, offsetof(type, context), "N",                              \
     "context in tokens; 0: what the model was made for, or there is memory for",                  \
     .bounds = OR_CONTEXT_BOUNDS},                                                                 \
    {"threads", "t", OR_OPTION_UINT32, offsetof(type, threads), "N",                               \
     "threads of the target; 0: one a CPU it may use", .bounds = OR_THREADS_BOUNDS},               \
    {"threads-draft", "td", OR_OPTION_UINT32, offsetof(type, draft_threads), "N",                  \
     "threads of the draft model; 0: one a CPU it may use", .bounds = OR_THREADS_BOUNDS}
// clang-format on

or_target_options_t or_target_options_default(void);

// Check them before anything is started. `connect` is the endpoint of a cluster that runs already, where none of
// them has a meaning, or NULL for one of our own; it is checked as well. OR_ERR_INVALID says what is allowed.
or_status_t or_target_options_check(const or_target_options_t *options, const char *connect);
