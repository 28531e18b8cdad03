#include "common/model/gpu/gpu_layers.h"

#include <stdlib.h>
#include <string.h>

#include "common/model/gpu/gpu_internal.h"

#define ALIGNMENT 256u // of a matrix in a buffer, as or_cuda_alloc has it

// The device's memory that must stay free for what nobody counts (kernels, recordings, its own tables): a part
// of it, but no more than is ever needed.
#define RESERVE_PART 16u
#define RESERVE_MOST ((uint64_t)1 << 30)

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static or_matrix_t *matrix_of(or_layer_t *layer, const or_arch_tensor_t *tensor)
{
    return (or_matrix_t *)((char *)layer + tensor->offset);
}

// Is this row of the table a matrix that the layer has? Of a family whose first layers have no experts two rows may have one
// place.
static bool is_matrix(const or_model_t *model, const or_arch_tensor_t *tensor, uint32_t index)
{
    return tensor->outputs != OR_DIM_ONE &&
           or_arch_layer_has(&model->shape, tensor, model->share.layers.begin + index) &&
           matrix_of(&model->layers[index], tensor)->bytes > 0;
}

static uint64_t layer_bytes(const or_model_t *model, uint32_t index)
{
    uint64_t bytes = 0;
    for (const or_arch_tensor_t *t = model->arch->layer_tensors; t->suffix != NULL; t++) {
        if (is_matrix(model, t, index)) {
            bytes += aligned(matrix_of(&model->layers[index], t)->bytes);
        }
    }
    return bytes;
}

// ---- which are away ----

static uint64_t room_for_layers(const or_model_t *model, uint64_t cache_bytes)
{
    or_cuda_description_t device;
    if (model->gpu->functions->describe(model->gpu->index, &device) != OR_CUDA_OK) {
        return 0;
    }
    uint64_t part = device.memory_bytes / RESERVE_PART;
    uint64_t others = cache_bytes + OR_GPU_SLOTS_KEPT * or_kv_slot_bytes(&model->cache_shape) +
                      (part < RESERVE_MOST ? part : RESERVE_MOST);
    uint64_t left = or_gpu_free_bytes(model->gpu);
    return left > others ? left - others : 0;
}

// Send one more layer away; *largest is the largest of those that are away.
static uint64_t send_away(or_model_t *model, uint64_t *largest)
{
    or_gpu_layers_t *layers = &model->gpu->layers;
    layers->away++;
    uint64_t bytes = layer_bytes(model, layers->count - layers->away);
    layers->away_bytes += bytes;
    *largest = bytes > *largest ? bytes : *largest;
    return bytes;
}

// Send away as many layers as were asked for; with OR_GPU_LAYERS_FIT the fewest with which the others and the buffers
// find room.
static uint64_t choose_away(or_model_t *model, uint32_t wanted, uint64_t room)
{
    const or_gpu_layers_t *layers = &model->gpu->layers;
    uint64_t largest = 0;
    uint64_t here = 0;
    for (uint32_t i = 0; i < layers->count; i++) {
        here += layer_bytes(model, i);
    }
    while (layers->away < layers->count &&
           (wanted == OR_GPU_LAYERS_FIT ? here + OR_GPU_LAYER_BUFFERS * largest > room
                                        : layers->away < wanted)) {
        here -= send_away(model, &largest);
    }
    return largest;
}

or_status_t or_gpu_layers_plan(or_model_t *model, uint32_t wanted, uint64_t cache_bytes)
{
    or_gpu_layers_t *layers = &model->gpu->layers;
    layers->count = or_span_length(model->share.layers);
    layers->next_index = UINT32_MAX;
    uint64_t bytes = choose_away(model, wanted, room_for_layers(model, cache_bytes));
    or_status_t status = OR_OK;
    for (uint32_t i = 0; bytes > 0 && status == OR_OK && i < OR_GPU_LAYER_BUFFERS; i++) {
        status = or_gpu_alloc_buffer(model, bytes, &layers->buffers[i]);
    }
    return status;
}

void or_gpu_layers_free(or_gpu_t *gpu)
{
    for (uint32_t i = 0; i < OR_GPU_LAYER_BUFFERS; i++) {
        or_gpu_give(gpu, gpu->layers.buffers[i]);
    }
}

// ---- where they are ----

static bool is_away(const or_gpu_t *gpu, uint32_t index)
{
    return index >= gpu->layers.count - gpu->layers.away;
}

or_status_t or_gpu_layers_take(or_gpu_t *gpu, uint32_t index, or_matrix_t *matrix)
{
    if (gpu == NULL || matrix->memory == NULL || !is_away(gpu, index)) {
        return or_gpu_take(gpu, &matrix->memory, matrix->bytes);
    }
    void *packed = matrix->memory;
    int status = gpu->functions->alloc_pinned(gpu->cuda, matrix->bytes, &matrix->memory);
    if (status != OR_CUDA_OK) {
        free(packed);
        matrix->memory = NULL;
        return or_fail(OR_ERR_NO_MEMORY,
                       "the GPU: %s, pinned memory of the host for the weights of its last %u of "
                       "%u layers, %llu MiB in all; keep more layers on the GPU (-ngl), choose a "
                       "smaller model, or let this process lock more memory (ulimit -l)",
                       gpu->functions->text(status), gpu->layers.away, gpu->layers.count,
                       (unsigned long long)(gpu->layers.away_bytes >> 20));
    }
    memcpy(matrix->memory, packed, matrix->bytes);
    free(packed);
    return OR_OK;
}

void or_gpu_layers_give(or_gpu_t *gpu, uint32_t index, or_matrix_t *matrix)
{
    if (gpu != NULL && is_away(gpu, index)) {
        or_gpu_free_pinned(gpu, matrix->memory);
    } else {
        or_gpu_give(gpu, matrix->memory);
    }
}

// ---- a pass ----

// Fetch a layer into the next buffer, once the work that was asked for so far is done with it.
static void fetch(or_model_t *model, uint32_t index)
{
    or_gpu_t *gpu = model->gpu;
    or_gpu_layers_t *layers = &gpu->layers;
    or_layer_t *layer = &layers->fetched[layers->next];
    uint8_t *to = layers->buffers[layers->next];
    *layer = model->layers[index];
    or_gpu_keep(gpu, gpu->functions->hold_fetches(gpu->cuda));
    for (const or_arch_tensor_t *t = model->arch->layer_tensors; t->suffix != NULL; t++) {
        if (is_matrix(model, t, index)) {
            or_matrix_t *matrix = matrix_of(layer, t);
            or_gpu_keep(gpu, gpu->functions->fetch(gpu->cuda, to, matrix->memory, matrix->bytes));
            matrix->memory = to;
            to += aligned(matrix->bytes);
        }
    }
    layers->next_index = index;
}

// The layer that was fetched is not the one that is asked for in the first pass, and after a pass that ended in the
// middle.
const or_layer_t *or_gpu_layer(or_model_t *model, uint32_t index)
{
    or_gpu_t *gpu = model->gpu;
    or_gpu_layers_t *layers = &gpu->layers;
    if (!is_away(gpu, index)) {
        return &model->layers[index];
    }
    if (layers->next_index != index) {
        fetch(model, index);
    }
    or_gpu_keep(gpu, gpu->functions->await_fetches(gpu->cuda));
    const or_layer_t *layer = &layers->fetched[layers->next];
    layers->next = (layers->next + 1) % OR_GPU_LAYER_BUFFERS;
    fetch(model, index + 1 < layers->count ? index + 1 : layers->count - layers->away);
    return layer;
}
