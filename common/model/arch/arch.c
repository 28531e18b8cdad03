#include "common/model/arch/arch_keys.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/gguf/packed.h"

#define CONTEXT_MAX (1u << 20) // positions; angles stay in or_sin_cos's range

// ---- metadata ----

or_metadata_key_t or_arch_key(const or_arch_t *arch, const char *suffix)
{
    or_metadata_key_t key;
    snprintf(key.text, sizeof key.text, "%s.%s", arch->name, suffix);
    return key;
}

static bool is_text(or_gguf_string_t string, const char *text)
{
    return string.length == strlen(text) && memcmp(string.bytes, text, string.length) == 0;
}

// Return the first row of this name; NULL if there is none.
static const or_arch_t *arch_named(const char *name)
{
    for (const or_arch_t *const *arch = or_architectures; *arch != NULL; arch++) {
        if (strcmp((*arch)->name, name) == 0) {
            return *arch;
        }
    }
    return NULL;
}

typedef struct {
    char text[512];
} names_t;

// "llama, qwen2 and qwen3"
// A name that two rows have is listed once.
static names_t names_of_all(void)
{
    names_t names = {0};
    for (const or_arch_t *const *arch = or_architectures; *arch != NULL; arch++) {
        if (arch_named((*arch)->name) == *arch) {
            size_t length = strlen(names.text);
            const char *between = arch == or_architectures ? "" : arch[1] != NULL ? ", " : " and ";
            snprintf(names.text + length, sizeof names.text - length, "%s%s", between,
                     (*arch)->name);
        }
    }
    return names;
}

// Does the file say that it has experts?
static bool has_experts(const or_arch_t *arch, const or_gguf_t *gguf)
{
    uint32_t count = 0;
    or_metadata_key_t key = or_arch_key(arch, "expert_count");
    return or_gguf_has(gguf, key.text) && or_gguf_get_u32(gguf, key.text, &count) == OR_OK &&
           count > 0;
}

or_status_t or_arch_find(const or_gguf_t *gguf, const or_arch_t **arch_p)
{
    or_gguf_string_t name;
    or_status_t status = or_gguf_get_string(gguf, "general.architecture", &name);
    if (status != OR_OK) {
        return status;
    }
    const or_arch_t *found = NULL;
    for (const or_arch_t *const *arch = or_architectures; *arch != NULL; arch++) {
        bool is_named = is_text(name, (*arch)->name);
        if (is_named && (found == NULL || (*arch)->has_experts == has_experts(*arch, gguf))) {
            found = *arch;
        }
    }
    if (found != NULL) {
        *arch_p = found;
        return OR_OK;
    }
    if (or_gguf_is_packed(gguf)) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "%s is the packed form of a model: give the model itself, which finds it "
                       "beside it, or is told by --packed",
                       or_gguf_path(gguf));
    }
    return or_fail(OR_ERR_UNSUPPORTED, "%s is of architecture \"%.*s\"; this version runs %s",
                   or_gguf_path(gguf), name.length > 32 ? 32 : (int)name.length, name.bytes,
                   names_of_all().text);
}

or_status_t or_arch_read_count(const or_arch_t *arch, const or_gguf_t *gguf, const char *suffix,
                               uint32_t max, uint32_t *value)
{
    or_metadata_key_t key = or_arch_key(arch, suffix);
    uint32_t number;
    or_status_t status = or_gguf_get_u32(gguf, key.text, &number);
    if (status != OR_OK) {
        return status == OR_ERR_NOT_FOUND
                   ? or_fail(OR_ERR_FORMAT, "%s has no key %s", or_gguf_path(gguf), key.text)
                   : status;
    }
    if (number == 0 || number > max) {
        return or_fail(OR_ERR_FORMAT, "%s of %s is %u; it must lie between 1 and %u", key.text,
                       or_gguf_path(gguf), number, max);
    }
    *value = number;
    return OR_OK;
}

