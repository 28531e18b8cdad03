#include "launch/model/convert/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log/log.h"

// ---- metadata ----

typedef struct {
    char text[96];
} suffixed_t;

static suffixed_t key_of(const or_hf_config_t *config, const char *suffix)
{
    suffixed_t key;
    snprintf(key.text, sizeof key.text, "%s.%s", config->family->name, suffix);
    return key;
}

or_status_t or_hf_set_u32(const or_hf_config_t *config, or_gguf_writer_t *writer,
                          const char *suffix, uint32_t value)
{
    return or_gguf_writer_set_u32(writer, key_of(config, suffix).text, value);
}

or_status_t or_hf_set_f32(const or_hf_config_t *config, or_gguf_writer_t *writer,
                          const char *suffix, double value)
{
    return or_gguf_writer_set_f32(writer, key_of(config, suffix).text, (float)value);
}

or_status_t or_hf_set_string(const or_hf_config_t *config, or_gguf_writer_t *writer,
                             const char *suffix, const char *value)
{
    return or_gguf_writer_set_string(writer, key_of(config, suffix).text, value);
}

// ---- the family ----

// Two rows may have one name, one of them with experts.
static const or_arch_t *find_arch(const or_hf_family_t *family)
{
    for (const or_arch_t *const *arch = or_architectures; *arch != NULL; arch++) {
        if (strcmp((*arch)->name, family->name) == 0 &&
            (*arch)->has_experts == (family->experts != NULL)) {
            return *arch;
        }
    }
    return NULL;
}

// Find the part of the config that is about the model of text.
static or_status_t find_text(or_json_t json, or_hf_config_t *config)
{
    const char *key = config->family->text_config;
    config->text = json;
    if (key == NULL) {
        return OR_OK;
    }
    return or_json_has(json, key) ? or_json_get_object(json, key, &config->text)
                                  : or_fail(OR_ERR_FORMAT, "%s has no \"%s\"", json.path, key);
}

// Go on to a row with the same architecture whose flag is true.
static or_status_t follow_flags(or_hf_config_t *config)
{
    const or_hf_family_t *first = config->family, *other;
    or_status_t status = OR_OK;
    for (size_t i = 0; status == OR_OK && (other = or_hf_family_at(i)) != NULL; i++) {
        bool holds = false;
        if (other->flag != NULL && strcmp(other->architecture, first->architecture) == 0) {
            status = or_json_get_bool(config->text, other->flag, &holds);
        }
        config->family = holds ? other : config->family;
    }
    return status;
}

static or_status_t find_family(or_json_t json, or_hf_config_t *config)
{
    const json_t *names = json_object_get(json.object, "architectures");
    const char *name = json_string_value(json_array_get(names, 0));
    if (name == NULL || json_array_size(names) != 1) {
        return or_fail(OR_ERR_FORMAT, "%s does not name one architecture (\"architectures\")",
                       json.path);
    }
    or_status_t status = or_fail_context(or_hf_family_find(name, &config->family), "%s", json.path);
    status = status != OR_OK ? status : find_text(json, config);
    status = status != OR_OK ? status : follow_flags(config);
    if (status != OR_OK) {
        return status;
    }
    config->arch = find_arch(config->family);
    if (config->arch == NULL) {
        return or_fail(OR_ERR_UNSUPPORTED, "%s: this version does not run %s", json.path,
                       config->family->name);
    }
    return or_hf_quantised_read(json, config->family, &config->quantised);
}

// ---- rules ----

// Write a value as the rules have it: a text, a number or a flag.
static void describe(const json_t *value, char *text, size_t capacity)
{
    if (json_is_string(value)) {
        snprintf(text, capacity, "%s", json_string_value(value));
    } else if (json_is_boolean(value)) {
        snprintf(text, capacity, "%s", json_is_true(value) ? "true" : "false");
    } else if (json_is_number(value)) {
        snprintf(text, capacity, "%g", json_number_value(value));
    } else if (json_is_array(value) && json_array_size(value) == 0) {
        snprintf(text, capacity, "[]");
    } else {
        snprintf(text, capacity,
                 value == NULL || json_is_null(value) ? "not there" : "an array or object");
    }
}

