// Goal: attention's scores and weighted values have the bits of kernels/ref on blocks of each type, whatever is in them, and
// for each query the same bits alone and among others.
// Method: as in kernels_test.c. The expected outputs are those of kernels/ref over the same numbers as floats, which are
// computed here as kernels.h defines them.
#include "kernels/kernels_test_support.h"

#include <stdlib.h>
#include <string.h>

// The same numbers twice: as a table reads them, and as floats for ref. What follows a block may be any memory.
typedef struct {
    or_kv_block_t read;
    or_kv_block_t floats;
    void *numbers;
    float *scales; // NULL: it has none
    float *widened;
} block_t;

// What a block is: of K, all 32 positions of it; of V, the first `positions`.
typedef struct {
    or_kv_type_t type;
    bool keys;
    uint32_t head_dim, positions;
} form_t;

// The scale of number `at` of a block.
static size_t scale_at(const form_t *form, size_t at)
{
    if (form->keys) {
        return at / OR_KV_BLOCK / OR_QUANT_BLOCK * OR_KV_BLOCK + at % OR_KV_BLOCK;
    }
    return at / form->head_dim * or_kv_scales(form->head_dim) +
           at % form->head_dim / OR_QUANT_BLOCK;
}

static void draw_halves(uint64_t *random, test_kind_t kind, block_t *block, size_t count)
{
    uint16_t *halves = test_halves(random, kind, count);
    for (size_t i = 0; i < count; i++) {
        block->widened[i] = or_f16_to_f32(halves[i]);
    }
    block->numbers = halves;
}

// Any bytes whatsoever: scales that are no number, quants of -128.
static void draw_quants(uint64_t *random, test_kind_t kind, block_t *block, const form_t *form,
                        size_t count)
{
    int8_t *quants = test_bytes(random, count);
    block->scales = test_floats(random, kind, form->positions * or_kv_scales(form->head_dim));
    for (size_t i = 0; i < count; i++) {
        block->widened[i] = block->scales[scale_at(form, i)] * (float)quants[i];
    }
    block->numbers = quants;
}

static block_t draw_block(uint64_t *random, test_kind_t kind, const form_t *form)
{
    const size_t count = (size_t)form->positions * form->head_dim;
    block_t block = {.widened = test_floats(random, kind, count)};
    block.numbers = block.widened;
    if (form->type == OR_KV_F16) {
        draw_halves(random, kind, &block, count);
    } else if (form->type == OR_KV_Q8_0) {
        draw_quants(random, kind, &block, form, count);
    }
    block.floats.numbers = block.widened;
    block.read =
        (or_kv_block_t){.numbers = block.numbers, .type = form->type, .scales = block.scales};
    if (test_below(random, 2) == 0) {
        block.read.next = block.numbers;
        block.read.next_bytes = test_below(random, count + 1);
    }
    return block;
}

static void free_block(const block_t *block)
{
    if (block->numbers != block->widened) {
        free(block->numbers);
    }
    free(block->scales);
    free(block->widened);
}

// Everything is strided, and out goes on from what it holds.
static void compare_attention(const or_kernels_t *table, uint64_t *random, test_kind_t kind,
                              uint32_t queries, or_kv_type_t type)
{
    static const uint32_t head_dims[] = {1,  2,  7,  8,   12,  16,  20,  32,  48,  64,
                                         72, 80, 96, 107, 112, 128, 192, 256, 512, 576};
    uint32_t head_dim = head_dims[test_below(random, sizeof head_dims / sizeof *head_dims)];
    uint32_t n = 1 + (uint32_t)test_below(random, OR_KV_BLOCK);
    size_t q_stride = head_dim + test_below(random, 5);
    size_t score_stride = OR_KV_BLOCK + test_below(random, 5);
    float *q = test_floats(random, KIND_PLAIN, (queries - 1) * q_stride + head_dim);
    float *weights = test_floats(random, KIND_PLAIN, (queries - 1) * score_stride + n);
    block_t keys = draw_block(random, kind, &(form_t){type, true, head_dim, OR_KV_BLOCK});
    block_t values = draw_block(random, kind, &(form_t){type, false, head_dim, n});
    float *out = test_floats(random, kind, (queries - 1) * q_stride + head_dim);
    test_outputs_t o = test_outputs((queries - 1) * score_stride + OR_KV_BLOCK);
    or_kernels_ref.attention_scores(q, q_stride, queries, &keys.floats, head_dim, 0.3f, o.expected,
                                    score_stride);
    table->attention_scores(q, q_stride, queries, &keys.read, head_dim, 0.3f, o.actual,
                            score_stride);
    test_check_rows(&o, OR_KV_BLOCK, score_stride, "attention_scores");
    o = test_outputs_from(out, (queries - 1) * q_stride + head_dim);
    or_kernels_ref.attention_values(weights, score_stride, queries, &values.floats, head_dim, n,
                                    o.expected, q_stride);
    table->attention_values(weights, score_stride, queries, &values.read, head_dim, n, o.actual,
                            q_stride);
    test_check_outputs(&o, "attention_values");
    free(out);
    free_block(&values);
    free_block(&keys);
    free(weights);
    free(q);
}

static void attention_case(const or_kernels_t *table, uint64_t *random, test_kind_t kind,
                           uint32_t queries)
{
    for (or_kv_type_t type = OR_KV_F32; type <= OR_KV_Q8_0; type++) {
        compare_attention(table, random, kind, queries, type);
    }
}

static void attention_equals_ref(void **state)
{
    (void)state;
    static const uint32_t queries[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                       12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22,
                                       23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33};
    TEST_RUN_CASES(attention_case, queries);
}

// Each query gets the same bits alone and among others.
static void attention_queries_are_independent(void **state)
{
    (void)state;
    enum { QUERIES = 21, HEAD_DIM = 72 };
    uint64_t random = test_seed();
    float *q = test_floats(&random, KIND_PLAIN, QUERIES * HEAD_DIM);
    float *numbers = test_floats(&random, KIND_PLAIN, OR_KV_BLOCK * HEAD_DIM);
    const or_kv_block_t block = {.numbers = numbers};
    float scores[QUERIES * OR_KV_BLOCK], alone[OR_KV_BLOCK];
    for (size_t t = 0; t < test_table_count; t++) {
        const or_kernels_t *table = test_tables[t];
        float out[QUERIES * HEAD_DIM] = {0};
        table->attention_scores(q, HEAD_DIM, QUERIES, &block, HEAD_DIM, 0.5f, scores, OR_KV_BLOCK);
        table->attention_values(scores, OR_KV_BLOCK, QUERIES, &block, HEAD_DIM, 30, out, HEAD_DIM);
        for (size_t i = 0; i < QUERIES; i++) {
            float *row = scores + i * OR_KV_BLOCK;
            float out_alone[HEAD_DIM] = {0};
            table->attention_scores(q + i * HEAD_DIM, HEAD_DIM, 1, &block, HEAD_DIM, 0.5f, alone,
                                    OR_KV_BLOCK);
            table->attention_values(row, OR_KV_BLOCK, 1, &block, HEAD_DIM, 30, out_alone, HEAD_DIM);
            assert_memory_equal(alone, row, sizeof alone);
            assert_memory_equal(out_alone, out + i * HEAD_DIM, sizeof out_alone);
        }
    }
    free(numbers);
    free(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_equals_ref),
        cmocka_unit_test(attention_queries_are_independent),
    };
    return cmocka_run_group_tests(tests, test_find_tables, NULL);
}
