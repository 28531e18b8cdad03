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

#define MATRIX(suffix, inputs, outputs, field, layers)                                             \
    {                                                                                              \
        suffix, inputs, outputs, OR_LAYER(field), NULL, 0, false, layers                           \
    }

static const or_arch_tensor_t tensors[] = {
    OR_TENSOR_NORM("attn_norm.weight", attention_norm),
    OR_TENSORS_QKV,
    OR_TENSORS_QKV_BIAS(true),
    {"attn_q_norm.weight", OR_DIM_HEAD, OR_DIM_ONE, OR_LAYER(query_norm), NULL, 0, true, OR_IN_ALL},
    {"attn_k_norm.weight", OR_DIM_HEAD, OR_DIM_ONE, OR_LAYER(key_norm), NULL, 0, true, OR_IN_ALL},
    OR_TENSORS_OUTPUT,
    OR_TENSOR_NORM("post_attention_norm.weight", ffn_norm),
    MATRIX("ffn_gate.weight", OR_DIM_WIDTH, OR_DIM_DENSE_FFN, shared_gate, OR_IN_DENSE),
    MATRIX("ffn_up.weight", OR_DIM_WIDTH, OR_DIM_DENSE_FFN, shared_up, OR_IN_DENSE),
    MATRIX("ffn_down.weight", OR_DIM_DENSE_FFN, OR_DIM_WIDTH, shared_down, OR_IN_DENSE),
    MATRIX("ffn_gate_inp.weight", OR_DIM_WIDTH, OR_DIM_EXPERTS, router, OR_IN_EXPERTS),
    MATRIX("exp_probs_b.bias", OR_DIM_EXPERTS, OR_DIM_ONE, router_bias, OR_IN_EXPERTS),
    MATRIX("ffn_gate_exps.weight", OR_DIM_WIDTH, OR_DIM_EXPERT_FFN, expert_gate, OR_IN_EXPERTS),
    MATRIX("ffn_up_exps.weight", OR_DIM_WIDTH, OR_DIM_EXPERT_FFN, expert_up, OR_IN_EXPERTS),
    MATRIX("ffn_down_exps.weight", OR_DIM_EXPERT_FFN, OR_DIM_WIDTH, expert_down, OR_IN_EXPERTS),
    MATRIX("ffn_gate_shexp.weight", OR_DIM_WIDTH, OR_DIM_SHARED_FFN, shared_gate, OR_IN_EXPERTS),
    MATRIX("ffn_up_shexp.weight", OR_DIM_WIDTH, OR_DIM_SHARED_FFN, shared_up, OR_IN_EXPERTS),
    MATRIX("ffn_down_shexp.weight", OR_DIM_SHARED_FFN, OR_DIM_WIDTH, shared_down, OR_IN_EXPERTS),
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
