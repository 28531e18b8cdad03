// Sizes of tensors.
#include "common/model/arch/arch.h"

uint32_t or_arch_dim(const or_model_shape_t *shape, or_dim_t dim)
{
    switch (dim) {
    case OR_DIM_WIDTH:
    case OR_DIM_EXPERT_WIDTH:
        return shape->width;
    case OR_DIM_QUERY:
    case OR_DIM_ALL_QUERY:
        return shape->heads * shape->head_dim;
    case OR_DIM_KV:
    case OR_DIM_ALL_KV:
        return shape->kv_heads * shape->head_dim;
    case OR_DIM_FFN:
    case OR_DIM_EXPERT_FFN:
        return shape->ffn;
    case OR_DIM_SHARED_FFN:
        return shape->shared_ffn;
    case OR_DIM_DENSE_FFN:
        return shape->dense_ffn;
    case OR_DIM_EXPERTS:
        return shape->experts;
    case OR_DIM_HEADS:
        return shape->heads;
    case OR_DIM_HEAD:
        return shape->head_dim;
    case OR_DIM_ONE:
        break;
    }
    return 1;
}

uint32_t or_arch_matrices(const or_model_shape_t *shape, const or_arch_tensor_t *tensor)
{
    bool each = tensor->inputs == OR_DIM_EXPERT_FFN || tensor->outputs == OR_DIM_EXPERT_FFN ||
                tensor->inputs == OR_DIM_EXPERT_WIDTH;
    return each ? shape->experts : 1;
}

bool or_arch_layer_has(const or_model_shape_t *shape, const or_arch_tensor_t *tensor,
                       uint32_t layer)
{
    return tensor->layers == OR_IN_ALL ||
           (tensor->layers == OR_IN_DENSE) == (layer < shape->dense_layers);
}
