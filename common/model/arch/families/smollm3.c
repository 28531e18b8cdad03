// SmolLM 3: Llama's graph; every fourth layer rotates nothing.
#include "common/model/arch/families/families.h"

static const or_arch_tensor_t tensors[] = {
    OR_TENSOR_NORM("attn_norm.weight", attention_norm),
    OR_TENSORS_QKV,
    OR_TENSORS_OUTPUT,
    OR_TENSOR_NORM("ffn_norm.weight", ffn_norm),
    OR_TENSORS_GATE,
    OR_TENSORS_UP_DOWN,
    {0},
};

const or_arch_t or_arch_smollm3 = {
    .name = "smollm3",
    OR_ARCH_NAMES,
    .rope_period = 4,
    .has_gate = true,
    .keys = or_llama_keys,
    .layer_tensors = tensors,
    .layer_ops = or_llama_ops,
    .output_op = {.kind = OR_OP_NORM},
};
