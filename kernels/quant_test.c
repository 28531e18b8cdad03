// Goal: Q8_0, Q4_0 and BF16 mean what GGUF says, are packed as kernels.h draws them, and the chain
// over blocks is the one that kernels.h defines, in every table.
// Method: vectors made by hand, with every number written out; the ends of the range (-128,
// infinite and denormal scales, zeros of both signs); and random rows, whose products are computed
// from the bytes of the file without panels.
#include "kernels/kernels_test_support.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define Q8_0_BYTES 34
#define Q4_0_BYTES 18

typedef struct {
    int8_t quants[8 * OR_QUANT_BLOCK];
    float scales[8];
    int32_t sums[8];
} row_t;

// One row of up to 8 blocks, quantised by `table`.
static or_q8_rows_t quantise(const or_kernels_t *table, const float *x, uint32_t blocks, row_t *row)
{
    memset(row, 0x55, sizeof *row);
    table->quantize_row(x, blocks, row->quants, row->scales, row->sums);
    return (or_q8_rows_t){row->quants, row->scales, row->sums, blocks};
}

static void assert_floats(const float *actual, const float *expected, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_same(actual[i], expected[i], "by hand", i);
    }
}

// ---- by hand ----

// Block 0: 0.25 * {10, 20, -30, 127, -1, 0 ..., 0, 5, 2}: amax 31.75, so the scale is 0.25 and the
// inverse 4, both exact. Sum 133. Block 1: -127 everywhere: scale 1, sum -4064.
static void fill_activations(float x[2 * OR_QUANT_BLOCK])
{
    memset(x, 0, 2 * OR_QUANT_BLOCK * sizeof *x);
    x[0] = 2.5f;
    x[1] = 5.0f;
    x[2] = -7.5f;
    x[3] = 31.75f;
    x[4] = -0.25f;
    x[30] = 1.25f;
    x[31] = 0.5f;
    for (size_t i = OR_QUANT_BLOCK; i < 2 * OR_QUANT_BLOCK; i++) {
        x[i] = -127.0f;
    }
}

