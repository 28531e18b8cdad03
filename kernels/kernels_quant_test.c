// Goal: the quantised kernels of every table give the bits of kernels/ref on every input, write all
// of their output and nothing else, and compute each row by itself.
// Method: as kernels_test.c, on panels of any bytes whatsoever, such as scales that are NaN and
// integers that no file holds. Panels are strided, ranges of K begin and end inside of super-blocks, and
// activations are quantised from every kind of input.
#include "kernels/kernels_test_support.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS_MAX 40
#define ROWS_MAX 64
#define PANELS_MAX 13u

static const uint32_t some_blocks[] = {1, 2, 3, 5, 8, 24};

// ---- activations ----

static or_q8_block_t *blocks_create(size_t count, int poison)
{
    or_q8_block_t *blocks = malloc(count * sizeof *blocks);
    assert_non_null(blocks);
    memset(blocks, poison, count * sizeof *blocks);
    return blocks;
}

static or_q8_block_t *blocks_random(uint64_t *random, test_kind_t kind, size_t count)
{
    float *x = test_floats(random, kind, count * OR_QUANT_BLOCK);
    or_q8_block_t *blocks = blocks_create(count, 0xAA);
    or_kernels_ref.quantize_row(x, (uint32_t)count, blocks);
    free(x);
    return blocks;
}

// The sums are those of the quants.
static void assert_sums(const or_q8_block_t *block)
{
    int32_t halves[2] = {0, 0};
    for (uint32_t i = 0; i < OR_QUANT_BLOCK; i++) {
        assert_true(block->quants[i] != -128);
        halves[i / 16] += block->quants[i];
    }
    assert_int_equal(block->sum, halves[0] + halves[1]);
    assert_int_equal(block->bias, -128 * (halves[0] + halves[1]));
    assert_same(block->scaled_sum, block->scale * (float)block->sum, "scaled sum", 0);
    for (size_t h = 0; h < 2; h++) {
        assert_int_equal(block->half_biases[h], -128 * halves[h]);
        assert_same(block->scaled_half_sums[h], block->scale * (float)halves[h], "half sum", h);
    }
}

