// Goal: every table gives the bits of kernels/ref on every input, writes all of its output and
// nothing else.
// Method: run each operation of each table that runs here, ref included, beside ref, on random,
// denormal, huge and special inputs (infinities, NaNs, signed zeros), odd sizes, strides and
// offsets. The two outputs have different poison, so a cell that neither writes differs, too. NaNs
// are equal whatever their sign and payload. Buffers are exact, for the sanitizers.
#include "tests/support/test_support.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"

#define TABLES_MAX 8
#define GUARD 24u // cells behind an output that must keep their poison
#define ROUNDS 3  // random inputs per size

typedef enum { KIND_PLAIN, KIND_DENORMAL, KIND_HUGE, KIND_SPECIAL, KINDS } kind_t;

// The tables that run here, "ref" first.
static const or_kernels_t *tables[TABLES_MAX];
static size_t table_count;

static int find_tables(void **state)
{
    (void)state;
    char names[128];
    snprintf(names, sizeof names, "%s", or_kernels_names());
    char *rest = NULL;
    for (char *name = strtok_r(names, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
        assert_true(table_count < TABLES_MAX);
        tables[table_count] = or_kernels_find(name);
        assert_non_null(tables[table_count]);
        table_count++;
    }
    return 0;
}

// ---- inputs ----

static float random_value(uint64_t *random, kind_t kind)
{
    static const float specials[] = {INFINITY, -INFINITY, NAN, -NAN, 0.0f, -0.0f, 0x1p-149f, 1e38f};
    float plain = (float)(2.0 * test_uniform(random) - 1.0);
    switch (kind) {
    case KIND_DENORMAL:
        return plain * 0x1p-126f;
    case KIND_HUGE:
        return plain * 0x1.fffffep127f;
    case KIND_SPECIAL: // rare enough for sums to survive, or else all would be NaN
        return test_below(random, 100) == 0 ? specials[test_below(random, 8)] : 4.0f * plain;
    default:
        return plain;
    }
}

static float *random_floats(uint64_t *random, kind_t kind, size_t count)
{
    float *values = malloc(count * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++) {
        values[i] = random_value(random, kind);
    }
    return values;
}

static uint16_t *random_halves(uint64_t *random, kind_t kind, size_t count)
{
    static const float scale[KINDS] = {1.0f, 0x1p112f, 0x1p-112f, 1.0f}; // into the range of a half
    uint16_t *values = malloc(count * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++) {
        values[i] = or_f32_to_f16(random_value(random, kind) * scale[kind]);
    }
    return values;
}

// ---- outputs ----

typedef struct {
    float *expected; // of ref, poisoned with 0x55
    float *actual;   // of the table under test, poisoned with 0xAA
    size_t count;    // without the guard
} outputs_t;

static outputs_t outputs_create(size_t count)
{
    size_t bytes = (count + GUARD) * sizeof(float);
    outputs_t o = {malloc(bytes), malloc(bytes), count};
    assert_non_null(o.expected);
    assert_non_null(o.actual);
    memset(o.expected, 0x55, bytes);
    memset(o.actual, 0xAA, bytes);
    return o;
}

// For operations in place: both start from `input`.
static outputs_t outputs_create_from(const float *input, size_t count)
{
    outputs_t o = outputs_create(count);
    memcpy(o.expected, input, count * sizeof *input);
    memcpy(o.actual, input, count * sizeof *input);
    return o;
}

static uint32_t bits(float value)
{
    uint32_t out;
    memcpy(&out, &value, sizeof out);
    return out;
}

static void assert_same(float actual, float expected, const char *what, size_t at)
{
    bool same = bits(actual) == bits(expected) || (isnan(actual) && isnan(expected));
    if (!same) {
        fail_msg("%s: cell %zu is %a, ref has %a", what, at, (double)actual, (double)expected);
    }
}

static void assert_untouched(const outputs_t *o, size_t at, const char *what)
{
    if (bits(o->actual[at]) != 0xAAAAAAAAu || bits(o->expected[at]) != 0x55555555u) {
        fail_msg("%s: cell %zu lies outside of the output and was written", what, at);
    }
}

// Compares rows of `width` cells every `stride` cells, finds everything between and behind
// untouched, and frees both.
static void outputs_check_rows(outputs_t *o, size_t width, size_t stride, const char *what)
{
    for (size_t i = 0; i < o->count; i++) {
        if (i % stride < width) {
            assert_same(o->actual[i], o->expected[i], what, i);
        } else {
            assert_untouched(o, i, what);
        }
    }
    for (size_t i = o->count; i < o->count + GUARD; i++) {
        assert_untouched(o, i, what);
    }
    free(o->expected);
    free(o->actual);
}

static void outputs_check(outputs_t *o, const char *what)
{
    outputs_check_rows(o, o->count, o->count, what);
}

// ---- the operations ----

typedef void (*case_t)(const or_kernels_t *table, uint64_t *random, kind_t kind, uint32_t size);

// Each table, each kind of input, each size, a few times.
static void run_cases(case_t run, const uint32_t *sizes, size_t size_count)
{
    uint64_t random = test_seed();
    for (size_t t = 0; t < table_count; t++) {
        for (kind_t kind = 0; kind < KINDS; kind++) {
            for (size_t i = 0; i < size_count * ROUNDS; i++) {
                run(tables[t], &random, kind, sizes[i % size_count]);
            }
        }
    }
}

#define RUN_CASES(run, sizes) run_cases(run, sizes, sizeof sizes / sizeof sizes[0])

static const uint32_t vector_sizes[] = {1,  2,  3,  7,  8,   9,   12,  15,  16,  17,
                                        23, 31, 32, 33, 100, 172, 256, 257, 768, 1000};

// `size` is the number of rows; the rest of the shape is drawn. The weights begin anywhere.
static void matmul_case(const or_kernels_t *table, uint64_t *random, kind_t kind, uint32_t rows)
{
    static const uint32_t ks[] = {1, 2, 12, 32, 64, 172};
    uint32_t k = ks[test_below(random, 6)];
    uint32_t panels = 1 + (uint32_t)test_below(random, 9);
    size_t skipped = test_below(random, 40);
    size_t panel_stride = (size_t)k * OR_PANEL + OR_PANEL * test_below(random, 3);
    size_t x_stride = k + test_below(random, 4);
    size_t width = (size_t)panels * OR_PANEL;
    size_t y_stride = width + test_below(random, 20);
    size_t weights = skipped + (panels - 1) * panel_stride + (size_t)k * OR_PANEL;
    float *w32 = random_floats(random, kind, weights);
    uint16_t *w16 = random_halves(random, kind, weights);
    // Denormal activations as well would leave nothing but zeros.
    float *x =
        random_floats(random, kind == KIND_SPECIAL ? kind : KIND_PLAIN, (rows - 1) * x_stride + k);

    outputs_t o = outputs_create((rows - 1) * y_stride + width);
    or_kernels_ref.matmul_f32(w32 + skipped, panel_stride, panels, k, x, x_stride, rows, o.expected,
                              y_stride);
    table->matmul_f32(w32 + skipped, panel_stride, panels, k, x, x_stride, rows, o.actual,
                      y_stride);
    outputs_check_rows(&o, width, y_stride, "matmul_f32");

    o = outputs_create((rows - 1) * y_stride + width);
    or_kernels_ref.matmul_f16(w16 + skipped, panel_stride, panels, k, x, x_stride, rows, o.expected,
                              y_stride);
    table->matmul_f16(w16 + skipped, panel_stride, panels, k, x, x_stride, rows, o.actual,
                      y_stride);
    outputs_check_rows(&o, width, y_stride, "matmul_f16");
    free(x);
    free(w16);
    free(w32);
}

static void matmul_equals_ref(void **state)
{
    (void)state;
    static const uint32_t rows[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                    12, 13, 14, 15, 16, 17, 18, 19, 20, 64};
    RUN_CASES(matmul_case, rows);
}

// A row gets the same bits alone and among others.
static void matmul_rows_are_independent(void **state)
{
    (void)state;
    enum { ROWS = 23, K = 48, OUTPUTS = 5 * OR_PANEL };
    uint64_t random = test_seed();
    float *w = random_floats(&random, KIND_PLAIN, (size_t)K * OUTPUTS);
    float *x = random_floats(&random, KIND_PLAIN, (size_t)K * ROWS);
    float together[ROWS * OUTPUTS];
    float alone[OUTPUTS];
    for (size_t t = 0; t < table_count; t++) {
        size_t panel_stride = (size_t)K * OR_PANEL;
        tables[t]->matmul_f32(w, panel_stride, 5, K, x, K, ROWS, together, OUTPUTS);
        for (size_t m = 0; m < ROWS; m++) {
            tables[t]->matmul_f32(w, panel_stride, 5, K, x + m * K, K, 1, alone, OUTPUTS);
            assert_memory_equal(alone, together + m * OUTPUTS, sizeof alone);
        }
    }
    free(x);
    free(w);
}

// All 65,536 halves, widened inside matmul: fma(1, w, +0) is w, except that -0 becomes +0.
static void matmul_widens_every_half(void **state)
{
    (void)state;
    enum { HALVES = 1 << 16 };
    static uint16_t halves[HALVES];
    static float widened[HALVES];
    const float one = 1.0f;
    for (uint32_t i = 0; i < HALVES; i++) {
        halves[i] = (uint16_t)i;
    }
    for (size_t t = 0; t < table_count; t++) {
        memset(widened, 0xAA, sizeof widened);
        tables[t]->matmul_f16(halves, OR_PANEL, HALVES / OR_PANEL, 1, &one, 1, 1, widened, HALVES);
        for (uint32_t i = 0; i < HALVES; i++) {
            float expected = i == 0x8000 ? 0.0f : or_f16_to_f32((uint16_t)i);
            assert_same(widened[i], expected, tables[t]->name, i);
        }
    }
}

static void rmsnorm_case(const or_kernels_t *table, uint64_t *random, kind_t kind, uint32_t n)
{
    float *x = random_floats(random, kind, n);
    float *weight = random_floats(random, KIND_PLAIN, n);
    outputs_t o = outputs_create(n);
    or_kernels_ref.rmsnorm(x, weight, n, 1e-5f, o.expected);
    table->rmsnorm(x, weight, n, 1e-5f, o.actual);
    outputs_check(&o, "rmsnorm");
    o = outputs_create_from(x, n);
    or_kernels_ref.rmsnorm(x, weight, n, 1e-5f, o.expected);
    table->rmsnorm(o.actual, weight, n, 1e-5f, o.actual);
    outputs_check(&o, "rmsnorm in place");
    free(weight);
    free(x);
}

static void rmsnorm_equals_ref(void **state)
{
    (void)state;
    RUN_CASES(rmsnorm_case, vector_sizes);
}

static void rope_case(const or_kernels_t *table, uint64_t *random, kind_t kind, uint32_t head_dim)
{
    float *x = random_floats(random, kind, head_dim);
    float *cosine = random_floats(random, KIND_PLAIN, head_dim / 2);
    float *sine = random_floats(random, KIND_PLAIN, head_dim / 2);
    outputs_t o = outputs_create_from(x, head_dim);
    or_kernels_ref.rope_pairs(o.expected, cosine, sine, head_dim);
    table->rope_pairs(o.actual, cosine, sine, head_dim);
    outputs_check(&o, "rope_pairs");
    free(sine);
    free(cosine);
    free(x);
}

static void rope_equals_ref(void **state)
{
    (void)state;
    static const uint32_t head_dims[] = {2, 4, 6, 8, 10, 14, 16, 48, 64, 96, 128};
    RUN_CASES(rope_case, head_dims);
}

static void elementwise_case(const or_kernels_t *table, uint64_t *random, kind_t kind, uint32_t n)
{
    size_t part_stride = n + test_below(random, 5);
    float *a = random_floats(random, kind, n);
    float *b = random_floats(random, kind, n);
    float *parts = random_floats(random, kind, 7 * part_stride + n);
    outputs_t o = outputs_create_from(a, n);
    or_kernels_ref.swiglu(o.expected, b, n);
    table->swiglu(o.actual, b, n);
    outputs_check(&o, "swiglu");
    o = outputs_create_from(a, n);
    or_kernels_ref.add(o.expected, b, n);
    table->add(o.actual, b, n);
    outputs_check(&o, "add");
    o = outputs_create(n);
    or_kernels_ref.sum_shards(parts, part_stride, n, o.expected);
    table->sum_shards(parts, part_stride, n, o.actual);
    outputs_check(&o, "sum_shards");
    free(parts);
    free(b);
    free(a);
}

static void elementwise_equals_ref(void **state)
{
    (void)state;
    RUN_CASES(elementwise_case, vector_sizes);
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
    for (size_t t = 0; t < table_count; t++) {
        outputs_t o = outputs_create_from(gate, COUNT);
        or_kernels_ref.swiglu(o.expected, up, COUNT);
        tables[t]->swiglu(o.actual, up, COUNT);
        outputs_check(&o, "swiglu sweep");
    }
    free(up);
    free(gate);
}

static void softmax_case(const or_kernels_t *table, uint64_t *random, kind_t kind, uint32_t n)
{
    float *scores = random_floats(random, kind, n);
    for (uint32_t i = 0; i < n && kind == KIND_PLAIN; i++) {
        scores[i] *= 120.0f; // from one to below the smallest denormal
    }
    outputs_t o = outputs_create_from(scores, n);
    or_kernels_ref.softmax(o.expected, n);
    table->softmax(o.actual, n);
    outputs_check(&o, "softmax");
    free(scores);
}

static void softmax_equals_ref(void **state)
{
    (void)state;
    RUN_CASES(softmax_case, vector_sizes);
}

// Scores all alike, or one odd among them at each place.
static void softmax_equals_ref_on_degenerate_scores(void **state)
{
    (void)state;
    enum { N = 37 };
    static const float values[] = {-INFINITY, INFINITY, NAN, 0.0f, -0.0f, 1e38f, -1e38f};
    for (size_t t = 0; t < table_count; t++) {
        for (size_t c = 0; c < 7 * 7 * N; c++) {
            float scores[N];
            for (size_t i = 0; i < N; i++) {
                scores[i] = values[c % 7];
            }
            scores[c / 49] = values[c / 7 % 7];
            outputs_t o = outputs_create_from(scores, N);
            or_kernels_ref.softmax(o.expected, N);
            tables[t]->softmax(o.actual, N);
            outputs_check(&o, "softmax, degenerate");
        }
    }
}

static void attention_case(const or_kernels_t *table, uint64_t *random, kind_t kind,
                           uint32_t head_dim)
{
    uint32_t n = 1 + (uint32_t)test_below(random, OR_KV_BLOCK);
    float *q = random_floats(random, KIND_PLAIN, head_dim);
    float *weights = random_floats(random, KIND_PLAIN, n);
    float *k_block = random_floats(random, kind, (size_t)head_dim * OR_KV_BLOCK);
    float *v_block = random_floats(random, kind, (size_t)head_dim * n);
    float *out = random_floats(random, kind, head_dim);
    outputs_t o = outputs_create(OR_KV_BLOCK);
    or_kernels_ref.attention_scores(q, k_block, head_dim, 0.3f, o.expected);
    table->attention_scores(q, k_block, head_dim, 0.3f, o.actual);
    outputs_check(&o, "attention_scores");
    o = outputs_create_from(out, head_dim);
    or_kernels_ref.attention_values(weights, v_block, head_dim, n, o.expected);
    table->attention_values(weights, v_block, head_dim, n, o.actual);
    outputs_check(&o, "attention_values");
    free(out);
    free(v_block);
    free(k_block);
    free(weights);
    free(q);
}

static void attention_equals_ref(void **state)
{
    (void)state;
    static const uint32_t head_dims[] = {1, 2, 7, 8, 12, 20, 32, 48, 64, 72, 96, 107, 128, 192};
    RUN_CASES(attention_case, head_dims);
}

// ---- choosing a table ----

static void the_environment_chooses_the_table(void **state)
{
    (void)state;
    for (size_t t = 0; t < table_count; t++) {
        setenv("OUTRIDER_KERNELS", tables[t]->name, 1);
        assert_ptr_equal(or_kernels_pick(), tables[t]);
    }
    setenv("OUTRIDER_KERNELS", "abacus", 1);
    assert_null(or_kernels_pick());
    assert_null(or_kernels_find("abacus"));
    assert_null(or_kernels_find(""));
    unsetenv("OUTRIDER_KERNELS");
    assert_ptr_equal(or_kernels_pick(), tables[table_count - 1]);
    assert_ptr_equal(tables[0], &or_kernels_ref);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_environment_chooses_the_table),
        cmocka_unit_test(matmul_equals_ref),
        cmocka_unit_test(matmul_rows_are_independent),
        cmocka_unit_test(matmul_widens_every_half),
        cmocka_unit_test(rmsnorm_equals_ref),
        cmocka_unit_test(rope_equals_ref),
        cmocka_unit_test(elementwise_equals_ref),
        cmocka_unit_test(swiglu_equals_ref_on_a_sweep_of_all_floats),
        cmocka_unit_test(softmax_equals_ref),
        cmocka_unit_test(softmax_equals_ref_on_degenerate_scores),
        cmocka_unit_test(attention_equals_ref),
    };
    return cmocka_run_group_tests(tests, find_tables, NULL);
}
