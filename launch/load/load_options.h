// load_options - the command line of `outrider bench load`.
#pragma once

#include <stdint.h>

#include "common/base/options/options.h"
#include "launch/cluster/cluster_models.h"
#include "proto/keys/keys.h"
#include "proto/wire/parameters.h"

typedef struct {
    or_cluster_models_t models; // of a local cluster
    char *connect, *owner;
    or_key_options_t keys;
    bool padding;
    char *sessions; // as "1,4,16,64"
    uint32_t seconds;
    char *prompts;
    uint32_t prompt_limit, max_tokens;
    bool ignore_end;
    or_parameters_t parameters;
    uint64_t seed;
    uint32_t seeds;
    bool check, json, verbose;
    char *log_level;
} or_load_config_t;

#define OR_LOAD_STEPS_MAX 16u      // session counts of one run
#define OR_LOAD_SESSIONS_MAX 4096u // at once

// What the options ask for.
typedef struct {
    uint32_t steps[OR_LOAD_STEPS_MAX]; // session counts, in the order they were given
    uint32_t step_count;
    or_generate_request_t request; // of every text, without its prompt and seed; borrows `shape`
    or_shape_t shape;
} or_load_plan_t;

extern const or_option_program_t or_load_program;

or_load_config_t or_load_config_default(void);

// Check all options, and make the plan, which is not to be moved. OR_ERR_INVALID names the option and what is allowed.
or_status_t or_load_plan_make(const or_load_config_t *config, or_load_plan_t *plan);