static bool is_among(const char *word, const char *list)
{
    size_t length = strlen(word);
    for (const char *at = list; *at != '\0'; at += strspn(at, " ")) {
        size_t item = strcspn(at, " ");
        if (item == length && memcmp(at, word, length) == 0) {
            return true;
        }
        at += item;
    }
    return false;
}

static or_status_t check_rules(or_json_t json, const or_hf_family_t *family)
{
    for (const or_hf_rule_t *rule = family->rules; rule->key != NULL; rule++) {
        char text[48];
        if (!or_json_has(json, rule->key) && !rule->needed) {
            continue;
        }
        describe(json_object_get(json.object, rule->key), text, sizeof text);
        if (!is_among(text, rule->allowed)) {
            return or_fail(OR_ERR_UNSUPPORTED, "%s: \"%s\" is %s; for %s this version %s%s",
                           json.path, rule->key, text, family->architecture,
                           rule->allowed[0] != '\0' ? "only knows " : "knows none", rule->allowed);
        }
    }
    return OR_OK;
}

// ---- the shape ----

or_status_t or_hf_read_count(or_json_t json, const char *key, uint32_t max, uint32_t *value)
{
    or_status_t status = or_json_need_u32(json, key, value);
    if (status == OR_OK && (*value == 0 || *value > max)) {
        return or_fail(OR_ERR_FORMAT, "%s: \"%s\" is %u; it must lie between 1 and %u", json.path,
                       key, *value, max);
    }
    return status;
}

// Read Falcon's heads of K and V, which the config says only of the newer kind.
static or_status_t read_groups(or_json_t json, const or_hf_family_t *family,
                               or_model_shape_t *shape)
{
    bool newer = false, one = true;
    or_status_t status = or_json_get_bool(json, "new_decoder_architecture", &newer);
    status = status != OR_OK ? status : or_json_get_bool(json, "multi_query", &one);
    shape->kv_heads = !newer && one ? 1 : shape->heads;
    return status == OR_OK && newer && or_json_has(json, family->counts->kv_heads)
               ? or_hf_read_count(json, family->counts->kv_heads, shape->heads, &shape->kv_heads)
               : status;
}

static or_status_t read_kv_heads(or_json_t json, const or_hf_family_t *family,
                                 or_model_shape_t *shape)
{
    const char *key = family->counts->kv_heads;
    if (family->groups_heads) {
        return read_groups(json, family, shape);
    }
    shape->kv_heads = shape->heads;
    return key != NULL && (family->needs_kv_heads || or_json_has(json, key))
               ? or_hf_read_count(json, key, shape->heads, &shape->kv_heads)
               : OR_OK;
}

static or_status_t read_heads(or_json_t json, const or_hf_family_t *family, or_model_shape_t *shape)
{
    or_status_t status = read_kv_heads(json, family, shape);
    bool says = or_json_has(json, "head_dim");
    if (status == OR_OK && says) {
        status = or_hf_read_count(json, "head_dim", OR_HF_DIM_MAX, &shape->head_dim);
    } else {
        shape->head_dim = family->head_dim > 0 ? family->head_dim : shape->width / shape->heads;
    }
    if (status == OR_OK &&
        (shape->head_dim == 0 || shape->heads > OR_HF_DIM_MAX / shape->head_dim ||
         shape->heads % shape->kv_heads != 0 ||
         (!says && family->head_dim == 0 && shape->width % shape->heads != 0))) {
        return or_fail(OR_ERR_FORMAT,
                       "%s: a width of %u, %u heads and %u of K and V do not divide evenly",
                       json.path, shape->width, shape->heads, shape->kv_heads);
    }
    return status;
}

// ---- heads of latent attention, which GGUF has as one head of K and V ----

// Queries are made of h where the config says null; without the key transformers takes a number.
static or_status_t read_query_latent(or_json_t json, uint32_t *value)
{
    static const char key[] = "q_lora_rank";
    return json_is_null(json_object_get(json.object, key))
               ? OR_OK
               : or_hf_read_count(json, key, OR_HF_DIM_MAX, value);
}

