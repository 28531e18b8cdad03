// families - rows of tables that several families share. Internal to this folder.
#pragma once

#include "common/model/arch/arch.h"

#define OR_LAYER(field) offsetof(or_layer_t, field)
#define OR_NUMBER(field) offsetof(or_arch_numbers_t, field)

#define OR_TENSOR_NORM(suffix, field)                                                              \
    {                                                                                              \
        suffix, OR_DIM_WIDTH, OR_DIM_ONE, OR_LAYER(field), NULL, 0, false                          \
    }

// Q, K, V and the output, a tensor each, and the FFN's.
#define OR_TENSORS_QKV                                                                             \
    {"attn_q.weight", OR_DIM_WIDTH, OR_DIM_QUERY, OR_LAYER(query), NULL, 0, false},                \
        {"attn_k.weight", OR_DIM_WIDTH, OR_DIM_KV, OR_LAYER(key), NULL, 0, false},                 \
    {                                                                                              \
        "attn_v.weight", OR_DIM_WIDTH, OR_DIM_KV, OR_LAYER(value), NULL, 0, false                  \
    }
#define OR_TENSORS_QKV_BIAS(may_lack)                                                              \
    {"attn_q.bias", OR_DIM_QUERY, OR_DIM_ONE, OR_LAYER(query_bias), NULL, 0, may_lack},            \
        {"attn_k.bias", OR_DIM_KV, OR_DIM_ONE, OR_LAYER(key_bias), NULL, 0, may_lack},             \
    {                                                                                              \
        "attn_v.bias", OR_DIM_KV, OR_DIM_ONE, OR_LAYER(value_bias), NULL, 0, may_lack              \
    }
#define OR_TENSORS_OUTPUT                                                                          \
    {                                                                                              \
        "attn_output.weight", OR_DIM_QUERY, OR_DIM_WIDTH, OR_LAYER(output), NULL, 0, false         \
    }
#define OR_TENSORS_GATE                                                                            \
    {                                                                                              \
        "ffn_gate.weight", OR_DIM_WIDTH, OR_DIM_FFN, OR_LAYER(gate), NULL, 0, false                \
    }
#define OR_TENSORS_UP_DOWN                                                                         \
    {"ffn_up.weight", OR_DIM_WIDTH, OR_DIM_FFN, OR_LAYER(up), NULL, 0, false},                     \
    {                                                                                              \
        "ffn_down.weight", OR_DIM_FFN, OR_DIM_WIDTH, OR_LAYER(down), NULL, 0, false                \
    }

// Query and key with norms of all their heads together: every rank computes all of both.
#define OR_TENSORS_QKV_NORMED_WHOLE                                                                 \
    {"attn_q.weight", OR_DIM_WIDTH, OR_DIM_ALL_QUERY, OR_LAYER(query), NULL, 0, false},             \
        {"attn_k.weight", OR_DIM_WIDTH, OR_DIM_ALL_KV, OR_LAYER(key), NULL, 0, false},              \
        {"attn_v.weight", OR_DIM_WIDTH, OR_DIM_KV, OR_LAYER(value), NULL, 0, false},                \
        {"attn_q_norm.weight", OR_DIM_ALL_QUERY, OR_DIM_ONE, OR_LAYER(query_norm), NULL, 0, false}, \
    {                                                                                               \
        "attn_k_norm.weight", OR_DIM_ALL_KV, OR_DIM_ONE, OR_LAYER(key_norm), NULL, 0, false         \
    }

// All of Llama's: families that have more add them behind.
#define OR_TENSORS_LLAMA                                                                           \
    OR_TENSOR_NORM("attn_norm.weight", attention_norm), OR_TENSORS_QKV, OR_TENSORS_OUTPUT,         \
        OR_TENSOR_NORM("ffn_norm.weight", ffn_norm), OR_TENSORS_GATE, OR_TENSORS_UP_DOWN

// Names of tensors outside layers.
#define OR_ARCH_NAMES                                                                              \
    .embedding = "token_embd.weight", .output_norm = "output_norm.weight", .head = "output.weight"

#define OR_KEY_NORM                                                                                \
    {                                                                                              \
        "attention.layer_norm_rms_epsilon", OR_NUMBER(norm_epsilon), 0                             \
    }