or_status_t or_arch_require(const or_arch_t *arch, const or_gguf_t *gguf, const char *suffix,
                            uint32_t expected)
{
    or_metadata_key_t key = or_arch_key(arch, suffix);
    if (!or_gguf_has(gguf, key.text)) {
        return OR_OK;
    }
    uint32_t number;
    or_status_t status = or_gguf_get_u32(gguf, key.text, &number);
    if (status != OR_OK) {
        return status;
    }
    if (number != expected) {
        return or_fail(OR_ERR_UNSUPPORTED, "%s of %s is %u; this version can only run %u", key.text,
                       or_gguf_path(gguf), number, expected);
    }
    return OR_OK;
}

// A positive number; `fallback` where it is absent, unless that is 0.
static or_status_t read_number(const or_arch_t *arch, const or_gguf_t *gguf, const char *suffix,
                               float fallback, float *value)
{
    or_metadata_key_t key = or_arch_key(arch, suffix);
    float number = fallback;
    if (fallback == 0 || or_gguf_has(gguf, key.text)) {
        or_status_t status = or_gguf_get_f32(gguf, key.text, &number);
        if (status != OR_OK) {
            return status == OR_ERR_NOT_FOUND
                       ? or_fail(OR_ERR_FORMAT, "%s has no key %s", or_gguf_path(gguf), key.text)
                       : status;
        }
    }
    if (!isfinite(number) || number <= 0) {
        return or_fail(OR_ERR_FORMAT, "%s of %s is %g; it must be a positive number", key.text,
                       or_gguf_path(gguf), (double)number);
    }
    *value = number;
    return OR_OK;
}

static bool has_key(const or_arch_t *arch, const or_gguf_t *gguf, const char *suffix)
{
    return or_gguf_has(gguf, or_arch_key(arch, suffix).text);
}

static or_status_t read_numbers(const or_arch_t *arch, const or_gguf_t *gguf,
                                or_arch_numbers_t *numbers)
{
    or_status_t status = OR_OK;
    for (const or_arch_key_t *k = arch->keys; status == OR_OK && k->suffix != NULL; k++) {
        float *value = (float *)((char *)numbers + k->offset);
        if (k->fallback == OR_NO_NUMBER && !has_key(arch, gguf, k->suffix)) {
            *value = 0;
        } else {
            status = read_number(arch, gguf, k->suffix, k->fallback, value);
        }
    }
    return status;
}

// ---- rotations ----

// The kind of scaling. Without a type it is "linear" where a file gives a factor.
static or_status_t read_scaling(const or_arch_t *arch, const or_gguf_t *gguf, or_scaling_t *scaling)
{
    or_metadata_key_t type_key = or_arch_key(arch, "rope.scaling.type");
    or_gguf_string_t type = {"linear", strlen("linear")};
    or_status_t status = or_gguf_optional(or_gguf_get_string(gguf, type_key.text, &type));
    if (status != OR_OK) {
        return status;
    }
    bool has_factors = arch->rope_factors_long != NULL;
    if (is_text(type, "none") || (has_factors && is_text(type, "longrope"))) {
        *scaling = OR_SCALING_NONE; // whatever else is said about scaling then has no effect
    } else if (is_text(type, "linear")) {
        *scaling = OR_SCALING_LINEAR;
    } else if (is_text(type, "yarn")) {
        *scaling = OR_SCALING_YARN;
    } else {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "%s of %s is \"%.*s\"; this version knows none, linear%s", type_key.text,
                       or_gguf_path(gguf), type.length > 32 ? 32 : (int)type.length, type.bytes,
                       has_factors ? ", yarn and longrope" : " and yarn");
    }
    return OR_OK;
}

