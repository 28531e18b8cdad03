// Heads of layers with a window and of those without, where they differ (Gemma 4). "head_dim" and "num_key_value_heads" are those
// of layers with a window. transformers has written the others in two forms: "global_head_dim" and
// "num_global_key_value_heads", and, today, as what some layers change, "per_layer_config", by their numbers.
//
// In smaller models the last layers attend to K and V of earlier ones, and layers have inputs of their own.
#include <stdio.h>

#include "launch/model/convert/config.h"

// transformers' defaults
#define WHOLE_HEAD_DIM 512u
#define LAYER_INPUT 256u
#define INPUT_VOCABULARY 262144u

static or_status_t check(or_json_t json, const or_model_shape_t *shape, or_kv_heads_t heads)
{
    return heads.head_dim > 0 && heads.head_dim <= OR_HF_HEAD_DIM_MAX && heads.head_dim % 2 == 0 &&
                   heads.kv_heads > 0 && shape->heads % heads.kv_heads == 0
               ? OR_OK
               : or_fail(OR_ERR_FORMAT,
                         "%s: %u heads of Q and %u of K and V, of %u elements, make no attention",
                         json.path, shape->heads, heads.kv_heads, heads.head_dim);
}

static or_status_t read_windows(or_json_t json, or_model_shape_t *shape)
{
    const json_t *kinds = json_object_get(json.object, "layer_types");
    if (json_array_size(kinds) != shape->layers) {
        return or_fail(OR_ERR_FORMAT, "%s: \"layer_types\" does not list %u layers", json.path,
                       shape->layers);
    }
    for (uint32_t i = 0; i < shape->layers; i++) {
        const uint64_t has = or_json_is(json_array_get(kinds, i), "sliding_attention");
        shape->windowed[i / 64] |= has << i % 64;
    }
    return OR_OK;
}

// The older form, in which layers without a window have other heads of K and V only where V is K.
static or_status_t read_whole(or_json_t json, or_kv_heads_t *heads)
{
    bool shares = false;
    heads->head_dim = WHOLE_HEAD_DIM;
    or_status_t status = or_json_get_u32(json, "global_head_dim", &heads->head_dim);
    status = status != OR_OK ? status : or_json_get_bool(json, "attention_k_eq_v", &shares);
    return status != OR_OK || !shares
               ? status
               : or_json_get_u32(json, "num_global_key_value_heads", &heads->kv_heads);
}

static or_status_t read_layer(or_json_t each, uint32_t layer, or_kv_heads_t *heads)
{
    char number[16];
    or_json_t own;
    snprintf(number, sizeof number, "%u", layer);
    or_status_t status = or_json_get_object(each, number, &own);
    status = status != OR_OK ? status : or_json_get_u32(own, "head_dim", &heads->head_dim);
    return status != OR_OK ? status : or_json_get_u32(own, "num_key_value_heads", &heads->kv_heads);
}

// Layers of one kind must have the same heads: those with a window, the config's own.
static or_status_t read_each(or_json_t json, or_json_t each, const or_model_shape_t *shape,
                             or_kv_heads_t *whole)
{
    const or_kv_heads_t usual = *whole;
    bool found = false;
    for (uint32_t i = 0; i < shape->layers; i++) {
        or_kv_heads_t heads = usual;
        or_status_t status = read_layer(each, i, &heads);
        if (status != OR_OK) {
            return status;
        }
        const bool windowed = or_arch_is_windowed(shape, i);
        const or_kv_heads_t expected = windowed || !found ? usual : *whole;
        const bool same =
            heads.head_dim == expected.head_dim && heads.kv_heads == expected.kv_heads;
        if (!same && (windowed || found)) {
            return or_fail(OR_ERR_UNSUPPORTED,
                           "%s: \"per_layer_config\" gives layer %u other heads than another of "
                           "its kind, which this version does not run",
                           json.path, i);
        }
        found = found || !windowed;
        *whole = windowed ? *whole : heads;
    }
    return OR_OK;
}

// ---- what smaller models have besides ----

