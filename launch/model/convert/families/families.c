#include "launch/model/convert/families/families.h"

#include <stdio.h>
#include <string.h>

#include "launch/model/convert/families/names.h"

// ---- keys of config.json ----

static const or_hf_counts_t llama_counts = {
    "max_position_embeddings", "num_hidden_layers",   "hidden_size",
    "intermediate_size",       "num_attention_heads", "num_key_value_heads"};
static const or_hf_counts_t gpt2_counts = {"n_positions", "n_layer", "n_embd",
                                           "n_inner",     "n_head",  NULL};

static const or_hf_counts_t opt_counts = {"max_position_embeddings",
                                          "num_hidden_layers",
                                          "hidden_size",
                                          "ffn_dim",
                                          "num_attention_heads",
                                          NULL};
static const or_hf_counts_t falcon_counts = {
    "max_position_embeddings", "num_hidden_layers",   "hidden_size",
    "ffn_hidden_size",         "num_attention_heads", "num_kv_heads"};

static const or_hf_expert_counts_t mixtral_experts = {
    "num_local_experts", "num_experts", "num_experts_per_tok", "intermediate_size", NULL};
static const or_hf_expert_counts_t qwen2_experts = {"num_experts", "num_local_experts",
                                                    "num_experts_per_tok", "moe_intermediate_size",
                                                    "shared_expert_intermediate_size"};
static const or_hf_expert_counts_t qwen3_experts = {
    "num_local_experts", "num_experts", "num_experts_per_tok", "moe_intermediate_size", NULL};

static const or_hf_expert_counts_t routed_experts = {.experts = "n_routed_experts",
                                                     .experts_before = "num_experts",
                                                     .used = "num_experts_per_tok",
                                                     .ffn = "moe_intermediate_size",
                                                     .shared_count = "n_shared_experts",
                                                     .dense_layers = "first_k_dense_replace"};

static const or_hf_expert_counts_t gemma4_experts = {"num_experts", "num_local_experts",
                                                     "top_k_experts", "moe_intermediate_size",
                                                     "intermediate_size"};

static const or_hf_expert_counts_t listed_experts = {.experts = "n_routed_experts",
                                                     .experts_before = "num_local_experts",
                                                     .used = "num_experts_per_tok",
                                                     .ffn = "moe_intermediate_size",
                                                     .shared_count = "n_shared_experts",
                                                     .layer_kinds = "mlp_layer_types"};

static const or_hf_number_t rms_numbers[] = {
    {"rms_norm_eps", "attention.layer_norm_rms_epsilon"},
    {0},
};
static const or_hf_number_t gemma2_numbers[] = {
    {"rms_norm_eps", "attention.layer_norm_rms_epsilon"},
    {"attn_logit_softcapping", "attn_logit_softcapping"},
    {"final_logit_softcapping", "final_logit_softcapping"},
    {0},
};
static const or_hf_number_t gemma4_numbers[] = {
    {"rms_norm_eps", "attention.layer_norm_rms_epsilon"},
    {"final_logit_softcapping", "final_logit_softcapping"},
    {0},
};
static const or_hf_number_t granite_numbers[] = {
    {"rms_norm_eps", "attention.layer_norm_rms_epsilon"},
    {"embedding_multiplier", "embedding_scale"},
    {"residual_multiplier", "residual_scale"},
    {"attention_multiplier", "attention.scale"},
    {"logits_scaling", "logit_scale"},
    {0},
};
static const or_hf_number_t starcoder2_numbers[] = {
    {"norm_epsilon", "attention.layer_norm_epsilon"},
    {0},
};
static const or_hf_number_t gpt2_numbers[] = {
    {"layer_norm_epsilon", "attention.layer_norm_epsilon"},
    {0},
};

static const or_hf_number_t cohere_numbers[] = {
    {"layer_norm_eps", "attention.layer_norm_epsilon", 1e-5},
    {"logit_scale", "logit_scale", 0.0625},
    {0},
};
static const or_hf_number_t falcon_numbers[] = {
    {"layer_norm_epsilon", "attention.layer_norm_epsilon", 1e-5},
    {0},
};
static const or_hf_number_t opt_numbers[] = {
    {NULL, "attention.layer_norm_epsilon", 1e-5},
    {0},
};

