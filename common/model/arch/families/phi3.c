// Phi 3, 3.5 and 4: Llama's graph with fused tensors, windows in all layers where the file says how long, and two tables of
// factors for the frequencies (longrope), of which the file's context chooses one.
#include "common/model/arch/families/families.h"

const or_dim_t or_fused_qkv[] = {OR_DIM_QUERY, OR_DIM_KV, OR_DIM_KV, OR_DIM_ONE};
const or_dim_t or_fused_gate_up[] = {OR_DIM_FFN, OR_DIM_FFN, OR_DIM_ONE};

static const or_arch_tensor_t tensors[] = {
    OR_TENSOR_NORM("attn_norm.weight", attention_norm), OR_TENSORS_FUSED_QKV,     OR_TENSORS_OUTPUT,
    OR_TENSOR_NORM("ffn_norm.weight", ffn_norm),        OR_TENSORS_FUSED_UP_DOWN, {0},
};

const or_arch_t or_arch_phi3 = {
    .name = "phi3",
    OR_ARCH_NAMES,
    .rope_factors_long = "rope_factors_long.weight",
    .rope_factors_short = "rope_factors_short.weight",
    .rope_halves = true,
    .has_gate = true,
    .has_window = true,
    .keys = or_llama_keys,
    .layer_tensors = tensors,
    .layer_ops = or_llama_ops,
    .output_op = {.kind = OR_OP_NORM},
};
