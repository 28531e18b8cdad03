// The metadata of a family whose FFN is experts.
#include "common/model/arch/arch_keys.h"

#include <stdio.h>
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

// Is it a key that read_told reads, in families whose files say how experts are chosen?
static bool is_told(const char *suffix)
{
    return strcmp(suffix, "expert_group_count") == 0 ||
           strcmp(suffix, "expert_group_used_count") == 0 ||
           strcmp(suffix, "expert_gating_func") == 0;
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
        if (arch->tells_routing && is_told(counts[i].suffix)) {
            continue;
        }
        or_status_t status = or_gguf_optional(or_gguf_get_u32(gguf, key.text, &number));
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
        or_status_t status = or_gguf_optional(or_gguf_get_f32(gguf, key.text, &scale));
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
    or_status_t status = or_gguf_optional(or_gguf_get_bool(gguf, key.text, &normalises));
    return status != OR_OK || normalises == arch->normalises_experts
               ? status
               : refuse(gguf, key.text, normalises, arch->normalises_experts);
}

// ---- what some families' files say of it ----

static or_status_t read_optional(const or_arch_t *arch, const or_gguf_t *gguf, const char *suffix,
                                 uint32_t *value)
{
    or_metadata_key_t key = or_arch_key(arch, suffix);
    return or_gguf_optional(or_gguf_get_u32(gguf, key.text, value));
}

// A group is ranked by its two best experts where sigmoids choose, so it has two.
static or_status_t check_groups(const or_arch_t *arch, const or_gguf_t *gguf,
                                const or_model_shape_t *shape)
{
    const uint32_t groups = shape->expert_groups, used = shape->expert_groups_used;
    const uint32_t each = groups > 0 ? shape->experts / groups : shape->experts;
    const uint32_t least = shape->routes_by_sigmoid ? 2 : 1;
    bool fits = groups == 0 ||
                (groups <= OR_EXPERTS_MAX && shape->experts % groups == 0 && used > 0 &&
                 used <= groups && each >= least && (uint64_t)each * used >= shape->experts_used);
    return fits ? OR_OK
                : or_fail(OR_ERR_FORMAT,
                          "%s of %s is %u, and %u of them are used: %u experts, of which a row "
                          "takes %u, cannot be chosen so",
                          or_arch_key(arch, "expert_group_count").text, or_gguf_path(gguf), groups,
                          used, shape->experts, shape->experts_used);
}

static or_status_t read_told(const or_arch_t *arch, const or_gguf_t *gguf, or_model_shape_t *shape)
{
    const or_metadata_key_t norm = or_arch_key(arch, "expert_weights_norm");
    uint32_t gating = SOFTMAX; // of files that do not say
    or_status_t status = read_optional(arch, gguf, "expert_gating_func", &gating);
    status = status != OR_OK
                 ? status
                 : read_optional(arch, gguf, "expert_group_count", &shape->expert_groups);
    status = status != OR_OK
                 ? status
                 : read_optional(arch, gguf, "expert_group_used_count", &shape->expert_groups_used);
    if (status == OR_OK && or_gguf_has(gguf, norm.text)) {
        status = or_gguf_get_bool(gguf, norm.text, &shape->normalises_experts);
    }
    if (status == OR_OK && gating != SOFTMAX && gating != SIGMOID) {
        return or_fail(OR_ERR_UNSUPPORTED, "%s of %s is %u; this version knows %u and %u",
                       or_arch_key(arch, "expert_gating_func").text, or_gguf_path(gguf), gating,
                       SOFTMAX, SIGMOID);
    }
    shape->routes_by_sigmoid = gating == SIGMOID;
    shape->expert_groups = shape->expert_groups > 1 ? shape->expert_groups : 0;
    return status != OR_OK ? status : check_groups(arch, gguf, shape);
}

// What each of two experts is weighted among is defined for two alone.
static or_status_t check_pair(const or_arch_t *arch, const or_gguf_t *gguf,
                              const or_model_shape_t *shape)
{
    return !arch->mixes_sparsely || shape->experts_used == 2
               ? OR_OK
               : refuse(gguf, or_arch_key(arch, "expert_used_count").text, shape->experts_used, 2);
}

static or_status_t read_routing(const or_arch_t *arch, const or_gguf_t *gguf,
                                or_model_shape_t *shape)
{
    shape->routes_by_sigmoid = arch->gates_by_sigmoid;
    shape->normalises_experts = arch->normalises_experts;
    return arch->tells_routing ? read_told(arch, gguf, shape) : check_norm(arch, gguf);
}

// ---- sizes ----

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
    or_status_t status = or_gguf_optional(or_gguf_get_u32(gguf, key.text, &layers));
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

// Does the file have gates and ups of experts in one tensor, as the family's table has one?
static bool fuses(const or_arch_t *arch, const or_gguf_t *gguf)
{
    bool found = false;
    for (const or_arch_tensor_t *t = arch->layer_tensors; t->suffix != NULL; t++) {
        char name[64];
        snprintf(name, sizeof name, "blk.0.%s", t->suffix);
        found = found ||
                (t->layers == OR_WITH_FUSED_EXPERTS && or_gguf_find_tensor(gguf, name) != NULL);
    }
    return found;
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
    status = status != OR_OK ? status : check_pair(arch, gguf, shape);
    shape->fuses_experts = fuses(arch, gguf);
    return status != OR_OK ? status : read_routing(arch, gguf, shape);
}
