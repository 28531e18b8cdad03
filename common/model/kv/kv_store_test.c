// Goal: what is kept of K and V is what kv_store.h defines, wherever it lies, and attention is given
// exactly that by every table of kernels.
// Method: a plain definition in doubles beside the code, for all kinds of numbers and sizes; each of a
// block's 32 vectors written, copied from a slot, and read one by one and decoded as a block.
// Buffers are exact, for the sanitizers.
#include "common/model/kv/kv_store.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test_support.h"

#define DIM_MAX 130u
#define POISON 0xA5

static const uint32_t sizes[] = {1, 2, 16, 31, 32, 33, 48, 64, 100, 128, DIM_MAX};
static const char *const tables[] = {"ref", "avx2"};

// A few orders of magnitude; sometimes zero, tiny, huge or no number.
static void draw(uint64_t *rng, float *x, uint32_t count)
{
    static const float special[] = {0, -0.0f, 1e-8f, 1e-38f, 65519, 65520, 3e9f, INFINITY, NAN};
    bool plain = test_below(rng, 4) > 0;
    float size = (float)exp2((double)test_below(rng, 30) - 20);
    for (uint32_t i = 0; i < count; i++) {
        x[i] = (float)(test_uniform(rng) * 2 - 1) * size;
        if (!plain && test_below(rng, 20) == 0) {
            x[i] = special[test_below(rng, sizeof special / sizeof special[0])];
        }
    }
}

// A finite double as a half, rounded to the nearest, ties to even, by its definition.
static double round_to_half(double x)
{
    int exponent;
    frexp(x, &exponent);
    double unit = ldexp(1, exponent - 11 > -24 ? exponent - 11 : -24);
    double rounded = nearbyint(x / unit) * unit;
    return fabs(rounded) >= 65536 ? copysign(INFINITY, x) : rounded;
}

// Return the number that is kept for x[d], which is finite.
static double expected(or_kv_type_t type, const float *x, uint32_t head_dim, uint32_t d)
{
    if (type == OR_KV_F32) {
        return x[d];
    }
    if (type == OR_KV_F16) {
        return round_to_half(x[d]);
    }
    float amount = 0;
    for (uint32_t i = d / 32 * 32; i < head_dim && i < d / 32 * 32 + 32; i++) {
        amount = fabsf(x[i]) > amount ? fabsf(x[i]) : amount;
    }
    double scale = round_to_half(amount / 127.0f);
    if (scale == 0 || isinf(scale)) {
        return scale * 0; // zero, or no number
    }
    double quant = nearbyint(x[d] / (float)scale);
    return scale * (fabs(quant) > 127 ? copysign(127, quant) : quant);
}

static bool is_finite(const float *x, uint32_t count)
{
    bool finite = true;
    for (uint32_t i = 0; i < count; i++) {
        finite = finite && isfinite(x[i]);
    }
    return finite;
}

// A NaN or infinity may not be hidden, and a finite vector is as defined.
static void check_vector(or_kv_type_t type, const float *x, const float *kept, uint32_t head_dim)
{
    bool finite = is_finite(x, head_dim);
    if (!finite) {
        assert_false(is_finite(kept, head_dim));
    }
    for (uint32_t d = 0; d < head_dim && finite; d++) {
        double wanted = expected(type, x, head_dim, d);
        if ((double)kept[d] != wanted && isfinite(wanted)) {
            fail_msg("%s: %.9g of %u is kept as %.9g, not %.9g", or_kv_type_name(type),
                     (double)x[d], head_dim, (double)kept[d], wanted);
        }
        assert_int_equal(isfinite(kept[d]), isfinite(wanted));
    }
}

static void assert_same_bits(const float *a, const float *b, size_t count, const char *what)
{
    for (size_t i = 0; i < count; i++) {
        if (memcmp(&a[i], &b[i], sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i]))) {
            fail_msg("%s: number %zu is %.9g, not %.9g", what, i, (double)a[i], (double)b[i]);
        }
    }
}

static uint8_t *poisoned(size_t bytes)
{
    uint8_t *memory = malloc(bytes);
    assert_non_null(memory);
    memset(memory, POISON, bytes);
    return memory;
}

typedef or_kv_vector_t (*view_t)(or_kv_type_t type, uint32_t head_dim, void *at, uint32_t lane);

