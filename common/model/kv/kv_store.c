#include "common/model/kv/kv_store.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/model/kv/kv_cache_internal.h"

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

// The number of scales of a vector.
static size_t scales_of(or_kv_type_t type, uint32_t head_dim)
{
    return type == OR_KV_Q8_0 ? or_kv_scales(head_dim) : 0;
}

size_t or_kv_vector_bytes(or_kv_type_t type, uint32_t head_dim)
{
    return scales_of(type, head_dim) * sizeof(uint16_t) + head_dim * types[type].number_bytes;
}

// ---- sizes ----

// Return a * b, or UINT64_MAX if that overflows.
static uint64_t multiply(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

uint64_t or_kv_page_bytes_of(const or_kv_shape_t *shape, uint32_t layer)
{
    const or_kv_heads_t heads = or_kv_heads_of(shape, layer);
    uint64_t bytes = or_kv_vector_bytes(shape->key_type, heads.head_dim) +
                     or_kv_vector_bytes(shape->value_type, heads.head_dim);
    return multiply(bytes * OR_KV_PAGE, heads.kv_heads);
}

static uint64_t slot_bytes_of(const or_kv_shape_t *shape, uint32_t layer)
{
    const or_kv_heads_t heads = or_kv_heads_of(shape, layer);
    uint64_t bytes = or_kv_slot_vector_bytes(shape->key_type, heads.head_dim) +
                     or_kv_slot_vector_bytes(shape->value_type, heads.head_dim);
    return multiply(bytes, heads.kv_heads);
}

// Add up the bytes of all layers. Those that are alike are not walked: there may be as many as a caller likes.
static uint64_t all_layers(const or_kv_shape_t *shape,
                           uint64_t (*bytes_of)(const or_kv_shape_t *shape, uint32_t layer))
{
    if (shape->each == NULL) {
        return multiply(bytes_of(shape, 0), shape->layers);
    }
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < shape->layers; i++) {
        bytes += bytes_of(shape, i);
    }
    return bytes;
}

uint64_t or_kv_page_bytes(const or_kv_shape_t *shape)
{
    return all_layers(shape, or_kv_page_bytes_of);
}

uint64_t or_kv_slot_bytes(const or_kv_shape_t *shape)
{
    return all_layers(shape, slot_bytes_of);
}

// A view of the memory at `at`, which holds the scales of `vectors` vectors and then their numbers.
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

// ---- reading and decoding for attention ----

or_kv_block_t or_kv_block_view(or_kv_type_t type, uint32_t head_dim, const void *at,
                               const float *scales)
{
    return (or_kv_block_t){.numbers = (const uint16_t *)at + OR_KV_PAGE * scales_of(type, head_dim),
                           .type = type,
                           .scales = scales};
}

void or_kv_decode_scales(const or_kernels_t *kernels, uint32_t head_dim, const void *at, float *out)
{
    kernels->widen_f16(at, OR_KV_PAGE * or_kv_scales(head_dim), out);
}

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

// ---- pages and slots in this process's memory ----

#define CACHE_LINE ((size_t)64)
#define HUGE_PAGE ((size_t)2 << 20)

// ---- where a vector lies ----

static uint32_t head_dim_of(const or_kv_sequence_t *sequence, uint32_t layer)
{
    return sequence->cache->places[layer].heads.head_dim;
}

static or_kv_vector_t position_key(const or_kv_sequence_t *sequence, uint32_t position,
                                   uint32_t layer, uint32_t head)
{
    void *block = or_kv_page_keys(sequence, position / OR_KV_PAGE, layer, head);
    return or_kv_key_vector(sequence->cache->shape.key_type, head_dim_of(sequence, layer), block,
                            position % OR_KV_PAGE);
}

static or_kv_vector_t position_value(const or_kv_sequence_t *sequence, uint32_t position,
                                     uint32_t layer, uint32_t head)
{
    void *block = or_kv_page_values(sequence, position / OR_KV_PAGE, layer, head);
    return or_kv_value_vector(sequence->cache->shape.value_type, head_dim_of(sequence, layer),
                              block, position % OR_KV_PAGE);
}

static or_kv_vector_t slot_key(const or_kv_sequence_t *sequence, uint32_t slot, uint32_t layer,
                               uint32_t head)
{
    return or_kv_slot_vector(sequence->cache->shape.key_type, head_dim_of(sequence, layer),
                             or_kv_slot_keys(sequence, slot, layer, head));
}

static or_kv_vector_t slot_value(const or_kv_sequence_t *sequence, uint32_t slot, uint32_t layer,
                                 uint32_t head)
{
    return or_kv_slot_vector(sequence->cache->shape.value_type, head_dim_of(sequence, layer),
                             or_kv_slot_values(sequence, slot, layer, head));
}

// ---- written by a pass ----

// ---- or_kv_memory_t ----

// calloc leaves untouched pages to the system, so a long context costs memory only as far as it is used. In huge pages
// it is read faster (docs/benchmarks.md).
static bool take_zeroed(size_t bytes, void **allocation, uint8_t **aligned)
{
    const size_t alignment = bytes >= HUGE_PAGE ? HUGE_PAGE : CACHE_LINE;
    *allocation = calloc(1, bytes + alignment);
    *aligned = (uint8_t *)(((uintptr_t)*allocation + alignment - 1) / alignment * alignment);
    if (*allocation != NULL && bytes >= HUGE_PAGE) {
        madvise(*aligned, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE); // a wish
    }
    return *allocation != NULL;
}

