// Qwen 2 and 2.5: Llama's graph with biases before the rotation, and pairs that lie half a head apart.
#include "common/model/arch/families/families.h"

static const or_arch_tensor_t tensors[] = {
    OR_TENSORS_LLAMA,
    OR_TENSORS_QKV_BIAS(false),
    {0},
};

const or_arch_t or_arch_qwen2 = {
    .name = "qwen2",
    OR_ARCH_NAMES,
    .rope_halves = true,
    .has_gate = true,
    .is_plain = true,
    .keys = or_llama_keys,
    .layer_tensors = tensors,
    .layer_ops = or_llama_ops,
    .output_op = {.kind = OR_OP_NORM},
};
