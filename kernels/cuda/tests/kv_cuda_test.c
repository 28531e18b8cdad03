// Goal: K and V are kept where cuda_kernels.h draws them, rounded as the CPU rounds them, and nowhere else.
// Method: pages and slots full of random numbers, of which the host has a copy. What is stored or accepted on the device
// is written into the copy as the CPU does it (kv_store.c), which must then be all that the device has.
#include "kernels/cuda/tests/kv_test_support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static uint32_t width_of(const kv_test_cache_t *cache)
{
    return cache->kv.kv_heads * cache->kv.head_dim;
}

static void sizes_are_those_of_the_cpu(void **state)
{
    (void)state;
    static const uint32_t head_dims[] = {64, 128, 20, 6, 33, 1};
    for (uint32_t i = 0; i < KV_TEST_MIXES * COUNT(head_dims); i++) {
        kv_test_types_t types = kv_test_mixes[i % KV_TEST_MIXES];
        uint32_t head_dim = head_dims[i / KV_TEST_MIXES];
        or_kv_shape_t shape = {.layers = 3,
                               .kv_heads = 5,
                               .head_dim = head_dim,
                               .key_type = types.key,
                               .value_type = types.value};
        or_cuda_kv_t kv = kv_test_describe(types, 3, 5, head_dim);
        assert_int_equal(or_cuda_page_bytes(&kv), or_kv_page_bytes(&shape));
        assert_int_equal(or_cuda_slots_bytes(&kv, 7), 7 * or_kv_slot_bytes(&shape));
    }
}

// ---- storing ----

static void store_in_copy(const kv_test_cache_t *cache, const kv_test_rows_t *rows, uint32_t layer,
                          kv_test_side_t side, const float *x, size_t stride)
{
    for (uint32_t r = 0; r < rows->count; r++) {
        const or_cuda_seen_t *seen = &rows->seen[r];
        for (uint32_t head = 0; head < cache->kv.kv_heads && seen->slot != OR_CUDA_SHADOW; head++) {
            uint32_t sequence = rows->sequences[r];
            or_kv_vector_t to =
                seen->slot == UINT32_MAX
                    ? kv_test_in_page(cache, sequence, seen->position, layer, head, side)
                    : kv_test_in_slot(cache, sequence, seen->slot, layer, head, side);
            or_kv_vector_write(&to, x + r * stride + (size_t)head * cache->kv.head_dim);
        }
    }
}

static void check_store(const kv_test_cache_t *cache, const kv_test_rows_t *rows, uint32_t layer,
                        const float *key, const float *value, size_t stride)
{
    size_t bytes = rows->count * stride * sizeof(float);
    float *device_key = cuda_test_upload(test_device, key, bytes);
    float *device_value = cuda_test_upload(test_device, value, bytes);
    store_in_copy(cache, rows, layer, KV_TEST_KEY, key, stride);
    store_in_copy(cache, rows, layer, KV_TEST_VALUE, value, stride);
    const or_cuda_kv_t kv = kv_test_kv_of(cache, layer);
    cuda_test_ok(or_cuda_store_kv(test_device, &kv, layer, rows->device_seen, rows->count,
                                  device_key, device_value, stride));
    kv_test_assert_same(cache);
    or_cuda_free(test_device, device_value);
    or_cuda_free(test_device, device_key);
}

// Rows of both sequences, to as many different positions and slots; some are shadows.
static kv_test_rows_t *rows_create(uint64_t *random, const kv_test_cache_t *cache, uint32_t count)
{
    kv_test_rows_t *rows = kv_test_rows_create();
    uint32_t positions[KV_TEST_SLOTS], slots[KV_TEST_SLOTS];
    kv_test_draw(random, positions, count, cache->context);
    kv_test_draw(random, slots, count, KV_TEST_SLOTS);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t sequence = (uint32_t)test_below(random, KV_TEST_SEQUENCES);
        if (test_below(random, 2) == 0) {
            kv_test_add_prefix_row(rows, cache, sequence, positions[i]);
        } else {
            kv_test_add_tree_row(rows, cache, sequence, cache->context, &slots[i], 1);
        }
        if (test_below(random, 8) == 0) {
            rows->seen[i].slot = OR_CUDA_SHADOW;
        }
    }
    kv_test_rows_upload(rows);
    return rows;
}

