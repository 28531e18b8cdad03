#include <stdlib.h>

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

// ---- the device ----

// Whether it can run kernels at all.
static or_status_t check_device(const or_gpu_choice_t *choice)
{
    or_cuda_description_t gpu;
    int status = choice->functions->describe(choice->index, &gpu);
    if (status != OR_CUDA_OK) {
        return or_fail(OR_ERR_NOT_FOUND, "the GPU %u cannot be used: %s", choice->index,
                       choice->functions->text(status));
    }
    return gpu.major >= OR_CUDA_MAJOR_MIN
               ? OR_OK
               : or_fail(OR_ERR_NOT_FOUND,
                         "the GPU %u, %s, has compute capability %u.%u: %u.0 is needed",
                         choice->index, gpu.name, gpu.major, gpu.minor, OR_CUDA_MAJOR_MIN);
}

static or_status_t check_choice(const or_model_t *model, const or_gpu_choice_t *choice)
{
    if (choice->functions == NULL) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "this program was built without CUDA: build it with the preset \"cuda\", "
                       "or run on the CPU");
    }
    uint32_t count = choice->functions->count();
    if (choice->index >= count) {
        return or_fail(OR_ERR_NOT_FOUND,
                       "there is no GPU %u: %u can be used here (nvidia-smi lists them)",
                       choice->index, count);
    }
    or_status_t status = check_device(choice);
    if (status != OR_OK) {
        return status;
    }
    uint32_t group = model->shape.heads / model->shape.kv_heads;
    if (group > OR_CUDA_GROUP_MAX) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "%u query heads of %s share a KV head, on a GPU at most %u can; run it on "
                       "the CPU",
                       group, or_gguf_path(model->gguf), OR_CUDA_GROUP_MAX);
    }
    return OR_OK;
}

or_status_t or_gpu_open(or_model_t *model, const or_gpu_choice_t *choice)
{
    or_status_t status = check_choice(model, choice);
    if (status != OR_OK) {
        return status;
    }
    or_gpu_t *gpu = calloc(1, sizeof *gpu);
    if (gpu == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a GPU");
    }
    gpu->functions = choice->functions;
    gpu->index = choice->index;
    gpu->kv_memory = or_gpu_kv_memory(gpu);
    int opened = gpu->functions->open(gpu->index, &gpu->cuda);
    if (opened != OR_CUDA_OK) {
        free(gpu);
        return or_fail(OR_ERR_NOT_FOUND, "the GPU %u cannot be used: %s", choice->index,
                       choice->functions->text(opened));
    }
    gpu->opened_with = or_gpu_free_bytes(gpu);
    model->gpu = gpu;
    return choice->tensor ? or_gpu_tensor_open(model) : OR_OK;
}

void or_gpu_close(or_gpu_t **gpu_p)
{
    or_gpu_t *gpu = *gpu_p;
    if (gpu != NULL) {
        or_gpu_slots_free(gpu);
        or_gpu_layers_free(gpu);
        or_gpu_tensor_close(gpu);
        gpu->functions->peers_leave(&gpu->peers);
        gpu->functions->close(&gpu->cuda);
        free(gpu);
        *gpu_p = NULL;
    }
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

or_status_t or_gpu_alloc_pinned(or_gpu_t *gpu, size_t bytes, void **at_p)
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