static or_status_t read_stretch(const or_arch_t *arch, const or_gguf_t *gguf,
                                or_arch_numbers_t *numbers)
{
    numbers->rope_stretch = 1;
    if (numbers->rope_scaling == OR_SCALING_NONE) {
        return OR_OK;
    }
    const char *older = "rope.scale_linear"; // what the factor was called
    const char *key = has_key(arch, gguf, "rope.scaling.factor") ? "rope.scaling.factor" : older;
    return read_number(arch, gguf, key, 1.0f, &numbers->rope_stretch);
}

// The elements that layers with a window rotate: as many as the others, but where their heads are of another size.
static or_status_t read_local_dims(const or_arch_t *arch, const or_gguf_t *gguf,
                                   const or_model_shape_t *shape, or_arch_numbers_t *numbers)
{
    static const char suffix[] = "rope.dimension_count_swa";
    numbers->rope_local_dims = arch->tells_layers ? shape->window_head_dim : numbers->rope_dims;
    return arch->tells_layers && has_key(arch, gguf, suffix)
               ? or_arch_read_count(arch, gguf, suffix, shape->window_head_dim,
                                    &numbers->rope_local_dims)
               : OR_OK;
}

static or_status_t read_rope(const or_arch_t *arch, const or_gguf_t *gguf,
                             const or_model_shape_t *shape, or_arch_numbers_t *numbers)
{
    static const or_arch_key_t keys[] = {
        {"rope.scaling.attn_factor", offsetof(or_arch_numbers_t, rope_attention_factor),
         OR_NO_NUMBER},
        {"rope.scaling.yarn_beta_fast", offsetof(or_arch_numbers_t, yarn_beta_fast), 32},
        {"rope.scaling.yarn_beta_slow", offsetof(or_arch_numbers_t, yarn_beta_slow), 1},
        {"rope.scaling.yarn_log_multiplier", offsetof(or_arch_numbers_t, yarn_log_multiplier),
         OR_NO_NUMBER},
        {0},
    };
    const or_arch_t scaled = {.name = arch->name, .keys = keys};
    numbers->rope_dims = shape->head_dim;
    numbers->rope_original = shape->context;
    or_status_t status = read_scaling(arch, gguf, &numbers->rope_scaling);
    status = status != OR_OK ? status : read_stretch(arch, gguf, numbers);
    status = status != OR_OK ? status : read_numbers(&scaled, gguf, numbers);
    if (status == OR_OK && has_key(arch, gguf, "rope.dimension_count")) {
        status = or_arch_read_count(arch, gguf, "rope.dimension_count", shape->head_dim,
                                    &numbers->rope_dims);
    }
    if (status == OR_OK && has_key(arch, gguf, "rope.scaling.original_context_length")) {
        status = or_arch_read_count(arch, gguf, "rope.scaling.original_context_length", CONTEXT_MAX,
                                    &numbers->rope_original);
    }
    status = status != OR_OK ? status : read_local_dims(arch, gguf, shape, numbers);
    if (status == OR_OK && (numbers->rope_dims % 2 != 0 || numbers->rope_local_dims % 2 != 0)) {
        return or_fail(OR_ERR_FORMAT, "%s rotates %u elements of a head; they must be even",
                       or_gguf_path(gguf),
                       numbers->rope_dims % 2 != 0 ? numbers->rope_dims : numbers->rope_local_dims);
    }
    return status;
}

// ---- what all have ----

static or_status_t read_counts(const or_arch_t *arch, const or_gguf_t *gguf,
                               or_model_shape_t *shape)
{
    const struct {
        const char *suffix;
        uint32_t max;
        uint32_t *value;
    } counts[] = {
        {"context_length", CONTEXT_MAX, &shape->context},
        {"block_count", OR_LAYERS_MAX, &shape->layers},
        {"embedding_length", OR_DIM_MAX, &shape->width},
        {"attention.head_count", OR_DIM_MAX, &shape->heads},
        {arch->ffn_key != NULL ? arch->ffn_key : "feed_forward_length", OR_DIM_MAX, &shape->ffn},
    };
    const size_t count = sizeof counts / sizeof counts[0] - (arch->tells_layers ? 1 : 0);
    for (size_t i = 0; i < count; i++) {
        or_status_t status =
            or_arch_read_count(arch, gguf, counts[i].suffix, counts[i].max, counts[i].value);
        if (status != OR_OK) {
            return status;
        }
    }
    shape->kv_heads = shape->heads;
    return has_key(arch, gguf, "attention.head_count_kv") && !arch->tells_layers
               ? or_arch_read_count(arch, gguf, "attention.head_count_kv", OR_DIM_MAX,
                                    &shape->kv_heads)
               : OR_OK;
}

