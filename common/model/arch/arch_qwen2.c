#include "common/model/arch/arch.h"

// Qwen 2 and 2.5: Llama's graph with biases before the rotation, and pairs that lie half a head
// apart.
static const or_arch_tensor_t layer_tensors[] = {
    {"attn_norm.weight", OR_DIM_WIDTH, OR_DIM_ONE, offsetof(or_layer_t, attention_norm)},
    {"attn_q.weight", OR_DIM_WIDTH, OR_DIM_QUERY, offsetof(or_layer_t, query)},
    {"attn_q.bias", OR_DIM_QUERY, OR_DIM_ONE, offsetof(or_layer_t, query_bias)},
    {"attn_k.weight", OR_DIM_WIDTH, OR_DIM_KV, offsetof(or_layer_t, key)},
    {"attn_k.bias", OR_DIM_KV, OR_DIM_ONE, offsetof(or_layer_t, key_bias)},
    {"attn_v.weight", OR_DIM_WIDTH, OR_DIM_KV, offsetof(or_layer_t, value)},
    {"attn_v.bias", OR_DIM_KV, OR_DIM_ONE, offsetof(or_layer_t, value_bias)},
    {"attn_output.weight", OR_DIM_QUERY, OR_DIM_WIDTH, offsetof(or_layer_t, output)},
    {"ffn_norm.weight", OR_DIM_WIDTH, OR_DIM_ONE, offsetof(or_layer_t, ffn_norm)},
    {"ffn_gate.weight", OR_DIM_WIDTH, OR_DIM_FFN, offsetof(or_layer_t, gate)},
    {"ffn_up.weight", OR_DIM_WIDTH, OR_DIM_FFN, offsetof(or_layer_t, up)},
    {"ffn_down.weight", OR_DIM_FFN, OR_DIM_WIDTH, offsetof(or_layer_t, down)},
    {0},
};

const or_arch_t or_arch_qwen2 = {
    .name = "qwen2",
    .embedding = "token_embd.weight",
    .output_norm = "output_norm.weight",
    .head = "output.weight",
    .rope_halves = true,
    .layer_tensors = layer_tensors,
};
