// GLM 4.5 and 4.6: experts chosen by sigmoids with a bias, with one that all rows take as it is, behind first layers without
// experts; biases and norms of heads where the file has them, a part of a head rotated.
#include "common/model/arch/families/families.h"

static const or_op_t ops[] = {
    OR_OPS_QKV,
    {.kind = OR_OP_BIAS_QKV},
    {.kind = OR_OP_NORM_HEADS},
    {.kind = OR_OP_ROTATE},
    OR_OPS_ATTEND,
    {.kind = OR_OP_ADD},
    OR_OPS_EXPERTS,
    {.kind = OR_OP_ADD},
    {0},
};

static const or_arch_tensor_t tensors[] = {
    OR_TENSOR_NORM("attn_norm.weight", attention_norm),
    OR_TENSORS_QKV,
    OR_TENSORS_QKV_BIAS(true),
    {"attn_q_norm.weight", OR_DIM_HEAD, OR_DIM_ONE, OR_LAYER(query_norm), NULL, 0, true, OR_IN_ALL},
    {"attn_k_norm.weight", OR_DIM_HEAD, OR_DIM_ONE, OR_LAYER(key_norm), NULL, 0, true, OR_IN_ALL},
    OR_TENSORS_OUTPUT,
    OR_TENSOR_NORM("post_attention_norm.weight", ffn_norm),
    OR_TENSORS_DENSE_AND_EXPERTS,
    OR_TENSOR_OF("exp_probs_b.bias", OR_DIM_EXPERTS, OR_DIM_ONE, router_bias, OR_IN_EXPERTS),
    {0},
};

static const or_arch_key_t keys[] = {
    OR_KEY_NORM,
    OR_KEY_BASE,
    {"expert_weights_scale", OR_NUMBER(expert_scale), 1},
    {0},
};

const or_arch_t or_arch_glm4moe = {
    .name = "glm4moe",
    OR_ARCH_NAMES,
    .rope_halves = true,
    .has_experts = true,
    .normalises_experts = true,
    .gates_by_sigmoid = true,
    .has_shared_expert = true,
    .shares_by_count = true,
    .has_dense_layers = true,
    .ffn_key = "expert_feed_forward_length",
    .keys = keys,
    .layer_tensors = tensors,
    .layer_ops = ops,
    .output_op = {.kind = OR_OP_NORM},
};