static const or_hf_number_t routed_numbers[] = {
    {"rms_norm_eps", "attention.layer_norm_rms_epsilon"},
    {"routed_scaling_factor", "expert_weights_scale"},
    {0},
};

static const or_hf_rule_t silu_rules[] = {{"hidden_act", "silu swish"}, {0}};
// Gemma was published with "gelu" where the approximation by tanh is meant, which transformers takes in any case.
static const or_hf_rule_t gemma_rules[] = {
    {"hidden_activation", "gelu_pytorch_tanh"},
    {"hidden_act", "gelu gelu_pytorch_tanh"},
    {"use_bidirectional_attention", "false"},
    {0},
};
static const or_hf_rule_t gemma3_rules[] = {
    {"hidden_activation", "gelu_pytorch_tanh"},
    {"hidden_act", "gelu_pytorch_tanh"},
    {"attn_logit_softcapping", ""},
    {"final_logit_softcapping", ""},
    {"use_bidirectional_attention", "false"},
    {0},
};
// Of texts alone attention is causal also where it is said to be otherwise in images.
static const or_hf_rule_t gemma4_rules[] = {
    {"hidden_activation", "gelu_pytorch_tanh"},
    {"attention_bias", "false"},
    {"use_bidirectional_attention", "vision"},
    {"enable_moe_block", "false"},
    {0},
};
static const or_hf_rule_t gemma4_experts_rules[] = {
    {"hidden_activation", "gelu_pytorch_tanh"},
    {"attention_bias", "false"},
    {"use_bidirectional_attention", "vision"},
    {"use_double_wide_mlp", "false"},
    {0},
};
static const or_hf_rule_t starcoder2_rules[] = {
    {"hidden_act", "gelu_pytorch_tanh"},
    {"use_bias", "true"},
    {0},
};
static const or_hf_rule_t gpt2_rules[] = {
    {"activation_function", "gelu_new gelu_pytorch_tanh"},
    {"scale_attn_weights", "true"},
    {"scale_attn_by_inverse_layer_idx", "false"},
    {"add_cross_attention", "false"},
    {0},
};

static const or_hf_rule_t cohere_rules[] = {
    {"hidden_act", "silu swish"},
    {"use_qk_norm", "false"},
    {"attention_bias", "false"},
    {0},
};
static const or_hf_rule_t falcon_rules[] = {
    {"activation", "gelu"}, {"alibi", "false"}, {"bias", "false"}, {"parallel_attn", "true"}, {0},
};
static const or_hf_rule_t opt_rules[] = {
    {"activation_function", "relu"},
    {"do_layer_norm_before", "true"},
    {"enable_bias", "true"},
    {"layer_norm_elementwise_affine", "true"},
    {"_remove_final_layer_norm", "false"},
    {0},
};
static const or_hf_rule_t qwen2_experts_rules[] = {
    {"hidden_act", "silu swish"}, {"norm_topk_prob", "false"}, {"decoder_sparse_step", "1"},
    {"mlp_only_layers", "[]"},    {"qkv_bias", "true"},        {0},
};
static const or_hf_rule_t qwen3_experts_rules[] = {
    {"hidden_act", "silu swish"}, {"norm_topk_prob", "true", true}, {"decoder_sparse_step", "1"},
    {"mlp_only_layers", "[]"},    {"attention_bias", "false"},      {0},
};
static const or_hf_rule_t gpt_oss_rules[] = {
    {"hidden_act", "silu swish"},
    {"swiglu_alpha", "1.702"},
    {"swiglu_limit", "7"},
    {"attention_bias", "true"},
    {0},
};
static const or_hf_rule_t phimoe_rules[] = {
    {"hidden_act", "silu swish"},   {"attention_bias", "true", true},
    {"lm_head_bias", "true", true}, {"router_jitter_noise", "0.01"},
    {"num_experts_per_tok", "2"},   {0},
};
static const or_hf_rule_t glm4moe_rules[] = {
    {"hidden_act", "silu swish"},
    {"norm_topk_prob", "true"},
    {"n_group", "1"},
    {0},
};
static const or_hf_rule_t deepseek2_rules[] = {
    {"hidden_act", "silu swish"},
    {"norm_topk_prob", "false"},
    {"attention_bias", "false"},
    {"mlp_bias", "false"},
    {"topk_method", "greedy group_limited_greedy"},
    {"scoring_func", "softmax"},
    {"moe_layer_freq", "1"},
    {0},
};
static const or_hf_rule_t deepseek3_rules[] = {
    {"hidden_act", "silu swish"},
    {"attention_bias", "false"},
    {"rope_interleave", "true"},
    {"topk_method", "noaux_tc"},
    {"scoring_func", "sigmoid"},
    {"moe_layer_freq", "1"},
    {0},
};
static const or_hf_rule_t glm4lite_rules[] = {
    {"hidden_act", "silu swish"},
    {"attention_bias", "false"},
    {"rope_interleave", "true"},
    {"topk_method", "noaux_tc"},
    {"scoring_func", "sigmoid"},
    {"first_k_dense_replace", "1"}, // transformers does not read it
    {0},
};
static const or_hf_rule_t olmoe_rules[] = {
    {"hidden_act", "silu swish"},
    {"norm_topk_prob", "false"},
    {"clip_qkv", ""},
    {"attention_bias", "false"},
    {0},
};

