#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/model/gpu/gpu_internal.h"
#include "common/model/model_internal.h"

// Of this machine: what could be had without pushing others out; all there is where the system does not say.
static uint64_t memory_bytes(void)
{
    uint64_t bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    FILE *file = fopen("/proc/meminfo", "re");
    if (file == NULL) {
        return bytes;
    }
    char line[128];
    while (fgets(line, sizeof line, file) != NULL) {
        uint64_t kib;
        if (sscanf(line, "MemAvailable: %" SCNu64 " kB", &kib) == 1) {
            bytes = kib * 1024;
            break;
        }
    }
    fclose(file);
    return bytes;
}

// What pages may take. Untouched ones cost nothing, but a promise of more than the machine has would be
// kept at the worst moment: a quarter of it for all its ranks. On a GPU they cost it at once; half of what the
// weights left, as slots of sequences follow.
static uint64_t affordable_bytes(const or_model_t *model)
{
    return model->gpu != NULL ? or_gpu_free_bytes(model->gpu) / 2 : memory_bytes() / 4;
}

// Pages for the sequences asked for, as far as they can be afforded, and never less than one full context.
static uint64_t affordable_pages(const or_model_t *model, uint32_t sequences_max, uint64_t bytes)
{
    uint64_t page_bytes = or_kv_page_bytes(&model->cache_shape);
    uint64_t affordable = bytes / (page_bytes > 0 ? page_bytes : 1);
    uint64_t pages_each = (model->context + OR_KV_PAGE - 1) / OR_KV_PAGE;
    uint64_t wanted = pages_each * (sequences_max > 0 ? sequences_max : 2);
    wanted = wanted < affordable ? wanted : affordable;
    return wanted > pages_each ? wanted : pages_each;
}

static uint32_t pages_for(const or_model_t *model, const or_model_options_t *options,
                          uint64_t bytes)
{
    uint64_t pages = options->pages_max;
    if (options->cache_bytes > 0) {
        or_kv_shape_t stage = model->cache_shape;
        stage.kv_heads = model->shape.kv_heads;
        pages = options->cache_bytes / or_kv_page_bytes(&stage);
    } else if (pages == 0) {
        pages = affordable_pages(model, options->sequences_max, bytes);
    }
    return pages < UINT32_MAX ? (uint32_t)pages : UINT32_MAX;
}

or_status_t or_room_sharers(const or_model_t *model, uint32_t *sharers)
{
    or_cuda_description_t device = {0}; // its uuid is no GPU's
    *sharers = 1;
    if (or_ranks_is_alone(model->ranks)) {
        return OR_OK;
    }
    if (model->gpu != NULL) {
        or_gpu_keep(model->gpu, model->gpu->functions->describe(model->gpu->index, &device));
    }
    return or_lockstep_alike(model->ranks, device.uuid, sizeof device.uuid, sharers);
}

uint32_t or_room_pages(const or_model_t *model, const or_model_options_t *options, uint32_t sharers)
{
    return pages_for(model, options, affordable_bytes(model) / sharers);
}

uint64_t or_room_least_bytes(const or_model_t *model, const or_model_options_t *options)
{
    return pages_for(model, options, 0) * or_kv_page_bytes(&model->cache_shape);
}
