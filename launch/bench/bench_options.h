// bench_options - the command line of `outrider bench`.
#pragma once

#include "common/base/options/options.h"
#include "launch/bench/bench_plan.h"
#include "launch/cluster/target_options.h"
#include "proto/keys/keys.h"
#include "proto/wire/parameters.h"

typedef struct {
    char *model, *draft_model;
    or_option_list_t multi_models;
    char *acceptance_file;
    char *connect;
    char *owner;
    or_key_options_t keys;
    bool padding;
    uint32_t context, threads, draft_threads;
    or_target_options_t target;
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
