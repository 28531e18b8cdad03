// The metadata of layers that differ: which of them have a window, and the heads of those and of the others (Gemma 4).
#include <inttypes.h>
#include <string.h>

#include "common/model/arch/arch_keys.h"

// ---- numbers of each layer ----

// A number of each layer, or one of all.
typedef struct {
    or_gguf_array_t array; // of 32 bits each; none: `all`
    uint32_t all;
} numbers_t;

static uint32_t number_of(const numbers_t *numbers, uint32_t layer)
{
    uint32_t number = numbers->all;
    if (numbers->array.count > 0) {
        memcpy(&number, (const uint8_t *)numbers->array.data + layer * sizeof number,
               sizeof number);
    }
    return number;
}

static or_status_t check_length(const or_gguf_t *gguf, const char *key, uint64_t count,
                                uint32_t layers)
{
    return count == layers ? OR_OK
                           : or_fail(OR_ERR_FORMAT, "%s of %s is for %" PRIu64 " layers of %u", key,
                                     or_gguf_path(gguf), count, layers);
}

static or_status_t read_numbers(const or_arch_t *arch, const or_gguf_t *gguf, const char *suffix,
                                const or_model_shape_t *shape, numbers_t *numbers)
{
    const or_metadata_key_t key = or_arch_key(arch, suffix);
    *numbers = (numbers_t){0};
    if (or_gguf_get_array(gguf, key.text, OR_GGUF_I32, &numbers->array) != OR_OK &&
        or_gguf_get_array(gguf, key.text, OR_GGUF_U32, &numbers->array) != OR_OK) {
        numbers->array.count = 0;
        return or_arch_read_count(arch, gguf, suffix, OR_DIM_MAX, &numbers->all);
    }
    or_status_t status = check_length(gguf, key.text, numbers->array.count, shape->layers);
    for (uint32_t i = 0; status == OR_OK && i < shape->layers; i++) {
        const uint32_t number = number_of(numbers, i);
        if (number == 0 || number > OR_DIM_MAX) {
            return or_fail(OR_ERR_FORMAT,
                           "%s of %s is %d in layer %u; it must lie between 1 and %u", key.text,
                           or_gguf_path(gguf), (int32_t)number, i, OR_DIM_MAX);
        }
    }
    return status;
}

// ---- windows ----

static or_status_t read_pattern(const or_arch_t *arch, const or_gguf_t *gguf,
                                or_model_shape_t *shape)
{
    const or_metadata_key_t key = or_arch_key(arch, "attention.sliding_window_pattern");
    or_gguf_array_t flags;
    or_status_t status = or_gguf_get_array(gguf, key.text, OR_GGUF_BOOL, &flags);
    if (status != OR_OK) {
        return status == OR_ERR_NOT_FOUND
                   ? or_fail(OR_ERR_FORMAT, "%s has no key %s", or_gguf_path(gguf), key.text)
                   : status;
    }
    status = check_length(gguf, key.text, flags.count, shape->layers);
    uint32_t window; // that there is one; windows.c reads it
    status = status != OR_OK
                 ? status
                 : or_arch_read_count(arch, gguf, "attention.sliding_window", UINT32_MAX, &window);
    for (uint32_t i = 0; status == OR_OK && i < shape->layers; i++) {
        const uint64_t has = ((const uint8_t *)flags.data)[i] != 0;
        shape->windowed[i / 64] |= has << i % 64;
    }
    return status;
}

// ---- heads ----

// Layers of one kind have as many heads of K and V. `window_kv_heads` and `kv_heads` are those of both kinds.
static or_status_t read_kv_heads(const or_arch_t *arch, const or_gguf_t *gguf,
                                 or_model_shape_t *shape)
{
    static const char suffix[] = "attention.head_count_kv";
    uint32_t kinds[2] = {0, 0};
    numbers_t numbers;
    or_status_t status = read_numbers(arch, gguf, suffix, shape, &numbers);
    for (uint32_t i = 0; status == OR_OK && i < shape->layers; i++) {
        uint32_t *kind = &kinds[or_arch_is_windowed(shape, i)];
        const uint32_t number = number_of(&numbers, i);
        if (*kind != 0 && *kind != number) {
            return or_fail(OR_ERR_UNSUPPORTED,
                           "%s of %s is %u in layer %u and %u in another of its kind, which this "
                           "version cannot run",
                           or_arch_key(arch, suffix).text, or_gguf_path(gguf), number, i, *kind);
        }
        *kind = number;
    }
    shape->kv_heads = kinds[false] > 0 ? kinds[false] : kinds[true];
    shape->window_kv_heads = kinds[true] > 0 ? kinds[true] : kinds[false];
    return status;
}

static or_status_t read_window_head_dim(const or_arch_t *arch, const or_gguf_t *gguf,
                                        or_model_shape_t *shape)
{
    or_status_t status = or_arch_read_count(arch, gguf, "attention.key_length_swa", OR_HEAD_DIM_MAX,
                                            &shape->window_head_dim);
    status = status != OR_OK ? status
                             : or_arch_require(arch, gguf, "attention.value_length_swa",
                                               shape->window_head_dim);
    return status != OR_OK ? status
                           : or_arch_check_heads(gguf, shape->heads, shape->window_kv_heads,
                                                 shape->window_head_dim);
}

// ---- what smaller models have besides ----

