// DeepSeek V2, V2-Lite, V3 and R1, and others of their graph (Kimi K2): latent attention, and experts with some
// that all rows take, behind first layers without experts. The file says how experts are chosen: V2's by a softmax, V3's by
// sigmoids with a bias, of the best groups where there are groups.
#include "common/model/arch/families/families.h"

static const or_op_t ops[] = {
    {.kind = OR_OP_NORM, .weight = OR_LAYER(attention_norm)},
    {.kind = OR_OP_PROJECT_LATENT},
    {.kind = OR_OP_NORM_QUERY_LATENT, .weight = OR_LAYER(query_latent_norm)},
    {.kind = OR_OP_RAISE_QUERY},
    {.kind = OR_OP_NORM_LATENT, .weight = OR_LAYER(latent_norm)},
    {.kind = OR_OP_ABSORB},
    {.kind = OR_OP_ROTATE},
    {.kind = OR_OP_STORE},
    {.kind = OR_OP_ATTEND},
    {.kind = OR_OP_RAISE_VALUES},
    {.kind = OR_OP_SUM_OUTPUT},
    {.kind = OR_OP_ADD},
    OR_OPS_EXPERTS,
    {.kind = OR_OP_ADD},
    {0},
};

static const or_arch_tensor_t tensors[] = {
    OR_TENSOR_NORM("attn_norm.weight", attention_norm),
    OR_TENSOR_OF("attn_q.weight", OR_DIM_WIDTH, OR_DIM_LATENT_QUERY, query,
                 OR_WITHOUT_QUERY_LATENT),
    OR_TENSOR_OF("attn_q_a.weight", OR_DIM_WIDTH, OR_DIM_QUERY_LATENT, query_latent,
                 OR_WITH_QUERY_LATENT),
    OR_TENSOR_OF("attn_q_a_norm.weight", OR_DIM_QUERY_LATENT, OR_DIM_ONE, query_latent_norm,
                 OR_WITH_QUERY_LATENT),
    OR_TENSOR_OF("attn_q_b.weight", OR_DIM_QUERY_LATENT, OR_DIM_LATENT_QUERY, query,
                 OR_WITH_QUERY_LATENT),
    OR_TENSOR_OF("attn_kv_a_mqa.weight", OR_DIM_WIDTH, OR_DIM_KV, key, OR_IN_ALL),
    OR_TENSOR_OF("attn_kv_a_norm.weight", OR_DIM_LATENT, OR_DIM_ONE, latent_norm, OR_IN_ALL),
    OR_TENSOR_OF("attn_k_b.weight", OR_DIM_HEAD_PLAIN, OR_DIM_LATENT, key_up, OR_IN_ALL),
    OR_TENSOR_OF("attn_v_b.weight", OR_DIM_LATENT, OR_DIM_HEAD_VALUE, value_up, OR_IN_ALL),
    OR_TENSOR_OF("attn_output.weight", OR_DIM_LATENT_VALUE, OR_DIM_WIDTH, output, OR_IN_ALL),
    OR_TENSOR_NORM("ffn_norm.weight", ffn_norm),
    OR_TENSORS_DENSE_AND_EXPERTS,
    OR_TENSOR_OF("exp_probs_b.bias", OR_DIM_EXPERTS, OR_DIM_ONE, router_bias,
                 OR_IN_SIGMOID_EXPERTS),
    {0},
};

static const or_arch_key_t keys[] = {
    OR_KEY_NORM,
    OR_KEY_BASE,
    {"expert_weights_scale", OR_NUMBER(expert_scale), 1},
    {0},
};

const or_arch_t or_arch_deepseek2 = {
    .name = "deepseek2",
    OR_ARCH_NAMES,
    .has_experts = true,
    .tells_routing = true,
    .has_shared_expert = true,
    .shares_by_count = true,
    .has_dense_layers = true,
    .has_latent = true,
    .yarn_grows_scores = true,
    .ffn_key = "expert_feed_forward_length",
    .keys = keys,
    .layer_tensors = tensors,
    .layer_ops = ops,
    .output_op = {.kind = OR_OP_NORM},
};
