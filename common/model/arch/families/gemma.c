// Gemma 1 to 3: embeddings scaled by the root of the width, GELU; then softcaps, windows and norms behind attention and
// FFN as well; then norms of heads, and rotations of their own in layers with a window. Norms have 1 added in the file.
#include "common/model/arch/families/families.h"

static const or_op_t gemma_ops[] = {
    OR_OPS_QKV,
    {.kind = OR_OP_ROTATE},
    OR_OPS_ATTEND,
    {.kind = OR_OP_ADD},
    OR_OPS_FFN(OR_OP_GELU_GATED),
    {.kind = OR_OP_ADD},
    {0},
};

static const or_op_t gemma2_ops[] = {
    OR_OPS_QKV,
    {.kind = OR_OP_ROTATE},
    OR_OPS_ATTEND,
    OR_OPS_ADD_NORMED(attention_post_norm),
    OR_OPS_FFN(OR_OP_GELU_GATED),
    OR_OPS_ADD_NORMED(ffn_post_norm),
    {0},
};

static const or_op_t gemma3_ops[] = {
    OR_OPS_QKV,
    {.kind = OR_OP_NORM_HEADS},
    {.kind = OR_OP_ROTATE},
    OR_OPS_ATTEND,
    OR_OPS_ADD_NORMED(attention_post_norm),
    OR_OPS_FFN(OR_OP_GELU_GATED),
    OR_OPS_ADD_NORMED(ffn_post_norm),
    {0},
};

static const or_arch_tensor_t gemma2_tensors[] = {
    OR_TENSORS_LLAMA,
    OR_TENSORS_POST_NORMS,
    {0},
};

static const or_arch_tensor_t gemma3_tensors[] = {
    OR_TENSORS_LLAMA,
    OR_TENSORS_HEAD_NORMS,
    OR_TENSORS_POST_NORMS,
    {0},
};

static const or_arch_key_t gemma2_keys[] = {
    OR_KEY_NORM,
    OR_KEY_BASE,
    {"attention.scale", OR_NUMBER(attention_scale), OR_NO_NUMBER},
    {"attn_logit_softcapping", OR_NUMBER(attention_softcap), 50.0f},
    {"final_logit_softcapping", OR_NUMBER(logit_softcap), 30.0f},
    {0},
};

static const or_arch_key_t gemma3_keys[] = {
    OR_KEY_NORM,
    {"rope.freq_base", OR_NUMBER(rope_base), 1000000.0f},
    {"rope.freq_base_swa", OR_NUMBER(rope_local_base), 10000.0f},
    {"attention.scale", OR_NUMBER(attention_scale), OR_NO_NUMBER},
    {"final_logit_softcapping", OR_NUMBER(logit_softcap), OR_NO_NUMBER},
    {0},
};

const or_arch_t or_arch_gemma = {
    .name = "gemma",
    OR_ARCH_NAMES,
    .rope_halves = true,
    .has_gate = true,
    .scales_embedding_by_width = true,
    .keys = or_llama_keys,
    .layer_tensors = or_llama_tensors,
    .layer_ops = gemma_ops,
    .output_op = {.kind = OR_OP_NORM},
};

const or_arch_t or_arch_gemma2 = {
    .name = "gemma2",
    OR_ARCH_NAMES,
    .rope_halves = true,
    .has_gate = true,
    .scales_embedding_by_width = true,
    .layers_scaled_by_width = 46, // the one of 27B
    .has_window = true,
    .window_usual = 4096, // the first files do not say it
    .window_period = 2,
    .keys = gemma2_keys,
    .layer_tensors = gemma2_tensors,
    .layer_ops = gemma2_ops,
    .output_op = {.kind = OR_OP_NORM},
};

const or_arch_t or_arch_gemma3 = {
    .name = "gemma3",
    OR_ARCH_NAMES,
    .rope_halves = true,
    .has_gate = true,
    .scales_embedding_by_width = true,
    .layers_scaled_by_width = 62, // the one of 27B
    .has_window = true,
    .window_period = 6,
    .has_local_rope = true,
    .keys = gemma3_keys,
    .layer_tensors = gemma3_tensors,
    .layer_ops = gemma3_ops,
    .output_op = {.kind = OR_OP_NORM},
};