// The 32 vectors of a block: half of them written, the others copied from a slot, in any order.
static void fill_block(or_kv_type_t type, uint32_t head_dim, view_t view, const float *x,
                       uint8_t *block)
{
    for (uint32_t i = 0; i < OR_KV_PAGE; i++) {
        uint32_t lane = i * 11 % OR_KV_PAGE;
        or_kv_vector_t to = view(type, head_dim, block, lane);
        if (lane % 2 == 0) {
            or_kv_vector_write(&to, x + (size_t)lane * head_dim);
            continue;
        }
        uint8_t *slot = poisoned(or_kv_vector_bytes(type, head_dim));
        or_kv_vector_t from = or_kv_slot_vector(type, head_dim, slot);
        or_kv_vector_write(&from, x + (size_t)lane * head_dim);
        or_kv_vector_copy(&from, &to);
        free(slot);
    }
}

static void check_block(uint64_t *rng, or_kv_type_t type, uint32_t head_dim, bool keys)
{
    static float x[OR_KV_PAGE * DIM_MAX], kept[OR_KV_PAGE * DIM_MAX];
    static float decoded[OR_KV_PAGE * DIM_MAX], in_order[OR_KV_PAGE * DIM_MAX];
    view_t view = keys ? or_kv_key_vector : or_kv_value_vector;
    size_t count = (size_t)OR_KV_PAGE * head_dim;
    draw(rng, x, (uint32_t)count);
    uint8_t *block = poisoned(OR_KV_PAGE * or_kv_vector_bytes(type, head_dim));
    fill_block(type, head_dim, view, x, block);
    for (uint32_t lane = 0; lane < OR_KV_PAGE; lane++) {
        or_kv_vector_t from = view(type, head_dim, block, lane);
        or_kv_vector_read(&from, kept + (size_t)lane * head_dim);
        check_vector(type, x + (size_t)lane * head_dim, kept + (size_t)lane * head_dim, head_dim);
    }
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
        const or_kernels_t *kernels = or_kernels_find(tables[t]);
        if (kernels == NULL) {
            continue;
        }
        memset(decoded, POISON, sizeof decoded);
        (keys ? or_kv_decode_keys : or_kv_decode_values)(kernels, type, head_dim, block, decoded);
        for (size_t i = 0; i < count; i++) {
            in_order[i] = keys ? decoded[i % head_dim * OR_KV_PAGE + i / head_dim] : decoded[i];
        }
        assert_same_bits(in_order, kept, count, tables[t]);
    }
    free(block);
}

static void blocks_keep_what_is_defined(void **state)
{
    (void)state;
    uint64_t rng = test_seed();
    for (or_kv_type_t type = OR_KV_F32; type <= OR_KV_Q8_0; type++) {
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            for (uint32_t repeat = 0; repeat < 8; repeat++) {
                check_block(&rng, type, sizes[s], repeat % 2 == 0);
            }
        }
    }
}

static void slots_keep_what_is_defined(void **state)
{
    (void)state;
    uint64_t rng = test_seed();
    for (uint32_t round = 0; round < 600; round++) {
        or_kv_type_t type = (or_kv_type_t)(round % 3);
        uint32_t head_dim = sizes[test_below(&rng, sizeof sizes / sizeof sizes[0])];
        float x[DIM_MAX], kept[DIM_MAX], decoded[DIM_MAX];
        draw(&rng, x, head_dim);
        uint8_t *slot = poisoned(or_kv_vector_bytes(type, head_dim));
        or_kv_vector_t vector = or_kv_slot_vector(type, head_dim, slot);
        or_kv_vector_write(&vector, x);
        or_kv_vector_read(&vector, kept);
        check_vector(type, x, kept, head_dim);
        or_kv_decode_slot(or_kernels_pick(), type, head_dim, slot, decoded);
        assert_same_bits(decoded, kept, head_dim, "slot");
        free(slot);
    }
}

// Halfway between two integers: with the largest 127 the scale is 1.
static void ties_go_to_the_even_integer(void **state)
{
    (void)state;
    const float x[] = {127, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 126.5f};
    const float wanted[] = {127, 0, 2, 2, 0, -2, -2, 126};
    uint8_t slot[2 + 8];
    float kept[8];
    or_kv_vector_t vector = or_kv_slot_vector(OR_KV_Q8_0, 8, slot);
    or_kv_vector_write(&vector, x);
    or_kv_vector_read(&vector, kept);
    for (uint32_t i = 0; i < 8; i++) {
        assert_true(kept[i] == wanted[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_keep_what_is_defined),
        cmocka_unit_test(slots_keep_what_is_defined),
        cmocka_unit_test(ties_go_to_the_even_integer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
