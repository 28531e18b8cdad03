#include "kernels/kernels_test_support.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD 24u // cells behind an output that must keep their poison
#define ROUNDS 3  // random inputs per size

const or_kernels_t *test_tables[TEST_TABLES_MAX];
size_t test_table_count;

int test_find_tables(void **state)
{
    (void)state;
    char names[128];
    snprintf(names, sizeof names, "%s", or_kernels_names());
    char *rest = NULL;
    for (char *name = strtok_r(names, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
        assert_true(test_table_count < TEST_TABLES_MAX);
        test_tables[test_table_count] = or_kernels_find(name);
        assert_non_null(test_tables[test_table_count]);
        test_table_count++;
    }
    return 0;
}

// ---- inputs ----

static float test_value(uint64_t *random, test_kind_t kind)
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

float *test_floats(uint64_t *random, test_kind_t kind, size_t count)
{
    float *values = malloc(count * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++) {
        values[i] = test_value(random, kind);
    }
    return values;
}

uint16_t *test_halves(uint64_t *random, test_kind_t kind, size_t count)
{
    static const float scale[KINDS] = {1.0f, 0x1p112f, 0x1p-112f, 1.0f}; // into the range of a half
    uint16_t *values = malloc(count * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++) {
        values[i] = or_f32_to_f16(test_value(random, kind) * scale[kind]);
    }
    return values;
}

uint16_t *test_bfloats(uint64_t *random, test_kind_t kind, size_t count)
{
    uint16_t *values = malloc(count * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++) {
        values[i] = (uint16_t)(test_bits(test_value(random, kind)) >> 16);
    }
    return values;
}

void *test_bytes(uint64_t *random, size_t count)
{
    uint8_t *values = malloc(count);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++) {
        values[i] = (uint8_t)test_random(random);
    }
    return values;
}

// ---- outputs ----

test_outputs_t test_outputs(size_t count)
{
    size_t bytes = (count + GUARD) * sizeof(float);
    test_outputs_t o = {malloc(bytes), malloc(bytes), count};
    assert_non_null(o.expected);
    assert_non_null(o.actual);
    memset(o.expected, 0x55, bytes);
    memset(o.actual, 0xAA, bytes);
    return o;
}

test_outputs_t test_outputs_from(const float *input, size_t count)
{
    test_outputs_t o = test_outputs(count);
    memcpy(o.expected, input, count * sizeof *input);
    memcpy(o.actual, input, count * sizeof *input);
    return o;
}

uint32_t test_bits(float value)
{
    uint32_t out;
    memcpy(&out, &value, sizeof out);
    return out;
}

void assert_same(float actual, float expected, const char *what, size_t at)
{
    bool same = test_bits(actual) == test_bits(expected) || (isnan(actual) && isnan(expected));
    if (!same) {
        fail_msg("%s: cell %zu is %a, ref has %a", what, at, (double)actual, (double)expected);
    }
}

static void assert_untouched(const test_outputs_t *o, size_t at, const char *what)
{
    if (test_bits(o->actual[at]) != 0xAAAAAAAAu || test_bits(o->expected[at]) != 0x55555555u) {
        fail_msg("%s: cell %zu lies outside of the output and was written", what, at);
    }
}

void test_check_rows(test_outputs_t *o, size_t width, size_t stride, const char *what)
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

void test_check_outputs(test_outputs_t *o, const char *what)
{
    test_check_rows(o, o->count, o->count, what);
}

// ---- cases ----

void test_run_cases(test_case_t run, const uint32_t *sizes, size_t size_count)
{
    uint64_t random = test_seed();
    size_t runs = size_count * test_runs(ROUNDS);
    for (size_t t = 0; t < test_table_count; t++) {
        for (test_kind_t kind = 0; kind < KINDS; kind++) {
            for (size_t i = 0; i < runs; i++) {
                run(test_tables[t], &random, kind, sizes[i % size_count]);
            }
        }
    }
}