static void rows_are_stored(void **state)
{
    (void)state;
    static const uint32_t head_dims[] = {32, 64, 128, 20, 6, 80};
    uint64_t random = test_seed();
    for (uint32_t i = 0; i < 36 * test_runs(1); i++) {
        kv_test_cache_t cache =
            kv_test_cache_create(&random, KIND_PLAIN, kv_test_mixes[i % KV_TEST_MIXES], 1 + i % 3,
                                 head_dims[i % COUNT(head_dims)], 70);
        kv_test_rows_t *rows =
            rows_create(&random, &cache, 1 + (uint32_t)test_below(&random, KV_TEST_SLOTS));
        size_t stride = width_of(&cache) + test_below(&random, 9);
        float *key = test_floats(&random, i % KINDS, rows->count * stride);
        float *value = test_floats(&random, i % KINDS, rows->count * stride);
        check_store(&cache, rows, i % KV_TEST_LAYERS, key, value, stride);
        free(value);
        free(key);
        kv_test_rows_free(rows);
        kv_test_cache_free(&cache);
    }
}

// ---- rounding ----

// Every half; what lies halfway to the next one and beside that; of both signs; and for the rest random bits.
static float *telling_floats(uint64_t *random, size_t count)
{
    float *x = kv_test_allocate(count * sizeof *x);
    size_t n = 0;
    for (uint32_t half = 0; half < 1u << 16; half++) {
        x[n++] = or_f16_to_f32((uint16_t)half);
    }
    for (uint32_t half = 0; half < 0x7C00u; half++) {
        float next = half == 0x7BFFu ? 0x1p16f : or_f16_to_f32((uint16_t)(half + 1));
        float middle = (or_f16_to_f32((uint16_t)half) + next) / 2;
        for (float sign = -1.0f; sign <= 1.0f; sign += 2.0f) {
            x[n++] = sign * middle;
            x[n++] = sign * nextafterf(middle, 0.0f);
            x[n++] = sign * nextafterf(middle, INFINITY);
        }
    }
    assert_true(n <= count);
    for (; n < count; n++) {
        uint32_t bits = (uint32_t)test_random(random);
        memcpy(&x[n], &bits, sizeof bits);
    }
    return x;
}

#define ROUNDED_ROWS 32u
#define ROUNDED_HEADS 16u
#define ROUNDED_DIM 256u

// Each row is stored as the K and V of a slot.
static void check_rounding(uint64_t *random, or_kv_type_t type, const float *key,
                           const float *value)
{
    kv_test_cache_t cache = kv_test_cache_create(random, KIND_PLAIN, (kv_test_types_t){type, type},
                                                 ROUNDED_HEADS, ROUNDED_DIM, 1);
    kv_test_rows_t *rows = kv_test_rows_create();
    for (uint32_t slot = 0; slot < ROUNDED_ROWS; slot++) {
        kv_test_add_tree_row(rows, &cache, 0, 0, &slot, 1);
    }
    kv_test_rows_upload(rows);
    check_store(&cache, rows, 0, key, value, width_of(&cache));
    kv_test_rows_free(rows);
    kv_test_cache_free(&cache);
}

static void halves_are_rounded_as_on_the_cpu(void **state)
{
    (void)state;
    const size_t count = (size_t)ROUNDED_ROWS * ROUNDED_HEADS * ROUNDED_DIM;
    uint64_t random = test_seed();
    float *x = telling_floats(&random, 2 * count);
    check_rounding(&random, OR_KV_F16, x, x + count);
    free(x);
}

// A block whose scale is near 2^exponent, or infinite, or 0, and whose numbers are near the middle between two of its
// multiples: exactly there where the scale is that power.
static void fill_block(uint64_t *random, float *x, int exponent)
{
    float unit = ldexpf(1.0f, exponent);
    for (uint32_t i = 0; i < OR_QUANT_BLOCK; i++) {
        float middle = ((float)test_below(random, 254) - 126.5f) * unit;
        float towards = (float)test_below(random, 3) - 1.0f; // 0 leaves it
        x[i] = towards == 0.0f ? middle : nextafterf(middle, towards * INFINITY);
    }
    float largest = 127.0f * unit;
    float beside = test_below(random, 2) == 0 ? INFINITY : 0.0f;
    x[test_below(random, OR_QUANT_BLOCK)] =
        test_below(random, 2) == 0 ? largest : -nextafterf(largest, beside);
}

