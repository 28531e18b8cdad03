// Names of modules there, family by family.
#include "launch/model/convert/families/names.h"

// Llama's kind, which the others change in part.
const or_hf_name_t or_hf_llama_names[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_qkv", "self_attn.qkv_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"attn_output", "self_attn.o_proj"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_exps", "mlp.experts.#.gate_proj"},
    {"ffn_up_exps", "mlp.experts.#.up_proj"},
    {"ffn_down_exps", "mlp.experts.#.down_proj"},
    {"ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
    {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
    {"ffn_down_shexp", "mlp.shared_expert.down_proj"},
    {0},
};

const or_hf_name_t or_hf_no_names[] = {{0}};

const or_hf_name_t or_hf_fused_names[] = {{"ffn_up", "mlp.gate_up_proj"}, {0}};

const or_hf_name_t or_hf_gemma2_names[] = {
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
    {0},
};

const or_hf_name_t or_hf_gemma4_names[] = {
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
    {"layer_output_scale.weight", "layer_scalar"},
    {"inp_gate", "per_layer_input_gate"},
    {"proj", "per_layer_projection"},
    {"post_norm", "post_per_layer_input_norm"},
    {"ffn_gate_inp.weight", "router.proj.weight"},
    {"ffn_gate_inp.scale", "router.scale"},
    {"ffn_gate_up_exps.weight", "experts.gate_up_proj"},
    {"ffn_down_exps.weight", "experts.down_proj"},
    {"ffn_down_exps.scale", "router.per_expert_scale"},
    {"pre_ffw_norm_2", "pre_feedforward_layernorm_2"},
    {"post_ffw_norm_1", "post_feedforward_layernorm_1"},
    {"post_ffw_norm_2", "post_feedforward_layernorm_2"},
    {0},
};

const or_hf_name_t or_hf_olmo2_names[] = {
    {"post_attention_norm", "post_attention_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
    {0},
};

const or_hf_name_t or_hf_glm4_names[] = {
    {"ffn_up", "mlp.gate_up_proj"},
    {"post_attention_norm", "post_self_attn_layernorm"},
    {"post_ffw_norm", "post_mlp_layernorm"},
    {0},
};

const or_hf_name_t or_hf_starcoder2_names[] = {
    {"ffn_up", "mlp.c_fc"},
    {"ffn_down", "mlp.c_proj"},
    {0},
};

const or_hf_name_t or_hf_gpt2_names[] = {
    {"attn_norm", "ln_1"},
    {"attn_qkv", "attn.c_attn"},
    {"attn_output", "attn.c_proj"},
    {"ffn_norm", "ln_2"},
    {"ffn_up", "mlp.c_fc"},
    {"ffn_down", "mlp.c_proj"},
    {0},
};

const or_hf_name_t or_hf_falcon_names[] = {
    {"attn_norm", "ln_mlp"},
    {"attn_norm", "input_layernorm"},
    {"attn_norm_2", "ln_attn"},
    {"attn_qkv", "self_attention.query_key_value"},
    {"attn_output", "self_attention.dense"},
    {"ffn_up", "mlp.dense_h_to_4h"},
    {"ffn_down", "mlp.dense_4h_to_h"},
    {0},
};

const or_hf_name_t or_hf_opt_names[] = {
    {"attn_norm", "self_attn_layer_norm"},
    {"attn_output", "self_attn.out_proj"},
    {"ffn_norm", "final_layer_norm"},
    {"ffn_up", "fc1"},
    {"ffn_down", "fc2"},
    {0},
};

const or_hf_name_t or_hf_mixtral_names[] = {
    {"ffn_gate_inp", "block_sparse_moe.gate"},
    {"ffn_gate_exps", "block_sparse_moe.experts.#.w1"},
    {"ffn_up_exps", "block_sparse_moe.experts.#.w3"},
    {"ffn_down_exps", "block_sparse_moe.experts.#.w2"},
    {0},
};

#define NAMES_SHARED                                                                               \
    {"ffn_gate_shexp", "mlp.shared_experts.gate_proj"},                                            \
        {"ffn_up_shexp", "mlp.shared_experts.up_proj"},                                            \
        {"ffn_down_shexp", "mlp.shared_experts.down_proj"},                                        \
    {                                                                                              \
        "exp_probs_b.bias", "mlp.gate.e_score_correction_bias"                                     \
    }

const or_hf_name_t or_hf_glm4moe_names[] = {
    {"post_attention_norm", "post_attention_layernorm"},
    NAMES_SHARED,
    {0},
};

const or_hf_name_t or_hf_deepseek_names[] = {
    {"attn_q_a", "self_attn.q_a_proj"},
    {"attn_q_a_norm", "self_attn.q_a_layernorm"},
    {"attn_q_b", "self_attn.q_b_proj"},
    {"attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa"},
    {"attn_kv_a_norm", "self_attn.kv_a_layernorm"},
    {"attn_k_b", "self_attn.kv_b_proj"},
    {"attn_v_b", "self_attn.kv_b_proj"},
    NAMES_SHARED,
    {0},
};

const or_hf_name_t or_hf_gpt_oss_names[] = {
    {"attn_sinks.weight", "self_attn.sinks"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_gate_inp", "mlp.router"},
    {"ffn_gate_exps.weight", "mlp.experts.gate_up_proj"},
    {"ffn_gate_exps.weight", "mlp.experts.gate_up_proj_blocks"},
    {"ffn_gate_exps.bias", "mlp.experts.gate_up_proj_bias"},
    {"ffn_up_exps.weight", "mlp.experts.gate_up_proj"},
    {"ffn_up_exps.weight", "mlp.experts.gate_up_proj_blocks"},
    {"ffn_up_exps.bias", "mlp.experts.gate_up_proj_bias"},
    {"ffn_down_exps.weight", "mlp.experts.down_proj"},
    {"ffn_down_exps.weight", "mlp.experts.down_proj_blocks"},
    {"ffn_down_exps.bias", "mlp.experts.down_proj_bias"},
    {0},
};
