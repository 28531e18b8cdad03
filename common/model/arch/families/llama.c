// Llama 1 to 3, and Mistral, whose heads may be of a size of their own. Llama 3.1 and later scale the frequencies by a
// table in the file.
#include "common/model/arch/families/families.h"

const or_arch_key_t or_llama_keys[] = {OR_KEY_NORM, OR_KEY_BASE, {0}};

const or_op_t or_llama_ops[] = {
    {.kind = OR_OP_NORM, .weight = OR_LAYER(attention_norm)},
    {.kind = OR_OP_PROJECT_QKV},
    {.kind = OR_OP_BIAS_QKV},
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
    OR_TENSORS_OUTPUT,
    OR_TENSOR_NORM("ffn_norm.weight", ffn_norm),
    OR_TENSORS_GATE,
    OR_TENSORS_UP_DOWN,
    {0},
};

const or_arch_t or_arch_llama = {
    .name = "llama",
    OR_ARCH_NAMES,
    .rope_factors = "rope_freqs.weight",
    .has_gate = true,
    .is_plain = true,
    .keys = or_llama_keys,
    .layer_tensors = tensors,
    .layer_ops = or_llama_ops,
    .output_op = {.kind = OR_OP_NORM},
};