static void quants_are_rounded_as_on_the_cpu(void **state)
{
    (void)state;
    const size_t count = (size_t)ROUNDED_ROWS * ROUNDED_HEADS * ROUNDED_DIM;
    uint64_t random = test_seed();
    float *blocks = kv_test_allocate(count * sizeof *blocks);
    for (size_t i = 0; i < count; i += OR_QUANT_BLOCK) {
        fill_block(&random, blocks + i, (int)test_below(&random, 45) - 27); // of halves, and beyond
    }
    float *halves = telling_floats(&random, 2 * count);
    check_rounding(&random, OR_KV_Q8_0, blocks, halves);
    free(halves);
    free(blocks);
}

// ---- accepting ----

static void accept_in_copy(const kv_test_cache_t *cache, uint32_t sequence, uint32_t position,
                           uint32_t slot)
{
    for (uint32_t layer = 0; layer < KV_TEST_LAYERS; layer++) {
        for (uint32_t i = 0; i < cache->kv.kv_heads * KV_TEST_SIDES; i++) {
            uint32_t head = i / KV_TEST_SIDES;
            kv_test_side_t side = (kv_test_side_t)(i % KV_TEST_SIDES);
            or_kv_vector_t from = kv_test_in_slot(cache, sequence, slot, layer, head, side);
            or_kv_vector_t to = kv_test_in_page(cache, sequence, position, layer, head, side);
            or_kv_vector_copy(&from, &to);
        }
    }
}

// Describe each layer to the device, which frees it.
static or_cuda_kv_layer_t *describe_layers(const kv_test_cache_t *cache)
{
    const size_t page_bytes = or_cuda_page_bytes(&cache->kv);
    or_cuda_kv_layer_t each[KV_TEST_LAYERS];
    for (uint32_t layer = 0; layer < KV_TEST_LAYERS; layer++) {
        each[layer] = (or_cuda_kv_layer_t){
            .kv_heads = cache->kv.kv_heads,
            .head_dim = cache->kv.head_dim,
            .pages = (uint8_t *)cache->kv.pages + layer * page_bytes / KV_TEST_LAYERS,
            .page_bytes = page_bytes,
            .slot_before = layer * or_cuda_slots_bytes(&cache->kv, 1) / KV_TEST_LAYERS,
            .in_frames = cache->in_frames[layer]};
    }
    return cuda_test_upload(test_device, each, sizeof each);
}

static void accept(const kv_test_cache_t *cache, uint32_t sequence, uint32_t position,
                   const uint32_t *slots, uint32_t count)
{
    uint32_t *from = cuda_test_upload(test_device, slots, KV_TEST_SLOTS * sizeof *slots);
    or_cuda_kv_layer_t *each = describe_layers(cache);
    or_cuda_kv_t kv = kv_test_kv_of(cache, 0);
    kv.each = cache->in_frames[0] != cache->in_frames[1] ? each : NULL;
    const or_cuda_page_table_t table = kv_test_table_of(cache, sequence);
    cuda_test_ok(or_cuda_accept(test_device, &kv, &table, position, cache->slots[sequence].device,
                                KV_TEST_SLOTS, from, count));
    or_cuda_free(test_device, each);
    or_cuda_free(test_device, from);
}

// NaNs among them, which keep their bits.
static void accepted_slots_are_copied(void **state)
{
    (void)state;
    static const uint32_t head_dims[] = {32, 64, 96, 128, 256, 20};
    uint64_t random = test_seed();
    for (uint32_t i = 0; i < 18 * test_runs(1); i++) {
        kv_test_cache_t cache =
            kv_test_cache_create(&random, KIND_SPECIAL, kv_test_mixes[i % KV_TEST_MIXES], 1 + i % 3,
                                 head_dims[i % COUNT(head_dims)], 100);
        uint32_t slots[KV_TEST_SLOTS];
        uint32_t count = (uint32_t)test_below(&random, KV_TEST_SLOTS + 1);
        uint32_t position = (uint32_t)test_below(&random, cache.context - count + 1);
        uint32_t sequence = i % KV_TEST_SEQUENCES;
        kv_test_draw(&random, slots, count, KV_TEST_SLOTS);
        for (uint32_t j = 0; j < count; j++) {
            accept_in_copy(&cache, sequence, position + j, slots[j]);
        }
        accept(&cache, sequence, position, slots, count);
        kv_test_assert_same(&cache);
        kv_test_cache_free(&cache);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_those_of_the_cpu),
        cmocka_unit_test(rows_are_stored),
        cmocka_unit_test(halves_are_rounded_as_on_the_cpu),
        cmocka_unit_test(quants_are_rounded_as_on_the_cpu),
        cmocka_unit_test(accepted_slots_are_copied),
    };
    return cmocka_run_group_tests(tests, cuda_test_set_up, cuda_test_tear_down);
}