// The size of a head is the width's part of it, unless the file says another.
static or_status_t read_head_dim(const or_arch_t *arch, const or_gguf_t *gguf,
                                 or_model_shape_t *shape)
{
    if (has_key(arch, gguf, "attention.key_length")) {
        return or_arch_read_count(arch, gguf, "attention.key_length", OR_HEAD_DIM_MAX,
                                  &shape->head_dim);
    }
    if (shape->width % shape->heads != 0) {
        return or_fail(OR_ERR_FORMAT, "%s: a width of %u and %u heads do not divide evenly",
                       or_gguf_path(gguf), shape->width, shape->heads);
    }
    shape->head_dim = shape->width / shape->heads;
    return OR_OK;
}

or_status_t or_arch_check_heads(const or_gguf_t *gguf, uint32_t heads, uint32_t kv_heads,
                                uint32_t head_dim)
{
    if (heads % kv_heads != 0) {
        return or_fail(OR_ERR_FORMAT, "%s: %u heads and %u key-value heads do not divide evenly",
                       or_gguf_path(gguf), heads, kv_heads);
    }
    if (head_dim % 2 != 0 || head_dim > OR_HEAD_DIM_MAX || heads > OR_DIM_MAX / head_dim) {
        return or_fail(OR_ERR_FORMAT,
                       "%s: %u heads of %u dimensions; these must be even and at most %u, and %u "
                       "all together",
                       or_gguf_path(gguf), heads, head_dim, OR_HEAD_DIM_MAX, OR_DIM_MAX);
    }
    return OR_OK;
}

static or_status_t read_heads(const or_arch_t *arch, const or_gguf_t *gguf, or_model_shape_t *shape)
{
    or_status_t status = read_head_dim(arch, gguf, shape);
    status =
        status != OR_OK || !arch->tells_layers ? status : or_arch_read_layers(arch, gguf, shape);
    return status != OR_OK
               ? status
               : or_arch_check_heads(gguf, shape->heads, shape->kv_heads, shape->head_dim);
}

static or_status_t read_vocabulary(const or_arch_t *arch, const or_gguf_t *gguf,
                                   or_model_shape_t *shape)
{
    const or_gguf_tensor_t *embedding = or_gguf_find_tensor(gguf, arch->embedding);
    if (embedding == NULL) {
        return or_fail(OR_ERR_FORMAT, "%s has no tensor %s", or_gguf_path(gguf), arch->embedding);
    }
    if (embedding->dim_count != 2 || embedding->dims[1] == 0 || embedding->dims[1] > OR_DIM_MAX) {
        return or_fail(OR_ERR_FORMAT, "tensor %s of %s is no matrix of 1 to %u tokens",
                       arch->embedding, or_gguf_path(gguf), OR_DIM_MAX);
    }
    uint32_t vocab_size = (uint32_t)embedding->dims[1];
    or_metadata_key_t key = or_arch_key(arch, "vocab_size");
    uint32_t said = vocab_size;
    or_status_t status = or_gguf_optional(or_gguf_get_u32(gguf, key.text, &said));
    if (status != OR_OK) {
        return status;
    }
    if (said != vocab_size) {
        return or_fail(OR_ERR_FORMAT, "%s of %s is %u, but tensor %s has %u tokens", key.text,
                       or_gguf_path(gguf), said, arch->embedding, vocab_size);
    }
    shape->vocab_size = vocab_size;
    return OR_OK;
}

