// Goal: activations are quantised as kernels.h says, products are right at the ends of the range, and BF16 is
// what it is elsewhere, in every table.
// Method: vectors made by hand; infinite and denormal scales, -128, zeros of both signs, NaNs.
#include "kernels/kernels_test_support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void assert_floats(const float *actual, const float *expected, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_same(actual[i], expected[i], "by hand", i);
    }
}

// ---- activations ----

static void quantise(const or_kernels_t *table, const float *x, uint32_t blocks, or_q8_block_t *q)
{
    memset(q, 0x55, blocks * sizeof *q);
    table->quantize_row(x, blocks, q);
}

// Block 0: 0.25 * {10, 20, -30, 127, -1, 0 ..., 0, 5, 2}: amax 31.75, so the scale is 0.25 and the
// inverse 4, both exact. Sum 133, of the halves 126 and 7. Block 1: -127 everywhere: scale 1, sum -4064.
static void activations_by_hand(void **state)
{
    (void)state;
    static const int8_t expected[OR_QUANT_BLOCK] = {10, 20, -30, 127, -1, [30] = 5, [31] = 2};
    float x[2 * OR_QUANT_BLOCK] = {2.5f, 5.0f, -7.5f, 31.75f, -0.25f, [30] = 1.25f, [31] = 0.5f};
    for (size_t i = OR_QUANT_BLOCK; i < 2 * OR_QUANT_BLOCK; i++) {
        x[i] = -127.0f;
    }
    for (size_t t = 0; t < test_table_count; t++) {
        or_q8_block_t q[2];
        quantise(test_tables[t], x, 2, q);
        assert_memory_equal(q[0].quants, expected, sizeof expected);
        for (size_t i = 0; i < OR_QUANT_BLOCK; i++) {
            assert_int_equal(q[1].quants[i], -127);
        }
        assert_floats((const float[]){q[0].scale, q[0].scaled_sum}, (const float[]){0.25f, 33.25f},
                      2);
        assert_floats(q[0].scaled_half_sums, (const float[]){31.5f, 1.75f}, 2);
        assert_floats((const float[]){q[1].scale, q[1].scaled_sum}, (const float[]){1, -4064}, 2);
        assert_floats(q[1].scaled_half_sums, (const float[]){-2032, -2032}, 2);
        assert_int_equal(q[0].sum, 133);
        assert_int_equal(q[0].bias, -17024);
        assert_int_equal(q[0].half_biases[0], -16128);
        assert_int_equal(q[0].half_biases[1], -896);
        assert_int_equal(q[1].sum, -4064);
        assert_int_equal(q[1].bias, 520192);
        assert_int_equal(q[1].half_biases[0], 260096);
        assert_int_equal(q[1].half_biases[1], 260096);
    }
}

// amax 127, so the inverse is 1 and quants are the values, rounded.
static void activations_round_to_even(void **state)
{
    (void)state;
    static const float x[OR_QUANT_BLOCK] = {
        127.0f, -127.0f, 0.5f,  -0.5f,  1.5f,   -1.5f,          2.5f,           -2.5f,
        3.5f,   -3.5f,   0.49f, -0.51f, 126.5f, 0x1.fffffep-2f, 0x1.000002p-1f, -0.0f};
    static const int8_t expected[OR_QUANT_BLOCK] = {127, -127, 0, 0,  2,   -2, 2, -2,
                                                    4,   -4,   0, -1, 126, 0,  1, 0};
    or_q8_block_t q[1];
    for (size_t t = 0; t < test_table_count; t++) {
        quantise(test_tables[t], x, 1, q);
        assert_memory_equal(q->quants, expected, sizeof expected);
        assert_int_equal(q->sum, 126); // 127 - 127 + 0 + 126 - 1 + 1
        assert_same(q->scale, 1.0f, "scale", 0);
    }
}

// A block of `rest` with `first` in front.
typedef struct {
    float first, rest;
    float scale;
    int8_t first_quant, rest_quant;
} extreme_t;

