// GLM 4: norms before and behind, gate and up in one tensor, biases where the file has them, a part of a head rotated.
#include "common/model/arch/families/families.h"

static const or_op_t ops[] = {
    OR_OPS_QKV,
    {.kind = OR_OP_BIAS_QKV},
    {.kind = OR_OP_ROTATE},
    OR_OPS_ATTEND,
    OR_OPS_ADD_NORMED(attention_post_norm),
    OR_OPS_FFN(OR_OP_SILU_GATED),
    OR_OPS_ADD_NORMED(ffn_post_norm),
    {0},
};

static const or_arch_tensor_t tensors[] = {
    OR_TENSOR_NORM("attn_norm.weight", attention_norm),
    OR_TENSORS_QKV,
    OR_TENSORS_QKV_BIAS(true),
    OR_TENSORS_OUTPUT,
    OR_TENSOR_NORM("ffn_norm.weight", ffn_norm),
    OR_TENSORS_FUSED_UP_DOWN,
    OR_TENSORS_POST_NORMS,
    {0},
};

const or_arch_t or_arch_glm4 = {
    .name = "glm4",
    OR_ARCH_NAMES,
    .has_gate = true,
    .keys = or_llama_keys,
    .layer_tensors = tensors,
    .layer_ops = ops,
    .output_op = {.kind = OR_OP_NORM},
};
