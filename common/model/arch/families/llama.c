// Llama 1 to 3, and Mistral, whose heads may be of a size of their own. Llama 3.1 and later scale the frequencies by a
// table in the file.
#include "common/model/arch/families/families.h"

const or_arch_key_t or_llama_keys[] = {OR_KEY_NORM, OR_KEY_BASE, {0}};

const or_op_t or_llama_ops[] = {
    OR_OPS_QKV,
    {.kind = OR_OP_BIAS_QKV}, // of families that have one
    {.kind = OR_OP_ROTATE},
    OR_OPS_ATTEND,
    {.kind = OR_OP_ADD},
    OR_OPS_FFN(OR_OP_SILU_GATED),
    {.kind = OR_OP_ADD},
    {0},
};

const or_arch_tensor_t or_llama_tensors[] = {OR_TENSORS_LLAMA, {0}};

const or_arch_t or_arch_llama = {
    .name = "llama",
    OR_ARCH_NAMES,
    .rope_factors = "rope_freqs.weight",
    .has_gate = true,
    .is_plain = true,
    .keys = or_llama_keys,
    .layer_tensors = or_llama_tensors,
    .layer_ops = or_llama_ops,
    .output_op = {.kind = OR_OP_NORM},
};
