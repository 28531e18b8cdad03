// Goal: panels hold what rows mean, as quants.h draws them, and products follow the chain.
// Method: random rows, whose panels are read back by the types of quants.h: the numbers found there give what
// decoding the rows gives, and by the formulas of quants.h the products of every table.
#include "kernels/kernels_test_support.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define UNIT_MAX 256 // weights
#define UNITS 3      // of a row

static uint32_t unit_weights(or_quant_t type)
{
    return or_quant_unit_blocks(type) * OR_QUANT_BLOCK;
}

// ---- panels ----

// A weight as a panel holds it: value = scale * integer - minimum.
typedef struct {
    int integer;
    float scale, minimum;
} weight_t;

static int nibble_at(const uint8_t nibbles[4][OR_PANEL][4], uint32_t lane, uint32_t k)
{
    return nibbles[k / 4 % 4][lane][k % 4] >> (k < 16 ? 0 : 4) & 15;
}

static int pair_at(const uint8_t pairs[2][OR_PANEL][4], uint32_t lane, uint32_t k)
{
    return pairs[k / 16][lane][k % 4] >> 2 * (k / 4 % 4) & 3;
}

static int bit_at(const uint8_t bits[OR_PANEL][4], uint32_t lane, uint32_t k)
{
    return bits[lane][k % 4] >> k / 4 & 1;
}

