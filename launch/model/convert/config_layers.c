// Layers that differ: which of them have a window, and which are not rotated.
#include <stdio.h>

#include "common/base/log/log.h"
#include "launch/model/convert/config.h"

// ---- windows ----

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
    if (json_object_get(json.object, "sliding_window") == NULL) {
        windows->length = config->family->window;
    }
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

static or_status_t write_pattern(const or_hf_config_t *config, or_gguf_writer_t *writer)
{
    const or_arch_numbers_t numbers = {.window = config->window};
    const uint32_t layers = config->shape.layers;
    bool flags[OR_HF_LAYERS_MAX];
    char key[96];
    for (uint32_t i = 0; i < layers; i++) {
        flags[i] = or_arch_window(config->arch, &config->shape, &numbers, i) > 0;
    }
    snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", config->family->name);
    return or_gguf_writer_set_array(writer, key, OR_GGUF_BOOL, flags, layers);
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
        same = same && theirs == (or_arch_window(config->arch, &config->shape, &one, i) > 0);
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
    if (!same) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "%s: other layers have windows than this version gives them in %s",
                       json.path, config->family->name);
    }
    config->window = windows.length;
    status = or_hf_set_u32(config, writer, "attention.sliding_window", windows.length);
    return status == OR_OK && config->family->lists_windows ? write_pattern(config, writer)
                                                            : status;
}

// ---- rotations ----

// Does the config have this layer rotated? It lists layers, or has an interval of which the last is not rotated, or
// rotates those that have a window.
static bool is_rotated(or_json_t json, const or_hf_config_t *config, const windows_t *windows,
                       uint32_t interval, uint32_t layer)
{
    static const char list[] = "no_rope_layers";
    if (config->family->rotates_windows) {
        bool all =
            config->arch->rotates_all_without_windows && !or_json_has(json, "sliding_window");
        return all || has_window(windows, layer);
    }
    const json_t *entry = json_array_get(json_object_get(json.object, list), layer);
    return or_json_has(json, list) ? json_integer_value(entry) != 0
                                   : interval == 0 || (layer + 1) % interval != 0;
}

// Check that the layers without rotations are the ones that the engine does not rotate.
static or_status_t check_unrotated(or_json_t json, const or_hf_config_t *config)
{
    static const char list[] = "no_rope_layers";
    const or_arch_numbers_t numbers = {.window = config->window};
    const or_arch_t *arch = config->arch;
    uint32_t interval = arch->rope_period;
    windows_t windows;
    or_status_t status = or_json_get_u32(json, "no_rope_layer_interval", &interval);
    status = status != OR_OK ? status : read_windows(json, config, &windows);
    if (status != OR_OK || arch->rope_period == 0) {
        return status;
    }
    status = or_json_has(json, list) ? check_length(json, list, config->shape.layers) : OR_OK;
    for (uint32_t i = 0; status == OR_OK && i < config->shape.layers; i++) {
        bool theirs = is_rotated(json, config, &windows, interval, i);
        if (theirs != (or_arch_rope(arch, &config->shape, &numbers, i) != OR_ROPE_NONE)) {
            return or_fail(OR_ERR_UNSUPPORTED,
                           "%s: layer %u is %srotated, which this version does otherwise in %s",
                           json.path, i, theirs ? "" : "not ", config->family->name);
        }
    }
    return status;
}

or_status_t or_hf_layers_read(or_json_t json, or_gguf_writer_t *writer, or_hf_config_t *config)
{
    or_status_t status = write_windows(json, config, writer);
    return status != OR_OK ? status : check_unrotated(json, config);
}