static void assert_same_blocks(const or_q8_block_t *actual, const or_q8_block_t *expected,
                               uint32_t count)
{
    for (uint32_t b = 0; b < count; b++) {
        assert_memory_equal(actual[b].quants, expected[b].quants, sizeof expected[b].quants);
        assert_same(actual[b].scale, expected[b].scale, "scale", b);
        assert_sums(&expected[b]);
        assert_sums(&actual[b]);
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
    or_q8_block_t *expected = blocks_create(blocks + 1, 0x55);
    or_q8_block_t *actual = blocks_create(blocks + 1, 0xAA);
    or_q8_block_t guard = actual[blocks];
    or_kernels_ref.quantize_row(x, blocks, expected);
    table->quantize_row(x, blocks, actual);
    assert_same_blocks(actual, expected, blocks);
    assert_memory_equal(&actual[blocks], &guard, sizeof guard);
    free(actual);
    free(expected);
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
    or_q8_block_t expected[BLOCKS], actual[BLOCKS];
    for (size_t round = 0; round < ROUNDS * test_table_count; round++) {
        for (size_t i = 0; i < COUNT; i++) {
            uint32_t bits = (uint32_t)test_random(&random);
            // In odd rounds one exponent, so that no element dwarfs the others.
            bits = round % 2 ? (bits & 0x80FFFFFFu) | (uint32_t)(round % 128) << 24 : bits;
            memcpy(&x[i], &bits, sizeof bits);
        }
        memset(actual, 0xAA, sizeof actual);
        or_kernels_ref.quantize_row(x, BLOCKS, expected);
        test_tables[round % test_table_count]->quantize_row(x, BLOCKS, actual);
        assert_same_blocks(actual, expected, BLOCKS);
    }
}

// ---- panels ----

// The places of the halves in a unit; `minima` is 0 where there are none.
static const struct {
    size_t scales, minima;
} halves_at[OR_QUANT_TYPES] = {
    [OR_QUANT_Q8_0] = {offsetof(or_panel_q8_0_t, scales), 0},
    [OR_QUANT_Q4_0] = {offsetof(or_panel_q4_0_t, scales), 0},
    [OR_QUANT_IQ4_NL] = {offsetof(or_panel_q4_0_t, scales), 0},
    [OR_QUANT_Q5_0] = {offsetof(or_panel_q5_0_t, scales), 0},
    [OR_QUANT_Q4_1] = {offsetof(or_panel_q4_1_t, scales), offsetof(or_panel_q4_1_t, minima)},
    [OR_QUANT_Q5_1] = {offsetof(or_panel_q5_1_t, scales), offsetof(or_panel_q5_1_t, minima)},
    [OR_QUANT_Q4_K] = {offsetof(or_panel_q4_k_t, scales), offsetof(or_panel_q4_k_t, minima)},
    [OR_QUANT_Q5_K] = {offsetof(or_panel_q5_k_t, scales), offsetof(or_panel_q5_k_t, minima)},
    [OR_QUANT_Q2_K] = {offsetof(or_panel_q2_k_t, scales), offsetof(or_panel_q2_k_t, minima)},
    [OR_QUANT_Q3_K] = {offsetof(or_panel_q3_k_t, scales), 0},
    [OR_QUANT_Q6_K] = {offsetof(or_panel_q6_k_t, scales), 0},
    [OR_QUANT_IQ4_XS] = {offsetof(or_panel_iq4_xs_t, scales), 0},
    [OR_QUANT_MXFP4] = {offsetof(or_panel_q4_0_t, scales), 0}, // bfloats: any will do
    [OR_QUANT_IQ3_S] = {offsetof(or_panel_iq4_xs_t, scales), 0},
    [OR_QUANT_IQ3_XXS] = {offsetof(or_panel_iq4_xs_t, scales), 0},
    [OR_QUANT_IQ2_S] = {offsetof(or_panel_q3_k_t, scales), 0},
    [OR_QUANT_IQ2_XS] = {offsetof(or_panel_q3_k_t, scales), 0},
    [OR_QUANT_IQ2_XXS] = {offsetof(or_panel_q3_k_t, scales), 0},
};

static void put_halves(uint64_t *random, test_kind_t kind, uint8_t *at)
{
    uint16_t *halves = test_halves(random, kind, OR_PANEL);
    memcpy(at, halves, OR_PANEL * sizeof *halves);
    free(halves);
}

// Any bytes, but halves of a kind.
static uint8_t *random_panels(uint64_t *random, test_kind_t kind, or_quant_t type, uint32_t panels,
                              size_t panel_bytes, uint32_t units)
{
    uint8_t *bytes = test_bytes(random, panels * panel_bytes);
    for (size_t p = 0; p < panels; p++) {
        for (size_t u = 0; u < units; u++) {
            uint8_t *unit = bytes + p * panel_bytes + u * or_quant_unit_bytes(type);
            put_halves(random, kind, unit + halves_at[type].scales);
            if (halves_at[type].minima > 0) {
                put_halves(random, kind, unit + halves_at[type].minima);
            }
        }
    }
    return bytes;
}

static uint32_t units_of(or_quant_t type, uint32_t blocks)
{
    return (blocks + or_quant_unit_blocks(type) - 1) / or_quant_unit_blocks(type);
}

// ---- matmul ----

typedef struct {
    or_quant_panels_t w;
    uint32_t rows;
    size_t x_stride, y_stride;
    uint8_t *memory; // of the panels
    or_q8_block_t *x;
} product_t;

static product_t product_of_panels(uint64_t *random, or_quant_t type, test_kind_t kind,
                                   uint32_t rows, uint32_t panels)
{
    or_quant_panels_t w = {.type = type, .count = panels};
    w.first = (uint32_t)test_below(random, 12);
    w.blocks = 1 + (uint32_t)test_below(random, BLOCKS_MAX);
    if (test_below(random, 2) == 0) {
        w.walk_first = (uint32_t)test_below(random, w.first + 1);
        w.walk_end = w.first + w.blocks + (uint32_t)test_below(random, 20);
        w.walk_count = w.count + (uint32_t)test_below(random, 3);
    }
    uint32_t units = units_of(type, w.first + w.blocks);
    w.panel_bytes = units * or_quant_unit_bytes(type) + 2 * test_below(random, 40);
    product_t p = {.rows = rows};
    p.memory = random_panels(random, kind, type, w.count, w.panel_bytes, units);
    w.panels = p.memory;
    p.w = w;
    p.x_stride = w.blocks + test_below(random, 3);
    p.y_stride = w.count * OR_PANEL + test_below(random, 20);
    test_kind_t x_kind = kind == KIND_SPECIAL ? kind : KIND_PLAIN;
    p.x = blocks_random(random, x_kind, (rows - 1) * p.x_stride + w.blocks);
    return p;
}

static uint32_t panels_random(uint64_t *random)
{
    return 1 + (uint32_t)test_below(random, 3);
}

static product_t product_random(uint64_t *random, or_quant_t type, test_kind_t kind, uint32_t rows)
{
    return product_of_panels(random, type, kind, rows, panels_random(random));
}

static void product_free(product_t *p)
{
    free(p->x);
    free(p->memory);
}

static void multiply(const or_kernels_t *table, const product_t *p, uint32_t row, uint32_t rows,
                     float *y)
{
    table->matmul_quants(&p->w, p->x + row * p->x_stride, p->x_stride, rows, y, p->y_stride);
}

// All tables against one product of ref, which is slow.
static void check_product(const product_t *p)
{
    size_t width = (size_t)p->w.count * OR_PANEL;
    size_t count = (p->rows - 1) * p->y_stride + width;
    test_outputs_t definition = test_outputs(count);
    multiply(&or_kernels_ref, p, 0, p->rows, definition.expected);
    for (size_t t = 0; t < test_table_count; t++) {
        test_outputs_t o = test_outputs(count);
        for (size_t m = 0; m < p->rows; m++) {
            memcpy(o.expected + m * p->y_stride, definition.expected + m * p->y_stride,
                   width * sizeof *o.expected);
        }
        char what[64];
        snprintf(what, sizeof what, "%s of %s, %u rows", or_quant_name(p->w.type),
                 test_tables[t]->name, p->rows);
        multiply(test_tables[t], p, 0, p->rows, o.actual);
        test_check_rows(&o, width, p->y_stride, what);
    }
    multiply(&or_kernels_ref, p, 0, p->rows, definition.actual);
    test_check_rows(&definition, width, p->y_stride, "ref, once more");
}

static void check_drawn(uint64_t *random, or_quant_t type, uint32_t rows, uint32_t panels)
{
    test_kind_t kind = (test_kind_t)test_below(random, KINDS);
    product_t p = product_of_panels(random, type, kind, rows, panels);
    check_product(&p);
    product_free(&p);
}

// Each type, each number of rows, a shape and a kind that are drawn.
static void matmul_equals_ref(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    for (uint32_t rows = 1; rows <= ROWS_MAX; rows++) {
        for (or_quant_t type = 0; type < OR_QUANT_TYPES; type++) {
            check_drawn(&random, type, rows, panels_random(&random));
        }
    }
}

// Panels that a table may read several of at once, and those that are left over.
static void matmul_equals_ref_in_a_row_alone(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    for (uint32_t panels = 1; panels <= PANELS_MAX; panels++) {
        for (or_quant_t type = 0; type < OR_QUANT_TYPES; type++) {
            check_drawn(&random, type, 1, panels);
        }
    }
}

// More rows than a table may take at once.
static void matmul_equals_ref_in_many_rows(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    for (or_quant_t type = 0; type < OR_QUANT_TYPES; type++) {
        product_t p = product_random(&random, type, KIND_PLAIN, 200);
        check_product(&p);
        product_free(&p);
    }
}

// Halves of any bits too, most of them far from the others, and many NaNs.
static void matmul_equals_ref_on_any_bytes(void **state)
{
    (void)state;
    enum { ROUNDS = 50, BLOCKS = 2, ROWS = 5 };
    uint64_t random = test_seed();
    for (size_t round = 0; round < ROUNDS * OR_QUANT_TYPES; round++) {
        or_quant_t type = (or_quant_t)(round % OR_QUANT_TYPES);
        uint32_t units = units_of(type, BLOCKS);
        size_t bytes = units * or_quant_unit_bytes(type);
        product_t p = {.rows = ROWS, .x_stride = BLOCKS, .y_stride = OR_PANEL};
        p.memory = test_bytes(&random, bytes);
        p.w = (or_quant_panels_t){
            .type = type, .panels = p.memory, .panel_bytes = bytes, .count = 1, .blocks = BLOCKS};
        p.x = blocks_random(&random, KIND_PLAIN, ROWS * BLOCKS);
        check_product(&p);
        product_free(&p);
    }
}

// Every other row becomes one of NaNs and infinities.
static void spoil_rows(uint64_t *random, const product_t *p)
{
    for (size_t m = 1; m < p->rows; m += 2) {
        float *x = test_floats(random, KIND_SPECIAL, (size_t)p->w.blocks * OR_QUANT_BLOCK);
        or_kernels_ref.quantize_row(x, p->w.blocks, p->x + m * p->x_stride);
        free(x);
    }
}

// A row gets the same bits alone and among others.
static void matmul_rows_are_independent(void **state)
{
    (void)state;
    enum { ROWS = 23 };
    uint64_t random = test_seed();
    for (size_t i = 0; i < test_table_count * OR_QUANT_TYPES; i++) {
        const or_kernels_t *table = test_tables[i / OR_QUANT_TYPES];
        product_t p = product_random(&random, (or_quant_t)(i % OR_QUANT_TYPES), KIND_PLAIN, ROWS);
        spoil_rows(&random, &p);
        float *together = calloc(ROWS * p.y_stride, sizeof *together);
        float *alone = calloc(p.y_stride, sizeof *alone);
        assert_true(together != NULL && alone != NULL);
        multiply(table, &p, 0, ROWS, together);
        for (uint32_t m = 0; m < ROWS; m++) {
            multiply(table, &p, m, 1, alone);
            for (size_t n = 0; n < (size_t)p.w.count * OR_PANEL; n++) {
                assert_same(alone[n], together[m * p.y_stride + n], or_quant_name(p.w.type), n);
            }
        }
        free(alone);
        free(together);
        product_free(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantize_equals_ref),
        cmocka_unit_test(quantize_equals_ref_on_any_bits),
        cmocka_unit_test(matmul_equals_ref),
        cmocka_unit_test(matmul_equals_ref_in_a_row_alone),
        cmocka_unit_test(matmul_equals_ref_in_many_rows),
        cmocka_unit_test(matmul_equals_ref_on_any_bytes),
        cmocka_unit_test(matmul_rows_are_independent),
    };
    return cmocka_run_group_tests(tests, test_find_tables, NULL);
}
