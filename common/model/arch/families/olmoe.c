// OLMoE: experts, weighted by the softmax as it is, and norms of all of the query and of all of the key.
#include "common/model/arch/families/families.h"

static const or_op_t ops[] = {
    OR_OPS_QKV,
    {.kind = OR_OP_NORM_WHOLE},
    {.kind = OR_OP_ROTATE},
    OR_OPS_ATTEND,
    {.kind = OR_OP_ADD},
    OR_OPS_EXPERTS,
    {.kind = OR_OP_ADD},
    {0},
};

static const or_arch_tensor_t tensors[] = {
    OR_TENSOR_NORM("attn_norm.weight", attention_norm),
    OR_TENSORS_QKV_NORMED_WHOLE,
    OR_TENSORS_OUTPUT,
    OR_TENSOR_NORM("ffn_norm.weight", ffn_norm),
    OR_TENSORS_EXPERTS,
    {0},
};

const or_arch_t or_arch_olmoe = {
    .name = "olmoe",
    OR_ARCH_NAMES,
    .rope_halves = true,
    .has_experts = true,
    .keys = or_llama_keys,
    .layer_tensors = tensors,
    .layer_ops = ops,
    .output_op = {.kind = OR_OP_NORM},
};
