// Phi 3.5 MoE: layer norms, biases everywhere and behind the head too, longrope, and two experts of a row that are weighted each
// among those with nearly its logit (or_arch_t.mixes_sparsely). llama.cpp takes RMS norms and the softmax's weights instead.
#include "common/model/arch/families/families.h"

static const or_op_t ops[] = {
    {.kind = OR_OP_NORM_LAYER,
     .weight = OR_LAYER(attention_norm),
     .bias = OR_LAYER(attention_norm_bias)},
    {.kind = OR_OP_PROJECT_QKV},
    {.kind = OR_OP_BIAS_QKV},
    {.kind = OR_OP_ROTATE},
    OR_OPS_ATTEND,
    {.kind = OR_OP_BIAS_SUMS, .weight = OR_LAYER(output_bias)},
    {.kind = OR_OP_ADD},
    {.kind = OR_OP_NORM_LAYER, .weight = OR_LAYER(ffn_norm), .bias = OR_LAYER(ffn_norm_bias)},
    {.kind = OR_OP_ROUTE},
    {.kind = OR_OP_EXPERTS},
    {.kind = OR_OP_ADD},
    {0},
};

static const or_arch_tensor_t tensors[] = {
    OR_TENSOR_NORM("attn_norm.weight", attention_norm),
    OR_TENSOR_NORM("attn_norm.bias", attention_norm_bias),
    OR_TENSORS_QKV,
    OR_TENSORS_QKV_BIAS(false),
    OR_TENSORS_OUTPUT,
    OR_TENSOR_NORM("attn_output.bias", output_bias),
    OR_TENSOR_NORM("ffn_norm.weight", ffn_norm),
    OR_TENSOR_NORM("ffn_norm.bias", ffn_norm_bias),
    OR_TENSORS_EXPERTS,
    {0},
};

const or_arch_t or_arch_phimoe = {
    .name = "phimoe",
    OR_ARCH_NAMES,
    .output_norm_bias = "output_norm.bias",
    .head_bias = "output.bias",
    .rope_factors_long = "rope_factors_long.weight",
    .rope_factors_short = "rope_factors_short.weight",
    .rope_halves = true,
    .has_experts = true,
    .mixes_sparsely = true,
    .has_window = true,
    .keys = or_llama_keys,
    .layer_tensors = tensors,
    .layer_ops = ops,
    .output_op = {.kind = OR_OP_NORM_LAYER},
};
