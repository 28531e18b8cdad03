// Mistral 3 and Ministral 3: Llama's graph with queries that grow with their position.
#include "common/model/arch/families/families.h"

static const or_op_t ops[] = {
    OR_OPS_QKV,          {.kind = OR_OP_ROTATE},       {.kind = OR_OP_GROW_QUERY}, OR_OPS_ATTEND,
    {.kind = OR_OP_ADD}, OR_OPS_FFN(OR_OP_SILU_GATED), {.kind = OR_OP_ADD},        {0},
};

static const or_arch_key_t keys[] = {
    OR_KEY_NORM,
    OR_KEY_BASE,
    {"attention.temperature_scale", OR_NUMBER(query_growth), OR_NO_NUMBER},
    {0},
};

const or_arch_t or_arch_mistral3 = {
    .name = "mistral3",
    OR_ARCH_NAMES,
    .rope_factors = "rope_freqs.weight",
    .has_gate = true,
    .keys = keys,
    .layer_tensors = or_llama_tensors,
    .layer_ops = ops,
    .output_op = {.kind = OR_OP_NORM},
};
