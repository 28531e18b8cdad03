// Qwen 3: Qwen 2 with norms of heads instead of biases.
#include "common/model/arch/families/families.h"

const or_op_t or_qwen3_ops[] = {
    {.kind = OR_OP_NORM, .weight = OR_LAYER(attention_norm)},
    {.kind = OR_OP_PROJECT_QKV},
    {.kind = OR_OP_NORM_HEADS},
    {.kind = OR_OP_ROTATE},
    OR_OPS_ATTEND,
    {.kind = OR_OP_ADD},
    {.kind = OR_OP_NORM, .weight = OR_LAYER(ffn_norm)},
    {.kind = OR_OP_PROJECT_UP},
    {.kind = OR_OP_SILU_GATED},
    {.kind = OR_OP_SUM_DOWN},
    {.kind = OR_OP_ADD},
    {0},
};

static const or_arch_tensor_t tensors[] = {
    OR_TENSOR_NORM("attn_norm.weight", attention_norm),
    OR_TENSORS_QKV,
    OR_TENSORS_HEAD_NORMS,
    OR_TENSORS_OUTPUT,
    OR_TENSOR_NORM("ffn_norm.weight", ffn_norm),
    OR_TENSORS_GATE,
    OR_TENSORS_UP_DOWN,
    {0},
};

const or_arch_t or_arch_qwen3 = {
    .name = "qwen3",
    OR_ARCH_NAMES,
    .rope_halves = true,
    .has_gate = true,
    .keys = or_llama_keys,
    .layer_tensors = tensors,
    .layer_ops = or_qwen3_ops,
    .output_op = {.kind = OR_OP_NORM},
};