static or_status_t read_shared(or_json_t json, or_model_shape_t *shape)
{
    bool doubles = false, lacks = false;
    or_status_t status = or_json_get_u32(json, "num_kv_shared_layers", &shape->shared_kv_layers);
    status = status != OR_OK ? status : or_json_get_bool(json, "use_double_wide_mlp", &doubles);
    const uint32_t shared = shape->shared_kv_layers;
    for (uint32_t i = shape->layers - shared; status == OR_OK && i < shape->layers; i++) {
        lacks = lacks || or_arch_kv_layer(shape, i) == i;
    }
    shape->shared_kv_ffn = shared == 0 ? 0 : doubles ? 2 * shape->ffn : shape->ffn;
    return status == OR_OK && (shared >= shape->layers || lacks)
               ? or_fail(OR_ERR_FORMAT,
                         "%s: \"num_kv_shared_layers\" is %u, which leaves layers without K and V",
                         json.path, shared)
               : status;
}

static or_status_t read_inputs(or_json_t json, or_model_shape_t *shape)
{
    uint32_t vocabulary = INPUT_VOCABULARY;
    shape->layer_input = LAYER_INPUT;
    or_status_t status = or_json_get_u32(json, "hidden_size_per_layer_input", &shape->layer_input);
    status =
        status != OR_OK ? status : or_json_get_u32(json, "vocab_size_per_layer_input", &vocabulary);
    if (status == OR_OK && shape->layer_input > OR_HF_DIM_MAX / shape->layers) {
        return or_fail(OR_ERR_FORMAT,
                       "%s: \"hidden_size_per_layer_input\" is %u, too many for %u layers",
                       json.path, shape->layer_input, shape->layers);
    }
    return status == OR_OK && shape->layer_input > 0 && vocabulary != shape->vocab_size
               ? or_fail(
                     OR_ERR_UNSUPPORTED,
                     "%s: \"vocab_size_per_layer_input\" is %u; this version only knows as many "
                     "as there are tokens, %u",
                     json.path, vocabulary, shape->vocab_size)
               : status;
}

or_status_t or_hf_heads_read(or_json_t json, or_hf_config_t *config)
{
    or_model_shape_t *shape = &config->shape;
    or_kv_heads_t whole = {shape->kv_heads, shape->head_dim};
    or_json_t each;
    if (!config->arch->tells_layers) {
        return OR_OK;
    }
    shape->window_kv_heads = shape->kv_heads;
    shape->window_head_dim = shape->head_dim;
    or_status_t status = read_windows(json, shape);
    status = status != OR_OK ? status : or_json_get_object(json, "per_layer_config", &each);
    status = status != OR_OK       ? status
             : each.object != NULL ? read_each(json, each, shape, &whole)
                                   : read_whole(json, &whole);
    status = status != OR_OK ? status : check(json, shape, whole);
    shape->kv_heads = whole.kv_heads;
    shape->head_dim = shape->query_dim = shape->value_dim = whole.head_dim;
    status = status != OR_OK ? status : read_shared(json, shape);
    return status != OR_OK ? status : read_inputs(json, shape);
}

// Write a number of each layer.
static or_status_t set_each(const or_hf_config_t *config, or_gguf_writer_t *writer,
                            const char *suffix, const int32_t *numbers)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", config->family->name, suffix);
    return or_gguf_writer_set_array(writer, key, OR_GGUF_I32, numbers, config->shape.layers);
}

or_status_t or_hf_heads_write(const or_hf_config_t *config, or_gguf_writer_t *writer)
{
    const or_model_shape_t *shape = &config->shape;
    const struct {
        const char *suffix;
        uint32_t value;
    } numbers[] = {
        {"attention.key_length_swa", shape->window_head_dim},
        {"attention.value_length_swa", shape->window_head_dim},
        {"rope.dimension_count_swa", shape->window_head_dim},
        {"embedding_length_per_layer_input", shape->layer_input},
        {"attention.shared_kv_layers", shape->shared_kv_layers},
    };
    int32_t kv_heads[OR_HF_LAYERS_MAX], ffn[OR_HF_LAYERS_MAX];
    if (!config->arch->tells_layers) {
        return OR_OK;
    }
    for (uint32_t i = 0; i < shape->layers; i++) {
        const or_model_shape_t own = or_arch_layer_shape(shape, i);
        kv_heads[i] = (int32_t)own.kv_heads;
        ffn[i] = (int32_t)own.ffn;
    }
    or_status_t status = set_each(config, writer, "attention.head_count_kv", kv_heads);
    if (status == OR_OK && shape->shared_kv_layers > 0 && shape->experts == 0) {
        status = set_each(config, writer, "feed_forward_length", ffn);
    }
    for (size_t i = 0; status == OR_OK && i < sizeof numbers / sizeof *numbers; i++) {
        status = or_hf_set_u32(config, writer, numbers[i].suffix, numbers[i].value);
    }
    return status;
}
