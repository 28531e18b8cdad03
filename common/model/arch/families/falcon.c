// Falcon: attention and FFN read the same x, from one layer norm, or each from its own in models with attn_norm_2. So the FFN
// goes as far as it can before attention adds to x.
#include "common/model/arch/families/families.h"

static const or_op_t ops[] = {
    {.kind = OR_OP_NORM_LAYER, .weight = OR_LAYER(ffn_norm), .bias = OR_LAYER(ffn_norm_bias)},
    {.kind = OR_OP_PROJECT_UP},
    {.kind = OR_OP_GELU_EXACT},
    {.kind = OR_OP_NORM_LAYER,
     .weight = OR_LAYER(attention_norm),
     .bias = OR_LAYER(attention_norm_bias)},
    {.kind = OR_OP_PROJECT_QKV},
    {.kind = OR_OP_ROTATE},
    OR_OPS_ATTEND,
    {.kind = OR_OP_ADD},
    {.kind = OR_OP_SUM_DOWN},
    {.kind = OR_OP_ADD},
    {0},
};

static const or_arch_tensor_t tensors[] = {
    OR_TENSOR_NORM("attn_norm.weight", ffn_norm),
    OR_TENSOR_NORM("attn_norm.bias", ffn_norm_bias),
    {"attn_norm_2.weight", OR_DIM_WIDTH, OR_DIM_ONE, OR_LAYER(attention_norm), NULL, 0, true},
    {"attn_norm_2.bias", OR_DIM_WIDTH, OR_DIM_ONE, OR_LAYER(attention_norm_bias), NULL, 0, true},
    OR_TENSORS_FUSED_QKV,
    OR_TENSORS_OUTPUT,
    OR_TENSORS_UP_DOWN,
    {0},
};

static const or_arch_key_t keys[] = {OR_KEY_LAYER_NORM, OR_KEY_BASE, {0}};

const or_arch_t or_arch_falcon = {
    .name = "falcon",
    OR_ARCH_NAMES,
    .output_norm_bias = "output_norm.bias",
    .rope_halves = true,
    .keys = keys,
    .layer_tensors = tensors,
    .layer_ops = ops,
    .output_op = {.kind = OR_OP_NORM_LAYER},
};