// ---- the families ----

// What stands where in all checkpoints of Llama's kind.
#define PLACES                                                                                     \
    .outer = "model.", .layers = "layers.", .embedding = "embed_tokens.weight", .norm = "norm",    \
    .counts = &llama_counts, .ignored = ".rotary_emb.inv_freq"
#define NUMBERS .numbers = rms_numbers, .rules = silu_rules
#define ROTATED .rope_base = 10000, .rotated = 1
#define PHIMOE                                                                                     \
    PLACES, .numbers = rms_numbers, .rules = phimoe_rules, .rope_base = 1000000, .rotated = 1,     \
            .names = or_hf_mixtral_names, .experts = &mixtral_experts, .needs_kv_heads = true

#define GEMMA4                                                                                     \
    .layers = "layers.", .embedding = "embed_tokens.weight", .norm = "norm",                       \
    .counts = &llama_counts, .ignored = ".rotary_emb.inv_freq", .rope_base = 1000000,              \
    .rotated = 0.25, .numbers = gemma4_numbers, .names = or_hf_gemma4_names, .head_dim = 256,      \
    .needs_kv_heads = true, .is_tied = true, .keeps_merges = true, .lists_windows = true,          \
    .window = 512, .input_embedding = "embed_tokens_per_layer.weight",                             \
    .input_projection = "per_layer_model_projection.weight",                                       \
    .input_norm = "per_layer_projection_norm.weight"
#define GEMMA4_EXPERTS                                                                             \
    .flag = "enable_moe_block", .rules = gemma4_experts_rules, .experts = &gemma4_experts,         \
    .stacks_as_gguf = true
// As it is published, with towers for images and sounds.
#define GEMMA4_TOWERS                                                                              \
    .text_config = "text_config", .outer = "model.language_model.",                                \
    .towers = "model.vision_tower. model.audio_tower. model.embed_vision. model.embed_audio."

