// Goal: every table gives the bits of kernels/ref on every input, writes all of its output and
// nothing else.
// Method: run each operation of each table that runs here, ref included, beside ref, on random,
// denormal, huge and special inputs (infinities, NaNs, signed zeros), odd sizes, strides and
// offsets. The two outputs have different poison, so a cell that neither writes differs, too. NaNs
// are equal whatever their sign and payload. Buffers are exact, for the sanitizers.
#include "kernels/kernels_test_support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t vector_sizes[] = {1,  2,  3,  7,  8,   9,   12,  15,  16,  17,
                                        23, 31, 32, 33, 100, 172, 256, 257, 768, 1000};

// Weights of each float type that begin anywhere; strides are drawn.
static void compare_matmuls(const or_kernels_t *table, uint64_t *random, test_kind_t kind,
                            uint32_t rows, uint32_t k, uint32_t panels)
{
    size_t skipped = test_below(random, 40);
    size_t panel_stride = (size_t)k * OR_PANEL + OR_PANEL * test_below(random, 3);
    size_t x_stride = k + test_below(random, 4);
    size_t width = (size_t)panels * OR_PANEL;
    size_t y_stride = width + test_below(random, 20);
    size_t weights = skipped + (panels - 1) * panel_stride + (size_t)k * OR_PANEL;
    float *w32 = test_floats(random, kind, weights);
    uint16_t *w16 = test_halves(random, kind, weights);
    uint16_t *bf16 = test_bfloats(random, kind, weights);
    // Denormal activations as well would leave nothing but zeros.
    float *x =
        test_floats(random, kind == KIND_SPECIAL ? kind : KIND_PLAIN, (rows - 1) * x_stride + k);

    test_outputs_t o = test_outputs((rows - 1) * y_stride + width);
    or_kernels_ref.matmul_f32(w32 + skipped, panel_stride, panels, k, x, x_stride, rows, o.expected,
                              y_stride);
    table->matmul_f32(w32 + skipped, panel_stride, panels, k, x, x_stride, rows, o.actual,
                      y_stride);
    test_check_rows(&o, width, y_stride, "matmul_f32");

    o = test_outputs((rows - 1) * y_stride + width);
    or_kernels_ref.matmul_f16(w16 + skipped, panel_stride, panels, k, x, x_stride, rows, o.expected,
                              y_stride);
    table->matmul_f16(w16 + skipped, panel_stride, panels, k, x, x_stride, rows, o.actual,
                      y_stride);
    test_check_rows(&o, width, y_stride, "matmul_f16");

    o = test_outputs((rows - 1) * y_stride + width);
    or_kernels_ref.matmul_bf16(bf16 + skipped, panel_stride, panels, k, x, x_stride, rows,
                               o.expected, y_stride);
    table->matmul_bf16(bf16 + skipped, panel_stride, panels, k, x, x_stride, rows, o.actual,
                       y_stride);
    test_check_rows(&o, width, y_stride, "matmul_bf16");
    free(x);
    free(bf16);
    free(w16);
    free(w32);
}

// `size` is the number of rows; the rest of the shape is drawn: panels that fill a table's tiles or
// do not, and K; less of both where rows are many, for time.
static void matmul_case(const or_kernels_t *table, uint64_t *random, test_kind_t kind,
                        uint32_t rows)
{
    static const uint32_t ks[] = {1, 2, 12, 64, 128, 129, 172, 300};
    uint32_t k = ks[test_below(random, rows <= 16 ? 8 : 6)];
    uint32_t panels = 1 + (uint32_t)test_below(random, rows == 1 ? 19 : rows <= 16 ? 5 : 3);
    compare_matmuls(table, random, kind, rows, k, panels);
}

// `size` is K: longer than the chunks in which tables take it where rows are more than a tile.
static void matmul_chunks_case(const or_kernels_t *table, uint64_t *random, test_kind_t kind,
                               uint32_t k)
{
    uint32_t rows = 13 + (uint32_t)test_below(random, 3);
    uint32_t panels = 1 + (uint32_t)test_below(random, 3);
    compare_matmuls(table, random, kind, rows, k, panels);
}