static or_status_t check_latent_heads(or_json_t json, const or_model_shape_t *shape)
{
    uint32_t theirs = shape->heads;
    or_status_t status = or_json_get_u32(json, "num_key_value_heads", &theirs);
    return status == OR_OK && theirs != shape->heads
               ? or_fail(OR_ERR_UNSUPPORTED,
                         "%s: \"num_key_value_heads\" is %u; this version only knows as many as "
                         "heads, %u, where attention is latent",
                         json.path, theirs, shape->heads)
               : status;
}

static or_status_t read_latent(or_json_t json, or_hf_config_t *config)
{
    or_model_shape_t *shape = &config->shape;
    uint32_t plain = 0, rotated = 0;
    const struct {
        const char *key;
        uint32_t *value;
    } counts[] = {{"kv_lora_rank", &shape->latent},
                  {"qk_nope_head_dim", &plain},
                  {"qk_rope_head_dim", &rotated},
                  {"v_head_dim", &shape->value_dim}};
    or_status_t status = check_latent_heads(json, shape);
    for (size_t i = 0; status == OR_OK && i < sizeof counts / sizeof *counts; i++) {
        status = or_hf_read_count(json, counts[i].key, OR_HF_HEAD_DIM_MAX, counts[i].value);
    }
    status = status != OR_OK ? status : read_query_latent(json, &shape->query_latent);
    shape->kv_heads = 1;
    shape->head_dim = shape->latent + rotated;
    shape->query_dim = plain + rotated;
    if (status == OR_OK && (plain > shape->latent || shape->value_dim > shape->head_dim ||
                            shape->heads > OR_HF_DIM_MAX / shape->head_dim)) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "%s: %u heads of %u and %u elements are made of %u; this version only makes "
                       "shorter ones",
                       json.path, shape->heads, plain, shape->value_dim, shape->latent);
    }
    return status;
}

// ---- all counts ----

static or_status_t read_shape(or_json_t json, or_hf_config_t *config)
{
    const or_hf_family_t *family = config->family;
    const or_hf_counts_t *keys = family->counts;
    or_model_shape_t *shape = &config->shape;
    const struct {
        const char *key;
        uint32_t max, *value;
    } counts[] = {
        {keys->layers, OR_HF_LAYERS_MAX, &shape->layers},
        {keys->width, OR_HF_DIM_MAX, &shape->width},
        {keys->heads, OR_HF_DIM_MAX, &shape->heads},
        {"vocab_size", OR_HF_DIM_MAX, &shape->vocab_size},
    };
    snprintf(shape->architecture, sizeof shape->architecture, "%s", config->family->name);
    or_status_t status = OR_OK;
    for (size_t i = 0; status == OR_OK && i < sizeof counts / sizeof *counts; i++) {
        status = or_hf_read_count(json, counts[i].key, counts[i].max, counts[i].value);
    }
    shape->context = family->context;
    if (status == OR_OK && (family->context == 0 || or_json_has(json, keys->context))) {
        status = or_hf_read_count(json, keys->context, UINT32_MAX, &shape->context);
    }
    if (status != OR_OK) {
        return status;
    }
    const char *ffn = family->experts != NULL ? family->experts->ffn : keys->ffn;
    shape->ffn = 4 * shape->width;
    if (!family->may_lack_ffn || or_json_has(json, ffn)) {
        status = or_hf_read_count(json, ffn, OR_HF_DIM_MAX, &shape->ffn);
    }
    status = status != OR_OK ? status : or_hf_experts_read(json, config);
    status = status != OR_OK      ? status
             : family->has_latent ? read_latent(json, config)
                                  : read_heads(json, family, shape);
    return status != OR_OK ? status : or_hf_heads_read(json, config);
}

static or_status_t write_latent(const or_hf_config_t *config, or_gguf_writer_t *writer)
{
    const or_model_shape_t *shape = &config->shape;
    or_status_t status = or_hf_set_u32(config, writer, "attention.kv_lora_rank", shape->latent);
    status = status != OR_OK
                 ? status
                 : or_hf_set_u32(config, writer, "attention.key_length_mla", shape->query_dim);
    status = status != OR_OK
                 ? status
                 : or_hf_set_u32(config, writer, "attention.value_length_mla", shape->value_dim);
    return status != OR_OK || shape->query_latent == 0
               ? status
               : or_hf_set_u32(config, writer, "attention.q_lora_rank", shape->query_latent);
}

