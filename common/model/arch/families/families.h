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

// Names of tensors outside layers.
#define OR_ARCH_NAMES                                                                              \
    .embedding = "token_embd.weight", .output_norm = "output_norm.weight", .head = "output.weight"

#define OR_KEY_NORM                                                                                \
    {                                                                                              \
        "attention.layer_norm_rms_epsilon", OR_NUMBER(norm_epsilon), 0                             \
    }
#define OR_KEY_BASE                                                                                \
    {                                                                                              \
        "rope.freq_base", OR_NUMBER(rope_base), 10000.0f                                           \
    }

#define OR_OPS_ATTEND                                                                              \
    {.kind = OR_OP_STORE}, {.kind = OR_OP_ATTEND},                                                 \
    {                                                                                              \
        .kind = OR_OP_SUM_OUTPUT                                                                   \
    }

// The keys and operations of Llama.
extern const or_arch_key_t or_llama_keys[];
extern const or_op_t or_llama_ops[];
