// A model's device, opened and closed.
#include <stdlib.h>

#include "common/model/gpu/gpu_internal.h"

// Check that the device can run kernels at all.
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
    const or_model_shape_t *shape = &model->shape;
    const char *what = or_gpu_cannot_run(model);
    if (what != NULL) {
        return or_fail(
            OR_ERR_UNSUPPORTED,
            "%s is of architecture %s, with %s, which a GPU does not run yet; run it on the CPU",
            or_gguf_path(model->gguf), model->arch->name, what);
    }
    uint32_t kv_heads = shape->kv_heads; // the fewest of a layer
    uint32_t head_dim = shape->head_dim; // the longest
    if (shape->window_head_dim > 0) {
        kv_heads = shape->window_kv_heads < kv_heads ? shape->window_kv_heads : kv_heads;
        head_dim = shape->window_head_dim > head_dim ? shape->window_head_dim : head_dim;
    }
    uint32_t group = shape->heads / kv_heads;
    if (group > OR_CUDA_GROUP_MAX && shape->latent == 0) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "%u query heads of %s share a KV head, on a GPU at most %u can; run it on "
                       "the CPU",
                       group, or_gguf_path(model->gguf), OR_CUDA_GROUP_MAX);
    }
    if (head_dim > OR_CUDA_HEAD_DIM_MAX) {
        return or_fail(
            OR_ERR_UNSUPPORTED,
            "%s has heads of %u dimensions, on a GPU at most %u can be; run it on the CPU",
            or_gguf_path(model->gguf), head_dim, OR_CUDA_HEAD_DIM_MAX);
    }
    return OR_OK;
}

// Check the number of inputs of all matrices, and of their shards.
static or_status_t check_shape(const or_model_t *model)
{
    const or_model_shape_t *shape = &model->shape;
    if ((shape->width | shape->head_dim | shape->ffn) % OR_CUDA_TENSOR_MULTIPLE == 0) {
        return OR_OK;
    }
    return or_fail(OR_ERR_UNSUPPORTED,
                   "tensor cores take inputs by %u, and %s has heads of %u, a width of %u and an "
                   "FFN of %u; choose --arith canonical",
                   OR_CUDA_TENSOR_MULTIPLE, or_gguf_path(model->gguf), shape->head_dim,
                   shape->width, shape->ffn);
}

static or_status_t open_tensor(or_model_t *model)
{
    or_gpu_t *gpu = model->gpu;
    bool has_bf16 = or_tensors_have(model, OR_TENSOR_BF16);
    if (model->arch->tells_layers) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "tensor cores do not run layers with heads of their own yet, which %s has; "
                       "choose --arith canonical",
                       or_gguf_path(model->gguf));
    }
    if (model->arch->has_experts) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "tensor cores do not multiply experts yet, which %s has; choose --arith "
                       "canonical",
                       or_gguf_path(model->gguf));
    }
    if (!has_bf16 && !or_tensors_have(model, OR_TENSOR_F16)) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "tensor cores multiply F16 and BF16 weights, and %s has none; choose "
                       "--arith canonical",
                       or_gguf_path(model->gguf));
    }
    or_status_t status = check_shape(model);
    if (status == OR_OK) {
        gpu->tensor_type = has_bf16 ? OR_TENSOR_BF16 : OR_TENSOR_F16;
        or_gpu_keep(gpu, gpu->functions->tensor_open(gpu->cuda, &gpu->tensor));
        status = or_gpu_check(gpu);
    }
    return status;
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
    return choice->tensor ? open_tensor(model) : OR_OK;
}

void or_gpu_close(or_gpu_t **gpu_p)
{
    or_gpu_t *gpu = *gpu_p;
    if (gpu != NULL) {
        or_gpu_slots_free(gpu);
        or_gpu_layers_free(gpu);
        gpu->functions->tensor_close(&gpu->tensor);
        gpu->functions->peers_leave(&gpu->peers);
        gpu->functions->close(&gpu->cuda);
        free(gpu);
        *gpu_p = NULL;
    }
}
