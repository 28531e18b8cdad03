// Qwen 3: Qwen 2 with norms of heads instead of biases.
#include "common/model/arch/families/families.h"

static const or_op_t ops[] = {
    OR_OPS_QKV,
    {.kind = OR_OP_NORM_HEADS}, // where Qwen 2 has biases
    {.kind = OR_OP_ROTATE},
    OR_OPS_ATTEND,
    {.kind = OR_OP_ADD},
    OR_OPS_FFN(OR_OP_SILU_GATED),
    {.kind = OR_OP_ADD},
    {0},
};

static const or_arch_tensor_t tensors[] = {
    OR_TENSORS_LLAMA,
    OR_TENSORS_HEAD_NORMS,
    {0},
};

const or_arch_t or_arch_qwen3 = {
    .name = "qwen3",
    OR_ARCH_NAMES,
    .rope_halves = true,
    .has_gate = true,
    .keys = or_llama_keys,
    .layer_tensors = tensors,
    .layer_ops = ops,
    .output_op = {.kind = OR_OP_NORM},
};
