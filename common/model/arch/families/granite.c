// Granite 3: Llama's graph with four scales.
#include "common/model/arch/families/families.h"

static const or_arch_key_t keys[] = {
    OR_KEY_NORM,
    OR_KEY_BASE,
    {"embedding_scale", OR_NUMBER(embedding_scale), 1.0f},
    {"residual_scale", OR_NUMBER(residual_scale), 1.0f},
    {"attention.scale", OR_NUMBER(attention_scale), OR_NO_NUMBER},
    {"logit_scale", OR_NUMBER(logit_scale), 1.0f},
    {0},
};

const or_arch_t or_arch_granite = {
    .name = "granite",
    OR_ARCH_NAMES,
    .rope_factors = "rope_freqs.weight",
    .has_gate = true,
    .divides_logits = true,
    .keys = keys,
    .layer_tensors = or_llama_tensors,
    .layer_ops = or_llama_ops,
    .output_op = {.kind = OR_OP_NORM},
};
