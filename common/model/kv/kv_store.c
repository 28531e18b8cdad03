#include "common/model/kv/kv_store.h"

#include <math.h>
#include <string.h>

#define QUANT_MAX 127.0f

static const struct {
    const char *name;
    size_t number_bytes;
} types[] = {
    [OR_KV_F32] = {"f32", sizeof(float)},
    [OR_KV_F16] = {"f16", sizeof(uint16_t)},
    [OR_KV_Q8_0] = {"q8_0", sizeof(int8_t)},
};

#define TYPES (sizeof types / sizeof types[0])

const char *or_kv_type_name(or_kv_type_t type)
{
    return (size_t)type < TYPES ? types[type].name : NULL;
}

or_status_t or_kv_type_parse(const char *name, or_kv_type_t *type)
{
    for (size_t i = 0; i < TYPES; i++) {
        if (strcmp(name, types[i].name) == 0) {
            *type = (or_kv_type_t)i;
            return OR_OK;
        }
    }
    return or_fail(OR_ERR_INVALID, "there is no KV cache type \"%s\"; there are f32, f16 and q8_0",
                   name);
}

// ---- where a vector lies ----

// Of a vector.
static size_t scales_of(or_kv_type_t type, uint32_t head_dim)
{
    return type == OR_KV_Q8_0 ? ((size_t)head_dim + OR_QUANT_BLOCK - 1) / OR_QUANT_BLOCK : 0;
}

size_t or_kv_vector_bytes(or_kv_type_t type, uint32_t head_dim)
{
    return scales_of(type, head_dim) * sizeof(uint16_t) + head_dim * types[type].number_bytes;
}

// What begins at `at`: the scales of `vectors` vectors, then their numbers.
static or_kv_vector_t view(or_kv_type_t type, uint32_t head_dim, void *at, size_t vectors)
{
    uint16_t *scales = at;
    uint8_t *numbers = (uint8_t *)(scales + vectors * scales_of(type, head_dim));
    return (or_kv_vector_t){type, head_dim, numbers, 1, scales, 1};
}

or_kv_vector_t or_kv_slot_vector(or_kv_type_t type, uint32_t head_dim, void *at)
{
    return view(type, head_dim, at, 1);
}

or_kv_vector_t or_kv_key_vector(or_kv_type_t type, uint32_t head_dim, void *at, uint32_t lane)
{
    or_kv_vector_t vector = view(type, head_dim, at, OR_KV_PAGE);
    vector.numbers += lane * types[type].number_bytes;
    vector.scales += lane;
    vector.step = OR_KV_PAGE;
    vector.scale_step = OR_KV_PAGE;
    return vector;
}

or_kv_vector_t or_kv_value_vector(or_kv_type_t type, uint32_t head_dim, void *at, uint32_t lane)
{
    or_kv_vector_t vector = view(type, head_dim, at, OR_KV_PAGE);
    vector.numbers += lane * (size_t)head_dim * types[type].number_bytes;
    vector.scales += lane * scales_of(type, head_dim);
    return vector;
}

// ---- writing, copying, reading ----

static float *floats_of(const or_kv_vector_t *vector)
{
    return (float *)(void *)vector->numbers;
}

static uint16_t *halves_of(const or_kv_vector_t *vector)
{
    return (uint16_t *)(void *)vector->numbers;
}

static int8_t *quants_of(const or_kv_vector_t *vector)
{
    return (int8_t *)vector->numbers;
}

// The largest amount of `count` numbers; a NaN counts as the largest of all.
static float largest_amount(const float *x, uint32_t count)
{
    float largest = 0;
    for (uint32_t i = 0; i < count; i++) {
        float amount = fabsf(x[i]);
        largest = amount > largest || isnan(amount) ? amount : largest;
    }
    return largest;
}

static int8_t quantize(float x, float scale)
{
    float nearest = rintf(x / scale);
    nearest = nearest > -QUANT_MAX ? nearest : -QUANT_MAX; // a NaN too
    return (int8_t)(nearest < QUANT_MAX ? nearest : QUANT_MAX);
}

