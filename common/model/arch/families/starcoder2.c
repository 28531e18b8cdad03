// StarCoder 2, GPT-2 and OPT: layer norms, biases everywhere, GELU or ReLU without a gate; rotations, or learned positions.
// llama.cpp has no OPT: its file's names are those of GPT-2 with Q, K and V apart, and its positions begin with the one that
// the first token has (transformers' table has two rows more before it).
#include "common/model/arch/families/families.h"

#define OPS_BEFORE_ATTENTION                                                                       \
    {.kind = OR_OP_NORM_LAYER,                                                                     \
     .weight = OR_LAYER(attention_norm),                                                           \
     .bias = OR_LAYER(attention_norm_bias)},                                                       \
        {.kind = OR_OP_PROJECT_QKV},                                                               \
    {                                                                                              \
        .kind = OR_OP_BIAS_QKV                                                                     \
    }
#define OPS_BEHIND_ATTENTION(activation)                                                           \
    {.kind = OR_OP_BIAS_SUMS, .weight = OR_LAYER(output_bias)}, {.kind = OR_OP_ADD},               \
        {.kind = OR_OP_NORM_LAYER, .weight = OR_LAYER(ffn_norm), .bias = OR_LAYER(ffn_norm_bias)}, \
        {.kind = OR_OP_PROJECT_UP}, {.kind = OR_OP_BIAS_UP}, {.kind = (activation)},               \
        {.kind = OR_OP_SUM_DOWN}, {.kind = OR_OP_BIAS_SUMS, .weight = OR_LAYER(down_bias)},        \
    {                                                                                              \
        .kind = OR_OP_ADD                                                                          \
    }

static const or_op_t starcoder2_ops[] = {
    OPS_BEFORE_ATTENTION,
    {.kind = OR_OP_ROTATE},
    OR_OPS_ATTEND,
    OPS_BEHIND_ATTENTION(OR_OP_GELU),
    {0},
};

static const or_op_t gpt2_ops[] = {
    OPS_BEFORE_ATTENTION,
    OR_OPS_ATTEND,
    OPS_BEHIND_ATTENTION(OR_OP_GELU),
    {0},
};

static const or_op_t opt_ops[] = {
    OPS_BEFORE_ATTENTION,
    OR_OPS_ATTEND,
    OPS_BEHIND_ATTENTION(OR_OP_RELU),
    {0},
};

// All but Q, K and V.
#define TENSORS_OTHERS                                                                             \
    OR_TENSOR_NORM("attn_norm.weight", attention_norm),                                            \
        OR_TENSOR_NORM("attn_norm.bias", attention_norm_bias), OR_TENSORS_OUTPUT,                  \
        OR_TENSOR_NORM("attn_output.bias", output_bias),                                           \
        OR_TENSOR_NORM("ffn_norm.weight", ffn_norm),                                               \
        OR_TENSOR_NORM("ffn_norm.bias", ffn_norm_bias), OR_TENSORS_UP_DOWN,                        \
        {"ffn_up.bias", OR_DIM_FFN, OR_DIM_ONE, OR_LAYER(up_bias), NULL, 0, false},                \
        OR_TENSOR_NORM("ffn_down.bias", down_bias)

static const or_arch_tensor_t tensors[] = {
    OR_TENSORS_QKV,
    OR_TENSORS_QKV_BIAS(false),
    TENSORS_OTHERS,
    {0},
};

static const or_arch_tensor_t gpt2_tensors[] = {
    OR_TENSORS_FUSED_QKV,
    {"attn_qkv.bias", OR_DIM_QUERY, OR_DIM_ONE, OR_LAYER(query_bias), or_fused_qkv, 0, false},
    {"attn_qkv.bias", OR_DIM_KV, OR_DIM_ONE, OR_LAYER(key_bias), or_fused_qkv, 1, false},
    {"attn_qkv.bias", OR_DIM_KV, OR_DIM_ONE, OR_LAYER(value_bias), or_fused_qkv, 2, false},
    TENSORS_OTHERS,
    {0},
};

static const or_arch_key_t starcoder2_keys[] = {OR_KEY_LAYER_NORM, OR_KEY_BASE, {0}};
static const or_arch_key_t keys[] = {OR_KEY_LAYER_NORM, {0}};

const or_arch_t or_arch_starcoder2 = {
    .name = "starcoder2",
    OR_ARCH_NAMES,
    .output_norm_bias = "output_norm.bias",
    .rope_halves = true,
    .has_window = true,
    .keys = starcoder2_keys,
    .layer_tensors = tensors,
    .layer_ops = starcoder2_ops,
    .output_op = {.kind = OR_OP_NORM_LAYER},
};

const or_arch_t or_arch_gpt2 = {
    .name = "gpt2",
    OR_ARCH_NAMES,
    .positions = "position_embd.weight",
    .output_norm_bias = "output_norm.bias",
    .rope = OR_ROPE_NONE,
    .keys = keys,
    .layer_tensors = gpt2_tensors,
    .layer_ops = gpt2_ops,
    .output_op = {.kind = OR_OP_NORM_LAYER},
};

const or_arch_t or_arch_opt = {
    .name = "opt",
    OR_ARCH_NAMES,
    .positions = "position_embd.weight",
    .output_norm_bias = "output_norm.bias",
    .rope = OR_ROPE_NONE,
    .keys = keys,
    .layer_tensors = tensors,
    .layer_ops = opt_ops,
    .output_op = {.kind = OR_OP_NORM_LAYER},
};
