// GLM 4: norms before and behind, gate and up in one tensor, biases where the file has them, a part of a head rotated.
#include "common/model/arch/families/families.h"

static const or_op_t ops[] = {
    {.kind = OR_OP_NORM, .weight = OR_LAYER(attention_norm)},
    {.kind = OR_OP_PROJECT_QKV},
    {.kind = OR_OP_BIAS_QKV},
    {.kind = OR_OP_ROTATE},
    OR_OPS_ATTEND,
    {.kind = OR_OP_NORM_SUMS, .weight = OR_LAYER(attention_post_norm)},
    {.kind = OR_OP_ADD},
    {.kind = OR_OP_NORM, .weight = OR_LAYER(ffn_norm)},
    {.kind = OR_OP_PROJECT_UP},
    {.kind = OR_OP_SILU_GATED},
    {.kind = OR_OP_SUM_DOWN},
    {.kind = OR_OP_NORM_SUMS, .weight = OR_LAYER(ffn_post_norm)},
    {.kind = OR_OP_ADD},
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