// The last layers that have K and V of their own must be of both kinds.
static or_status_t read_shared(const or_arch_t *arch, const or_gguf_t *gguf,
                               or_model_shape_t *shape)
{
    const or_metadata_key_t key = or_arch_key(arch, "attention.shared_kv_layers");
    uint32_t shared = 0;
    or_status_t status = or_gguf_optional(or_gguf_get_u32(gguf, key.text, &shared));
    shape->shared_kv_layers = shared < shape->layers ? shared : 0;
    for (uint32_t i = shape->layers - shape->shared_kv_layers; i < shape->layers; i++) {
        shared = or_arch_kv_layer(shape, i) == i ? UINT32_MAX : shared; // none is of its kind
    }
    return status != OR_OK || shared == shape->shared_kv_layers
               ? status
               : or_fail(OR_ERR_FORMAT, "%s of %s leaves layers without K and V to attend to",
                         key.text, or_gguf_path(gguf));
}

// Beside experts the FFN, a shared expert, has one size in all layers.
static or_status_t read_shared_ffn(const or_arch_t *arch, const or_gguf_t *gguf,
                                   const numbers_t *numbers, or_model_shape_t *shape)
{
    shape->shared_ffn = number_of(numbers, 0);
    for (uint32_t i = 1; i < shape->layers; i++) {
        if (number_of(numbers, i) != shape->shared_ffn) {
            return or_fail(OR_ERR_UNSUPPORTED,
                           "%s of %s is %u in layer %u and %u in the first, which this version "
                           "cannot run beside experts",
                           or_arch_key(arch, "feed_forward_length").text, or_gguf_path(gguf),
                           number_of(numbers, i), i, shape->shared_ffn);
        }
    }
    or_status_t status = or_arch_read_count(arch, gguf, arch->ffn_key, OR_DIM_MAX, &shape->ffn);
    shape->shared_kv_ffn = shape->ffn;
    return status;
}

// Layers that attend to K and V of others have an FFN of another size.
static or_status_t read_ffn(const or_arch_t *arch, const or_gguf_t *gguf, or_model_shape_t *shape)
{
    static const char suffix[] = "feed_forward_length";
    const uint32_t own = shape->layers - shape->shared_kv_layers;
    numbers_t numbers;
    or_status_t status = read_numbers(arch, gguf, suffix, shape, &numbers);
    if (status != OR_OK || arch->has_experts) {
        return status != OR_OK ? status : read_shared_ffn(arch, gguf, &numbers, shape);
    }
    shape->ffn = number_of(&numbers, 0);
    shape->shared_kv_ffn = own < shape->layers ? number_of(&numbers, own) : 0;
    for (uint32_t i = 0; i < shape->layers; i++) {
        if (number_of(&numbers, i) != (i < own ? shape->ffn : shape->shared_kv_ffn)) {
            return or_fail(OR_ERR_UNSUPPORTED,
                           "%s of %s is %u in layer %u, unlike another of its kind, which this "
                           "version cannot run",
                           or_arch_key(arch, suffix).text, or_gguf_path(gguf),
                           number_of(&numbers, i), i);
        }
    }
    return OR_OK;
}

static or_status_t read_inputs(const or_arch_t *arch, const or_gguf_t *gguf,
                               or_model_shape_t *shape)
{
    const or_metadata_key_t key = or_arch_key(arch, "embedding_length_per_layer_input");
    uint32_t size = 0;
    or_status_t status = or_gguf_optional(or_gguf_get_u32(gguf, key.text, &size));
    shape->layer_input = size;
    return status != OR_OK || size <= OR_DIM_MAX / shape->layers
               ? status
               : or_fail(OR_ERR_FORMAT, "%s of %s is %u; all layers together have at most %u",
                         key.text, or_gguf_path(gguf), size, OR_DIM_MAX);
}

or_status_t or_arch_read_layers(const or_arch_t *arch, const or_gguf_t *gguf,
                                or_model_shape_t *shape)
{
    or_status_t status = read_pattern(arch, gguf, shape);
    status = status != OR_OK ? status : read_kv_heads(arch, gguf, shape);
    status = status != OR_OK ? status : read_window_head_dim(arch, gguf, shape);
    status = status != OR_OK ? status : read_shared(arch, gguf, shape);
    status = status != OR_OK ? status : read_ffn(arch, gguf, shape);
    return status != OR_OK ? status : read_inputs(arch, gguf, shape);
}

uint32_t or_arch_kv_layer(const or_model_shape_t *shape, uint32_t layer)
{
    const uint32_t own = shape->layers - shape->shared_kv_layers;
    for (uint32_t i = own; layer >= own && i-- > 0;) {
        if (or_arch_is_windowed(shape, i) == or_arch_is_windowed(shape, layer)) {
            return i;
        }
    }
    return layer;
}

or_model_shape_t or_arch_layer_shape(const or_model_shape_t *shape, uint32_t layer)
{
    or_model_shape_t own = *shape;
    if (shape->window_head_dim > 0 && or_arch_is_windowed(shape, layer)) {
        own.kv_heads = shape->window_kv_heads;
        own.head_dim = own.query_dim = own.value_dim = shape->window_head_dim;
    }
    if (layer >= shape->layers - shape->shared_kv_layers) {
        own.ffn = shape->shared_kv_ffn;
    }
    return own;
}