static void activations_at_the_ends(void **state)
{
    (void)state;
    static const extreme_t cases[] = {
        {0.0f, -0.0f, 0.0f, 0, 0},
        {-0.0f, -0.0f, 0.0f, 0, 0},
        // The largest float: 127 / amax is still a number. 127 / (127 * 2^-130) is not: what is not
        // zero becomes 127, and zero times infinity -127, times a scale of 2^-130.
        {0x1.fcp127f, -0x1.fcp127f, 0x1p121f, 127, -127},
        {0x1.fcp-124f, 0x1p-149f, 0x1p-130f, 127, 127},
        {-0x1.fcp-124f, 0.0f, 0x1p-130f, -127, -127},
        {NAN, 1.0f, NAN, -127, -127},
        {-NAN, INFINITY, NAN, -127, -127},
        {1.0f, NAN, NAN, -127, -127},
        {INFINITY, 1.0f, INFINITY, -127, 0},
        {-INFINITY, -1.0f, INFINITY, -127, 0},
    };
    for (size_t c = 0; c < test_table_count * (sizeof cases / sizeof cases[0]); c++) {
        const extreme_t *extreme = &cases[c / test_table_count];
        float x[OR_QUANT_BLOCK] = {extreme->first};
        or_q8_block_t q[1];
        for (size_t i = 1; i < OR_QUANT_BLOCK; i++) {
            x[i] = extreme->rest;
        }
        quantise(test_tables[c % test_table_count], x, 1, q);
        assert_same(q->scale, extreme->scale, "scale", c);
        assert_int_equal(q->quants[0], extreme->first_quant);
        for (size_t i = 1; i < OR_QUANT_BLOCK; i++) {
            assert_int_equal(q->quants[i], extreme->rest_quant);
        }
        assert_int_equal(q->sum, extreme->first_quant + 31 * extreme->rest_quant);
    }
}

// ---- products at the ends ----

// One block with 32 times the same weight and the same x.
typedef struct {
    or_quant_t type;
    uint16_t scale, minimum;
    uint8_t weight; // the byte of the file
    float x;
    float y;
} uniform_t;

static const uniform_t uniforms[] = {
    {OR_QUANT_Q8_0, 0x3C00, 0, 0x80, 127.0f, -520192.0f}, // 32 * -128 * 127
    {OR_QUANT_Q8_0, 0x3C00, 0, 0x80, -127.0f, 520192.0f},
    {OR_QUANT_Q8_0, 0x3C00, 0, 0x7F, 127.0f, 516128.0f}, // 32 * 127 * 127
    {OR_QUANT_Q8_0, 0x3C00, 0, 0x7F, -127.0f, -516128.0f},
    {OR_QUANT_Q8_0, 0x0001, 0, 0x7F, 127.0f, 516128.0f * 0x1p-24f}, // the smallest half
    {OR_QUANT_Q8_0, 0x7BFF, 0, 0x01, 0x1.fcp-124f,
     266208256.0f * 0x1p-130f},                               // 65504 * 4064, x of scale 2^-130
    {OR_QUANT_Q8_0, 0x7BFF, 0, 0x80, 0x1.fcp106f, -INFINITY}, // 2^16 * 2^100 * 2^19
    {OR_QUANT_Q8_0, 0x8000, 0, 0x05, 127.0f, 0.0f},           // -0 and then +0 makes +0
    {OR_QUANT_Q8_0, 0xBC00, 0, 0x00, 127.0f, 0.0f},
    {OR_QUANT_Q8_0, 0x3C00, 0, 0x01, 0.0f, 0.0f},
    {OR_QUANT_Q8_0, 0x7C00, 0, 0x01, 127.0f, INFINITY},
    {OR_QUANT_Q8_0, 0xFC00, 0, 0x01, 127.0f, -INFINITY},
    {OR_QUANT_Q8_0, 0x7C00, 0, 0x00, 127.0f, NAN},
    {OR_QUANT_Q8_0, 0x7E00, 0, 0x01, 127.0f, NAN},
    {OR_QUANT_Q8_0, 0x3C00, 0, 0x01, NAN, NAN},
    {OR_QUANT_Q8_0, 0x3C00, 0, 0x01, INFINITY, -INFINITY}, // quants of -127, of a scale that tells
    {OR_QUANT_Q8_0, 0x3C00, 0, 0x00, INFINITY, NAN},
    {OR_QUANT_Q4_0, 0x3C00, 0, 0xFF, 127.0f, 28448.0f}, // 32 * 7 * 127
    {OR_QUANT_Q4_0, 0x3C00, 0, 0xFF, -127.0f, -28448.0f},
    {OR_QUANT_Q4_0, 0x3C00, 0, 0x00, 127.0f, -32512.0f}, // 32 * -8 * 127
    {OR_QUANT_Q4_0, 0x3C00, 0, 0x00, -127.0f, 32512.0f},
    {OR_QUANT_Q4_0, 0x3C00, 0, 0xF0, 127.0f, -2032.0f}, // 16 * -8 * 127 + 16 * 7 * 127
    {OR_QUANT_Q4_0, 0xBC00, 0, 0x88, 127.0f, 0.0f},     // 8 is nought
    {OR_QUANT_Q4_0, 0x0001, 0, 0x00, -127.0f, 32512.0f * 0x1p-24f},
    {OR_QUANT_Q4_0, 0x7C00, 0, 0xFF, 127.0f, INFINITY},
    {OR_QUANT_Q4_0, 0x7C00, 0, 0x88, 127.0f, NAN},
    {OR_QUANT_Q4_0, 0x3C00, 0, 0xFF, NAN, NAN},
    {OR_QUANT_IQ4_NL, 0x3C00, 0, 0x00, 127.0f, -516128.0f},  // 32 * -127 * 127
    {OR_QUANT_IQ4_NL, 0x3C00, 0, 0xFF, -127.0f, -459232.0f}, // 32 * 113 * -127
    {OR_QUANT_Q4_1, 0x3C00, 0xBC00, 0xFF, 127.0f, 56896.0f}, // 32 * 14 * 127
    {OR_QUANT_Q4_1, 0x0000, 0x0001, 0xFF, 127.0f, 4064.0f * 0x1p-24f},
    {OR_QUANT_Q4_1, 0x3C00, 0xFC00, 0xFF, 127.0f, -INFINITY},
    {OR_QUANT_Q4_1, 0x7C00, 0xFC00, 0xFF, 127.0f, NAN},
    {OR_QUANT_Q4_1, 0x3C00, 0x7E00, 0x00, 127.0f, NAN},
};

