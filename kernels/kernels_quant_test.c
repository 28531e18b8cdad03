// Goal: the quantised kernels of every table give the bits of kernels/ref on every input, write all
// of their output and nothing else, and compute each row by itself.
// Method: as kernels_test.c, on blocks of any bytes whatsoever, such as scales that are NaN and
// quants of -128. Panels are strided, ranges of K begin inside of them, and activations are
// quantised from every kind of input.
#include "kernels/kernels_test_support.h"

#include <stdlib.h>
#include <string.h>

static const uint32_t some_blocks[] = {1, 2, 3, 5, 8, 24};
static const uint32_t row_counts[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                      12, 13, 14, 15, 16, 17, 18, 19, 20, 64};

// ---- activations ----

typedef struct {
    int8_t *quants;
    float *scales;
    int32_t *sums;
} quantised_t;

static quantised_t quantised_create(size_t blocks, int poison)
{
    quantised_t q = {malloc(blocks * OR_QUANT_BLOCK), malloc(blocks * sizeof *q.scales),
                     malloc(blocks * sizeof *q.sums)};
    assert_true(q.quants != NULL && q.scales != NULL && q.sums != NULL);
    memset(q.quants, poison, blocks * OR_QUANT_BLOCK);
    memset(q.scales, poison, blocks * sizeof *q.scales);
    memset(q.sums, poison, blocks * sizeof *q.sums);
    return q;
}

static void quantised_free(quantised_t *q)
{
    free(q->sums);
    free(q->scales);
    free(q->quants);
}

static quantised_t quantised_random(uint64_t *random, test_kind_t kind, uint32_t blocks)
{
    float *x = test_floats(random, kind, (size_t)blocks * OR_QUANT_BLOCK);
    quantised_t q = quantised_create(blocks, 0xAA);
    or_kernels_ref.quantize_row(x, blocks, q.quants, q.scales, q.sums);
    free(x);
    return q;
}

static void assert_same_quantised(const quantised_t *actual, const quantised_t *expected,
                                  uint32_t blocks)
{
    for (uint32_t b = 0; b < blocks; b++) {
        const int8_t *quants = expected->quants + (size_t)b * OR_QUANT_BLOCK;
        assert_memory_equal(actual->quants + (size_t)b * OR_QUANT_BLOCK, quants, OR_QUANT_BLOCK);
        assert_same(actual->scales[b], expected->scales[b], "scale", b);
        assert_int_equal(actual->sums[b], expected->sums[b]);
        int32_t sum = 0;
        for (uint32_t i = 0; i < OR_QUANT_BLOCK; i++) {
            assert_true(quants[i] != -128);
            sum += quants[i];
        }
        assert_int_equal(expected->sums[b], sum);
    }
}

static void quantize_case(const or_kernels_t *table, uint64_t *random, test_kind_t kind,
                          uint32_t blocks)
{
    float *x = test_floats(random, kind, (size_t)blocks * OR_QUANT_BLOCK);
    if (test_below(random, 3) == 0) { // a block of zeros of both signs
        float *zeros = x + test_below(random, blocks) * OR_QUANT_BLOCK;
        for (uint32_t i = 0; i < OR_QUANT_BLOCK; i++) {
            zeros[i] = i % 3 ? 0.0f : -0.0f;
        }
    }
    quantised_t expected = quantised_create(blocks, 0x55);
    quantised_t actual = quantised_create(blocks, 0xAA);
    or_kernels_ref.quantize_row(x, blocks, expected.quants, expected.scales, expected.sums);
    table->quantize_row(x, blocks, actual.quants, actual.scales, actual.sums);
    assert_same_quantised(&actual, &expected, blocks);
    quantised_free(&actual);
    quantised_free(&expected);
    free(x);
}

static void quantize_equals_ref(void **state)
{
    (void)state;
    TEST_RUN_CASES(quantize_case, some_blocks);
}

