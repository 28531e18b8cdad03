// ERNIE 4.5, dense: Llama's graph without its table of factors.
#include "common/model/arch/families/families.h"

const or_arch_t or_arch_ernie4_5 = {
    .name = "ernie4_5",
    OR_ARCH_NAMES,
    .has_gate = true,
    .keys = or_llama_keys,
    .layer_tensors = or_llama_tensors,
    .layer_ops = or_llama_ops,
    .output_op = {.kind = OR_OP_NORM},
};