static const or_hf_family_t families[] = {
    {"LlamaForCausalLM", "llama", PLACES, NUMBERS, ROTATED, .names = or_hf_no_names,
     .pairs_halves = true},
    {"MistralForCausalLM", "llama", PLACES, NUMBERS, ROTATED, .names = or_hf_no_names,
     .pairs_halves = true, .needs_kv_heads = true},
    {"Qwen2ForCausalLM", "qwen2", PLACES, NUMBERS, ROTATED, .names = or_hf_no_names,
     .needs_kv_heads = true, .windows_from_layer = true},
    {"Qwen3ForCausalLM", "qwen3", PLACES, NUMBERS, ROTATED, .names = or_hf_no_names,
     .head_dim = 128, .needs_kv_heads = true, .windows_from_layer = true},
    {"Phi3ForCausalLM", "phi3", PLACES, NUMBERS, ROTATED, .names = or_hf_fused_names,
     .may_rotate_parts = true},
    {"GemmaForCausalLM", "gemma", PLACES, ROTATED, .numbers = rms_numbers, .rules = gemma_rules,
     .names = or_hf_no_names, .head_dim = 256, .needs_kv_heads = true, .is_tied = true,
     .norms_less_one = true},
    {"Gemma2ForCausalLM", "gemma2", PLACES, ROTATED, .numbers = gemma2_numbers,
     .rules = gemma_rules, .names = or_hf_gemma2_names, .head_dim = 256, .needs_kv_heads = true,
     .is_tied = true, .norms_less_one = true, .scales_by_scalar = true},
    {"Gemma3ForCausalLM", "gemma3", PLACES, .rope_base = 1000000, .rotated = 1,
     .numbers = rms_numbers, .rules = gemma3_rules, .names = or_hf_gemma2_names, .head_dim = 256,
     .needs_kv_heads = true, .is_tied = true, .norms_less_one = true, .scales_by_scalar = true},
    {"Gemma4ForCausalLM", "gemma4", GEMMA4, .outer = "model.", .rules = gemma4_rules},
    {"Gemma4ForCausalLM", "gemma4", GEMMA4, .outer = "model.", GEMMA4_EXPERTS},
    {"Gemma4ForConditionalGeneration", "gemma4", GEMMA4, GEMMA4_TOWERS, .rules = gemma4_rules},
    {"Gemma4ForConditionalGeneration", "gemma4", GEMMA4, GEMMA4_TOWERS, GEMMA4_EXPERTS},
    {"Olmo2ForCausalLM", "olmo2", PLACES, NUMBERS, ROTATED, .names = or_hf_olmo2_names},
    {"GraniteForCausalLM", "granite", PLACES, ROTATED, .numbers = granite_numbers,
     .rules = silu_rules, .names = or_hf_no_names, .pairs_halves = true},
    {"SmolLM3ForCausalLM", "smollm3", PLACES, NUMBERS, .rope_base = 2000000, .rotated = 1,
     .names = or_hf_no_names, .needs_kv_heads = true, .is_tied = true, .pairs_halves = true},
    {"Glm4ForCausalLM", "glm4", PLACES, NUMBERS, .rope_base = 10000, .rotated = 0.5,
     .names = or_hf_glm4_names, .head_dim = 128, .needs_kv_heads = true, .may_rotate_parts = true},
    {"Starcoder2ForCausalLM", "starcoder2", PLACES, ROTATED, .numbers = starcoder2_numbers,
     .rules = starcoder2_rules, .names = or_hf_starcoder2_names, .needs_kv_heads = true,
     .is_tied = true},
    {"Ernie4_5ForCausalLM", "ernie4_5", PLACES, NUMBERS, .rope_base = 500000, .rotated = 1,
     .names = or_hf_no_names, .head_dim = 128, .needs_kv_heads = true, .is_tied = true},
    {"GPT2LMHeadModel", "gpt2", .outer = "transformer.", .layers = "h.", .embedding = "wte.weight",
     .positions = "wpe.weight", .norm = "ln_f", .names = or_hf_gpt2_names, .counts = &gpt2_counts,
     .numbers = gpt2_numbers, .rules = gpt2_rules, .ignored = ".attn.bias .attn.masked_bias",
     .is_tied = true, .has_inputs_first = true, .may_lack_ffn = true},
    {"Ministral3ForCausalLM", "mistral3", PLACES, NUMBERS, ROTATED, .names = or_hf_no_names,
     .head_dim = 128, .pairs_halves = true, .needs_kv_heads = true, .queries_grow = true},
    {"CohereForCausalLM", "command-r", PLACES, .numbers = cohere_numbers, .rules = cohere_rules,
     .rope_base = 500000, .rotated = 1, .names = or_hf_no_names, .is_tied = true},
    {"Cohere2ForCausalLM", "cohere2", PLACES, ROTATED, .numbers = cohere_numbers,
     .rules = cohere_rules, .names = or_hf_no_names, .is_tied = true, .rotates_windows = true},
    {"Exaone4ForCausalLM", "exaone4", PLACES, NUMBERS, ROTATED, .names = or_hf_olmo2_names,
     .needs_kv_heads = true, .rotates_windows = true, .lists_windows = true},
    {"FalconForCausalLM", "falcon", .outer = "transformer.", .layers = "h.",
     .embedding = "word_embeddings.weight", .norm = "ln_f", .names = or_hf_falcon_names,
     .counts = &falcon_counts, .numbers = falcon_numbers, .rules = falcon_rules,
     .ignored = ".rotary_emb.inv_freq", ROTATED, .context = 2048, .is_tied = true,
     .may_lack_ffn = true, .groups_heads = true},
    {"OPTForCausalLM", "opt", .outer = "model.decoder.", .layers = "layers.",
     .embedding = "embed_tokens.weight", .positions = "embed_positions.weight",
     .norm = "final_layer_norm", .names = or_hf_opt_names, .counts = &opt_counts,
     .numbers = opt_numbers, .rules = opt_rules, .ignored = "", .is_tied = true,
     .positions_before = 2},
    {"MixtralForCausalLM", "llama", PLACES, NUMBERS, .rope_base = 1000000, .rotated = 1,
     .names = or_hf_mixtral_names, .experts = &mixtral_experts, .pairs_halves = true,
     .needs_kv_heads = true},
    {"Qwen2MoeForCausalLM", "qwen2moe", PLACES, ROTATED, .numbers = rms_numbers,
     .rules = qwen2_experts_rules, .names = or_hf_no_names, .experts = &qwen2_experts,
     .needs_kv_heads = true, .windows_from_layer = true},
    {"Qwen3MoeForCausalLM", "qwen3moe", PLACES, ROTATED, .numbers = rms_numbers,
     .rules = qwen3_experts_rules, .names = or_hf_no_names, .experts = &qwen3_experts,
     .needs_kv_heads = true, .windows_from_layer = true},
    {"OlmoeForCausalLM", "olmoe", PLACES, ROTATED, .numbers = rms_numbers, .rules = olmoe_rules,
     .names = or_hf_no_names, .experts = &mixtral_experts},
    {"GptOssForCausalLM", "gpt-oss", PLACES, .numbers = rms_numbers, .rules = gpt_oss_rules,
     .rope_base = 150000, .rotated = 1, .names = or_hf_gpt_oss_names, .experts = &mixtral_experts,
     .head_dim = 64, .needs_kv_heads = true, .stacks_experts = true, .needs_scaling = true,
     .window = 128},
    {"PhiMoEForCausalLM", "phimoe", PHIMOE}, // as it was published
    {"PhimoeForCausalLM", "phimoe", PHIMOE}, // as transformers has it
    {"Glm4MoeForCausalLM", "glm4moe", PLACES, .numbers = routed_numbers, .rules = glm4moe_rules,
     .rope_base = 10000, .rotated = 0.5, .names = or_hf_glm4moe_names, .experts = &routed_experts,
     .needs_kv_heads = true, .may_rotate_parts = true, .gates_by_sigmoid = true},
    {"DeepseekV2ForCausalLM", "deepseek2", PLACES, ROTATED, .numbers = routed_numbers,
     .rules = deepseek2_rules, .names = or_hf_deepseek_names, .experts = &routed_experts,
     .tells_routing = true, .has_latent = true},
    {"DeepseekV3ForCausalLM", "deepseek2", PLACES, ROTATED, .numbers = routed_numbers,
     .rules = deepseek3_rules, .names = or_hf_deepseek_names, .experts = &routed_experts,
     .gates_by_sigmoid = true, .tells_routing = true, .has_latent = true},
    {"Glm4MoeLiteForCausalLM", "deepseek2", PLACES, ROTATED, .numbers = routed_numbers,
     .rules = glm4lite_rules, .names = or_hf_deepseek_names, .experts = &listed_experts,
     .gates_by_sigmoid = true, .tells_routing = true, .has_latent = true},
};

