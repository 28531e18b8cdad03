// Which layers have a window or rotations of their own, and what the file must say about them.
#include <inttypes.h>

#include "common/model/arch/arch_keys.h"

// ---- the family's ----

// Is this layer the last of its period? Without a period none is.
static bool is_last(uint32_t layer, uint32_t period)
{
    return period > 0 && layer % period == period - 1;
}

static bool has_window(const or_arch_t *arch, const or_model_shape_t *shape, uint32_t layer)
{
    return arch->has_window && (arch->tells_layers ? or_arch_is_windowed(shape, layer)
                                                   : !is_last(layer, arch->window_period));
}

uint32_t or_arch_window(const or_arch_t *arch, const or_model_shape_t *shape,
                        const or_arch_numbers_t *numbers, uint32_t layer)
{
    return has_window(arch, shape, layer) ? numbers->window : 0;
}

or_rope_t or_arch_rope(const or_arch_t *arch, const or_model_shape_t *shape,
                       const or_arch_numbers_t *numbers, uint32_t layer)
{
    bool has_period = numbers->window > 0 || !arch->rotates_all_without_windows;
    if (has_period && is_last(layer, arch->rope_period)) {
        return OR_ROPE_NONE;
    }
    return arch->has_local_rope && has_window(arch, shape, layer) ? OR_ROPE_LOCAL : arch->rope;
}

// ---- the file's ----

static or_status_t read_window(const or_arch_t *arch, const or_gguf_t *gguf,
                               or_arch_numbers_t *numbers)
{
    uint32_t window;
    or_metadata_key_t key = or_arch_key(arch, "attention.sliding_window");
    numbers->window = arch->window_usual;
    if (!arch->has_window || !or_gguf_has(gguf, key.text)) {
        return OR_OK;
    }
    or_status_t status = or_gguf_get_u32(gguf, key.text, &window);
    if (status == OR_OK) {
        numbers->window = window;
    }
    return status;
}

// Does the file's pattern say that the layer has a window? It is a flag for each layer, or a period of which the last layer
// has none.
typedef struct {
    or_gguf_array_t flags; // none: `period` says it
    uint32_t period;       // 0: all layers have a window
} window_pattern_t;

static bool pattern_has_window(const window_pattern_t *pattern, uint32_t layer)
{
    return pattern->flags.count > 0 ? ((const uint8_t *)pattern->flags.data)[layer] != 0
                                    : !is_last(layer, pattern->period);
}

// Which layers have a window follows from the family: a file that says otherwise is another model.
static or_status_t check_window_pattern(const or_arch_t *arch, const or_gguf_t *gguf,
                                        const or_model_shape_t *shape)
{
    or_metadata_key_t key = or_arch_key(arch, "attention.sliding_window_pattern");
    window_pattern_t pattern = {0};
    if (arch->tells_layers || !or_gguf_has(gguf, key.text)) {
        return OR_OK;
    }
    or_status_t status = or_gguf_get_array(gguf, key.text, OR_GGUF_BOOL, &pattern.flags);
    if (status == OR_OK && pattern.flags.count != shape->layers) {
        return or_fail(OR_ERR_FORMAT, "%s of %s is for %" PRIu64 " layers of %u", key.text,
                       or_gguf_path(gguf), pattern.flags.count, shape->layers);
    }
    status = status == OR_OK ? OR_OK : or_gguf_get_u32(gguf, key.text, &pattern.period);
    for (uint32_t i = 0; status == OR_OK && i < shape->layers; i++) {
        bool has = pattern_has_window(&pattern, i);
        if (has != has_window(arch, shape, i)) {
            return or_fail(OR_ERR_UNSUPPORTED,
                           "%s of %s gives layer %u %s window, unlike this version's %s graph",
                           key.text, or_gguf_path(gguf), i, has ? "a" : "no", arch->name);
        }
    }
    return status;
}

// Layers with a window may be rotated by another base than the others. Only some families have a table for that.
static or_status_t require_one_base(const or_arch_t *arch, const or_gguf_t *gguf,
                                    const or_arch_numbers_t *numbers)
{
    or_metadata_key_t key = or_arch_key(arch, "rope.freq_base_swa");
    float base = numbers->rope_base;
    bool is_asked = arch->has_window && !arch->has_local_rope && or_gguf_has(gguf, key.text);
    or_status_t status = is_asked ? or_gguf_get_f32(gguf, key.text, &base) : OR_OK;
    return status != OR_OK || base == numbers->rope_base
               ? status
               : or_fail(OR_ERR_UNSUPPORTED,
                         "%s of %s is %g; this version's %s graph rotates all layers by %g",
                         key.text, or_gguf_path(gguf), (double)base, arch->name,
                         (double)numbers->rope_base);
}

or_status_t or_arch_read_window(const or_arch_t *arch, const or_gguf_t *gguf,
                                or_model_shape_t *shape, or_arch_numbers_t *numbers)
{
    or_status_t status = read_window(arch, gguf, numbers);
    status = status != OR_OK ? status : check_window_pattern(arch, gguf, shape);
    for (uint32_t i = 0; status == OR_OK && i < shape->layers; i++) {
        shape->window_layers += or_arch_window(arch, shape, numbers, i) > 0;
    }
    shape->window = shape->window_layers > 0 ? numbers->window : 0;
    return status != OR_OK ? status : require_one_base(arch, gguf, numbers);
}
