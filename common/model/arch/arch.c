#include "common/model/arch/arch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LAYERS_MAX 1024u
#define HEAD_DIM_MAX 1024u
#define DIM_MAX (1u << 20)     // width, FFN, vocabulary
#define CONTEXT_MAX (1u << 20) // positions; angles stay in or_sin_cos's range

// ---- the architectures ----

// Llama 1 to 3: Llama 3.1 and later scale the frequencies by a table in the file.
static const or_arch_tensor_t llama_tensors[] = {
    {"attn_norm.weight", OR_DIM_WIDTH, OR_DIM_ONE, offsetof(or_layer_t, attention_norm)},
    {"attn_q.weight", OR_DIM_WIDTH, OR_DIM_QUERY, offsetof(or_layer_t, query)},
    {"attn_k.weight", OR_DIM_WIDTH, OR_DIM_KV, offsetof(or_layer_t, key)},
    {"attn_v.weight", OR_DIM_WIDTH, OR_DIM_KV, offsetof(or_layer_t, value)},
    {"attn_output.weight", OR_DIM_QUERY, OR_DIM_WIDTH, offsetof(or_layer_t, output)},
    {"ffn_norm.weight", OR_DIM_WIDTH, OR_DIM_ONE, offsetof(or_layer_t, ffn_norm)},
    {"ffn_gate.weight", OR_DIM_WIDTH, OR_DIM_FFN, offsetof(or_layer_t, gate)},
    {"ffn_up.weight", OR_DIM_WIDTH, OR_DIM_FFN, offsetof(or_layer_t, up)},
    {"ffn_down.weight", OR_DIM_FFN, OR_DIM_WIDTH, offsetof(or_layer_t, down)},
    {0},
};

const or_arch_t or_arch_llama = {
    .name = "llama",
    .embedding = "token_embd.weight",
    .output_norm = "output_norm.weight",
    .head = "output.weight",
    .rope_factors = "rope_freqs.weight",
    .layer_tensors = llama_tensors,
};

// Qwen 2 and 2.5: Llama's graph with biases before the rotation, and pairs that lie half a head
// apart.
static const or_arch_tensor_t qwen2_tensors[] = {
    {"attn_norm.weight", OR_DIM_WIDTH, OR_DIM_ONE, offsetof(or_layer_t, attention_norm)},
    {"attn_q.weight", OR_DIM_WIDTH, OR_DIM_QUERY, offsetof(or_layer_t, query)},
    {"attn_q.bias", OR_DIM_QUERY, OR_DIM_ONE, offsetof(or_layer_t, query_bias)},
    {"attn_k.weight", OR_DIM_WIDTH, OR_DIM_KV, offsetof(or_layer_t, key)},
    {"attn_k.bias", OR_DIM_KV, OR_DIM_ONE, offsetof(or_layer_t, key_bias)},
    {"attn_v.weight", OR_DIM_WIDTH, OR_DIM_KV, offsetof(or_layer_t, value)},
    {"attn_v.bias", OR_DIM_KV, OR_DIM_ONE, offsetof(or_layer_t, value_bias)},
    {"attn_output.weight", OR_DIM_QUERY, OR_DIM_WIDTH, offsetof(or_layer_t, output)},
    {"ffn_norm.weight", OR_DIM_WIDTH, OR_DIM_ONE, offsetof(or_layer_t, ffn_norm)},
    {"ffn_gate.weight", OR_DIM_WIDTH, OR_DIM_FFN, offsetof(or_layer_t, gate)},
    {"ffn_up.weight", OR_DIM_WIDTH, OR_DIM_FFN, offsetof(or_layer_t, up)},
    {"ffn_down.weight", OR_DIM_FFN, OR_DIM_WIDTH, offsetof(or_layer_t, down)},
    {0},
};

const or_arch_t or_arch_qwen2 = {
    .name = "qwen2",
    .embedding = "token_embd.weight",
    .output_norm = "output_norm.weight",
    .head = "output.weight",
    .rope_halves = true,
    .layer_tensors = qwen2_tensors,
};

static const or_arch_t *const architectures[] = {&or_arch_llama, &or_arch_qwen2};

