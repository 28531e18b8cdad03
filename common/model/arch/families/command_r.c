// Command R and R7B (cohere2): a layer norm without bias, which attention and FFN read alike, and scaled logits; R7B has a
// window in three of four layers, which alone rotate. h stays as it is while attention adds its sums to x.
#include "common/model/arch/families/families.h"

static const or_op_t ops[] = {
    {.kind = OR_OP_NORM_LAYER, .weight = OR_LAYER(attention_norm)},
    {.kind = OR_OP_PROJECT_QKV},
    {.kind = OR_OP_ROTATE},
    OR_OPS_ATTEND,
    {.kind = OR_OP_ADD},
    OR_OPS_UP_DOWN(OR_OP_SILU_GATED),
    {.kind = OR_OP_ADD},
    {0},
};

static const or_arch_tensor_t tensors[] = {
    OR_TENSOR_NORM("attn_norm.weight", attention_norm),
    OR_TENSORS_QKV,
    OR_TENSORS_OUTPUT,
    OR_TENSORS_GATE,
    OR_TENSORS_UP_DOWN,
    {0},
};

static const or_arch_key_t keys[] = {
    OR_KEY_LAYER_NORM,
    OR_KEY_BASE,
    {"logit_scale", OR_NUMBER(logit_scale), 0},
    {0},
};

const or_arch_t or_arch_command_r = {
    .name = "command-r",
    OR_ARCH_NAMES,
    .has_gate = true,
    .keys = keys,
    .layer_tensors = tensors,
    .layer_ops = ops,
    .output_op = {.kind = OR_OP_NORM_LAYER},
};

const or_arch_t or_arch_cohere2 = {
    .name = "cohere2",
    OR_ARCH_NAMES,
    .has_gate = true,
    .has_window = true,
    .window_period = 4,
    .rope_period = 4,
    .keys = keys,
    .layer_tensors = tensors,
    .layer_ops = ops,
    .output_op = {.kind = OR_OP_NORM_LAYER},
};