#define OR_KEY_LAYER_NORM                                                                          \
    {                                                                                              \
        "attention.layer_norm_epsilon", OR_NUMBER(norm_epsilon), 0                                 \
    }
#define OR_KEY_BASE                                                                                \
    {                                                                                              \
        "rope.freq_base", OR_NUMBER(rope_base), 10000.0f                                           \
    }

// Tensors of norms of heads, and of norms of what a layer adds.
#define OR_TENSORS_HEAD_NORMS                                                                      \
    {"attn_q_norm.weight", OR_DIM_HEAD, OR_DIM_ONE, OR_LAYER(query_norm), NULL, 0, false},         \
    {                                                                                              \
        "attn_k_norm.weight", OR_DIM_HEAD, OR_DIM_ONE, OR_LAYER(key_norm), NULL, 0, false          \
    }
#define OR_TENSORS_POST_NORMS                                                                      \
    OR_TENSOR_NORM("post_attention_norm.weight", attention_post_norm),                             \
        OR_TENSOR_NORM("post_ffw_norm.weight", ffn_post_norm)

// Gate and up in one tensor.
extern const or_dim_t or_fused_gate_up[], or_fused_qkv[];
#define OR_TENSORS_FUSED_UP_DOWN                                                                   \
    {"ffn_up.weight", OR_DIM_WIDTH, OR_DIM_FFN, OR_LAYER(gate), or_fused_gate_up, 0, false},       \
        {"ffn_up.weight", OR_DIM_WIDTH, OR_DIM_FFN, OR_LAYER(up), or_fused_gate_up, 1, false},     \
    {                                                                                              \
        "ffn_down.weight", OR_DIM_FFN, OR_DIM_WIDTH, OR_LAYER(down), NULL, 0, false                \
    }
#define OR_TENSORS_FUSED_QKV                                                                       \
    {"attn_qkv.weight", OR_DIM_WIDTH, OR_DIM_QUERY, OR_LAYER(query), or_fused_qkv, 0, false},      \
        {"attn_qkv.weight", OR_DIM_WIDTH, OR_DIM_KV, OR_LAYER(key), or_fused_qkv, 1, false},       \
    {                                                                                              \
        "attn_qkv.weight", OR_DIM_WIDTH, OR_DIM_KV, OR_LAYER(value), or_fused_qkv, 2, false        \
    }

// The router and the experts, a tensor for all of them.
#define OR_TENSOR_MATRIX(suffix, inputs, outputs, field)                                           \
    {                                                                                              \
        suffix, inputs, outputs, OR_LAYER(field), NULL, 0, false                                   \
    }
#define OR_TENSORS_EXPERTS                                                                         \
    OR_TENSOR_MATRIX("ffn_gate_inp.weight", OR_DIM_WIDTH, OR_DIM_EXPERTS, router),                 \
        OR_TENSOR_MATRIX("ffn_gate_exps.weight", OR_DIM_WIDTH, OR_DIM_EXPERT_FFN, expert_gate),    \
        OR_TENSOR_MATRIX("ffn_up_exps.weight", OR_DIM_WIDTH, OR_DIM_EXPERT_FFN, expert_up),        \
        OR_TENSOR_MATRIX("ffn_down_exps.weight", OR_DIM_EXPERT_FFN, OR_DIM_WIDTH, expert_down)

// A tensor of some layers.
#define OR_TENSOR_OF(suffix, inputs, outputs, field, layers)                                       \
    {                                                                                              \
        suffix, inputs, outputs, OR_LAYER(field), NULL, 0, false, layers                           \
    }
