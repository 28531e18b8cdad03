// names - the tables of names that families.c's rows refer to. Each ends with a zeroed row.
#pragma once

#include "launch/model/convert/families/families.h"

extern const or_hf_name_t or_hf_llama_names[]; // which the others change in part
extern const or_hf_name_t or_hf_no_names[], or_hf_fused_names[], or_hf_gemma2_names[],
    or_hf_gemma4_names[], or_hf_olmo2_names[], or_hf_glm4_names[], or_hf_starcoder2_names[],
    or_hf_gpt2_names[], or_hf_falcon_names[], or_hf_opt_names[], or_hf_mixtral_names[],
    or_hf_glm4moe_names[], or_hf_deepseek_names[], or_hf_gpt_oss_names[];
