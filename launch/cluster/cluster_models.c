#include "launch/cluster/cluster_models.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/gguf/packed.h"
#include "common/model/model.h"
#include "proto/net/endpoint.h"

#define RANKS_MAX 8 // of a stage
#define AT(field) offsetof(or_cluster_models_t, field)

const or_option_t or_cluster_model_options[] = {
    {"model", "m", OR_OPTION_STRING, AT(model), "FILE",
     "target model (GGUF); the demonstration pair if not given"},
    {"model-draft", "md", OR_OPTION_STRING, AT(draft_model), "FILE",
     "draft model; any vocabulary will do. With -m but not -md, guesses are looked up in a text "
     "that runs alone; `outrider bench` itself refuses, as it compares draft methods"},
    {"multi-model", NULL, OR_OPTION_LIST, AT(multi_models), "FILE",
     "a further draft model, of the first one's vocabulary, for --draft-method multi"},
    {"acceptance-file", NULL, OR_OPTION_STRING, AT(acceptance_file), "FILE",
     "where the drafter remembers how often guesses are accepted (sequoia, calibrated dyspec)"},
    {0}};

const or_option_t or_cluster_run_options[] = {
    {"ctx-size", "c", OR_OPTION_UINT32, AT(context), "N",
     "context in tokens; 0: what the models were made for, or there is memory for",
     .bounds = OR_CONTEXT_BOUNDS},
    {"threads", "t", OR_OPTION_UINT32, AT(threads), "N",
     "threads of the target; 0: one a CPU it may use", .bounds = OR_THREADS_BOUNDS},
    {"threads-draft", "td", OR_OPTION_UINT32, AT(draft_threads), "N",
     "threads of the draft model; 0: one a CPU it may use", .bounds = OR_THREADS_BOUNDS},
    {"np", NULL, OR_OPTION_UINT32, AT(ranks), "N",
     "run the target on N processes of this machine, by mpirun: 1, 2, 4 or 8 a stage"},
    {"pp", NULL, OR_OPTION_UINT32, AT(stages), "N",
     "pipeline stages: its layers are split over N groups of processes, each of 1, 2, 4 or 8"},
    {"kv-cache-size", NULL, OR_OPTION_SIZE, AT(cache_bytes), "SIZE",
     "the target's keys and values of all sessions, as 512M or 2G; 0: what suits the memory"},
    {"cache-type-k", "ctk", OR_OPTION_STRING, AT(cache_type_k), "TYPE",
     "the target's keys are kept as f32, f16 or q8_0; auto, if not given: f32, or f16 where a full "
     "context took more than a GiB in f32"},
    {"cache-type-v", "ctv", OR_OPTION_STRING, AT(cache_type_v), "TYPE", "the same for its values"},
    {"window-slack", NULL, OR_OPTION_UINT32, AT(window_slack), "N",
     "the target's layers with a window keep so many positions before it, by which texts can be "
     "cut back or share a beginning; 0: 256"},
    OR_PACKED_OPTION(or_cluster_models_t, packed, "the target's ", ""),
    OR_WEIGHTS_MEMORY_OPTION(or_cluster_models_t, weights_memory, "the target's "),
    OR_PACKED_OPTION(or_cluster_models_t, draft_packed, "the draft model's ", "-draft"),
    OR_CPU_OPTIONS_OF(or_cluster_models_t, cpus, "the target's ", "", ""),
    OR_CPU_OPTIONS_OF(or_cluster_models_t, draft_cpus, "the draft model's ", "-draft", "d"),
    OR_GPU_OPTIONS_OF(or_cluster_models_t, gpu, "the target's ", "", ""),
    OR_GPU_OPTIONS_OF(or_cluster_models_t, draft_gpu, "the draft model's ", "-draft", "d"),
    OR_GPU_LIST_OPTION(or_cluster_models_t, list_devices),
    {0}};

or_cluster_models_t or_cluster_models_default(void)
{
    return (or_cluster_models_t){.ranks = 1,
                                 .stages = 1,
                                 .cpus = or_cpu_options_default(),
                                 .draft_cpus = or_cpu_options_default(),
                                 .gpu = or_gpu_options_default(),
                                 .draft_gpu = or_gpu_options_default()};
}

