// Tensor cores for a model's products (kernels/cuda/cuda_tensor.h). They take matrices of one type, so that rows are
// rounded once; all others stay canonical.
#include <stdio.h>

#include "common/base/version.h"
#include "common/model/gpu/gpu_internal.h"

// Of all inputs of a matrix, and of a shard's.
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

or_status_t or_gpu_tensor_open(or_model_t *model)
{
    or_gpu_t *gpu = model->gpu;
    bool has_bf16 = or_tensors_have(model, OR_TENSOR_BF16);
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

void or_gpu_tensor_close(or_gpu_t *gpu)
{
    gpu->functions->tensor_close(&gpu->tensor);
}

bool or_gpu_tensor_takes(const or_gpu_t *gpu, const or_gguf_tensor_t *tensor)
{
    return gpu != NULL && gpu->tensor != NULL && tensor->type == (uint32_t)gpu->tensor_type;
}

size_t or_gpu_tensor_tiles(const or_gpu_t *gpu, size_t rows)
{
    const size_t tile = OR_CUDA_TENSOR_ROWS;
    return gpu->tensor != NULL ? (rows + tile - 1) / tile * tile : rows;
}

// A product may begin at any row.
size_t or_gpu_tensor_room(const or_gpu_t *gpu, size_t rows)
{
    return gpu->tensor != NULL ? rows + OR_CUDA_TENSOR_ROWS - 1 : rows;
}

or_cuda_rows_t or_gpu_rows_from(const or_cuda_rows_t *rows, size_t first)
{
    or_cuda_rows_t from = *rows;
    from.values += first * from.stride;
    from.blocks += from.blocks != NULL ? first * from.blocks_stride : 0;
    from.halves += from.halves != NULL ? first * from.halves_stride : 0;
    return from;
}

void or_gpu_name_arithmetic(const or_model_t *model, char *name, size_t bytes)
{
    const or_gpu_t *gpu = model->gpu;
    if (gpu == NULL || gpu->tensor == NULL) {
        snprintf(name, bytes, "%s", OR_ARITH_ID);
        return;
    }
    char cores[OR_CUDA_TENSOR_NAME];
    gpu->functions->tensor_name(gpu->tensor, cores);
    snprintf(name, bytes, "tensor-1/%s/%s", gpu->tensor_type == OR_TENSOR_F16 ? "f16" : "bf16",
             cores);
}