#define FAMILIES (sizeof families / sizeof *families)

const or_hf_family_t *or_hf_family_at(size_t i)
{
    return i < FAMILIES ? &families[i] : NULL;
}

or_status_t or_hf_family_find(const char *architecture, const or_hf_family_t **family_p)
{
    char all[FAMILIES * 32] = "";
    for (size_t i = 0; i < FAMILIES; i++) {
        if (strcmp(families[i].architecture, architecture) == 0) {
            *family_p = &families[i];
            return OR_OK;
        }
        size_t used = strlen(all);
        if (families[i].flag == NULL) { // a row that another has named
            snprintf(all + used, sizeof all - used, " %s", families[i].architecture);
        }
    }
    return or_fail(OR_ERR_UNSUPPORTED,
                   "checkpoints of architecture \"%.64s\" are not converted; of these they are:%s",
                   architecture, all);
}

// ---- names ----

// The name there of a module, by preference; NULL if no row has it.
static const char *find_module(const or_hf_name_t *names, const char *module, size_t length,
                               uint32_t choice)
{
    for (; names->ours != NULL; names++) {
        bool is_it = strlen(names->ours) == length && memcmp(names->ours, module, length) == 0;
        if (is_it && choice-- == 0) {
            return names->theirs;
        }
    }
    return NULL;
}