// Experts, one of which all rows take, behind layers without experts.
#define OR_TENSORS_DENSE_AND_EXPERTS                                                               \
    OR_TENSOR_OF("ffn_gate.weight", OR_DIM_WIDTH, OR_DIM_DENSE_FFN, shared_gate, OR_IN_DENSE),     \
        OR_TENSOR_OF("ffn_up.weight", OR_DIM_WIDTH, OR_DIM_DENSE_FFN, shared_up, OR_IN_DENSE),     \
        OR_TENSOR_OF("ffn_down.weight", OR_DIM_DENSE_FFN, OR_DIM_WIDTH, shared_down, OR_IN_DENSE), \
        OR_TENSOR_OF("ffn_gate_inp.weight", OR_DIM_WIDTH, OR_DIM_EXPERTS, router, OR_IN_EXPERTS),  \
        OR_TENSOR_OF("ffn_gate_exps.weight", OR_DIM_WIDTH, OR_DIM_EXPERT_FFN, expert_gate,         \
                     OR_IN_EXPERTS),                                                               \
        OR_TENSOR_OF("ffn_up_exps.weight", OR_DIM_WIDTH, OR_DIM_EXPERT_FFN, expert_up,             \
                     OR_IN_EXPERTS),                                                               \
        OR_TENSOR_OF("ffn_down_exps.weight", OR_DIM_EXPERT_FFN, OR_DIM_WIDTH, expert_down,         \
                     OR_IN_EXPERTS),                                                               \
        OR_TENSOR_OF("ffn_gate_shexp.weight", OR_DIM_WIDTH, OR_DIM_SHARED_FFN, shared_gate,        \
                     OR_IN_EXPERTS),                                                               \
        OR_TENSOR_OF("ffn_up_shexp.weight", OR_DIM_WIDTH, OR_DIM_SHARED_FFN, shared_up,            \
                     OR_IN_EXPERTS),                                                               \
        OR_TENSOR_OF("ffn_down_shexp.weight", OR_DIM_SHARED_FFN, OR_DIM_WIDTH, shared_down,        \
                     OR_IN_EXPERTS)

// Parts of a layer. OR_OPS_FFN has a gate; ADD and norms behind are not in them.
#define OR_OPS_QKV                                                                                 \
    {.kind = OR_OP_NORM, .weight = OR_LAYER(attention_norm)},                                      \
    {                                                                                              \
        .kind = OR_OP_PROJECT_QKV                                                                  \
    }
#define OR_OPS_ATTEND                                                                              \
    {.kind = OR_OP_STORE}, {.kind = OR_OP_ATTEND},                                                 \
    {                                                                                              \
        .kind = OR_OP_SUM_OUTPUT                                                                   \
    }
#define OR_OPS_UP_DOWN(activation)                                                                 \
    {.kind = OR_OP_PROJECT_UP}, {.kind = (activation)},                                            \
    {                                                                                              \
        .kind = OR_OP_SUM_DOWN                                                                     \
    }
#define OR_OPS_FFN(activation)                                                                     \
    {.kind = OR_OP_NORM, .weight = OR_LAYER(ffn_norm)}, OR_OPS_UP_DOWN(activation)
#define OR_OPS_EXPERTS                                                                             \
    {.kind = OR_OP_NORM, .weight = OR_LAYER(ffn_norm)}, {.kind = OR_OP_ROUTE},                     \
    {                                                                                              \
        .kind = OR_OP_EXPERTS                                                                      \
    }
#define OR_OPS_ADD_NORMED(field)                                                                   \
    {.kind = OR_OP_NORM_SUMS, .weight = OR_LAYER(field)},                                          \
    {                                                                                              \
        .kind = OR_OP_ADD                                                                          \
    }

// The keys, tensors and operations of Llama.
extern const or_arch_key_t or_llama_keys[];
extern const or_arch_tensor_t or_llama_tensors[];
extern const or_op_t or_llama_ops[];

extern const or_arch_t or_arch_qwen2, or_arch_qwen3, or_arch_phi3, or_arch_gemma, or_arch_gemma2,
    or_arch_gemma3, or_arch_olmo2, or_arch_granite, or_arch_smollm3, or_arch_glm4,
    or_arch_starcoder2, or_arch_gpt2, or_arch_exaone4, or_arch_command_r, or_arch_cohere2,
    or_arch_falcon, or_arch_opt, or_arch_mistral3, or_arch_ernie4_5;
extern const or_arch_t or_arch_llama_experts, or_arch_qwen2moe, or_arch_qwen3moe, or_arch_olmoe,
    or_arch_glm4moe, or_arch_gpt_oss, or_arch_deepseek2, or_arch_phimoe;
extern const or_arch_t or_arch_gemma4, or_arch_gemma4_experts;
