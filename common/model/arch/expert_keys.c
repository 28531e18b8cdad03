// The metadata of a family whose FFN is experts.
#include "common/model/arch/arch_keys.h"

#define SHARED_FFN_MAX (1u << 20)

// ---- how experts are chosen and weighted ----

static or_status_t refuse(const or_gguf_t *gguf, const char *key, double value, double expected)
{
    return or_fail(OR_ERR_UNSUPPORTED, "%s of %s is %g; this version can only run %g", key,
                   or_gguf_path(gguf), value, expected);
}

// Numbers that, where the file has them and they are not 0, must be these: a softmax chooses among all experts of
// every layer.
static or_status_t check_counts(const or_arch_t *arch, const or_gguf_t *gguf)
{
    static const struct {
        const char *suffix;
        uint32_t expected;
    } counts[] = {
        {"expert_gating_func", 1},        {"expert_group_count", 1},
        {"expert_group_used_count", 1},   {"leading_dense_block_count", 0},
        {"interleave_moe_layer_step", 1}, {"moe_every_n_layers", 1},
    };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        or_metadata_key_t key = or_arch_key(arch, counts[i].suffix);
        uint32_t number = 0;
        or_status_t status =
            or_gguf_has(gguf, key.text) ? or_gguf_get_u32(gguf, key.text, &number) : OR_OK;
        if (status != OR_OK) {
            return status;
        }
        if (number != 0 && number != counts[i].expected) {
            return refuse(gguf, key.text, number, counts[i].expected);
        }
    }
    return OR_OK;
}

// A scale of weights, or a bound of queries, keys and values; 0 says that there is none.
static or_status_t check_scales(const or_arch_t *arch, const or_gguf_t *gguf)
{
    static const struct {
        const char *suffix;
        float expected;
    } scales[] = {{"expert_weights_scale", 1}, {"attention.clamp_kqv", 0}};
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        or_metadata_key_t key = or_arch_key(arch, scales[i].suffix);
        float scale = 0;
        or_status_t status =
            or_gguf_has(gguf, key.text) ? or_gguf_get_f32(gguf, key.text, &scale) : OR_OK;
        if (status != OR_OK) {
            return status;
        }
        if (scale != 0 && scale != scales[i].expected) {
            return refuse(gguf, key.text, (double)scale, (double)scales[i].expected);
        }
    }
    return OR_OK;
}

static or_status_t check_norm(const or_arch_t *arch, const or_gguf_t *gguf)
{
    or_metadata_key_t key = or_arch_key(arch, "expert_weights_norm");
    bool normalises = arch->normalises_experts;
    or_status_t status =
        or_gguf_has(gguf, key.text) ? or_gguf_get_bool(gguf, key.text, &normalises) : OR_OK;
    return status != OR_OK || normalises == arch->normalises_experts
               ? status
               : refuse(gguf, key.text, normalises, arch->normalises_experts);
}

or_status_t or_arch_read_experts(const or_arch_t *arch, const or_gguf_t *gguf,
                                 or_model_shape_t *shape)
{
    or_status_t status =
        or_arch_read_count(arch, gguf, "expert_count", OR_EXPERTS_MAX, &shape->experts);
    status = status != OR_OK ? status
                             : or_arch_read_count(arch, gguf, "expert_used_count", shape->experts,
                                                  &shape->experts_used);
    if (status == OR_OK && arch->has_shared_expert) {
        status = or_arch_read_count(arch, gguf, "expert_shared_feed_forward_length", SHARED_FFN_MAX,
                                    &shape->shared_ffn);
    }
    status = status != OR_OK ? status : check_counts(arch, gguf);
    status = status != OR_OK ? status : check_scales(arch, gguf);
    return status != OR_OK ? status : check_norm(arch, gguf);
}
