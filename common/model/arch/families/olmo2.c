// OLMo 2: norms of all of the query and of all of the key, and of what a layer adds instead of what it reads.
#include "common/model/arch/families/families.h"

static const or_op_t ops[] = {
    {.kind = OR_OP_COPY},
    {.kind = OR_OP_PROJECT_QKV},
    {.kind = OR_OP_NORM_WHOLE},
    {.kind = OR_OP_ROTATE},
    OR_OPS_ATTEND,
    OR_OPS_ADD_NORMED(attention_post_norm),
    {.kind = OR_OP_COPY},
    OR_OPS_UP_DOWN(OR_OP_SILU_GATED),
    OR_OPS_ADD_NORMED(ffn_post_norm),
    {0},
};

static const or_arch_tensor_t tensors[] = {
    OR_TENSORS_QKV_NORMED_WHOLE, OR_TENSORS_OUTPUT,     OR_TENSORS_GATE,
    OR_TENSORS_UP_DOWN,          OR_TENSORS_POST_NORMS, {0},
};

const or_arch_t or_arch_olmo2 = {
    .name = "olmo2",
    OR_ARCH_NAMES,
    .rope_halves = true,
    .has_gate = true,
    .keys = or_llama_keys,
    .layer_tensors = tensors,
    .layer_ops = ops,
    .output_op = {.kind = OR_OP_NORM},
};