static void write_quants(const or_kv_vector_t *to, const float *x)
{
    int8_t *quants = quants_of(to);
    for (uint32_t d = 0; d < to->head_dim; d += OR_QUANT_BLOCK) {
        uint32_t rest = to->head_dim - d;
        uint32_t count = rest < OR_QUANT_BLOCK ? rest : OR_QUANT_BLOCK;
        uint16_t half = or_f32_to_f16(largest_amount(x + d, count) / QUANT_MAX);
        float scale = or_f16_to_f32(half);
        to->scales[d / OR_QUANT_BLOCK * to->scale_step] = half;
        for (uint32_t i = d; i < d + count; i++) {
            quants[i * to->step] = scale == 0.0f ? 0 : quantize(x[i], scale);
        }
    }
}

void or_kv_vector_write(const or_kv_vector_t *to, const float *x)
{
    switch (to->type) {
    case OR_KV_F32:
        for (uint32_t d = 0; d < to->head_dim; d++) {
            floats_of(to)[d * to->step] = x[d];
        }
        break;
    case OR_KV_F16:
        for (uint32_t d = 0; d < to->head_dim; d++) {
            halves_of(to)[d * to->step] = or_f32_to_f16(x[d]);
        }
        break;
    case OR_KV_Q8_0:
        write_quants(to, x);
        break;
    }
}

void or_kv_vector_copy(const or_kv_vector_t *from, const or_kv_vector_t *to)
{
    for (size_t b = 0; b < scales_of(from->type, from->head_dim); b++) {
        to->scales[b * to->scale_step] = from->scales[b * from->scale_step];
    }
    for (uint32_t d = 0; d < from->head_dim; d++) {
        switch (from->type) {
        case OR_KV_F32:
            floats_of(to)[d * to->step] = floats_of(from)[d * from->step];
            break;
        case OR_KV_F16:
            halves_of(to)[d * to->step] = halves_of(from)[d * from->step];
            break;
        case OR_KV_Q8_0:
            quants_of(to)[d * to->step] = quants_of(from)[d * from->step];
            break;
        }
    }
}

static float read_number(const or_kv_vector_t *from, uint32_t d)
{
    size_t at = d * from->step;
    if (from->type == OR_KV_F32) {
        return floats_of(from)[at];
    }
    if (from->type == OR_KV_F16) {
        return or_f16_to_f32(halves_of(from)[at]);
    }
    float scale = or_f16_to_f32(from->scales[d / OR_QUANT_BLOCK * from->scale_step]);
    return scale * (float)quants_of(from)[at];
}

void or_kv_vector_read(const or_kv_vector_t *from, float *x)
{
    for (uint32_t d = 0; d < from->head_dim; d++) {
        x[d] = read_number(from, d);
    }
}

// ---- decoding for attention ----

// `vectors` vectors one after the other: a slot's, or a V block's.
static void decode_vectors(const or_kernels_t *kernels, or_kv_type_t type, uint32_t head_dim,
                           const void *at, uint32_t vectors, float *out)
{
    size_t count = (size_t)vectors * head_dim;
    if (type == OR_KV_F32) {
        memcpy(out, at, count * sizeof *out);
    } else if (type == OR_KV_F16) {
        kernels->widen_f16(at, count, out);
    } else {
        size_t blocks = scales_of(type, head_dim);
        const uint16_t *scales = at;
        const int8_t *quants = (const int8_t *)(scales + vectors * blocks);
        for (size_t v = 0; v < vectors; v++) {
            kernels->widen_q8_0(scales + v * blocks, quants + v * head_dim, head_dim,
                                out + v * head_dim);
        }
    }
}

void or_kv_decode_slot(const or_kernels_t *kernels, or_kv_type_t type, uint32_t head_dim,
                       const void *at, float *out)
{
    decode_vectors(kernels, type, head_dim, at, 1, out);
}

void or_kv_decode_values(const or_kernels_t *kernels, or_kv_type_t type, uint32_t head_dim,
                         const void *at, float *out)
{
    decode_vectors(kernels, type, head_dim, at, OR_KV_PAGE, out);
}

void or_kv_decode_keys(const or_kernels_t *kernels, or_kv_type_t type, uint32_t head_dim,
                       const void *at, float *out)
{
    if (type != OR_KV_Q8_0) {
        decode_vectors(kernels, type, head_dim, at, OR_KV_PAGE, out);
        return;
    }
    const uint16_t *scales = at;
    size_t count = OR_KV_PAGE * scales_of(type, head_dim);
    kernels->widen_q8_0_keys(scales, (const int8_t *)(scales + count), head_dim, out);
}