// Any two bit patterns in one block, one of them the largest: all exponents, ties, every special.
static void quantize_equals_ref_on_any_bits(void **state)
{
    (void)state;
    enum { ROUNDS = 2000, BLOCKS = 4, COUNT = BLOCKS * OR_QUANT_BLOCK };
    uint64_t random = test_seed();
    float x[COUNT];
    quantised_t expected = quantised_create(BLOCKS, 0x55);
    quantised_t actual = quantised_create(BLOCKS, 0xAA);
    for (size_t round = 0; round < ROUNDS * test_table_count; round++) {
        for (size_t i = 0; i < COUNT; i++) {
            uint32_t bits = (uint32_t)test_random(&random);
            // In odd rounds one exponent, so that no element dwarfs the others.
            bits = round % 2 ? (bits & 0x80FFFFFFu) | (uint32_t)(round % 128) << 24 : bits;
            memcpy(&x[i], &bits, sizeof bits);
        }
        const or_kernels_t *table = test_tables[round % test_table_count];
        or_kernels_ref.quantize_row(x, BLOCKS, expected.quants, expected.scales, expected.sums);
        table->quantize_row(x, BLOCKS, actual.quants, actual.scales, actual.sums);
        assert_same_quantised(&actual, &expected, BLOCKS);
    }
    quantised_free(&actual);
    quantised_free(&expected);
}

// ---- matmul ----

static or_q8_panel_block_t *random_q8_blocks(uint64_t *random, test_kind_t kind, size_t count)
{
    or_q8_panel_block_t *blocks = test_bytes(random, count * sizeof *blocks);
    uint16_t *scales = test_halves(random, kind, count * OR_PANEL);
    for (size_t b = 0; b < count; b++) {
        memcpy(blocks[b].scales, scales + b * OR_PANEL, sizeof blocks[b].scales);
    }
    free(scales);
    return blocks;
}

static or_q4_panel_block_t *random_q4_blocks(uint64_t *random, test_kind_t kind, size_t count)
{
    or_q4_panel_block_t *blocks = test_bytes(random, count * sizeof *blocks);
    uint16_t *scales = test_halves(random, kind, count * OR_PANEL);
    for (size_t b = 0; b < count; b++) {
        memcpy(blocks[b].scales, scales + b * OR_PANEL, sizeof blocks[b].scales);
    }
    free(scales);
    return blocks;
}

// `rows` is given, the rest of the shape is drawn: which range of K, which strides.
static void matmul_case(const or_kernels_t *table, uint64_t *random, test_kind_t kind,
                        uint32_t rows)
{
    uint32_t blocks = some_blocks[test_below(random, 6)];
    uint32_t skipped = (uint32_t)test_below(random, 4);
    uint32_t stride = skipped + blocks + (uint32_t)test_below(random, 3);
    uint32_t panels = 1 + (uint32_t)test_below(random, 9);
    size_t width = (size_t)panels * OR_PANEL;
    size_t y_stride = width + test_below(random, 20);
    or_q8_panel_block_t *q8 = random_q8_blocks(random, kind, (size_t)panels * stride);
    or_q4_panel_block_t *q4 = random_q4_blocks(random, kind, (size_t)panels * stride);
    test_kind_t x_kind = kind == KIND_SPECIAL ? kind : KIND_PLAIN;
    quantised_t q = quantised_random(random, x_kind, rows * stride);
    const or_q8_rows_t x = {q.quants + (size_t)skipped * OR_QUANT_BLOCK, q.scales + skipped,
                            q.sums + skipped, stride};

    test_outputs_t o = test_outputs((rows - 1) * y_stride + width);
    or_kernels_ref.matmul_q8_0(q8 + skipped, stride, panels, blocks, &x, rows, o.expected,
                               y_stride);
    table->matmul_q8_0(q8 + skipped, stride, panels, blocks, &x, rows, o.actual, y_stride);
    test_check_rows(&o, width, y_stride, "matmul_q8_0");

    o = test_outputs((rows - 1) * y_stride + width);
    or_kernels_ref.matmul_q4_0(q4 + skipped, stride, panels, blocks, &x, rows, o.expected,
                               y_stride);
    table->matmul_q4_0(q4 + skipped, stride, panels, blocks, &x, rows, o.actual, y_stride);
    test_check_rows(&o, width, y_stride, "matmul_q4_0");
    quantised_free(&q);
    free(q4);
    free(q8);
}

static void matmul_equals_ref(void **state)
{
    (void)state;
    TEST_RUN_CASES(matmul_case, row_counts);
}