static or_status_t write_shape(or_json_t json, const or_hf_config_t *config,
                               or_gguf_writer_t *writer)
{
    const or_model_shape_t *shape = &config->shape;
    const uint32_t values = shape->latent > 0 ? shape->latent : shape->head_dim;
    const struct {
        const char *suffix;
        uint32_t value;
    } counts[] = {
        {"context_length", shape->context},           {"block_count", shape->layers},
        {"embedding_length", shape->width},           {"attention.head_count", shape->heads},
        {"attention.head_count_kv", shape->kv_heads}, {"attention.key_length", shape->head_dim},
        {"attention.value_length", values},           {"vocab_size", shape->vocab_size},
    };
    or_status_t status = OR_OK;
    for (size_t i = 0; status == OR_OK && i < sizeof counts / sizeof *counts; i++) {
        status = or_hf_set_u32(config, writer, counts[i].suffix, counts[i].value);
    }
    status = status != OR_OK ? status : or_hf_experts_write(json, config, writer);
    status = status != OR_OK ? status : or_hf_heads_write(config, writer);
    return status != OR_OK || !config->family->has_latent ? status : write_latent(config, writer);
}

// ---- numbers ----

static or_status_t write_numbers(or_json_t json, const or_hf_config_t *config,
                                 or_gguf_writer_t *writer)
{
    or_status_t status = OR_OK;
    const or_hf_number_t *number = config->family->numbers;
    for (; status == OR_OK && number->suffix != NULL; number++) {
        double value = number->usual;
        if (number->theirs != NULL && (value == 0 || or_json_has(json, number->theirs))) {
            status = or_json_need_number(json, number->theirs, &value);
        }
        status = status != OR_OK ? status : or_hf_set_f32(config, writer, number->suffix, value);
    }
    return status;
}

// The scale of scores, where it is not what the engine takes for this shape anyway.
static or_status_t write_scale(or_json_t json, const or_hf_config_t *config,
                               or_gguf_writer_t *writer)
{
    const or_model_shape_t *shape = &config->shape;
    double scalar = 0;
    if (!config->family->scales_by_scalar) {
        return OR_OK;
    }
    or_status_t status = or_json_need_number(json, "query_pre_attn_scalar", &scalar);
    if (status == OR_OK && !(scalar > 0)) {
        return or_fail(OR_ERR_FORMAT, "%s: \"query_pre_attn_scalar\" is not positive", json.path);
    }
    bool by_width = shape->layers == config->arch->layers_scaled_by_width;
    double usual = by_width ? (double)shape->width / shape->heads : (double)shape->head_dim;
    return status != OR_OK || scalar == usual
               ? status
               : or_hf_set_f32(config, writer, "attention.scale", 1 / sqrt(scalar));
}

// ---- all of it ----

or_status_t or_hf_config_read(or_json_t json, or_gguf_writer_t *writer, or_hf_config_t *config)
{
    *config = (or_hf_config_t){0};
    or_status_t status = find_family(json, config);
    if (status != OR_OK) {
        return status;
    }
    const or_json_t root = json;
    json = config->text;
    config->is_tied = config->family->is_tied;
    status = check_rules(json, config->family);
    status =
        status != OR_OK ? status : or_json_get_bool(root, "tie_word_embeddings", &config->is_tied);
    status = status != OR_OK ? status : read_shape(json, config);
    status = status != OR_OK
                 ? status
                 : or_gguf_writer_set_string(writer, "general.architecture", config->family->name);
    status = status != OR_OK ? status : or_hf_layers_read(json, writer, config);
    status = status != OR_OK ? status : write_shape(json, config, writer);
    status = status != OR_OK ? status : write_numbers(json, config, writer);
    status = status != OR_OK ? status : write_scale(json, config, writer);
    return status != OR_OK ? status : or_hf_rope_read(json, writer, config);
}

void or_hf_config_fini(or_hf_config_t *config)
{
    for (size_t i = 0; i < OR_ROPE_TENSORS_MAX; i++) {
        free(config->ropes[i].values);
    }
    *config = (or_hf_config_t){0};
}
