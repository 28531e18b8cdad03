// The operations on a device that all files of this folder share: its errors, which are kept, and its memory.
#include <stdlib.h>
#include <string.h>

#include "common/model/gpu/gpu_internal.h"

// ---- what went wrong ----

void or_gpu_keep(or_gpu_t *gpu, int status)
{
    if (gpu->status == OR_CUDA_OK) {
        gpu->status = status;
    }
}

or_status_t or_gpu_check(const or_gpu_t *gpu)
{
    return gpu->status == OR_CUDA_OK
               ? OR_OK
               : or_fail(OR_ERR_IO, "the GPU: %s", gpu->functions->text(gpu->status));
}

uint64_t or_gpu_free_bytes(const or_gpu_t *gpu)
{
    uint64_t bytes;
    int status = gpu->functions->free_bytes(gpu->index, &bytes);
    return status == OR_CUDA_OK ? bytes : 0;
}

// ---- memory ----

static or_status_t check_alloc(const or_gpu_t *gpu, int status, size_t bytes, const char *where)
{
    return status == OR_CUDA_OK
               ? OR_OK
               : or_fail(OR_ERR_NO_MEMORY,
                         "the GPU: %s, %zu MiB of %s were asked for; choose a smaller model, KV "
                         "cache or context, fewer rows a pass, or fewer layers there (-ngl)",
                         gpu->functions->text(status), bytes >> 20, where);
}

or_status_t or_gpu_alloc(or_gpu_t *gpu, size_t bytes, void **at_p)
{
    *at_p = NULL;
    return bytes == 0 ? OR_OK
                      : check_alloc(gpu, gpu->functions->alloc(gpu->cuda, bytes, at_p), bytes,
                                    "its memory");
}

or_status_t or_gpu_alloc_buffer(or_model_t *model, size_t bytes, void **at_p)
{
    or_status_t status = or_gpu_alloc(model->gpu, bytes, at_p);
    model->buffer_bytes += status == OR_OK ? bytes : 0;
    return status;
}

static or_status_t alloc_pinned(or_gpu_t *gpu, size_t bytes, void **at_p)
{
    *at_p = NULL;
    return check_alloc(gpu, gpu->functions->alloc_pinned(gpu->cuda, bytes, at_p), bytes,
                       "pinned memory");
}

void or_gpu_free_pinned(or_gpu_t *gpu, void *at)
{
    if (at != NULL) {
        gpu->functions->free_pinned(gpu->cuda, at);
    }
}

static or_status_t take_part(or_model_t *model, const or_gpu_part_t *part)
{
    void *at = NULL;
    or_status_t status = part->bytes == 0 ? OR_OK
                         : part->kind == OR_GPU_BUFFER
                             ? or_gpu_alloc_buffer(model, part->bytes, &at)
                         : part->kind == OR_GPU_PINNED ? alloc_pinned(model->gpu, part->bytes, &at)
                                                       : or_gpu_alloc(model->gpu, part->bytes, &at);
    memcpy(part->at_p, &at, sizeof at);
    return status;
}

or_status_t or_gpu_take_parts(or_model_t *model, const or_gpu_part_t *parts, size_t count)
{
    or_status_t status = OR_OK;
    for (size_t i = 0; status == OR_OK && i < count; i++) {
        status = take_part(model, &parts[i]);
    }
    return status;
}

or_status_t or_gpu_give_parts(or_model_t *model, const or_gpu_part_t *parts, size_t count)
{
    for (size_t i = count; i-- > 0;) {
        void *at;
        memcpy(&at, parts[i].at_p, sizeof at);
        if (parts[i].kind == OR_GPU_PINNED) {
            or_gpu_free_pinned(model->gpu, at);
        } else {
            or_gpu_give(model->gpu, at);
        }
        memset(parts[i].at_p, 0, sizeof at);
    }
    return OR_OK;
}

or_status_t or_gpu_take(or_gpu_t *gpu, void **numbers, size_t bytes)
{
    if (gpu == NULL || *numbers == NULL) {
        return OR_OK;
    }
    void *host = *numbers;
    or_status_t status = or_gpu_alloc(gpu, bytes, numbers);
    if (status == OR_OK) {
        or_gpu_keep(gpu, gpu->functions->upload(gpu->cuda, *numbers, host, bytes)); // waits
        status = or_gpu_check(gpu);
    }
    free(host);
    return status;
}

or_status_t or_gpu_take_floats(or_gpu_t *gpu, float **numbers, size_t count)
{
    void *at = *numbers;
    or_status_t status = or_gpu_take(gpu, &at, count * sizeof **numbers);
    *numbers = at;
    return status;
}

void or_gpu_give(or_gpu_t *gpu, void *numbers)
{
    if (gpu == NULL) {
        free(numbers);
    } else {
        gpu->functions->free(gpu->cuda, numbers);
    }
}