static void matmul_chunks_equal_ref(void **state)
{
    (void)state;
    static const uint32_t ks[] = {513, 1025};
    TEST_RUN_CASES(matmul_chunks_case, ks);
}

static void matmul_equals_ref(void **state)
{
    (void)state;
    static const uint32_t rows[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,
                                    17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32,
                                    33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48,
                                    49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64};
    TEST_RUN_CASES(matmul_case, rows);
}

// A row gets the same bits alone and among others.
static void matmul_rows_are_independent(void **state)
{
    (void)state;
    enum { ROWS = 23, K = 48, OUTPUTS = 5 * OR_PANEL };
    uint64_t random = test_seed();
    float *w = test_floats(&random, KIND_PLAIN, (size_t)K * OUTPUTS);
    float *x = test_floats(&random, KIND_PLAIN, (size_t)K * ROWS);
    float together[ROWS * OUTPUTS];
    float alone[OUTPUTS];
    for (size_t t = 0; t < test_table_count; t++) {
        size_t panel_stride = (size_t)K * OR_PANEL;
        test_tables[t]->matmul_f32(w, panel_stride, 5, K, x, K, ROWS, together, OUTPUTS);
        for (size_t m = 0; m < ROWS; m++) {
            test_tables[t]->matmul_f32(w, panel_stride, 5, K, x + m * K, K, 1, alone, OUTPUTS);
            assert_memory_equal(alone, together + m * OUTPUTS, sizeof alone);
        }
    }
    free(x);
    free(w);
}

// All 65,536 halves and bfloats, widened inside matmul: fma(1, w, +0) is w, except that -0 becomes
// +0.
static void matmul_widens_every_half(void **state)
{
    (void)state;
    enum { HALVES = 1 << 16 };
    static uint16_t halves[HALVES];
    static float from_f16[HALVES];
    static float from_bf16[HALVES];
    const float one = 1.0f;
    for (uint32_t i = 0; i < HALVES; i++) {
        halves[i] = (uint16_t)i;
    }
    for (size_t t = 0; t < test_table_count; t++) {
        const or_kernels_t *table = test_tables[t];
        memset(from_f16, 0xAA, sizeof from_f16);
        memset(from_bf16, 0xAA, sizeof from_bf16);
        table->matmul_f16(halves, OR_PANEL, HALVES / OR_PANEL, 1, &one, 1, 1, from_f16, HALVES);
        table->matmul_bf16(halves, OR_PANEL, HALVES / OR_PANEL, 1, &one, 1, 1, from_bf16, HALVES);
        for (uint32_t i = 0; i < HALVES; i++) {
            uint16_t half = (uint16_t)i;
            assert_same(from_f16[i], i == 0x8000 ? 0.0f : or_f16_to_f32(half), table->name, i);
            assert_same(from_bf16[i], i == 0x8000 ? 0.0f : or_bf16_to_f32(half), table->name, i);
        }
    }
}

static void rmsnorm_case(const or_kernels_t *table, uint64_t *random, test_kind_t kind, uint32_t n)
{
    float *x = test_floats(random, kind, n);
    float *weight = test_floats(random, KIND_PLAIN, n);
    test_outputs_t o = test_outputs(n);
    or_kernels_ref.rmsnorm(x, weight, n, 1e-5f, o.expected);
    table->rmsnorm(x, weight, n, 1e-5f, o.actual);
    test_check_outputs(&o, "rmsnorm");
    o = test_outputs_from(x, n);
    or_kernels_ref.rmsnorm(x, weight, n, 1e-5f, o.expected);
    table->rmsnorm(o.actual, weight, n, 1e-5f, o.actual);
    test_check_outputs(&o, "rmsnorm in place");
    free(weight);
    free(x);
}

static void rmsnorm_equals_ref(void **state)
{
    (void)state;
    TEST_RUN_CASES(rmsnorm_case, vector_sizes);
}

