// gpt-oss: experts with biases and an activation that is cut off, a sink beside the scores of each head, a window in every
// other layer, and YaRN whose ramp may begin and end within a pair. That last is the checkpoints' "truncate": false, which
// no metadata say; llama.cpp rounds to whole pairs.
#include "common/model/arch/families/families.h"

static const or_op_t ops[] = {
    OR_OPS_QKV,
    {.kind = OR_OP_BIAS_QKV},
    {.kind = OR_OP_ROTATE},
    OR_OPS_ATTEND,
    {.kind = OR_OP_BIAS_SUMS, .weight = OR_LAYER(output_bias)},
    {.kind = OR_OP_ADD},
    OR_OPS_EXPERTS,
    {.kind = OR_OP_BIAS_EXPERTS},
    {.kind = OR_OP_ADD},
    {0},
};

#define VECTOR(suffix, dim, field)                                                                 \
    {                                                                                              \
        suffix, dim, OR_DIM_ONE, OR_LAYER(field), NULL, 0, false, OR_IN_ALL                        \
    }

static const or_arch_tensor_t tensors[] = {
    OR_TENSOR_NORM("attn_norm.weight", attention_norm),
    OR_TENSORS_QKV,
    OR_TENSORS_QKV_BIAS(false),
    OR_TENSORS_OUTPUT,
    OR_TENSOR_NORM("attn_output.bias", output_bias),
    VECTOR("attn_sinks.weight", OR_DIM_HEADS, sinks),
    OR_TENSOR_NORM("post_attention_norm.weight", ffn_norm),
    OR_TENSORS_EXPERTS,
    VECTOR("ffn_gate_inp.bias", OR_DIM_EXPERTS, logit_bias),
    VECTOR("ffn_gate_exps.bias", OR_DIM_EXPERT_FFN, expert_gate_bias),
    VECTOR("ffn_up_exps.bias", OR_DIM_EXPERT_FFN, expert_up_bias),
    VECTOR("ffn_down_exps.bias", OR_DIM_EXPERT_WIDTH, expert_down_bias),
    {0},
};

const or_arch_t or_arch_gpt_oss = {
    .name = "gpt-oss",
    OR_ARCH_NAMES,
    .rope_halves = true,
    .has_experts = true,
    .normalises_experts = true,
    .clamps_experts = true,
    .yarn_cuts_pairs = true,
    .ffn_key = "expert_feed_forward_length",
    .has_window = true,
    .window_usual = 128, // of all that were published; llama.cpp needs the key
    .window_period = 2,
    .keys = or_llama_keys,
    .layer_tensors = tensors,
    .layer_ops = ops,
    .output_op = {.kind = OR_OP_NORM},
};
