// The metadata of latent attention. Files say it in two forms: since 2025 with one head of K and V, which every head reads, and
// matrices for each head; before with K and V of all heads, made by one matrix (attn_kv_b). The first is run.
#include <string.h>

#include "common/model/arch/arch_keys.h"

#define LATENT_MAX (1u << 16)

static or_status_t refuse_older_form(const or_arch_t *arch, const or_gguf_t *gguf)
{
    const or_metadata_key_t key = or_arch_key(arch, "attention.key_length_mla");
    return or_gguf_has(gguf, key.text)
               ? OR_OK
               : or_fail(OR_ERR_UNSUPPORTED,
                         "%s has no key %s: its K and V are of the form before 2025 (attn_kv_b), "
                         "which this version does not run; convert the model again",
                         or_gguf_path(gguf), key.text);
}

// Queries and keys of all heads end with as many elements that are rotated.
static or_status_t check_rotated(const or_arch_t *arch, const or_gguf_t *gguf,
                                 const or_model_shape_t *shape)
{
    uint32_t rotated;
    or_status_t status =
        or_arch_read_count(arch, gguf, "rope.dimension_count", shape->head_dim, &rotated);
    if (status == OR_OK && (shape->kv_heads != 1 || shape->latent + rotated != shape->head_dim ||
                            shape->query_dim <= rotated)) {
        return or_fail(OR_ERR_FORMAT,
                       "%s: %u heads of K and V, of %u elements with %u latent and %u rotated "
                       "ones, and queries of %u make no latent attention",
                       or_gguf_path(gguf), shape->kv_heads, shape->head_dim, shape->latent, rotated,
                       shape->query_dim);
    }
    return status;
}

// YaRN grows scores by what the file says of its factor; without that readers differ.
static or_status_t check_yarn(const or_arch_t *arch, const or_gguf_t *gguf)
{
    const or_metadata_key_t type_key = or_arch_key(arch, "rope.scaling.type");
    const or_metadata_key_t key = or_arch_key(arch, "rope.scaling.yarn_log_multiplier");
    or_gguf_string_t type = {"none", strlen("none")};
    or_status_t status = or_gguf_optional(or_gguf_get_string(gguf, type_key.text, &type));
    bool is_yarn = type.length == strlen("yarn") && memcmp(type.bytes, "yarn", type.length) == 0;
    return status != OR_OK || !is_yarn || or_gguf_has(gguf, key.text)
               ? status
               : or_fail(OR_ERR_UNSUPPORTED,
                         "%s scales rotations by YaRN and has no key %s, which this version needs",
                         or_gguf_path(gguf), key.text);
}

// How rotations grow is not in the file apart from how scores do; queries that grow with their position are not run here.
static or_status_t check_growth(const or_arch_t *arch, const or_gguf_t *gguf)
{
    static const struct {
        const char *suffix;
        float expected;
    } numbers[] = {{"rope.scaling.attn_factor", 1}, {"attention.temperature_scale", 0}};
    or_status_t status = OR_OK;
    for (size_t i = 0; status == OR_OK && i < sizeof numbers / sizeof *numbers; i++) {
        const or_metadata_key_t key = or_arch_key(arch, numbers[i].suffix);
        float number = numbers[i].expected;
        status = or_gguf_optional(or_gguf_get_f32(gguf, key.text, &number));
        if (status == OR_OK && number != numbers[i].expected) {
            status =
                or_fail(OR_ERR_UNSUPPORTED, "%s of %s is %g; this version can only run %g",
                        key.text, or_gguf_path(gguf), (double)number, (double)numbers[i].expected);
        }
    }
    return status;
}

or_status_t or_arch_read_latent(const or_arch_t *arch, const or_gguf_t *gguf,
                                or_model_shape_t *shape)
{
    const struct {
        const char *suffix;
        uint32_t max, *value;
    } counts[] = {
        {"attention.kv_lora_rank", shape->head_dim, &shape->latent},
        {"attention.key_length_mla", shape->head_dim, &shape->query_dim},
        {"attention.value_length_mla", shape->head_dim, &shape->value_dim},
        {"attention.q_lora_rank", LATENT_MAX, &shape->query_latent},
    };
    const or_metadata_key_t last = or_arch_key(arch, counts[3].suffix);
    const size_t count = or_gguf_has(gguf, last.text) ? 4 : 3; // a file may lack it
    or_status_t status = refuse_older_form(arch, gguf);
    for (size_t i = 0; status == OR_OK && i < count; i++) {
        status = or_arch_read_count(arch, gguf, counts[i].suffix, counts[i].max, counts[i].value);
    }
    status = status != OR_OK ? status : check_rotated(arch, gguf, shape);
    status = status != OR_OK ? status : check_yarn(arch, gguf);
    return status != OR_OK ? status : check_growth(arch, gguf);
}
