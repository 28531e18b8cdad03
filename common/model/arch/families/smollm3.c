// SmolLM 3: Llama's graph; every fourth layer rotates nothing.
#include "common/model/arch/families/families.h"

const or_arch_t or_arch_smollm3 = {
    .name = "smollm3",
    OR_ARCH_NAMES,
    .rope_period = 4,
    .has_gate = true,
    .keys = or_llama_keys,
    .layer_tensors = or_llama_tensors,
    .layer_ops = or_llama_ops,
    .output_op = {.kind = OR_OP_NORM},
};
