// Gemma 4: as Gemma 3, but layers without a window have heads of another size and number, and may take K for V. V has a
// norm without weights, scores have no scale, and what a layer puts out is multiplied with a number of its own. Norms are
// in the file as they are. The part of a head that is not rotated has huge factors in rope_freqs.
//
// In the smaller models (E2B, E4B) the last layers attend to K and V of earlier ones, and may have a larger FFN; and each
// layer adds what it gets of a token besides (layer_inputs.h).
//
// In 26B-A4B experts stand beside the FFN, each of both between norms of its own, and norms and experts read the same x. The
// router has a norm, too, whose weights the file calls its scale. Weights of experts add up to 1 before each is multiplied with
// its expert's number, which is in the file as the scale of the downs.
#include "common/model/arch/families/families.h"

#define OF_INPUT(op)                                                                               \
    {                                                                                              \
        .kind = (op), .needs = OR_LAYER(input_gate)                                                \
    }
#define OF_INPUT_WITH(op, field)                                                                   \
    {                                                                                              \
        .kind = (op), .needs = OR_LAYER(input_gate), .weight = OR_LAYER(field)                     \
    }

// Values are made of keys before their norm.
#define OPS_BEFORE_FFN                                                                             \
    OR_OPS_QKV, {.kind = OR_OP_NORM_VALUES}, {.kind = OR_OP_NORM_HEADS}, {.kind = OR_OP_ROTATE},   \
        OR_OPS_ATTEND, OR_OPS_ADD_NORMED(attention_post_norm)
#define OPS_BEHIND_FFN                                                                             \
    OR_OPS_ADD_NORMED(ffn_post_norm), OF_INPUT(OR_OP_COPY), OF_INPUT(OR_OP_GATE_INPUT),            \
        OF_INPUT(OR_OP_GELU_INPUT), OF_INPUT(OR_OP_RAISE_INPUT),                                   \
        OF_INPUT_WITH(OR_OP_NORM_SUMS, input_post_norm), OF_INPUT(OR_OP_ADD),                      \
    {                                                                                              \
        .kind = OR_OP_SCALE, .weight = OR_LAYER(output_scale)                                      \
    }

static const or_op_t ops[] = {
    OPS_BEFORE_FFN,
    OR_OPS_FFN(OR_OP_GELU_GATED),
    OPS_BEHIND_FFN,
    {0},
};

static const or_op_t expert_ops[] = {
    OPS_BEFORE_FFN,
    {.kind = OR_OP_NORM, .weight = OR_LAYER(ffn_norm)},
    {.kind = OR_OP_SHARED},
    {.kind = OR_OP_NORM_SUMS, .weight = OR_LAYER(shared_post_norm)},
    {.kind = OR_OP_PUT_ASIDE},
    {.kind = OR_OP_NORM_ROUTER, .weight = OR_LAYER(router_norm)},
    {.kind = OR_OP_ROUTE},
    {.kind = OR_OP_NORM, .weight = OR_LAYER(experts_norm)},
    {.kind = OR_OP_CHOSEN},
    {.kind = OR_OP_NORM_SUMS, .weight = OR_LAYER(experts_post_norm)},
    {.kind = OR_OP_ADD_ASIDE},
    OPS_BEHIND_FFN,
    {0},
};

// A tensor that layers have which attend to K and V of their own.
#define OF_KV(suffix, inputs, outputs, field, may_lack)                                            \
    {                                                                                              \
        suffix, inputs, outputs, OR_LAYER(field), NULL, 0, may_lack, OR_WITH_OWN_KV                \
    }

#define TENSORS_OF_ALL                                                                             \
    OR_TENSOR_NORM("attn_norm.weight", attention_norm),                                            \
        OR_TENSOR_MATRIX("attn_q.weight", OR_DIM_WIDTH, OR_DIM_QUERY, query),                      \
        OF_KV("attn_k.weight", OR_DIM_WIDTH, OR_DIM_KV, key, false),                               \
        OF_KV("attn_v.weight", OR_DIM_WIDTH, OR_DIM_KV, value, true), OR_TENSORS_OUTPUT,           \
        OR_TENSOR_MATRIX("attn_q_norm.weight", OR_DIM_HEAD, OR_DIM_ONE, query_norm),               \
        OF_KV("attn_k_norm.weight", OR_DIM_HEAD, OR_DIM_ONE, key_norm, false),                     \
        OR_TENSOR_NORM("ffn_norm.weight", ffn_norm), OR_TENSORS_POST_NORMS,                        \
        OR_TENSOR_OF("inp_gate.weight", OR_DIM_WIDTH, OR_DIM_LAYER_INPUT, input_gate,              \
                     OR_WITH_INPUTS),                                                              \
        OR_TENSOR_OF("proj.weight", OR_DIM_LAYER_INPUT, OR_DIM_WIDTH, input_up, OR_WITH_INPUTS),   \
        OR_TENSOR_OF("post_norm.weight", OR_DIM_WIDTH, OR_DIM_ONE, input_post_norm,                \
                     OR_WITH_INPUTS),                                                              \
        MAY_LACK("layer_output_scale.weight", OR_DIM_ONE, output_scale)