// Rows attend to nothing after them. Models that make embeddings of texts may say otherwise.
static or_status_t require_causal(const or_arch_t *arch, const or_gguf_t *gguf)
{
    or_metadata_key_t key = or_arch_key(arch, "attention.causal");
    bool causal = true;
    or_status_t status = or_gguf_optional(or_gguf_get_bool(gguf, key.text, &causal));
    return status != OR_OK || causal
               ? status
               : or_fail(OR_ERR_UNSUPPORTED,
                         "%s of %s is false: this version can only attend to earlier positions",
                         key.text, or_gguf_path(gguf));
}

// What this version has no operation for. `expected` 0 stands for a count that must not be there.
static or_status_t refuse_others(const or_arch_t *arch, const or_gguf_t *gguf,
                                 const or_model_shape_t *shape)
{
    const struct {
        const char *suffix;
        uint32_t expected;
    } required[] = {
        {"attention.value_length", shape->latent > 0 ? shape->latent : shape->head_dim},
        {"expert_count", shape->experts},
    };
    or_status_t status = require_causal(arch, gguf);
    for (size_t i = 0; status == OR_OK && i < sizeof required / sizeof required[0]; i++) {
        status = or_arch_require(arch, gguf, required[i].suffix, required[i].expected);
    }
    return status;
}

// The scales that follow from the shape.
static void derive_scales(const or_arch_t *arch, const or_model_shape_t *shape,
                          or_arch_numbers_t *numbers)
{
    if (arch->scales_embedding_by_width) {
        numbers->embedding_scale = sqrtf((float)shape->width);
    }
    if (arch->divides_logits) {
        numbers->logit_scale = 1 / numbers->logit_scale;
    }
    if (numbers->attention_scale == 0) {
        bool by_width = shape->layers == arch->layers_scaled_by_width;
        float size = by_width ? (float)shape->width / (float)shape->heads : (float)shape->query_dim;
        numbers->attention_scale = 1.0f / sqrtf(size);
    }
    if (arch->yarn_grows_scores) {
        numbers->attention_scale *= (float)or_arch_score_growth(numbers);
    }
}

or_status_t or_arch_read(const or_arch_t *arch, const or_gguf_t *gguf, or_model_shape_t *shape,
                         or_arch_numbers_t *numbers)
{
    or_model_shape_t s = {0};
    or_arch_numbers_t n = {
        .embedding_scale = 1, .residual_scale = 1, .logit_scale = 1, .expert_scale = 1};
    snprintf(s.architecture, sizeof s.architecture, "%s", arch->name);
    or_status_t status = read_counts(arch, gguf, &s);
    status = status != OR_OK ? status : read_heads(arch, gguf, &s);
    s.query_dim = s.value_dim = s.head_dim;
    status = status != OR_OK || !arch->has_latent ? status : or_arch_read_latent(arch, gguf, &s);
    status = status != OR_OK ? status : read_vocabulary(arch, gguf, &s);
    status = status != OR_OK || !arch->has_experts ? status : or_arch_read_experts(arch, gguf, &s);
    status = status != OR_OK ? status : refuse_others(arch, gguf, &s);
    status = status != OR_OK ? status : read_rope(arch, gguf, &s, &n);
    status = status != OR_OK ? status : read_numbers(arch, gguf, &n);
    status = status != OR_OK ? status : or_arch_read_window(arch, gguf, &s, &n);
    if (status != OR_OK) {
        return status;
    }
    derive_scales(arch, &s, &n);
    for (uint64_t i = 0; i < or_gguf_tensor_count(gguf); i++) {
        s.parameters += or_gguf_tensor(gguf, i)->elements;
    }
    *shape = s;
    *numbers = n;
    return OR_OK;
}
