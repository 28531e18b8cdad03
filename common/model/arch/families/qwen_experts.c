// Qwen 2 MoE (with Qwen 1.5's) and Qwen 3 MoE: Qwen 2 and Qwen 3 with experts. Those of Qwen 2 have an expert that all
// rows take, weighted by a gate of its own, and the weights of the others are the softmax's as they are.
#include "common/model/arch/families/families.h"

#define EXPERT_FFN_KEY "expert_feed_forward_length"

// ---- Qwen 2 ----

static const or_op_t qwen2_ops[] = {
    OR_OPS_QKV,          {.kind = OR_OP_BIAS_QKV}, {.kind = OR_OP_ROTATE}, OR_OPS_ATTEND,
    {.kind = OR_OP_ADD}, OR_OPS_EXPERTS,           {.kind = OR_OP_ADD},    {0},
};

static const or_arch_tensor_t qwen2_tensors[] = {
    OR_TENSOR_NORM("attn_norm.weight", attention_norm),
    OR_TENSORS_QKV,
    OR_TENSORS_QKV_BIAS(false),
    OR_TENSORS_OUTPUT,
    OR_TENSOR_NORM("ffn_norm.weight", ffn_norm),
    OR_TENSORS_EXPERTS,
    OR_TENSOR_NORM("ffn_gate_inp_shexp.weight", shared_router),
    OR_TENSOR_MATRIX("ffn_gate_shexp.weight", OR_DIM_WIDTH, OR_DIM_SHARED_FFN, shared_gate),
    OR_TENSOR_MATRIX("ffn_up_shexp.weight", OR_DIM_WIDTH, OR_DIM_SHARED_FFN, shared_up),
    OR_TENSOR_MATRIX("ffn_down_shexp.weight", OR_DIM_SHARED_FFN, OR_DIM_WIDTH, shared_down),
    {0},
};

const or_arch_t or_arch_qwen2moe = {
    .name = "qwen2moe",
    OR_ARCH_NAMES,
    .rope_halves = true,
    .has_experts = true,
    .has_shared_expert = true,
    .ffn_key = EXPERT_FFN_KEY,
    .keys = or_llama_keys,
    .layer_tensors = qwen2_tensors,
    .layer_ops = qwen2_ops,
    .output_op = {.kind = OR_OP_NORM},
};

// ---- Qwen 3 ----

static const or_op_t qwen3_ops[] = {
    OR_OPS_QKV,
    {.kind = OR_OP_NORM_HEADS},
    {.kind = OR_OP_ROTATE},
    OR_OPS_ATTEND,
    {.kind = OR_OP_ADD},
    OR_OPS_EXPERTS,
    {.kind = OR_OP_ADD},
    {0},
};

static const or_arch_tensor_t qwen3_tensors[] = {
    OR_TENSOR_NORM("attn_norm.weight", attention_norm),
    OR_TENSORS_QKV,
    OR_TENSORS_HEAD_NORMS,
    OR_TENSORS_OUTPUT,
    OR_TENSOR_NORM("ffn_norm.weight", ffn_norm),
    OR_TENSORS_EXPERTS,
    {0},
};

const or_arch_t or_arch_qwen3moe = {
    .name = "qwen3moe",
    OR_ARCH_NAMES,
    .rope_halves = true,
    .has_experts = true,
    .normalises_experts = true,
    .ffn_key = EXPERT_FFN_KEY,
    .keys = or_llama_keys,
    .layer_tensors = qwen3_tensors,
    .layer_ops = qwen3_ops,
    .output_op = {.kind = OR_OP_NORM},
};