// ---- metadata ----

typedef struct {
    char text[96];
} metadata_key_t;

static metadata_key_t key_of(const or_arch_t *arch, const char *suffix)
{
    metadata_key_t key;
    snprintf(key.text, sizeof key.text, "%s.%s", arch->name, suffix);
    return key;
}

static bool is_text(or_gguf_string_t string, const char *text)
{
    return string.length == strlen(text) && memcmp(string.bytes, text, string.length) == 0;
}

or_status_t or_arch_find(const or_gguf_t *gguf, const or_arch_t **arch_p)
{
    or_gguf_string_t name;
    or_status_t status = or_gguf_get_string(gguf, "general.architecture", &name);
    if (status != OR_OK) {
        return status;
    }
    for (size_t i = 0; i < sizeof architectures / sizeof architectures[0]; i++) {
        if (is_text(name, architectures[i]->name)) {
            *arch_p = architectures[i];
            return OR_OK;
        }
    }
    return or_fail(OR_ERR_UNSUPPORTED,
                   "%s is of architecture \"%.*s\"; this version runs llama and qwen2",
                   or_gguf_path(gguf), name.length > 32 ? 32 : (int)name.length, name.bytes);
}

// A required number within 1 .. max.
static or_status_t read_count(const or_arch_t *arch, const or_gguf_t *gguf, const char *suffix,
                              uint32_t max, uint32_t *value)
{
    metadata_key_t key = key_of(arch, suffix);
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

// A number that, where it is given, must be `expected`, as the graph has no other way.
static or_status_t require(const or_arch_t *arch, const or_gguf_t *gguf, const char *suffix,
                           uint32_t expected)
{
    metadata_key_t key = key_of(arch, suffix);
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
    metadata_key_t key = key_of(arch, suffix);
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

// Scaling is "linear" where a file gives a factor and no type.
static or_status_t read_rope_scaling(const or_arch_t *arch, const or_gguf_t *gguf, float *stretch)
{
    metadata_key_t type_key = key_of(arch, "rope.scaling.type");
    metadata_key_t factor_key = key_of(arch, "rope.scaling.factor");
    or_gguf_string_t type = {"linear", strlen("linear")};
    if (or_gguf_has(gguf, type_key.text)) {
        or_status_t status = or_gguf_get_string(gguf, type_key.text, &type);
        if (status != OR_OK) {
            return status;
        }
    }
    if (is_text(type, "none")) {
        *stretch = 1; // whatever else is said about scaling then has no effect
        return OR_OK;
    }
    if (!is_text(type, "linear")) {
        return or_fail(OR_ERR_UNSUPPORTED,
                       "%s of %s is \"%.*s\"; this version knows none and linear", type_key.text,
                       or_gguf_path(gguf), type.length > 32 ? 32 : (int)type.length, type.bytes);
    }
    const char *older = "rope.scale_linear"; // what the factor was called
    return read_number(arch, gguf,
                       or_gguf_has(gguf, factor_key.text) ? "rope.scaling.factor" : older, 1.0f,
                       stretch);
}

static or_status_t read_counts(const or_arch_t *arch, const or_gguf_t *gguf,
                               or_model_shape_t *shape)
{
    const struct {
        const char *suffix;
        uint32_t max;
        uint32_t *value;
    } counts[] = {
        {"context_length", CONTEXT_MAX, &shape->context},
        {"block_count", LAYERS_MAX, &shape->layers},
        {"embedding_length", DIM_MAX, &shape->width},
        {"feed_forward_length", DIM_MAX, &shape->ffn},
        {"attention.head_count", DIM_MAX, &shape->heads},
    };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        or_status_t status =
            read_count(arch, gguf, counts[i].suffix, counts[i].max, counts[i].value);
        if (status != OR_OK) {
            return status;
        }
    }
    shape->kv_heads = shape->heads;
    metadata_key_t key = key_of(arch, "attention.head_count_kv");
    return or_gguf_has(gguf, key.text)
               ? read_count(arch, gguf, "attention.head_count_kv", DIM_MAX, &shape->kv_heads)
               : OR_OK;
}

static or_status_t check_heads(const or_gguf_t *gguf, or_model_shape_t *shape)
{
    if (shape->width % shape->heads != 0 || shape->heads % shape->kv_heads != 0) {
        return or_fail(OR_ERR_FORMAT,
                       "%s: a width of %u, %u heads and %u key-value heads do not divide evenly",
                       or_gguf_path(gguf), shape->width, shape->heads, shape->kv_heads);
    }
    shape->head_dim = shape->width / shape->heads;
    if (shape->head_dim % 2 != 0 || shape->head_dim > HEAD_DIM_MAX) {
        return or_fail(OR_ERR_FORMAT,
                       "%s: heads of %u dimensions; they must be even and at most %u",
                       or_gguf_path(gguf), shape->head_dim, HEAD_DIM_MAX);
    }
    return OR_OK;
}

static or_status_t read_vocabulary(const or_arch_t *arch, const or_gguf_t *gguf,
                                   or_model_shape_t *shape)
{
    const or_gguf_tensor_t *embedding = or_gguf_find_tensor(gguf, arch->embedding);
    if (embedding == NULL) {
        return or_fail(OR_ERR_FORMAT, "%s has no tensor %s", or_gguf_path(gguf), arch->embedding);
    }
    if (embedding->dim_count != 2 || embedding->dims[1] == 0 || embedding->dims[1] > DIM_MAX) {
        return or_fail(OR_ERR_FORMAT, "tensor %s of %s is no matrix of 1 to %u tokens",
                       arch->embedding, or_gguf_path(gguf), DIM_MAX);
    }
    uint32_t vocab_size = (uint32_t)embedding->dims[1];
    metadata_key_t key = key_of(arch, "vocab_size");
    uint32_t said = vocab_size;
    or_status_t status =
        or_gguf_has(gguf, key.text) ? or_gguf_get_u32(gguf, key.text, &said) : OR_OK;
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

or_status_t or_arch_read(const or_arch_t *arch, const or_gguf_t *gguf, or_model_shape_t *shape,
                         or_arch_numbers_t *numbers)
{
    or_model_shape_t s = {0};
    or_arch_numbers_t n = {0};
    snprintf(s.architecture, sizeof s.architecture, "%s", arch->name);
    or_status_t status = read_counts(arch, gguf, &s);
    status = status != OR_OK ? status : check_heads(gguf, &s);
    status = status != OR_OK ? status : read_vocabulary(arch, gguf, &s);
    const struct {
        const char *suffix;
        uint32_t expected;
    } required[] = {
        {"rope.dimension_count", s.head_dim},
        {"attention.key_length", s.head_dim},
        {"attention.value_length", s.head_dim},
        {"expert_count", 0},
    };
    for (size_t i = 0; status == OR_OK && i < sizeof required / sizeof required[0]; i++) {
        status = require(arch, gguf, required[i].suffix, required[i].expected);
    }
    status = status != OR_OK ? status : read_rope_scaling(arch, gguf, &n.rope_stretch);
    status = status != OR_OK
                 ? status
                 : read_number(arch, gguf, "attention.layer_norm_rms_epsilon", 0, &n.norm_epsilon);
    status = status != OR_OK ? status
                             : read_number(arch, gguf, "rope.freq_base", 10000.0f, &n.rope_base);
    if (status != OR_OK) {
        return status;
    }
    for (uint64_t i = 0; i < or_gguf_tensor_count(gguf); i++) {
        s.parameters += or_gguf_tensor(gguf, i)->elements;
    }
    *shape = s;
    *numbers = n;
    return OR_OK;
}

uint32_t or_arch_dim(const or_model_shape_t *shape, or_dim_t dim)
{
    switch (dim) {
    case OR_DIM_WIDTH:
        return shape->width;
    case OR_DIM_QUERY:
        return shape->heads * shape->head_dim;
    case OR_DIM_KV:
        return shape->kv_heads * shape->head_dim;
    case OR_DIM_FFN:
        return shape->ffn;
    case OR_DIM_ONE:
        break;
    }
    return 1;
}
