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
    case OR_DIM_LATENT_QUERY:
        return shape->heads * shape->query_dim;
    case OR_DIM_LATENT_VALUE:
        return shape->heads * shape->value_dim;
    case OR_DIM_QUERY_LATENT:
        return shape->query_latent;
    case OR_DIM_LATENT:
        return shape->latent;
    case OR_DIM_HEAD_PLAIN:
        return shape->query_dim - (shape->head_dim - shape->latent);
    case OR_DIM_HEAD_VALUE:
        return shape->value_dim;
    case OR_DIM_LAYER_INPUT:
        return shape->layer_input;
    case OR_DIM_ONE:
        break;
    }
    return 1;
}

uint32_t or_arch_matrices(const or_model_shape_t *shape, const or_arch_tensor_t *tensor)
{
    bool each = tensor->inputs == OR_DIM_EXPERT_FFN || tensor->outputs == OR_DIM_EXPERT_FFN ||
                tensor->inputs == OR_DIM_EXPERT_WIDTH;
    bool by_head = tensor->inputs == OR_DIM_HEAD_PLAIN || tensor->outputs == OR_DIM_HEAD_VALUE;
    return each ? shape->experts : by_head ? shape->heads : 1;
}

bool or_arch_layer_has(const or_model_shape_t *shape, const or_arch_tensor_t *tensor,
                       uint32_t layer)
{
    const bool is_dense = layer < shape->dense_layers;
    switch (tensor->layers) {
    case OR_IN_DENSE:
        return is_dense;
    case OR_IN_EXPERTS:
        return !is_dense;
    case OR_IN_SIGMOID_EXPERTS:
        return !is_dense && shape->routes_by_sigmoid;
    case OR_WITH_QUERY_LATENT:
        return shape->query_latent > 0;
    case OR_WITHOUT_QUERY_LATENT:
        return shape->query_latent == 0;
    case OR_WITH_OWN_KV:
        return or_arch_kv_layer(shape, layer) == layer;
    case OR_WITH_INPUTS:
        return shape->layer_input > 0;
    case OR_WITH_FUSED_EXPERTS:
        return shape->fuses_experts;
    case OR_WITHOUT_FUSED_EXPERTS:
        return !shape->fuses_experts;
    case OR_IN_ALL:
        break;
    }
    return true;
}
