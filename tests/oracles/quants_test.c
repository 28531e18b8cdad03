// Goal: every quantised type, F16 and BF16 mean what the gguf package says, bit for bit.
// Method: random units and the floats that gguf.quants.dequantize gave for them, made by
// make_quants.py and kept in data/quants.gguf. That products of packed panels are those of the decoded
// weights is kernels/quant_pack_test.c's.
#include "kernels/quants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/gguf/gguf.h"
#include "kernels/canonical.h"
#include "tests/support/test_support.h"

static or_gguf_t *open_vectors(void)
{
    or_gguf_t *gguf = NULL;
    if (or_gguf_open("tests/oracles/data/quants.gguf", &gguf) != OR_OK) {
        fail_msg("%s", or_error_text());
    }
    return gguf;
}

static const or_gguf_tensor_t *find_tensor(const or_gguf_t *gguf, const char *name)
{
    const or_gguf_tensor_t *tensor = or_gguf_find_tensor(gguf, name);
    if (tensor == NULL) {
        fail_msg("there is no tensor %s", name);
    }
    return tensor;
}

static uint32_t unit_weights(or_quant_t type)
{
    return or_quant_unit_blocks(type) * OR_QUANT_BLOCK;
}

// The units of a type, and their values by the package.
typedef struct {
    const uint8_t *row;
    const float *values;
    uint32_t units;
} vector_t;

static vector_t find_vector(const or_gguf_t *gguf, const char *type, uint32_t bytes,
                            uint32_t weights)
{
    char name[32];
    const or_gguf_tensor_t *units = find_tensor(gguf, type);
    snprintf(name, sizeof name, "%s.values", type);
    const or_gguf_tensor_t *values = find_tensor(gguf, name);
    assert_int_equal(values->type, OR_TENSOR_F32);
    assert_int_equal(units->bytes % bytes, 0);
    vector_t vector = {
        .row = units->data, .values = values->data, .units = (uint32_t)(units->bytes / bytes)};
    assert_true(vector.units >= 12);
    assert_int_equal(values->bytes, vector.units * weights * sizeof(float));
    return vector;
}

static void assert_value(float ours, float packages, const char *type, uint32_t at)
{
    if (bits_of(ours) != bits_of(packages)) {
        fail_msg("%s, weight %u: %.9g, the package has %.9g", type, at, (double)ours,
                 (double)packages);
    }
}

static void decoded_values_are_the_packages(void **state)
{
    (void)state;
    or_gguf_t *gguf = open_vectors();
    for (or_quant_t type = 0; type < OR_QUANT_TYPES; type++) {
        vector_t vector =
            find_vector(gguf, or_quant_name(type), or_quant_file_bytes(type), unit_weights(type));
        uint32_t count = vector.units * unit_weights(type);
        float *out = malloc(count * sizeof *out);
        assert_non_null(out);
        memset(out, 0xAA, count * sizeof *out);
        or_quant_decode(type, vector.row, vector.units, out);
        for (uint32_t i = 0; i < count; i++) {
            assert_value(out[i], vector.values[i], or_quant_name(type), i);
        }
        free(out);
    }
    or_gguf_close(&gguf);
}

static void widened_halves_are_the_packages(void **state)
{
    (void)state;
    or_gguf_t *gguf = open_vectors();
    vector_t halves = find_vector(gguf, "F16", 2, 1);
    vector_t bfloats = find_vector(gguf, "BF16", 2, 1);
    assert_int_equal(halves.units, bfloats.units);
    for (uint32_t i = 0; i < halves.units; i++) {
        uint16_t half;
        uint16_t bfloat;
        memcpy(&half, halves.row + 2 * (size_t)i, sizeof half);
        memcpy(&bfloat, bfloats.row + 2 * (size_t)i, sizeof bfloat);
        assert_value(canonical_widen(half), halves.values[i], "F16", i);
        assert_value(canonical_widen_bf16(bfloat), bfloats.values[i], "BF16", i);
    }
    or_gguf_close(&gguf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decoded_values_are_the_packages),
        cmocka_unit_test(widened_halves_are_the_packages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