static float bfloat(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

// Weight `k` of a block of the types without super-blocks.
static weight_t read_simple(or_quant_t type, const void *unit, uint32_t lane, uint32_t k)
{
    const or_panel_q8_0_t *q8_0 = unit;
    const or_panel_q4_0_t *q4_0 = unit;
    const or_panel_q4_1_t *q4_1 = unit;
    const or_panel_q5_0_t *q5_0 = unit;
    const or_panel_q5_1_t *q5_1 = unit;
    switch (type) {
    case OR_QUANT_Q8_0:
        return (weight_t){q8_0->bytes[k / 4][lane][k % 4] - 128, or_f16_to_f32(q8_0->scales[lane]),
                          0};
    case OR_QUANT_Q4_0:
        return (weight_t){nibble_at(q4_0->nibbles, lane, k) - 8, or_f16_to_f32(q4_0->scales[lane]),
                          0};
    case OR_QUANT_IQ4_NL:
        return (weight_t){or_iq4_values[nibble_at(q4_0->nibbles, lane, k)],
                          or_f16_to_f32(q4_0->scales[lane]), 0};
    case OR_QUANT_Q4_1:
        return (weight_t){nibble_at(q4_1->nibbles, lane, k), or_f16_to_f32(q4_1->scales[lane]),
                          -or_f16_to_f32(q4_1->minima[lane])};
    case OR_QUANT_Q5_0:
        return (weight_t){nibble_at(q5_0->nibbles, lane, k) + 16 * bit_at(q5_0->bits, lane, k) - 16,
                          or_f16_to_f32(q5_0->scales[lane]), 0};
    case OR_QUANT_MXFP4:
        return (weight_t){or_mxfp4_values[nibble_at(q4_0->nibbles, lane, k)],
                          bfloat(q4_0->scales[lane]), 0};
    default:
        return (weight_t){nibble_at(q5_1->nibbles, lane, k) + 16 * bit_at(q5_1->bits, lane, k),
                          or_f16_to_f32(q5_1->scales[lane]), -or_f16_to_f32(q5_1->minima[lane])};
    }
}

// Weight `k` of block `b` of a super-block.
static weight_t read_super(or_quant_t type, const void *unit, uint32_t b, uint32_t lane, uint32_t k)
{
    const or_panel_q4_k_t *q4 = unit;
    const or_panel_q5_k_t *q5 = unit;
    const or_panel_q2_k_t *q2 = unit;
    const or_panel_q3_k_t *q3 = unit;
    const or_panel_q6_k_t *q6 = unit;
    const or_panel_iq4_xs_t *iq4 = unit;
    uint32_t group = 2 * b + k / 16;
    switch (type) {
    case OR_QUANT_Q4_K:
        return (weight_t){nibble_at(q4->nibbles[b], lane, k),
                          or_f16_to_f32(q4->scales[lane]) * q4->block_scales[b][lane],
                          or_f16_to_f32(q4->minima[lane]) * q4->block_minima[b][lane]};
    case OR_QUANT_Q5_K:
        return (weight_t){nibble_at(q5->nibbles[b], lane, k) + 16 * bit_at(q5->bits[b], lane, k),
                          or_f16_to_f32(q5->scales[lane]) * q5->block_scales[b][lane],
                          or_f16_to_f32(q5->minima[lane]) * q5->block_minima[b][lane]};
    case OR_QUANT_Q2_K:
        return (weight_t){pair_at(q2->pairs[b], lane, k),
                          or_f16_to_f32(q2->scales[lane]) * (float)(q2->groups[group][lane] % 16),
                          or_f16_to_f32(q2->minima[lane]) * (float)(q2->groups[group][lane] / 16)};
    case OR_QUANT_Q3_K:
        return (weight_t){pair_at(q3->pairs[b], lane, k) + 4 * bit_at(q3->bits[b], lane, k) - 4,
                          or_f16_to_f32(q3->scales[lane]) * q3->groups[group][lane], 0};
    case OR_QUANT_IQ4_XS:
        return (weight_t){or_iq4_values[nibble_at(iq4->nibbles[b], lane, k)],
                          or_f16_to_f32(iq4->scales[lane]) * iq4->block_scales[b][lane], 0};
    case OR_QUANT_IQ3_S:
        return (weight_t){or_iq3_s_values[nibble_at(iq4->nibbles[b], lane, k)],
                          or_f16_to_f32(iq4->scales[lane]) * iq4->block_scales[b][lane], 0};
    case OR_QUANT_IQ3_XXS:
        return (weight_t){or_iq3_xxs_values[nibble_at(iq4->nibbles[b], lane, k)],
                          or_f16_to_f32(iq4->scales[lane]) * iq4->block_scales[b][lane] / 2, 0};
    case OR_QUANT_IQ2_S:
    case OR_QUANT_IQ2_XS:
    case OR_QUANT_IQ2_XXS:
        return (weight_t){
            or_iq2_values[pair_at(q3->pairs[b], lane, k) + 4 * bit_at(q3->bits[b], lane, k)],
            or_f16_to_f32(q3->scales[lane]) * q3->groups[group][lane] / 8, 0};
    default:
        return (weight_t){nibble_at(q6->nibbles[b], lane, k) + 16 * pair_at(q6->pairs[b], lane, k) -
                              32,
                          or_f16_to_f32(q6->scales[lane]) * q6->groups[group][lane], 0};
    }
}

static weight_t read_weight(or_quant_t type, const void *panel, uint32_t lane, uint32_t k)
{
    const uint8_t *unit =
        (const uint8_t *)panel + k / unit_weights(type) * or_quant_unit_bytes(type);
    uint32_t b = k % unit_weights(type) / OR_QUANT_BLOCK;
    return or_quant_unit_blocks(type) == 1 ? read_simple(type, unit, lane, k % OR_QUANT_BLOCK)
                                           : read_super(type, unit, b, lane, k % OR_QUANT_BLOCK);
}

static bool has_minima(or_quant_t type)
{
    return type == OR_QUANT_Q4_1 || type == OR_QUANT_Q5_1 || type == OR_QUANT_Q4_K ||
           type == OR_QUANT_Q5_K || type == OR_QUANT_Q2_K;
}

// ---- packing ----

typedef struct {
    uint32_t weights;
    uint8_t *rows; // at odd addresses, with gaps
    size_t row_bytes;
    uint8_t *panel; // poisoned, with a guard of 16 bytes
    size_t panel_bytes;
} packed_t;

static packed_t pack_random(uint64_t *random, or_quant_t type, uint32_t row_count)
{
    packed_t p = {.weights = UNITS * unit_weights(type),
                  .row_bytes = UNITS * or_quant_file_bytes(type) + 3,
                  .panel_bytes = UNITS * or_quant_unit_bytes(type)};
    p.rows = test_bytes(random, OR_PANEL * p.row_bytes + 1);
    p.panel = malloc(p.panel_bytes + 16);
    assert_non_null(p.panel);
    memset(p.panel, 0xAA, p.panel_bytes + 16);
    or_quant_pack(type, p.rows + 1, p.row_bytes, row_count, UNITS, p.panel);
    for (size_t i = 0; i < 16; i++) {
        assert_int_equal(p.panel[p.panel_bytes + i], 0xAA);
    }
    return p;
}

static void packed_free(packed_t *p)
{
    free(p->panel);
    free(p->rows);
}

static void assert_lane(or_quant_t type, const packed_t *p, uint32_t lane)
{
    float out[UNITS * UNIT_MAX];
    or_quant_decode(type, p->rows + 1 + lane * p->row_bytes, UNITS, out);
    for (uint32_t k = 0; k < p->weights; k++) {
        weight_t w = read_weight(type, p->panel, lane, k);
        float product = w.scale * (float)w.integer;
        assert_same(has_minima(type) ? product - w.minimum : product, out[k], or_quant_name(type),
                    k);
    }
}

// Any bytes, any number of rows; lanes without a row have no scale.
static void panels_hold_what_rows_mean(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    for (uint32_t i = 0; i < OR_QUANT_TYPES * OR_PANEL; i++) {
        or_quant_t type = (or_quant_t)(i / OR_PANEL);
        uint32_t row_count = 1 + i % OR_PANEL;
        packed_t p = pack_random(&random, type, row_count);
        for (uint32_t lane = 0; lane < row_count; lane++) {
            assert_lane(type, &p, lane);
        }
        for (uint32_t lane = row_count; lane < OR_PANEL; lane++) {
            for (uint32_t k = 0; k < p.weights; k++) {
                weight_t w = read_weight(type, p.panel, lane, k);
                assert_true(w.scale == 0.0f && w.minimum == 0.0f);
            }
        }
        packed_free(&p);
    }
}

// ---- the chain ----

// One output over `blocks` blocks from `first` on, as quants.h has it.
static float chain(or_quant_t type, const void *panel, uint32_t first, uint32_t blocks,
                   uint32_t lane, const or_q8_block_t *x)
{
    bool halves = type == OR_QUANT_Q2_K || type == OR_QUANT_Q3_K || type == OR_QUANT_Q6_K ||
                  type == OR_QUANT_IQ2_S || type == OR_QUANT_IQ2_XS || type == OR_QUANT_IQ2_XXS;
    uint32_t size = halves ? 16 : 32;
    float y = 0.0f;
    for (uint32_t from = 0; from < blocks * OR_QUANT_BLOCK; from += size) {
        const or_q8_block_t *block = x + from / OR_QUANT_BLOCK;
        weight_t w = {0};
        int products = 0;
        int quants = 0;
        for (uint32_t k = from; k < from + size; k++) {
            w = read_weight(type, panel, lane, first * OR_QUANT_BLOCK + k);
            products += w.integer * block->quants[k % OR_QUANT_BLOCK];
            quants += block->quants[k % OR_QUANT_BLOCK];
        }
        y = fmaf(w.scale * block->scale, (float)products, y);
        if (has_minima(type)) {
            y = fmaf(-w.minimum, block->scale * (float)quants, y);
        }
    }
    return y;
}

// Over a range that begins and ends inside of units, where the type has such.
static void products_follow_the_chain(void **state)
{
    (void)state;
    enum { FIRST = 1, ROWS = 3 };
    uint64_t random = test_seed();
    for (or_quant_t type = 0; type < OR_QUANT_TYPES; type++) {
        packed_t p = pack_random(&random, type, OR_PANEL);
        uint32_t blocks = p.weights / OR_QUANT_BLOCK - FIRST - 1;
        float *floats = test_floats(&random, KIND_PLAIN, (size_t)ROWS * blocks * OR_QUANT_BLOCK);
        or_q8_block_t *x = malloc((size_t)ROWS * blocks * sizeof *x);
        assert_non_null(x);
        or_kernels_ref.quantize_row(floats, ROWS * blocks, x);
        for (size_t t = 0; t < test_table_count; t++) {
            float y[ROWS * OR_PANEL];
            const or_quant_panels_t w = {
                .type = type, .panels = p.panel, .count = 1, .first = FIRST, .blocks = blocks};
            test_tables[t]->matmul_quants(&w, x, blocks, ROWS, y, OR_PANEL);
            for (uint32_t i = 0; i < ROWS * OR_PANEL; i++) {
                float expected = chain(type, p.panel, FIRST, blocks, i % OR_PANEL,
                                       x + (size_t)i / OR_PANEL * blocks);
                assert_same(y[i], expected, or_quant_name(type), i);
            }
        }
        free(x);
        free(floats);
        packed_free(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(panels_hold_what_rows_mean),
        cmocka_unit_test(products_follow_the_chain),
    };
    return cmocka_run_group_tests(tests, test_find_tables, NULL);
}
