// bench_options - the command line of `outrider bench`.
#pragma once

#include "common/base/options/options.h"
#include "launch/bench/bench_plan.h"
#include "launch/cluster/cluster_models.h"
#include "proto/keys/keys.h"
#include "proto/wire/parameters.h"

typedef struct {
    or_cluster_models_t models; // of a local cluster
    char *connect;
    char *owner;
    or_key_options_t keys;
    bool padding;
    char *prompts, *categories;
    uint32_t prompt_limit;
    uint32_t predict;
    bool ignore_end;
    char *temperatures;
    uint64_t seed;
    uint32_t repeats;
    char *methods, *nodes;
    char *distribution_entries; // "8,16"
    or_parameters_t parameters; // but for those that are lists here
    char *synthetic;            // acceptance by rank; NULL: with models
    uint32_t step_us, draft_us;
    bool fixed_length, fixed_budget, k_config, spec_bench;
    bool json;
    char *csv, *plots;
    bool verbose;
    char *log_level;
} or_bench_config_t;

extern const or_option_program_t or_bench_program;

or_bench_config_t or_bench_config_default(void);

// OR_ERR_INVALID names the option and what is allowed.
or_status_t or_bench_config_check(const or_bench_config_t *config);
// The experiment that it asks for.
or_bench_kind_t or_bench_config_kind(const or_bench_config_t *config);