bool or_hf_layer_name(const or_hf_family_t *family, const or_hf_tensor_t *tensor, uint32_t choice,
                      char *name, size_t capacity)
{
    const char *suffix = tensor->suffix;
    const char *end = strrchr(suffix, '.');
    size_t length = end != NULL ? (size_t)(end - suffix) : strlen(suffix);
    if (find_module(family->names, suffix, strlen(suffix), 0) != NULL) {
        const char *whole = find_module(family->names, suffix, strlen(suffix), choice);
        snprintf(name, capacity, "%s%u.%s", family->layers, tensor->layer,
                 whole != NULL ? whole : "");
        return whole != NULL;
    }
    bool own = find_module(family->names, suffix, length, 0) != NULL;
    const char *module =
        find_module(own ? family->names : or_hf_llama_names, suffix, length, choice);
    if (module == NULL) {
        return false;
    }
    const char *number = strchr(module, '#');
    if (number == NULL) {
        snprintf(name, capacity, "%s%u.%s%s", family->layers, tensor->layer, module,
                 suffix + length);
    } else {
        snprintf(name, capacity, "%s%u.%.*s%u%s%s", family->layers, tensor->layer,
                 (int)(number - module), module, tensor->expert, number + 1, suffix + length);
    }
    return true;
}

static bool ends_with(const char *text, const char *end, size_t length)
{
    size_t all = strlen(text);
    return all >= length && memcmp(text + all - length, end, length) == 0;
}

static bool begins_with(const char *text, const char *begin, size_t length)
{
    return strncmp(text, begin, length) == 0;
}

// Is the name like one of a list, between spaces?
static bool is_like_one(const char *list, const char *name,
                        bool (*is_like)(const char *, const char *, size_t))
{
    for (const char *at = list; *at != '\0';) {
        size_t length = strcspn(at, " ");
        if (is_like(name, at, length)) {
            return true;
        }
        at += length + strspn(at + length, " ");
    }
    return false;
}

bool or_hf_is_ignored(const or_hf_family_t *family, const char *name)
{
    return is_like_one(family->ignored, name, ends_with);
}

bool or_hf_is_of_tower(const or_hf_family_t *family, const char *name)
{
    return family->towers != NULL && is_like_one(family->towers, name, begins_with);
}
