// The families that there are.
#include "common/model/arch/families/families.h"

const or_arch_t *const or_architectures[] = {
    &or_arch_llama,     &or_arch_llama_experts, &or_arch_qwen2,
    &or_arch_qwen3,     &or_arch_phi3,          &or_arch_gemma,
    &or_arch_gemma2,    &or_arch_gemma3,        &or_arch_gemma4,
    &or_arch_olmo2,     &or_arch_granite,       &or_arch_smollm3,
    &or_arch_glm4,      &or_arch_starcoder2,    &or_arch_gpt2,
    &or_arch_exaone4,   &or_arch_command_r,     &or_arch_cohere2,
    &or_arch_falcon,    &or_arch_opt,           &or_arch_mistral3,
    &or_arch_qwen2moe,  &or_arch_qwen3moe,      &or_arch_olmoe,
    &or_arch_glm4moe,   &or_arch_ernie4_5,      &or_arch_gpt_oss,
    &or_arch_deepseek2, &or_arch_phimoe,        NULL,
};