static or_status_t check_ranks(uint32_t ranks, uint32_t stages)
{
    uint32_t size = stages > 0 ? ranks / stages : 0;
    bool allowed = size == 1 || size == 2 || size == 4 || size == RANKS_MAX;
    if (allowed && size * stages == ranks) {
        return OR_OK;
    }
    if (stages == 1) {
        return or_fail(OR_ERR_INVALID,
                       "--np: %" PRIu32 " is none of 1, 2, 4 and 8; other counts need --pp, which "
                       "splits the layers over groups of these sizes",
                       ranks);
    }
    return or_fail(OR_ERR_INVALID,
                   "--np: %" PRIu32 " ranks do not make %" PRIu32
                   " stages (--pp) of 1, 2, 4 or 8 ranks each",
                   ranks, stages);
}

// Is the option given in words? A variable may be meant for workers that are started from the same shell.
static bool is_given(const or_option_t *row, const or_cluster_models_t *models)
{
    char variable[OR_OPTION_VARIABLE_BYTES];
    or_option_variable(row, variable);
    const char *text = getenv(variable);
    if (text != NULL && *text != '\0') {
        return false;
    }
    const or_cluster_models_t usual = or_cluster_models_default();
    const void *place = (const char *)models + row->offset;
    return row->type == OR_OPTION_LIST ? ((const or_option_list_t *)place)->count > 0
                                       : !or_option_is_same(row, models, &usual);
}

// No option of the table may be given: one without effect is refused, not ignored.
static or_status_t check_absent(const or_option_t *table, const or_cluster_models_t *models)
{
    for (const or_option_t *row = table; row->name != NULL; row++) {
        char option[OR_OPTION_ORIGIN_BYTES];
        if (is_given(row, models)) {
            or_option_origin(row, option);
            return or_fail(OR_ERR_INVALID,
                           "%s is for a local cluster: with --connect the models run already; "
                           "leave it out, or give it to the `outrider up`, verifier or drafter "
                           "that runs them",
                           option);
        }
    }
    return OR_OK;
}

static bool is_of_draft_model(const or_option_t *row)
{
    return strstr(row->name, "draft") != NULL || strcmp(row->name, "multi-model") == 0 ||
           strcmp(row->name, "acceptance-file") == 0;
}

or_status_t or_cluster_models_check_target_alone(const or_cluster_models_t *models)
{
    const or_option_t *const tables[] = {or_cluster_model_options, or_cluster_run_options};
    for (uint32_t i = 0; i < 2; i++) {
        for (const or_option_t *row = tables[i]; row->name != NULL; row++) {
            char option[OR_OPTION_ORIGIN_BYTES];
            if (is_of_draft_model(row) && is_given(row, models)) {
                or_option_origin(row, option);
                return or_fail(OR_ERR_INVALID, OR_NEEDS_DRAFT_MODEL, option);
            }
        }
    }
    return OR_OK;
}

static or_status_t check_connected(const or_cluster_models_t *models, const char *connect)
{
    or_status_t status = or_endpoint_check(connect, false);
    if (status == OR_OK) {
        status = check_absent(or_cluster_model_options, models);
    }
    return status == OR_OK ? check_absent(or_cluster_run_options, models) : status;
}

or_status_t or_cluster_models_check(const or_cluster_models_t *models, const char *connect)
{
    if (connect != NULL) {
        return check_connected(models, connect);
    }
    or_status_t status = check_ranks(models->ranks, models->stages);
    if (status == OR_OK) {
        or_model_options_t types;
        status = or_model_cache_types_parse(models->cache_type_k, models->cache_type_v, &types);
    }
    if (status == OR_OK) {
        status = or_packed_check_wish(models->packed, models->weights_memory);
    }
    if (status == OR_OK) {
        status = or_packed_check_wish(models->draft_packed, 0);
    }
    if (status == OR_OK) {
        status = or_cpu_options_check(&models->cpus, "");
    }
    if (status == OR_OK) {
        status = or_cpu_options_check(&models->draft_cpus, "-draft");
    }
    if (status == OR_OK) {
        status = or_gpu_options_check(&models->gpu, "");
    }
    if (status == OR_OK) {
        status = or_gpu_options_check(&models->draft_gpu, "-draft");
    }
    return status;
}
