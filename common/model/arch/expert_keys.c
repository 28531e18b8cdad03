// The metadata of a family whose FFN is experts.
#include "common/model/arch/arch_keys.h"

#include <string.h>

#define SHARED_FFN_MAX (1u << 20)

// ---- how experts are chosen and weighted ----

static or_status_t refuse(const or_gguf_t *gguf, const char *key, double value, double expected)
{
    return or_fail(OR_ERR_UNSUPPORTED, "%s of %s is %g; this version can only run %g", key,
                   or_gguf_path(gguf), value, expected);
}

// The softmax of the chosen logits alone is, in llama.cpp's counting, a way of its own. It is the same as the softmax of all
// whose weights are made to add up to 1.
#define SOFTMAX 1u
#define SIGMOID 2u
#define SOFTMAX_OF_CHOSEN 3u

static bool is_other_gating(const or_arch_t *arch, const char *suffix, uint32_t number)
{
    bool same = number == SOFTMAX_OF_CHOSEN && arch->normalises_experts && !arch->gates_by_sigmoid;
    return strcmp(suffix, "expert_gating_func") != 0 || !same;
}

// Numbers that, where the file has them and they are not 0, must be these: all experts of a layer are chosen among.
static or_status_t check_counts(const or_arch_t *arch, const or_gguf_t *gguf)
{
    const struct {
        const char *suffix;
        uint32_t expected;
    } counts[] = {
        {"expert_group_count", 1},
        {"expert_group_used_count", 1},
        {"interleave_moe_layer_step", 1},
        {"moe_every_n_layers", 1},
        {"nextn_predict_layers", 0},
        {"expert_gating_func", arch->gates_by_sigmoid ? SIGMOID : SOFTMAX},
    };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        or_metadata_key_t key = or_arch_key(arch, counts[i].suffix);
        uint32_t number = 0;
        or_status_t status =
            or_gguf_has(gguf, key.text) ? or_gguf_get_u32(gguf, key.text, &number) : OR_OK;
        if (status != OR_OK) {
            return status;
        }
        if (number != 0 && number != counts[i].expected &&
            is_other_gating(arch, counts[i].suffix, number)) {
            return refuse(gguf, key.text, number, counts[i].expected);
        }
    }
    return OR_OK;
}

static bool is_read(const or_arch_t *arch, const char *suffix)
{
    bool read = false;
    for (const or_arch_key_t *key = arch->keys; key->suffix != NULL; key++) {
        read = read || strcmp(key->suffix, suffix) == 0;
    }
    return read;
}

// A scale of weights that no number of the family has, or a bound of queries, keys and values; 0 says that there is none.
static or_status_t check_scales(const or_arch_t *arch, const or_gguf_t *gguf)
{
    static const struct {
        const char *suffix;
        float expected;
    } scales[] = {{"expert_weights_scale", 1}, {"attention.clamp_kqv", 0}};
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        or_metadata_key_t key = or_arch_key(arch, scales[i].suffix);
        if (is_read(arch, scales[i].suffix)) {
            continue;
        }
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
    bool normalises = arch->normalises_experts && !arch->gates_by_sigmoid; // where no key says it
    or_status_t status =
        or_gguf_has(gguf, key.text) ? or_gguf_get_bool(gguf, key.text, &normalises) : OR_OK;
    return status != OR_OK || normalises == arch->normalises_experts
               ? status
               : refuse(gguf, key.text, normalises, arch->normalises_experts);
}

// The size of the expert that all rows take.
static or_status_t read_shared(const or_arch_t *arch, const or_gguf_t *gguf,
                               or_model_shape_t *shape)
{
    if (!arch->has_shared_expert) {
        return OR_OK;
    }
    if (!arch->shares_by_count) {
        return or_arch_read_count(arch, gguf, "expert_shared_feed_forward_length", SHARED_FFN_MAX,
                                  &shape->shared_ffn);
    }
    uint32_t count;
    const uint32_t most = shape->ffn > 0 ? SHARED_FFN_MAX / shape->ffn : 1;
    or_status_t status = or_arch_read_count(arch, gguf, "expert_shared_count", most, &count);
    shape->shared_ffn = status == OR_OK ? count * shape->ffn : 0;
    return status;
}

// The first layers that have no experts, and their size. Without the key all have experts.
static or_status_t read_dense(const or_arch_t *arch, const or_gguf_t *gguf, or_model_shape_t *shape)
{
    or_metadata_key_t key = or_arch_key(arch, "leading_dense_block_count");
    uint32_t layers = 0;
    or_status_t status =
        or_gguf_has(gguf, key.text) ? or_gguf_get_u32(gguf, key.text, &layers) : OR_OK;
    if (status != OR_OK || layers == 0) {
        return status;
    }
    if (!arch->has_dense_layers) {
        return refuse(gguf, key.text, layers, 0);
    }
    if (layers > shape->layers) {
        return or_fail(OR_ERR_FORMAT, "%s of %s is %u, of %u layers", key.text, or_gguf_path(gguf),
                       layers, shape->layers);
    }
    shape->dense_layers = layers;
    return or_arch_read_count(arch, gguf, "feed_forward_length", SHARED_FFN_MAX, &shape->dense_ffn);
}

or_status_t or_arch_read_experts(const or_arch_t *arch, const or_gguf_t *gguf,
                                 or_model_shape_t *shape)
{
    or_status_t status =
        or_arch_read_count(arch, gguf, "expert_count", OR_EXPERTS_MAX, &shape->experts);
    status = status != OR_OK ? status
                             : or_arch_read_count(arch, gguf, "expert_used_count", shape->experts,
                                                  &shape->experts_used);
    status = status != OR_OK ? status : read_shared(arch, gguf, shape);
    status = status != OR_OK ? status : read_dense(arch, gguf, shape);
    status = status != OR_OK ? status : check_counts(arch, gguf);
    status = status != OR_OK ? status : check_scales(arch, gguf);
    return status != OR_OK ? status : check_norm(arch, gguf);
}