// Scales of any bits, most of them far from the others, and many NaNs.
static void matmul_equals_ref_on_any_bytes(void **state)
{
    (void)state;
    enum { ROUNDS = 100, BLOCKS = 2, ROWS = 5 };
    uint64_t random = test_seed();
    for (size_t round = 0; round < ROUNDS * test_table_count; round++) {
        const or_kernels_t *table = test_tables[round % test_table_count];
        void *panel = test_bytes(&random, BLOCKS * sizeof(or_q8_panel_block_t));
        quantised_t q = quantised_random(&random, KIND_PLAIN, ROWS * BLOCKS);
        const or_q8_rows_t x = {q.quants, q.scales, q.sums, BLOCKS};
        test_outputs_t o = test_outputs(ROWS * OR_PANEL);
        or_kernels_ref.matmul_q8_0(panel, BLOCKS, 1, BLOCKS, &x, ROWS, o.expected, OR_PANEL);
        table->matmul_q8_0(panel, BLOCKS, 1, BLOCKS, &x, ROWS, o.actual, OR_PANEL);
        test_check_outputs(&o, "matmul_q8_0, any bytes");
        o = test_outputs(ROWS * OR_PANEL);
        or_kernels_ref.matmul_q4_0(panel, BLOCKS, 1, BLOCKS, &x, ROWS, o.expected, OR_PANEL);
        table->matmul_q4_0(panel, BLOCKS, 1, BLOCKS, &x, ROWS, o.actual, OR_PANEL);
        test_check_outputs(&o, "matmul_q4_0, any bytes");
        quantised_free(&q);
        free(panel);
    }
}

// A row gets the same bits alone and among others, where every other row holds NaNs and infinities.
static void matmul_rows_are_independent(void **state)
{
    (void)state;
    enum { ROWS = 23, BLOCKS = 3, PANELS = 5, OUTPUTS = PANELS * OR_PANEL };
    uint64_t random = test_seed();
    or_q8_panel_block_t *q8 = random_q8_blocks(&random, KIND_PLAIN, (size_t)PANELS * BLOCKS);
    or_q4_panel_block_t *q4 = random_q4_blocks(&random, KIND_PLAIN, (size_t)PANELS * BLOCKS);
    quantised_t q = quantised_create((size_t)ROWS * BLOCKS, 0xAA);
    for (size_t m = 0; m < ROWS; m++) {
        test_kind_t kind = m % 2 ? KIND_SPECIAL : KIND_PLAIN;
        float *x = test_floats(&random, kind, (size_t)BLOCKS * OR_QUANT_BLOCK);
        or_kernels_ref.quantize_row(x, BLOCKS, q.quants + m * BLOCKS * OR_QUANT_BLOCK,
                                    q.scales + m * BLOCKS, q.sums + m * BLOCKS);
        free(x);
    }
    float q8_together[ROWS * OUTPUTS], q4_together[ROWS * OUTPUTS];
    float q8_alone[OUTPUTS], q4_alone[OUTPUTS];
    for (size_t t = 0; t < test_table_count; t++) {
        const or_kernels_t *table = test_tables[t];
        const or_q8_rows_t all = {q.quants, q.scales, q.sums, BLOCKS};
        table->matmul_q8_0(q8, BLOCKS, PANELS, BLOCKS, &all, ROWS, q8_together, OUTPUTS);
        table->matmul_q4_0(q4, BLOCKS, PANELS, BLOCKS, &all, ROWS, q4_together, OUTPUTS);
        for (size_t m = 0; m < ROWS; m++) {
            const or_q8_rows_t row = {q.quants + m * BLOCKS * OR_QUANT_BLOCK, q.scales + m * BLOCKS,
                                      q.sums + m * BLOCKS, BLOCKS};
            table->matmul_q8_0(q8, BLOCKS, PANELS, BLOCKS, &row, 1, q8_alone, OUTPUTS);
            table->matmul_q4_0(q4, BLOCKS, PANELS, BLOCKS, &row, 1, q4_alone, OUTPUTS);
            for (size_t n = 0; n < OUTPUTS; n++) {
                assert_same(q8_alone[n], q8_together[m * OUTPUTS + n], "matmul_q8_0", n);
                assert_same(q4_alone[n], q4_together[m * OUTPUTS + n], "matmul_q4_0", n);
            }
        }
    }
    quantised_free(&q);
    free(q4);
    free(q8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantize_equals_ref),
        cmocka_unit_test(quantize_equals_ref_on_any_bits),
        cmocka_unit_test(matmul_equals_ref),
        cmocka_unit_test(matmul_equals_ref_on_any_bytes),
        cmocka_unit_test(matmul_rows_are_independent),
    };
    return cmocka_run_group_tests(tests, test_find_tables, NULL);
}