static bool take_pages(or_kv_cache_t *cache)
{
    or_kv_frames_t *frames = cache->frames;
    if (!take_zeroed(cache->pages_max * cache->page_bytes, &cache->allocation, &cache->pages)) {
        return false;
    }
    if (frames != NULL && !take_zeroed(frames->frames_max * frames->frame_bytes,
                                       &frames->allocation, &frames->bytes)) {
        free(cache->allocation);
        return false;
    }
    return true;
}

static void give_pages(or_kv_cache_t *cache)
{
    if (cache->frames != NULL) {
        free(cache->frames->allocation);
    }
    free(cache->allocation);
}

static bool take_slots(or_kv_sequence_t *sequence)
{
    size_t bytes = or_kv_slot_bytes(&sequence->cache->shape);
    sequence->slot_bytes = calloc((size_t)sequence->slots_max + 1, bytes);
    return sequence->slot_bytes != NULL || bytes == 0;
}

static void give_slots(or_kv_sequence_t *sequence)
{
    free(sequence->slot_bytes);
}

static void copy_page(or_kv_cache_t *cache, uint32_t from, uint32_t to)
{
    const or_kv_frames_t *frames = cache->frames;
    memcpy(cache->pages + to * cache->page_bytes, cache->pages + from * cache->page_bytes,
           cache->page_bytes);
    if (frames != NULL) {
        memcpy(frames->bytes + frames->frame_of[to] * frames->frame_bytes,
               frames->bytes + frames->frame_of[from] * frames->frame_bytes, frames->frame_bytes);
    }
}

static void move_slot(or_kv_sequence_t *sequence, uint32_t slot, uint32_t position, uint32_t layer,
                      uint32_t head)
{
    or_kv_vector_t from = slot_key(sequence, slot, layer, head);
    or_kv_vector_t to = position_key(sequence, position, layer, head);
    or_kv_vector_copy(&from, &to);
    from = slot_value(sequence, slot, layer, head);
    to = position_value(sequence, position, layer, head);
    or_kv_vector_copy(&from, &to);
}

static void move_slots(or_kv_sequence_t *sequence, const uint32_t *slots, uint32_t count)
{
    const or_kv_cache_t *cache = sequence->cache;
    for (uint32_t layer = 0; layer < cache->shape.layers; layer++) {
        for (uint32_t head = 0; head < cache->places[layer].heads.kv_heads; head++) {
            for (uint32_t i = 0; i < count; i++) {
                move_slot(sequence, slots[i], sequence->length + i, layer, head);
            }
        }
    }
}

const or_kv_memory_t or_kv_memory_host = {.take_pages = take_pages,
                                          .take_slots = take_slots,
                                          .give_pages = give_pages,
                                          .give_slots = give_slots,
                                          .copy_page = copy_page,
                                          .move_slots = move_slots,
                                          .block = or_kv_block};

// ---- for tests ----

static bool is_kept(const or_kv_sequence_t *sequence, uint32_t position, uint32_t layer)
{
    return !sequence->cache->places[layer].in_frame || position / OR_KV_PAGE >= sequence->kept_from;
}

static void read_head(const or_kv_sequence_t *sequence, uint32_t position, uint32_t layer,
                      uint32_t head, float *key, float *value)
{
    const or_kv_cache_t *cache = sequence->cache;
    const or_kv_place_t *place = &cache->places[layer];
    const uint32_t head_dim = place->heads.head_dim, lane = position % OR_KV_PAGE;
    if (!is_kept(sequence, position, layer)) {
        memset(key, 0, head_dim * sizeof *key);
        memset(value, 0, head_dim * sizeof *value);
        return;
    }
    uint8_t *block =
        cache->memory->block(cache, sequence->pages[position / OR_KV_PAGE], layer, head);
    or_kv_vector_t from = or_kv_key_vector(cache->shape.key_type, head_dim, block, lane);
    or_kv_vector_read(&from, key);
    from = or_kv_value_vector(cache->shape.value_type, head_dim, block + place->key_bytes, lane);
    or_kv_vector_read(&from, value);
}

void or_kv_sequence_read(const or_kv_sequence_t *sequence, uint32_t position, float *keys,
                         float *values)
{
    const or_kv_cache_t *cache = sequence->cache;
    for (uint32_t layer = 0; layer < cache->shape.layers; layer++) {
        const or_kv_heads_t heads = cache->places[layer].heads;
        for (uint32_t head = 0; head < heads.kv_heads; head++) {
            read_head(sequence, position, layer, head, keys, values);
            keys += heads.head_dim;
            values += heads.head_dim;
        }
    }
}

void or_kv_put_position(or_kv_sequence_t *sequence, uint32_t position, uint32_t layer,
                        uint32_t head, const float *key, const float *value)
{
    or_kv_vector_t to = position_key(sequence, position, layer, head);
    or_kv_vector_write(&to, key);
    to = position_value(sequence, position, layer, head);
    or_kv_vector_write(&to, value);
}

void or_kv_put_slot(or_kv_sequence_t *sequence, uint32_t slot, uint32_t layer, uint32_t head,
                    const float *key, const float *value)
{
    or_kv_vector_t to = slot_key(sequence, slot, layer, head);
    or_kv_vector_write(&to, key);
    to = slot_value(sequence, slot, layer, head);
    or_kv_vector_write(&to, value);
}
