// cluster_models - the target and the draft model of a local cluster, and how it runs them: sizes, the target's ranks and
// its KV cache, CPUs and GPUs. `outrider generate`, `chat`, `up`, `bench` and `bench load` have these options.
#pragma once

#include <stdint.h>

#include "common/base/cpus.h"
#include "common/model/cpu/workers.h"
#include "common/model/gpu/gpu_choice.h"

typedef struct {
    char *model, *draft_model;         // files; NULL: none was given
    or_option_list_t multi_models;     // further draft models, for --draft-method multi
    char *acceptance_file;             // the drafter's; NULL: none
    uint32_t context;                  // 0: what the models were made for
    uint32_t threads;                  // of the target's ranks together; 0: its own choice
    uint32_t draft_threads;            // likewise
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
} or_cluster_models_t;

// Their rows, for an or_cluster_models_t (OR_OPTION_PART): the files, and how they run.
extern const or_option_t or_cluster_model_options[], or_cluster_run_options[];

or_cluster_models_t or_cluster_models_default(void);

// Check them before anything is started. `connect` is the endpoint of a cluster that runs already, or NULL for one of our
// own; it is checked as well. With it none of them has a meaning, and none may be given. OR_ERR_INVALID says what is allowed.
or_status_t or_cluster_models_check(const or_cluster_models_t *models, const char *connect);

// What is said of an option (its name) that means nothing without a draft model, where a target of the user's own has none.
#define OR_NEEDS_DRAFT_MODEL "%s needs a draft model: name one with -md, or leave it out"
// Check that none of the draft model's options is given. OR_ERR_INVALID names the first that is.
or_status_t or_cluster_models_check_target_alone(const or_cluster_models_t *models);
