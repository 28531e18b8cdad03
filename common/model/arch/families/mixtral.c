// Mixtral: Llama with experts, whose weights add up to 1. It has Llama's name in a file.
#include "common/model/arch/families/families.h"

static const or_op_t ops[] = {
    OR_OPS_QKV,     {.kind = OR_OP_ROTATE}, OR_OPS_ATTEND, {.kind = OR_OP_ADD},
    OR_OPS_EXPERTS, {.kind = OR_OP_ADD},    {0},
};

static const or_arch_tensor_t tensors[] = {
    OR_TENSOR_NORM("attn_norm.weight", attention_norm), OR_TENSORS_QKV,     OR_TENSORS_OUTPUT,
    OR_TENSOR_NORM("ffn_norm.weight", ffn_norm),        OR_TENSORS_EXPERTS, {0},
};

const or_arch_t or_arch_llama_experts = {
    .name = "llama",
    OR_ARCH_NAMES,
    .rope_factors = "rope_freqs.weight",
    .has_experts = true,
    .normalises_experts = true,
    .keys = or_llama_keys,
    .layer_tensors = tensors,
    .layer_ops = ops,
    .output_op = {.kind = OR_OP_NORM},
};
