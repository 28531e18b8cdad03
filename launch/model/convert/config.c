#include "launch/model/convert/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log/log.h"

#define LAYERS_MAX 1024u
#define DIM_MAX (1u << 20)

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

static or_status_t find_family(or_json_t json, or_hf_config_t *config)
{
    const json_t *names = json_object_get(json.object, "architectures");
    const char *name = json_string_value(json_array_get(names, 0));
    if (name == NULL || json_array_size(names) != 1) {
        return or_fail(OR_ERR_FORMAT, "%s does not name one architecture (\"architectures\")",
                       json.path);
    }
    or_status_t status = or_fail_context(or_hf_family_find(name, &config->family), "%s", json.path);
    if (status != OR_OK) {
        return status;
    }
    config->arch = or_arch_named(config->family->name);
    if (config->arch == NULL) {
        return or_fail(OR_ERR_UNSUPPORTED, "%s: this version does not run %s", json.path,
                       config->family->name);
    }
    return or_json_has(json, "quantization_config")
               ? or_fail(OR_ERR_UNSUPPORTED,
                         "%s: the weights are quantised (\"quantization_config\"); take the "
                         "checkpoint they were made of, and --type",
                         json.path)
               : OR_OK;
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
    } else {
        snprintf(text, capacity, "an array or object");
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
        if (!or_json_has(json, rule->key)) {
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

static or_status_t read_count(or_json_t json, const char *key, uint32_t max, uint32_t *value)
{
    or_status_t status = or_json_need_u32(json, key, value);
    if (status == OR_OK && (*value == 0 || *value > max)) {
        return or_fail(OR_ERR_FORMAT, "%s: \"%s\" is %u; it must lie between 1 and %u", json.path,
                       key, *value, max);
    }
    return status;
}

static or_status_t read_heads(or_json_t json, const or_hf_family_t *family, or_model_shape_t *shape)
{
    const char *key = family->counts->kv_heads;
    or_status_t status = OR_OK;
    shape->kv_heads = shape->heads;
    if (key != NULL && (family->needs_kv_heads || or_json_has(json, key))) {
        status = read_count(json, key, shape->heads, &shape->kv_heads);
    }
    bool says = or_json_has(json, "head_dim");
    if (status == OR_OK && says) {
        status = read_count(json, "head_dim", DIM_MAX, &shape->head_dim);
    } else {
        shape->head_dim = family->head_dim > 0 ? family->head_dim : shape->width / shape->heads;
    }
    if (status == OR_OK && (shape->head_dim == 0 || shape->heads > DIM_MAX / shape->head_dim ||
                            shape->heads % shape->kv_heads != 0 ||
                            (!says && family->head_dim == 0 && shape->width % shape->heads != 0))) {
        return or_fail(OR_ERR_FORMAT,
                       "%s: a width of %u, %u heads and %u of K and V do not divide evenly",
                       json.path, shape->width, shape->heads, shape->kv_heads);
    }
    return status;
}

static or_status_t read_shape(or_json_t json, or_hf_config_t *config)
{
    const or_hf_counts_t *keys = config->family->counts;
    or_model_shape_t *shape = &config->shape;
    const struct {
        const char *key;
        uint32_t max, *value;
    } counts[] = {
        {keys->context, UINT32_MAX, &shape->context}, {keys->layers, LAYERS_MAX, &shape->layers},
        {keys->width, DIM_MAX, &shape->width},        {keys->heads, DIM_MAX, &shape->heads},
        {"vocab_size", DIM_MAX, &shape->vocab_size},
    };
    snprintf(shape->architecture, sizeof shape->architecture, "%s", config->family->name);
    or_status_t status = OR_OK;
    for (size_t i = 0; status == OR_OK && i < sizeof counts / sizeof *counts; i++) {
        status = read_count(json, counts[i].key, counts[i].max, counts[i].value);
    }
    if (status != OR_OK) {
        return status;
    }
    // GPT-2's is four times the width where the config does not say.
    shape->ffn = 4 * shape->width;
    if (config->family->has_inputs_first && !or_json_has(json, keys->ffn)) {
        status = OR_OK;
    } else {
        status = read_count(json, keys->ffn, DIM_MAX, &shape->ffn);
    }
    return status != OR_OK ? status : read_heads(json, config->family, shape);
}

static or_status_t write_shape(const or_hf_config_t *config, or_gguf_writer_t *writer)
{
    const or_model_shape_t *shape = &config->shape;
    const struct {
        const char *suffix;
        uint32_t value;
    } counts[] = {
        {"context_length", shape->context},        {"block_count", shape->layers},
        {"embedding_length", shape->width},        {"feed_forward_length", shape->ffn},
        {"attention.head_count", shape->heads},    {"attention.head_count_kv", shape->kv_heads},
        {"attention.key_length", shape->head_dim}, {"attention.value_length", shape->head_dim},
        {"vocab_size", shape->vocab_size},
    };
    or_status_t status = OR_OK;
    for (size_t i = 0; status == OR_OK && i < sizeof counts / sizeof *counts; i++) {
        status = or_hf_set_u32(config, writer, counts[i].suffix, counts[i].value);
    }
    return status;
}

// ---- numbers ----

static or_status_t write_numbers(or_json_t json, const or_hf_config_t *config,
                                 or_gguf_writer_t *writer)
{
    or_status_t status = OR_OK;
    const or_hf_number_t *number = config->family->numbers;
    for (; status == OR_OK && number->theirs != NULL; number++) {
        double value = 0;
        status = or_json_need_number(json, number->theirs, &value);
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

// ---- layers that differ ----

// Check that an entry of an array for each layer is there.
static or_status_t check_length(or_json_t json, const char *key, uint32_t layers)
{
    return json_array_size(json_object_get(json.object, key)) == layers
               ? OR_OK
               : or_fail(OR_ERR_FORMAT, "%s: \"%s\" does not list %u layers", json.path, key,
                         layers);
}

typedef struct {
    const json_t *kinds; // of the layers; NULL: the config does not say
    uint32_t length;     // 0: no layer has a window
    uint32_t first;      // the first layer that may have one
    uint32_t period;     // of so many the last has none; 0: all have one
} windows_t;

static or_status_t read_windows(or_json_t json, const or_hf_config_t *config, windows_t *windows)
{
    bool used = !config->family->windows_from_layer;
    *windows = (windows_t){.period = config->arch->window_period};
    or_status_t status = or_json_get_bool(json, "use_sliding_window", &used);
    status = status != OR_OK ? status : or_json_get_u32(json, "sliding_window", &windows->length);
    if (status == OR_OK && used && config->family->windows_from_layer) {
        status = or_json_need_u32(json, "max_window_layers", &windows->first);
    }
    if (status == OR_OK && windows->period > 0) {
        status = or_json_get_u32(json, "sliding_window_pattern", &windows->period);
    }
    windows->length = used ? windows->length : 0;
    if (status == OR_OK && or_json_has(json, "layer_types")) {
        windows->kinds = json_object_get(json.object, "layer_types");
        status = check_length(json, "layer_types", config->shape.layers);
    }
    return status;
}

static bool has_window(const windows_t *windows, uint32_t layer)
{
    if (windows->kinds != NULL) {
        return or_json_is(json_array_get(windows->kinds, layer), "sliding_attention");
    }
    return windows->length > 0 && layer >= windows->first &&
           (windows->period == 0 || (layer + 1) % windows->period != 0);
}

// Check the kinds of layers: those with and without windows, and nothing else.
static or_status_t check_kinds(or_json_t json, const windows_t *windows, uint32_t layers)
{
    for (uint32_t i = 0; windows->kinds != NULL && i < layers; i++) {
        const json_t *kind = json_array_get(windows->kinds, i);
        if (!or_json_is(kind, "full_attention") &&
            !(or_json_is(kind, "sliding_attention") && windows->length > 0)) {
            return or_fail(OR_ERR_UNSUPPORTED,
                           "%s: layer %u is of a kind that this version does not know "
                           "(\"layer_types\", with \"sliding_window\")",
                           json.path, i);
        }
    }
    return OR_OK;
}

// Within a window's length of text it hides nothing, so a context that is cut there computes the same.
static or_status_t cut_context(or_json_t json, uint32_t window, or_hf_config_t *config)
{
    if (window < config->shape.context) {
        or_log(OR_LOG_WARN,
               "%s: attention reaches back %u positions (\"sliding_window\"), which %s has no "
               "metadata for: the context becomes %u instead of %u",
               json.path, window, config->family->name, window, config->shape.context);
        config->shape.context = window;
    }
    return OR_OK;
}

static or_status_t write_windows(or_json_t json, or_hf_config_t *config, or_gguf_writer_t *writer)
{
    const or_arch_numbers_t one = {.window = 1};
    windows_t windows;
    or_status_t status = read_windows(json, config, &windows);
    status = status != OR_OK ? status : check_kinds(json, &windows, config->shape.layers);
    bool any = false, same = true;
    for (uint32_t i = 0; status == OR_OK && i < config->shape.layers; i++) {
        bool theirs = has_window(&windows, i);
        any = any || theirs;
        same = same && theirs == (or_arch_window(config->arch, &one, i) > 0);
    }
    if (status != OR_OK || (!any && !config->arch->has_window)) {
        return status;
    }
    if (!any) { // readers take a file that does not say it for one with the family's usual window
        return or_hf_set_u32(config, writer, "attention.sliding_window", 0);
    }
    if (!config->arch->has_window) {
        return cut_context(json, windows.length, config);
    }
    return same ? or_hf_set_u32(config, writer, "attention.sliding_window", windows.length)
                : or_fail(OR_ERR_UNSUPPORTED,
                          "%s: other layers have windows than this version gives them in %s",
                          json.path, config->family->name);
}

// Check that the layers without rotations are the ones that the engine does not rotate.
static or_status_t check_unrotated(or_json_t json, const or_hf_config_t *config)
{
    static const char list[] = "no_rope_layers";
    const or_arch_numbers_t without_windows = {0};
    const or_arch_t *arch = config->arch;
    uint32_t interval = arch->rope_period;
    or_status_t status = or_json_get_u32(json, "no_rope_layer_interval", &interval);
    bool listed = or_json_has(json, list);
    if (arch->rope_period == 0) {
        return OR_OK;
    }
    status = status == OR_OK && listed ? check_length(json, list, config->shape.layers) : status;
    for (uint32_t i = 0; status == OR_OK && i < config->shape.layers; i++) {
        const json_t *entry = json_array_get(json_object_get(json.object, list), i);
        bool theirs =
            listed ? json_integer_value(entry) != 0 : interval == 0 || (i + 1) % interval != 0;
        if (theirs != (or_arch_rope(arch, &without_windows, i) != OR_ROPE_NONE)) {
            return or_fail(OR_ERR_UNSUPPORTED,
                           "%s: layer %u is %srotated, which this version does otherwise in %s",
                           json.path, i, theirs ? "" : "not ", config->family->name);
        }
    }
    return status;
}

// ---- all of it ----

or_status_t or_hf_config_read(or_json_t json, or_gguf_writer_t *writer, or_hf_config_t *config)
{
    *config = (or_hf_config_t){0};
    or_status_t status = find_family(json, config);
    if (status != OR_OK) {
        return status;
    }
    config->is_tied = config->family->is_tied;
    status = check_rules(json, config->family);
    status =
        status != OR_OK ? status : or_json_get_bool(json, "tie_word_embeddings", &config->is_tied);
    status = status != OR_OK ? status : read_shape(json, config);
    status = status != OR_OK
                 ? status
                 : or_gguf_writer_set_string(writer, "general.architecture", config->family->name);
    status = status != OR_OK ? status : write_windows(json, config, writer);
    status = status != OR_OK ? status : check_unrotated(json, config);
    status = status != OR_OK ? status : write_shape(config, writer);
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