static void products_at_the_ends(void **state)
{
    (void)state;
    for (size_t c = 0; c < test_table_count * (sizeof uniforms / sizeof uniforms[0]); c++) {
        const uniform_t *uniform = &uniforms[c / test_table_count];
        uint32_t lane = c % OR_PANEL;
        uint8_t rows[OR_PANEL][2 + 32];
        memset(rows, uniform->weight, sizeof rows);
        memcpy(rows[lane], &uniform->scale, sizeof uniform->scale);
        if (uniform->type == OR_QUANT_Q4_1) {
            memcpy(rows[lane] + 2, &uniform->minimum, sizeof uniform->minimum);
        }
        or_panel_q8_0_t panel; // the largest of these
        or_quant_pack(uniform->type, rows, sizeof rows[0], lane + 1, 1, &panel);
        float x[OR_QUANT_BLOCK], y[OR_PANEL];
        for (size_t i = 0; i < OR_QUANT_BLOCK; i++) {
            x[i] = uniform->x;
        }
        const or_kernels_t *table = test_tables[c % test_table_count];
        or_q8_block_t q[1];
        quantise(table, x, 1, q);
        const or_quant_panels_t w = {
            .type = uniform->type, .panels = &panel, .count = 1, .blocks = 1};
        table->matmul_quants(&w, q, 1, 1, y, OR_PANEL);
        assert_same(y[lane], uniform->y, or_quant_name(uniform->type), c / test_table_count);
    }
}

// ---- bfloat16 ----

// 1 * 2 - 5 * 0.5 + 0.333984375 * 3 = 0.501953125
static void bf16_by_hand(void **state)
{
    (void)state;
    assert_same(or_bf16_to_f32(0x3F80), 1.0f, "bf16", 0x3F80);
    assert_same(or_bf16_to_f32(0xC0A0), -5.0f, "bf16", 0xC0A0);
    assert_same(or_bf16_to_f32(0x3EAB), 0.333984375f, "bf16", 0x3EAB);
    assert_same(or_bf16_to_f32(0x0000), 0.0f, "bf16", 0x0000);
    assert_same(or_bf16_to_f32(0x8000), -0.0f, "bf16", 0x8000);
    assert_same(or_bf16_to_f32(0x0001), 0x1p-133f, "bf16", 0x0001);
    assert_same(or_bf16_to_f32(0x7F7F), 0x1.fep127f, "bf16", 0x7F7F);
    assert_same(or_bf16_to_f32(0xFF80), -INFINITY, "bf16", 0xFF80);
    assert_true(isnan(or_bf16_to_f32(0x7FC0)));
    assert_true(isnan(or_bf16_to_f32(0xFF81)));
    uint16_t panel[3 * OR_PANEL] = {
        [7] = 0x3F80, [OR_PANEL + 7] = 0xC0A0, [2 * OR_PANEL + 7] = 0x3EAB};
    static const float x[3] = {2.0f, 0.5f, 3.0f};
    for (size_t t = 0; t < test_table_count; t++) {
        float y[OR_PANEL];
        test_tables[t]->matmul_bf16(panel, 3 * OR_PANEL, 1, 3, x, 3, 1, y, OR_PANEL);
        assert_floats(y, (const float[OR_PANEL]){[7] = 0.501953125f}, OR_PANEL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations_by_hand),
        cmocka_unit_test(activations_round_to_even),
        cmocka_unit_test(activations_at_the_ends),
        cmocka_unit_test(products_at_the_ends),
        cmocka_unit_test(bf16_by_hand),
    };
    return cmocka_run_group_tests(tests, test_find_tables, NULL);
}