static void activations_by_hand(void **state)
{
    (void)state;
    static const int8_t expected[OR_QUANT_BLOCK] = {10, 20, -30, 127, -1, [30] = 5, [31] = 2};
    float x[2 * OR_QUANT_BLOCK];
    row_t row;
    fill_activations(x);
    for (size_t t = 0; t < test_table_count; t++) {
        quantise(test_tables[t], x, 2, &row);
        assert_memory_equal(row.quants, expected, sizeof expected);
        for (size_t i = 0; i < OR_QUANT_BLOCK; i++) {
            assert_int_equal(row.quants[OR_QUANT_BLOCK + i], -127);
        }
        assert_floats(row.scales, (const float[]){0.25f, 1.0f}, 2);
        assert_int_equal(row.sums[0], 133);
        assert_int_equal(row.sums[1], -4064);
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
    row_t row;
    for (size_t t = 0; t < test_table_count; t++) {
        quantise(test_tables[t], x, 1, &row);
        assert_memory_equal(row.quants, expected, sizeof expected);
        assert_int_equal(row.sums[0], 126); // 127 - 127 + 0 + 126 - 1 + 1
        assert_same(row.scales[0], 1.0f, "scale", 0);
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
        row_t row;
        for (size_t i = 1; i < OR_QUANT_BLOCK; i++) {
            x[i] = extreme->rest;
        }
        quantise(test_tables[c % test_table_count], x, 1, &row);
        assert_same(row.scales[0], extreme->scale, "scale", c);
        assert_int_equal(row.quants[0], extreme->first_quant);
        for (size_t i = 1; i < OR_QUANT_BLOCK; i++) {
            assert_int_equal(row.quants[i], extreme->rest_quant);
        }
        assert_int_equal(row.sums[0], extreme->first_quant + 31 * extreme->rest_quant);
    }
}

// Block 0, scale 0.5:  {1, -2, 3, -128, 127, 0 ..., 0, -7, 100}
//   sum with x  1*10 - 2*20 - 3*30 - 128*127 - 127*1 - 7*5 + 100*2 = -16338
// Block 1, scale -2:   -128 everywhere
//   sum with x  32 * 128 * 127 = 520192
// y = (0.5 * 0.25) * -16338 + (-2 * 1) * 520192 = -2042.25 - 1040384 = -1042426.25
static void q8_0_by_hand(void **state)
{
    (void)state;
    uint8_t row[2 * Q8_0_BYTES] = {0x00, 0x38,        0x01,        0xFE,        0x03, 0x80,
                                   0x7F, [32] = 0xF9, [33] = 0x64, [34] = 0x00, 0xC0};
    memset(row + 36, 0x80, 32);
    float expected[2 * OR_QUANT_BLOCK] = {0.5f,  -1.0f,        1.5f,        -64.0f,
                                          63.5f, [30] = -3.5f, [31] = 50.0f};
    for (size_t i = OR_QUANT_BLOCK; i < 2 * OR_QUANT_BLOCK; i++) {
        expected[i] = 256.0f;
    }
    float out[2 * OR_QUANT_BLOCK], x[2 * OR_QUANT_BLOCK], y[OR_PANEL];
    or_dequantize_q8_0(row, 2, out);
    assert_floats(out, expected, 2 * OR_QUANT_BLOCK);
    or_q8_panel_block_t panel[2] = {0};
    or_pack_q8_0(row, 2, panel, 5);
    fill_activations(x);
    for (size_t t = 0; t < test_table_count; t++) {
        row_t quantised;
        or_q8_rows_t rows = quantise(test_tables[t], x, 2, &quantised);
        test_tables[t]->matmul_q8_0(panel, 2, 1, 2, &rows, 1, y, OR_PANEL);
        assert_floats(y, (const float[OR_PANEL]){[5] = -1042426.25f}, OR_PANEL);
        rows = (or_q8_rows_t){quantised.quants + 32, quantised.scales + 1, quantised.sums + 1, 1};
        test_tables[t]->matmul_q8_0(panel + 1, 2, 1, 1, &rows, 1, y, OR_PANEL);
        assert_floats(y, (const float[OR_PANEL]){[5] = -1040384.0f}, OR_PANEL);
    }
}

// Block 0, scale 2: byte 0 is 0x4F: weight 0 is 15 - 8 = 7, weight 16 is 4 - 8 = -4
//                   byte 1 is 0xF0: weight 1 is 0 - 8 = -8, weight 17 is 15 - 8 = 7
//                   byte 3 is 0x89: weight 3 is 9 - 8 = 1,  weight 19 is 8 - 8 = 0
//                   byte 14, 15 are 0x18, 0xB8: weight 30 is 1 - 8 = -7, weight 31 is 11 - 8 = 3
//   sum with x  7*10 - 8*20 + 1*127 - 7*5 + 3*2 = 8
// Block 1, scale -0.5: 0x00, -8 everywhere
//   sum with x  32 * 8 * 127 = 32512
// y = (2 * 0.25) * 8 + (-0.5 * 1) * 32512 = 4 - 16256 = -16252
static void q4_0_by_hand(void **state)
{
    (void)state;
    uint8_t row[2 * Q4_0_BYTES];
    memset(row, 0x88, Q4_0_BYTES);
    memset(row + Q4_0_BYTES, 0x00, Q4_0_BYTES);
    memcpy(row, (const uint8_t[]){0x00, 0x40, 0x4F, 0xF0, 0x88, 0x89}, 6);
    memcpy(row + 16, (const uint8_t[]){0x18, 0xB8, 0x00, 0xB8}, 4);
    float expected[2 * OR_QUANT_BLOCK] = {
        14.0f, -16.0f, 0.0f, 2.0f, [16] = -8.0f, [17] = 14.0f, [30] = -14.0f, [31] = 6.0f};
    for (size_t i = OR_QUANT_BLOCK; i < 2 * OR_QUANT_BLOCK; i++) {
        expected[i] = 4.0f;
    }
    float out[2 * OR_QUANT_BLOCK], x[2 * OR_QUANT_BLOCK], y[OR_PANEL];
    or_dequantize_q4_0(row, 2, out);
    assert_floats(out, expected, 2 * OR_QUANT_BLOCK);
    or_q4_panel_block_t panel[2] = {0};
    or_pack_q4_0(row, 2, panel, 12);
    fill_activations(x);
    for (size_t t = 0; t < test_table_count; t++) {
        row_t quantised;
        or_q8_rows_t rows = quantise(test_tables[t], x, 2, &quantised);
        test_tables[t]->matmul_q4_0(panel, 2, 1, 2, &rows, 1, y, OR_PANEL);
        assert_floats(y, (const float[OR_PANEL]){[12] = -16252.0f}, OR_PANEL);
        rows = (or_q8_rows_t){quantised.quants + 32, quantised.scales + 1, quantised.sums + 1, 1};
        test_tables[t]->matmul_q4_0(panel + 1, 2, 1, 1, &rows, 1, y, OR_PANEL);
        assert_floats(y, (const float[OR_PANEL]){[12] = -16256.0f}, OR_PANEL);
    }
}

// One block with 32 times the same weight and the same x.
typedef struct {
    uint16_t scale;
    uint8_t weight; // the byte of the file
    float x;
    float y;
} uniform_t;

static void q8_0_at_the_ends(void **state)
{
    (void)state;
    static const uniform_t cases[] = {
        {0x3C00, 0x80, 127.0f, -520192.0f}, // 32 * -128 * 127
        {0x3C00, 0x80, -127.0f, 520192.0f},
        {0x3C00, 0x7F, 127.0f, 516128.0f}, // 32 * 127 * 127
        {0x3C00, 0x7F, -127.0f, -516128.0f},
        {0x0001, 0x7F, 127.0f, 516128.0f * 0x1p-24f},           // the smallest half
        {0x7BFF, 0x01, 0x1.fcp-124f, 266208256.0f * 0x1p-130f}, // 65504 * 4064, x of scale 2^-130
        {0x7BFF, 0x80, 0x1.fcp106f, -INFINITY},                 // 2^16 * 2^100 * 2^19
        {0x8000, 0x05, 127.0f, 0.0f},                           // -0 and then +0 makes +0
        {0xBC00, 0x00, 127.0f, 0.0f},
        {0x3C00, 0x01, 0.0f, 0.0f},
        {0x7C00, 0x01, 127.0f, INFINITY},
        {0xFC00, 0x01, 127.0f, -INFINITY},
        {0x7C00, 0x00, 127.0f, NAN},
        {0x7E00, 0x01, 127.0f, NAN},
        {0x3C00, 0x01, NAN, NAN},
        {0x3C00, 0x01, INFINITY, -INFINITY}, // quants of -127, of a scale that tells
        {0x3C00, 0x00, INFINITY, NAN},
    };
    for (size_t c = 0; c < test_table_count * (sizeof cases / sizeof cases[0]); c++) {
        const uniform_t *uniform = &cases[c / test_table_count];
        const or_kernels_t *table = test_tables[c % test_table_count];
        uint8_t file[Q8_0_BYTES] = {uniform->scale & 0xFF, (uint8_t)(uniform->scale >> 8)};
        memset(file + 2, uniform->weight, OR_QUANT_BLOCK);
        float x[OR_QUANT_BLOCK], y[OR_PANEL];
        for (size_t i = 0; i < OR_QUANT_BLOCK; i++) {
            x[i] = uniform->x;
        }
        or_q8_panel_block_t panel = {0};
        or_pack_q8_0(file, 1, &panel, c % OR_PANEL);
        row_t row;
        const or_q8_rows_t rows = quantise(table, x, 1, &row);
        table->matmul_q8_0(&panel, 1, 1, 1, &rows, 1, y, OR_PANEL);
        assert_same(y[c % OR_PANEL], uniform->y, "q8_0", c / test_table_count);
    }
}

static void q4_0_at_the_ends(void **state)
{
    (void)state;
    static const uniform_t cases[] = {
        {0x3C00, 0xFF, 127.0f, 28448.0f}, // 32 * 7 * 127
        {0x3C00, 0xFF, -127.0f, -28448.0f},
        {0x3C00, 0x00, 127.0f, -32512.0f}, // 32 * -8 * 127
        {0x3C00, 0x00, -127.0f, 32512.0f},
        {0x3C00, 0xF0, 127.0f, -2032.0f}, // 16 * -8 * 127 + 16 * 7 * 127
        {0xBC00, 0x88, 127.0f, 0.0f},     // 8 is nought
        {0x0001, 0x00, -127.0f, 32512.0f * 0x1p-24f},
        {0x8000, 0xFF, 127.0f, 0.0f},
        {0x3C00, 0x00, 0.0f, 0.0f},
        {0x7C00, 0xFF, 127.0f, INFINITY},
        {0x7C00, 0x88, 127.0f, NAN},
        {0x7E00, 0xFF, 127.0f, NAN},
        {0x3C00, 0xFF, NAN, NAN},
    };
    for (size_t c = 0; c < test_table_count * (sizeof cases / sizeof cases[0]); c++) {
        const uniform_t *uniform = &cases[c / test_table_count];
        const or_kernels_t *table = test_tables[c % test_table_count];
        uint8_t file[Q4_0_BYTES] = {uniform->scale & 0xFF, (uint8_t)(uniform->scale >> 8)};
        memset(file + 2, uniform->weight, OR_QUANT_BLOCK / 2);
        float x[OR_QUANT_BLOCK], y[OR_PANEL];
        for (size_t i = 0; i < OR_QUANT_BLOCK; i++) {
            x[i] = uniform->x;
        }
        or_q4_panel_block_t panel = {0};
        or_pack_q4_0(file, 1, &panel, c % OR_PANEL);
        row_t row;
        const or_q8_rows_t rows = quantise(table, x, 1, &row);
        table->matmul_q4_0(&panel, 1, 1, 1, &rows, 1, y, OR_PANEL);
        assert_same(y[c % OR_PANEL], uniform->y, "q4_0", c / test_table_count);
    }
}

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

// ---- packing ----

// Each lane gets its row, at odd addresses, and the other lanes keep what they had. Read back as
// the header draws it.
static void q8_0_lanes_hold_their_rows(void **state)
{
    (void)state;
    enum { BLOCKS = 3, BYTES = BLOCKS * Q8_0_BYTES };
    uint64_t random = test_seed();
    uint8_t *rows = test_bytes(&random, (size_t)OR_PANEL * BYTES + 1);
    or_q8_panel_block_t panel[BLOCKS];
    or_q8_panel_block_t before[BLOCKS];
    memset(panel, 0xAA, sizeof panel);
    for (uint32_t lane = 0; lane < OR_PANEL; lane++) {
        const uint8_t *row = rows + 1 + (size_t)lane * BYTES;
        memcpy(before, panel, sizeof panel);
        or_pack_q8_0(row, BLOCKS, panel, lane);
        for (size_t b = 0; b < BLOCKS; b++) {
            const uint8_t *block = row + b * Q8_0_BYTES;
            before[b].scales[lane] = (uint16_t)(block[0] + 256 * block[1]);
            for (size_t k = 0; k < OR_QUANT_BLOCK; k++) {
                before[b].quants[k / 4][lane][k % 4] = (int8_t)block[2 + k];
            }
        }
        assert_memory_equal(panel, before, sizeof panel);
    }
    free(rows);
}

static void q4_0_lanes_hold_their_rows(void **state)
{
    (void)state;
    enum { BLOCKS = 3, BYTES = BLOCKS * Q4_0_BYTES };
    uint64_t random = test_seed();
    uint8_t *rows = test_bytes(&random, (size_t)OR_PANEL * BYTES + 1);
    or_q4_panel_block_t panel[BLOCKS];
    or_q4_panel_block_t before[BLOCKS];
    memset(panel, 0xAA, sizeof panel);
    for (uint32_t lane = 0; lane < OR_PANEL; lane++) {
        const uint8_t *row = rows + 1 + (size_t)lane * BYTES;
        memcpy(before, panel, sizeof panel);
        or_pack_q4_0(row, BLOCKS, panel, lane);
        for (size_t b = 0; b < BLOCKS; b++) {
            const uint8_t *block = row + b * Q4_0_BYTES;
            before[b].scales[lane] = (uint16_t)(block[0] + 256 * block[1]);
            for (size_t k = 0; k < 16; k++) { // weights k and k + 16
                before[b].nibbles[k / 4][lane][k % 4] = block[2 + k];
            }
        }
        assert_memory_equal(panel, before, sizeof panel);
    }
    free(rows);
}

// ---- the chain ----

// Integer `k` of a block as it lies in the file.
typedef int (*weight_t)(const uint8_t *block, size_t k);

static int q8_0_weight(const uint8_t *block, size_t k)
{
    return (int8_t)block[2 + k];
}

static int q4_0_weight(const uint8_t *block, size_t k)
{
    return (k < 16 ? block[2 + k] & 15 : block[2 + k - 16] >> 4) - 8;
}

// y of one output by the definition, and by double precision what the dequantised numbers give.
static void assert_chain(float y, const uint8_t *row, size_t block_bytes, weight_t weight,
                         const or_q8_rows_t *x, size_t m, uint32_t blocks)
{
    float chain = 0.0f;
    double product = 0.0;
    double sizes = 0.0;
    for (uint32_t b = 0; b < blocks; b++) {
        const uint8_t *block = row + b * block_bytes;
        size_t at = m * x->blocks_stride + b;
        float w_scale = or_f16_to_f32((uint16_t)(block[0] + 256 * block[1]));
        int sum = 0;
        for (size_t k = 0; k < OR_QUANT_BLOCK; k++) {
            sum += weight(block, k) * x->quants[at * OR_QUANT_BLOCK + k];
        }
        chain = fmaf(w_scale * x->scales[at], (float)sum, chain);
        product += (double)w_scale * x->scales[at] * sum;
        sizes += fabs((double)w_scale * x->scales[at] * sum);
    }
    assert_same(y, chain, "chain", m);
    assert_true(fabs(y - product) <= (blocks + 1) * 0x1p-23 * sizes);
}

// A row of a file, its scales ordinary numbers.
static void fill_row(uint64_t *random, uint8_t *row, size_t block_bytes, uint32_t blocks)
{
    for (size_t i = 0; i < blocks * block_bytes; i++) {
        row[i] = (uint8_t)test_random(random);
    }
    for (uint32_t b = 0; b < blocks; b++) {
        uint16_t scale = or_f32_to_f16((float)(test_uniform(random) - 0.5));
        row[b * block_bytes] = scale & 0xFF;
        row[b * block_bytes + 1] = (uint8_t)(scale >> 8);
    }
}

// Two panels, and of their 8 blocks the range 2 to 6.
static void products_of_a_range_of_blocks_follow_the_chain(void **state)
{
    (void)state;
    enum { OUTPUTS = 2 * OR_PANEL, BLOCKS = 8, FIRST = 2, COUNT = 5, ROWS = 3 };
    static uint8_t q8_rows[OUTPUTS][BLOCKS * Q8_0_BYTES];
    static uint8_t q4_rows[OUTPUTS][BLOCKS * Q4_0_BYTES];
    static or_q8_panel_block_t q8_panels[2][BLOCKS];
    static or_q4_panel_block_t q4_panels[2][BLOCKS];
    uint64_t random = test_seed();
    for (uint32_t n = 0; n < OUTPUTS; n++) {
        fill_row(&random, q8_rows[n], Q8_0_BYTES, BLOCKS);
        fill_row(&random, q4_rows[n], Q4_0_BYTES, BLOCKS);
        or_pack_q8_0(q8_rows[n], BLOCKS, q8_panels[n / OR_PANEL], n % OR_PANEL);
        or_pack_q4_0(q4_rows[n], BLOCKS, q4_panels[n / OR_PANEL], n % OR_PANEL);
    }
    float *floats = test_floats(&random, KIND_PLAIN, (size_t)ROWS * BLOCKS * OR_QUANT_BLOCK);
    int8_t quants[ROWS * BLOCKS * OR_QUANT_BLOCK];
    float scales[ROWS * BLOCKS];
    int32_t sums[ROWS * BLOCKS];
    or_kernels_ref.quantize_row(floats, ROWS * BLOCKS, quants, scales, sums);
    free(floats);
    const or_q8_rows_t x = {quants + FIRST * OR_QUANT_BLOCK, scales + FIRST, sums + FIRST, BLOCKS};
    for (size_t t = 0; t < test_table_count; t++) {
        float q8[ROWS][OUTPUTS], q4[ROWS][OUTPUTS];
        test_tables[t]->matmul_q8_0(q8_panels[0] + FIRST, BLOCKS, 2, COUNT, &x, ROWS, q8[0],
                                    OUTPUTS);
        test_tables[t]->matmul_q4_0(q4_panels[0] + FIRST, BLOCKS, 2, COUNT, &x, ROWS, q4[0],
                                    OUTPUTS);
        for (size_t i = 0; i < (size_t)ROWS * OUTPUTS; i++) {
            size_t m = i / OUTPUTS;
            size_t n = i % OUTPUTS;
            assert_chain(q8[m][n], q8_rows[n] + (size_t)FIRST * Q8_0_BYTES, Q8_0_BYTES, q8_0_weight,
                         &x, m, COUNT);
            assert_chain(q4[m][n], q4_rows[n] + (size_t)FIRST * Q4_0_BYTES, Q4_0_BYTES, q4_0_weight,
                         &x, m, COUNT);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations_by_hand),
        cmocka_unit_test(activations_round_to_even),
        cmocka_unit_test(activations_at_the_ends),
        cmocka_unit_test(q8_0_by_hand),
        cmocka_unit_test(q4_0_by_hand),
        cmocka_unit_test(q8_0_at_the_ends),
        cmocka_unit_test(q4_0_at_the_ends),
        cmocka_unit_test(bf16_by_hand),
        cmocka_unit_test(q8_0_lanes_hold_their_rows),
        cmocka_unit_test(q4_0_lanes_hold_their_rows),
        cmocka_unit_test(products_of_a_range_of_blocks_follow_the_chain),
    };
    return cmocka_run_group_tests(tests, test_find_tables, NULL);
}
