#include "launch/cluster/target_options.h"

#include <inttypes.h>
#include <stdbool.h>

#include "common/gguf/packed.h"
#include "common/model/model.h"
#include "proto/net/endpoint.h"

#define RANKS_MAX 8 // of a stage
#define AT(field) offsetof(or_target_options_t, field)

const or_option_t or_target_options[] = {
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
    OR_PACKED_OPTION(or_target_options_t, packed, "the target's ", ""),
    OR_WEIGHTS_MEMORY_OPTION(or_target_options_t, weights_memory, "the target's "),
    OR_PACKED_OPTION(or_target_options_t, draft_packed, "the draft model's ", "-draft"),
    OR_CPU_OPTIONS_OF(or_target_options_t, cpus, "the target's ", "", ""),
    OR_CPU_OPTIONS_OF(or_target_options_t, draft_cpus, "the draft model's ", "-draft", "d"),
    OR_GPU_OPTIONS_OF(or_target_options_t, gpu, "the target's ", "", ""),
    OR_GPU_OPTIONS_OF(or_target_options_t, draft_gpu, "the draft model's ", "-draft", "d"),
    OR_GPU_LIST_OPTION(or_target_options_t, list_devices),
    {0}};

or_target_options_t or_target_options_default(void)
{
    return (or_target_options_t){.ranks = 1,
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

static or_status_t check_type(const char *option, const char *name)
{
    or_kv_type_t type;
    if (name != NULL && or_model_cache_type_parse(name, &type) != OR_OK) {
        return or_fail(OR_ERR_INVALID, "%s: %s", option, or_error_text());
    }
    return OR_OK;
}

// None of them may be given: an option without effect is refused, not ignored.
static or_status_t check_absent(const or_target_options_t *options)
{
    const or_target_options_t usual = or_target_options_default();
    for (const or_option_t *row = or_target_options; row->name != NULL; row++) {
        char option[OR_OPTION_ORIGIN_BYTES];
        if (!or_option_is_same(row, options, &usual)) {
            or_option_origin(row, option);
            return or_fail(OR_ERR_INVALID,
                           "%s is for a local cluster: with --connect the models run already; "
                           "leave it out, or start them with it",
                           option);
        }
    }
    return OR_OK;
}

or_status_t or_target_options_check(const or_target_options_t *options, const char *connect)
{
    if (connect != NULL) {
        or_status_t status = or_endpoint_check(connect, false);
        return status == OR_OK ? check_absent(options) : status;
    }
    or_status_t status = check_ranks(options->ranks, options->stages);
    if (status == OR_OK) {
        status = check_type("-ctk/--cache-type-k", options->cache_type_k);
    }
    if (status == OR_OK) {
        status = check_type("-ctv/--cache-type-v", options->cache_type_v);
    }
    if (status == OR_OK) {
        status = or_packed_check_wish(options->packed, options->weights_memory);
    }
    if (status == OR_OK) {
        status = or_packed_check_wish(options->draft_packed, 0);
    }
    if (status == OR_OK) {
        status = or_cpu_options_check(&options->cpus, "");
    }
    if (status == OR_OK) {
        status = or_cpu_options_check(&options->draft_cpus, "-draft");
    }
    if (status == OR_OK) {
        status = or_gpu_options_check(&options->gpu, "");
    }
    if (status == OR_OK) {
        status = or_gpu_options_check(&options->draft_gpu, "-draft");
    }
    return status;
}
