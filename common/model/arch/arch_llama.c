#include "common/model/arch/arch.h"

// Llama 1 to 3: Llama 3.1 and later scale the frequencies by a table in the file.
static const or_arch_tensor_t layer_tensors[] = {
    {"attn_norm.weight", OR_DIM_WIDTH, OR_DIM_ONE, offsetof(or_layer_t, attention_norm)},
    {"attn_q.weight", OR_DIM_WIDTH, OR_DIM_QUERY, offsetof(or_layer_t, query)},
    {"attn_k.weight", OR_DIM_WIDTH, OR_DIM_KV, offsetof(or_layer_t, key)},
    {"attn_v.weight", OR_DIM_WIDTH, OR_DIM_KV, offsetof(or_layer_t, value)},
    {"attn_output.weight", OR_DIM_QUERY, OR_DIM_WIDTH, offsetof(or_layer_t, output)},
    {"ffn_norm.weight", OR_DIM_WIDTH, OR_DIM_ONE, offsetof(or_layer_t, ffn_norm)},
    {"ffn_gate.weight", OR_DIM_WIDTH, OR_DIM_FFN, offsetof(or_layer_t, gate)},
    {"ffn_up.weight", OR_DIM_WIDTH, OR_DIM_FFN, offsetof(or_layer_t, up)},
    {"ffn_down.weight", OR_DIM_FFN, OR_DIM_WIDTH, offsetof(or_layer_t, down)},
    {0},
};

const or_arch_t or_arch_llama = {
    .name = "llama",
    .embedding = "token_embd.weight",
    .output_norm = "output_norm.weight",
    .head = "output.weight",
    .rope_factors = "rope_freqs.weight",
    .layer_tensors = layer_tensors,
};