#define MAY_LACK(suffix, dim, field)                                                               \
    {                                                                                              \
        suffix, dim, OR_DIM_ONE, OR_LAYER(field), NULL, 0, true, OR_IN_ALL                         \
    }

static const or_arch_tensor_t tensors[] = {
    TENSORS_OF_ALL,
    OR_TENSORS_GATE,
    OR_TENSORS_UP_DOWN,
    {0},
};

static const or_dim_t fused_experts[] = {OR_DIM_EXPERT_FFN, OR_DIM_EXPERT_FFN, OR_DIM_ONE};

#define FUSED(field, part)                                                                         \
    {                                                                                              \
        "ffn_gate_up_exps.weight", OR_DIM_WIDTH, OR_DIM_EXPERT_FFN, OR_LAYER(field),               \
            fused_experts, part, false, OR_WITH_FUSED_EXPERTS                                      \
    }

static const or_arch_tensor_t expert_tensors[] = {
    TENSORS_OF_ALL,
    OR_TENSOR_MATRIX("ffn_gate.weight", OR_DIM_WIDTH, OR_DIM_SHARED_FFN, shared_gate),
    OR_TENSOR_MATRIX("ffn_up.weight", OR_DIM_WIDTH, OR_DIM_SHARED_FFN, shared_up),
    OR_TENSOR_MATRIX("ffn_down.weight", OR_DIM_SHARED_FFN, OR_DIM_WIDTH, shared_down),
    OR_TENSOR_NORM("post_ffw_norm_1.weight", shared_post_norm),
    OR_TENSOR_NORM("ffn_gate_inp.scale", router_norm),
    OR_TENSOR_MATRIX("ffn_gate_inp.weight", OR_DIM_WIDTH, OR_DIM_EXPERTS, router),
    OR_TENSOR_NORM("pre_ffw_norm_2.weight", experts_norm),
    FUSED(expert_gate, 0),
    FUSED(expert_up, 1),
    OR_TENSOR_OF("ffn_gate_exps.weight", OR_DIM_WIDTH, OR_DIM_EXPERT_FFN, expert_gate,
                 OR_WITHOUT_FUSED_EXPERTS),
    OR_TENSOR_OF("ffn_up_exps.weight", OR_DIM_WIDTH, OR_DIM_EXPERT_FFN, expert_up,
                 OR_WITHOUT_FUSED_EXPERTS),
    OR_TENSOR_MATRIX("ffn_down_exps.weight", OR_DIM_EXPERT_FFN, OR_DIM_WIDTH, expert_down),
    MAY_LACK("ffn_down_exps.scale", OR_DIM_EXPERTS, expert_scales),
    OR_TENSOR_NORM("post_ffw_norm_2.weight", experts_post_norm),
    {0},
};

static const or_arch_key_t keys[] = {
    OR_KEY_NORM,
    {"rope.freq_base", OR_NUMBER(rope_base), 1000000.0f},
    {"rope.freq_base_swa", OR_NUMBER(rope_local_base), 10000.0f},
    {"attention.scale", OR_NUMBER(attention_scale), 1.0f},
    {"final_logit_softcapping", OR_NUMBER(logit_softcap), OR_NO_NUMBER},
    {0},
};

#define GEMMA4                                                                                     \
    .name = "gemma4", OR_ARCH_NAMES, .rope_factors = "rope_freqs.weight",                          \
    .input_embedding = "per_layer_token_embd.weight",                                              \
    .input_projection = "per_layer_model_proj.weight", .input_norm = "per_layer_proj_norm.weight", \
    .rope_halves = true, .scales_embedding_by_width = true, .has_window = true,                    \
    .has_local_rope = true, .tells_layers = true, .keys = keys, .output_op = {.kind = OR_OP_NORM}

const or_arch_t or_arch_gemma4 = {
    GEMMA4,
    .has_gate = true,
    .layer_tensors = tensors,
    .layer_ops = ops,
};

const or_arch_t or_arch_gemma4_experts = {
    GEMMA4,
    .has_experts = true,
    .normalises_experts = true,
    .gelu_experts = true,
    .ffn_key = "expert_feed_forward_length",
    .layer_tensors = expert_tensors,
    .layer_ops = expert_ops,
};