static void rope_case(const or_kernels_t *table, uint64_t *random, test_kind_t kind,
                      uint32_t head_dim)
{
    float *x = test_floats(random, kind, head_dim);
    float *cosine = test_floats(random, KIND_PLAIN, head_dim / 2);
    float *sine = test_floats(random, KIND_PLAIN, head_dim / 2);
    test_outputs_t o = test_outputs_from(x, head_dim);
    or_kernels_ref.rope_pairs(o.expected, cosine, sine, head_dim);
    table->rope_pairs(o.actual, cosine, sine, head_dim);
    test_check_outputs(&o, "rope_pairs");
    o = test_outputs_from(x, head_dim);
    or_kernels_ref.rope_halves(o.expected, cosine, sine, head_dim);
    table->rope_halves(o.actual, cosine, sine, head_dim);
    test_check_outputs(&o, "rope_halves");
    free(sine);
    free(cosine);
    free(x);
}

static void rope_equals_ref(void **state)
{
    (void)state;
    static const uint32_t head_dims[] = {2, 4, 6, 8, 10, 14, 16, 48, 64, 96, 128};
    TEST_RUN_CASES(rope_case, head_dims);
}

static void elementwise_case(const or_kernels_t *table, uint64_t *random, test_kind_t kind,
                             uint32_t n)
{
    float *a = test_floats(random, kind, n);
    float *b = test_floats(random, kind, n);
    test_outputs_t o = test_outputs_from(a, n);
    or_kernels_ref.swiglu(o.expected, b, n);
    table->swiglu(o.actual, b, n);
    test_check_outputs(&o, "swiglu");
    o = test_outputs_from(a, n);
    or_kernels_ref.add(o.expected, b, n);
    table->add(o.actual, b, n);
    test_check_outputs(&o, "add");
    free(b);
    free(a);
}

static void elementwise_equals_ref(void **state)
{
    (void)state;
    TEST_RUN_CASES(elementwise_case, vector_sizes);
}

// Every exponent, both signs and all special values go through the exp inside of swiglu.
static void swiglu_equals_ref_on_a_sweep_of_all_floats(void **state)
{
    (void)state;
    enum { COUNT = (1 << 16) + 3, STEP = 65521 }; // beyond all of 32 bits, and an odd tail
    float *gate = malloc(COUNT * sizeof *gate);
    float *up = malloc(COUNT * sizeof *up);
    assert_true(gate != NULL && up != NULL);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t pattern = i * (uint32_t)STEP;
        memcpy(&gate[i], &pattern, sizeof gate[i]);
        up[i] = 1.0f;
    }
    for (size_t t = 0; t < test_table_count; t++) {
        test_outputs_t o = test_outputs_from(gate, COUNT);
        or_kernels_ref.swiglu(o.expected, up, COUNT);
        test_tables[t]->swiglu(o.actual, up, COUNT);
        test_check_outputs(&o, "swiglu sweep");
    }
    free(up);
    free(gate);
}

// The first score is of any position, mostly one near the border of a part.
static void softmax_case(const or_kernels_t *table, uint64_t *random, test_kind_t kind, uint32_t n)
{
    uint32_t first = (uint32_t)test_below(random, 3) * OR_ATTENTION_PART;
    first += (uint32_t)test_below(random, test_below(random, 2) == 0 ? OR_ATTENTION_PART : 3);
    float *scores = test_floats(random, kind, n);
    for (uint32_t i = 0; i < n && kind == KIND_PLAIN; i++) {
        scores[i] *= 120.0f; // from one to below the smallest denormal
    }
    test_outputs_t o = test_outputs_from(scores, n);
    or_kernels_ref.softmax(o.expected, first, n);
    table->softmax(o.actual, first, n);
    test_check_outputs(&o, "softmax");
    free(scores);
}

static void softmax_equals_ref(void **state)
{
    (void)state;
    TEST_RUN_CASES(softmax_case, vector_sizes);
    static const uint32_t parts[] = {255, 256, 257, 511, 512, 513, 1024, 1300};
    TEST_RUN_CASES(softmax_case, parts);
}

