// The memory of trees that grow on a device.
#include <stdlib.h>

#include "common/model/gpu/gpu_internal.h"

static size_t asked_bytes(const or_model_t *model)
{
    size_t pages = (model->context + OR_KV_PAGE - 1) / OR_KV_PAGE;
    return sizeof(or_gpu_growth_asked_t) + pages * sizeof(uint32_t);
}

static or_status_t take_on_device(or_model_t *model)
{
    or_gpu_t *gpu = model->gpu;
    or_gpu_growth_t *growth = &gpu->growth;
    void *at[5] = {0};
    const size_t bytes[] = {
        asked_bytes(model),
        (size_t)OR_CUDA_GROWTH_MAX * OR_CUDA_GROWTH_MAX * sizeof *growth->chains,
        gpu->functions->grow_bytes(OR_CUDA_GROWTH_MAX),
        sizeof *growth->grown,
        model->shape.vocab_size * sizeof *growth->widths,
    };
    or_status_t status = OR_OK;
    for (size_t i = 0; status == OR_OK && i < sizeof bytes / sizeof bytes[0]; i++) {
        status = or_gpu_alloc_buffer(model, bytes[i], &at[i]);
    }
    growth->asked = at[0];
    growth->chains = at[1];
    growth->scratch = at[2];
    growth->grown = at[3];
    growth->widths = at[4];
    return status;
}

static or_status_t take_on_host(or_model_t *model)
{
    or_gpu_growth_t *growth = &model->gpu->growth;
    void *at;
    or_status_t status = or_gpu_alloc_pinned(model->gpu, asked_bytes(model), &at);
    growth->asked_host = at;
    if (status == OR_OK) {
        status = or_gpu_alloc_pinned(model->gpu, sizeof *growth->grown_host, &at);
        growth->grown_host = at;
    }
    growth->ids = calloc(OR_CUDA_GROWTH_CONTENDERS, sizeof *growth->ids);
    growth->scores = calloc(OR_CUDA_GROWTH_CONTENDERS, sizeof *growth->scores);
    return status == OR_OK && (growth->ids == NULL || growth->scores == NULL)
               ? or_fail(OR_ERR_NO_MEMORY, "no memory for the contenders of a tree")
               : status;
}

void or_gpu_growth_free(or_gpu_t *gpu)
{
    or_gpu_growth_t *growth = &gpu->growth;
    free(growth->scores);
    free(growth->ids);
    or_gpu_free_pinned(gpu, growth->grown_host);
    or_gpu_free_pinned(gpu, growth->asked_host);
    or_gpu_give(gpu, growth->widths);
    or_gpu_give(gpu, growth->grown);
    or_gpu_give(gpu, growth->scratch);
    or_gpu_give(gpu, growth->chains);
    or_gpu_give(gpu, growth->asked);
    *growth = (or_gpu_growth_t){0};
}

// All that a tree needs, or nothing of it.
static or_status_t take(or_model_t *model)
{
    or_gpu_t *gpu = model->gpu;
    uint64_t before = model->buffer_bytes;
    or_status_t status = or_gpu_embedding_copy(model);
    if (status != OR_OK || gpu->embedding == NULL) {
        return status;
    }
    status = take_on_device(model);
    status = status != OR_OK ? status : take_on_host(model);
    if (status != OR_OK) {
        or_gpu_growth_free(gpu);
        or_gpu_embedding_free(gpu);
        model->buffer_bytes = before;
    }
    return status == OR_ERR_NO_MEMORY ? OR_OK : status;
}

// Recordings do not have what ranks say to each other, nor layers that come over.
static bool could_grow(const or_model_t *model)
{
    return or_model_has_contenders(model) && model->gpu->layers.away == 0;
}

or_status_t or_model_prepare_growth(or_model_t *model, const uint32_t *widths, uint32_t count)
{
    or_gpu_t *gpu = model->gpu;
    if (!could_grow(model)) {
        return OR_OK;
    }
    or_status_t status = gpu->growth_tried ? OR_OK : take(model);
    gpu->growth_tried = true;
    if (status != OR_OK || gpu->growth.widths == NULL) {
        return status;
    }
    uint32_t known = count < model->shape.vocab_size ? count : model->shape.vocab_size;
    or_gpu_keep(gpu, gpu->functions->upload(gpu->cuda, gpu->growth.widths, widths,
                                            known * sizeof *widths)); // waits
    return or_gpu_check(gpu);
}

bool or_model_can_grow(const or_model_t *model)
{
    const or_gpu_t *gpu = model->gpu;
    return gpu != NULL && gpu->growth.widths != NULL && !gpu->steps.off[OR_GPU_GROWTH];
}
