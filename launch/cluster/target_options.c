#include "launch/cluster/target_options.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "common/model/kv/kv_cache.h"

#define RANKS_MAX 8 // of a stage

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
    if (name != NULL && or_kv_type_parse(name, &type) != OR_OK) {
        return or_fail(OR_ERR_INVALID, "%s: %s", option, or_error_text());
    }
    return OR_OK;
}

// Is an option something else than when it is not given?
static bool differs(const char *word, const char *usual)
{
    return strcmp(word, usual) != 0;
}

// None may be there: said, not silently without effect.
static or_status_t check_absent(const or_target_options_t *options)
{
    const or_gpu_options_t usual = or_gpu_options_default();
    const struct {
        const char *option;
        bool given;
    } all[] = {
        {"--np", options->ranks != 1},
        {"--pp", options->stages != 1},
        {"--kv-cache-size", options->cache_bytes != 0},
        {"-ctk/--cache-type-k", options->cache_type_k != NULL},
        {"-ctv/--cache-type-v", options->cache_type_v != NULL},
        {"-Cr/--cpu-range", options->cpus.range != NULL},
        {"--cpu-strict", options->cpus.strict != 0},
        {"--poll", options->cpus.poll != OR_POLL_USUAL},
        {"-Crd/--cpu-range-draft", options->draft_cpus.range != NULL},
        {"--cpu-strict-draft", options->draft_cpus.strict != 0},
        {"--poll-draft", options->draft_cpus.poll != OR_POLL_USUAL},
        {"-dev/--device", differs(options->gpu.device, usual.device)},
        {"-ngl/--gpu-layers", differs(options->gpu.layers, usual.layers)},
        {"--arith", differs(options->gpu.arith, usual.arith)},
        {"-devd/--device-draft", differs(options->draft_gpu.device, usual.device)},
        {"-ngld/--gpu-layers-draft", differs(options->draft_gpu.layers, usual.layers)},
        {"--arith-draft", differs(options->draft_gpu.arith, usual.arith)},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].given) {
            return or_fail(OR_ERR_INVALID,
                           "%s is for a local cluster: with --connect the models run already; "
                           "leave it out, or start them with it",
                           all[i].option);
        }
    }
    return OR_OK;
}

or_status_t or_target_options_check(const or_target_options_t *options, const char *connect)
{
    if (connect != NULL) {
        return check_absent(options);
    }
    or_status_t status = check_ranks(options->ranks, options->stages);
    if (status == OR_OK) {
        status = check_type("-ctk/--cache-type-k", options->cache_type_k);
    }
    if (status == OR_OK) {
        status = check_type("-ctv/--cache-type-v", options->cache_type_v);
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