// Scores all alike, or one odd among them at each place.
static void softmax_equals_ref_on_degenerate_scores(void **state)
{
    (void)state;
    enum { N = 37 };
    static const float values[] = {-INFINITY, INFINITY, NAN, 0.0f, -0.0f, 1e38f, -1e38f};
    for (size_t t = 0; t < test_table_count; t++) {
        for (size_t c = 0; c < 7 * 7 * N; c++) {
            float scores[N];
            for (size_t i = 0; i < N; i++) {
                scores[i] = values[c % 7];
            }
            scores[c / 49] = values[c / 7 % 7];
            test_outputs_t o = test_outputs_from(scores, N);
            or_kernels_ref.softmax(o.expected, 0, N);
            test_tables[t]->softmax(o.actual, 0, N);
            test_check_outputs(&o, "softmax, degenerate");
        }
    }
}

// ---- choosing a table ----

static void the_environment_chooses_the_table(void **state)
{
    (void)state;
    for (size_t t = 0; t < test_table_count; t++) {
        setenv("OUTRIDER_KERNELS", test_tables[t]->name, 1);
        assert_ptr_equal(or_kernels_pick(), test_tables[t]);
    }
    static const char *const unknown[] = {"abacus", "avx", "REF", "ref avx2", " "};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        setenv("OUTRIDER_KERNELS", unknown[i], 1);
        assert_null(or_kernels_pick());
        assert_null(or_kernels_find(unknown[i]));
    }
    assert_null(or_kernels_find(""));
    setenv("OUTRIDER_KERNELS", "", 1); // says nothing
    assert_ptr_equal(or_kernels_pick(), test_tables[test_table_count - 1]);
    unsetenv("OUTRIDER_KERNELS");
    assert_ptr_equal(or_kernels_pick(), test_tables[test_table_count - 1]);
    assert_ptr_equal(test_tables[0], &or_kernels_ref);
}

// Any bytes whatsoever: scales that are no number, quants of -128.
static void widen_case(const or_kernels_t *table, uint64_t *random, test_kind_t kind, uint32_t n)
{
    size_t blocks = (n + OR_QUANT_BLOCK - 1) / OR_QUANT_BLOCK;
    uint16_t *halves = test_halves(random, kind, n);
    uint16_t *scales = test_halves(random, kind, blocks * OR_KV_BLOCK);
    int8_t *quants = test_bytes(random, (size_t)n * OR_KV_BLOCK);
    test_outputs_t o = test_outputs(n);
    or_kernels_ref.widen_f16(halves, n, o.expected);
    table->widen_f16(halves, n, o.actual);
    test_check_outputs(&o, "widen_f16");
    o = test_outputs(n);
    or_kernels_ref.widen_q8_0(scales, quants, n, o.expected);
    table->widen_q8_0(scales, quants, n, o.actual);
    test_check_outputs(&o, "widen_q8_0");
    o = test_outputs((size_t)n * OR_KV_BLOCK);
    or_kernels_ref.widen_q8_0_keys(scales, quants, n, o.expected);
    table->widen_q8_0_keys(scales, quants, n, o.actual);
    test_check_outputs(&o, "widen_q8_0_keys");
    free(quants);
    free(scales);
    free(halves);
}

static void widen_equals_ref(void **state)
{
    (void)state;
    TEST_RUN_CASES(widen_case, vector_sizes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_environment_chooses_the_table),
        cmocka_unit_test(matmul_equals_ref),
        cmocka_unit_test(matmul_chunks_equal_ref),
        cmocka_unit_test(matmul_rows_are_independent),
        cmocka_unit_test(matmul_widens_every_half),
        cmocka_unit_test(rmsnorm_equals_ref),
        cmocka_unit_test(rope_equals_ref),
        cmocka_unit_test(elementwise_equals_ref),
        cmocka_unit_test(swiglu_equals_ref_on_a_sweep_of_all_floats),
        cmocka_unit_test(softmax_equals_ref),
        cmocka_unit_test(softmax_equals_ref_on_degenerate_scores),
        cmocka_unit_test(widen_equals_ref),
    };
    return cmocka_run_group_tests(tests, test_find_tables, NULL);
}
