// kernels_test_support - what the tests of the tables share: the tables that run here, inputs of every kind, and
// outputs that are compared with those of kernels/ref.
#pragma once

#include "tests/support/test_support.h"

#include "kernels/kernels.h"

#define TEST_TABLES_MAX 8

// The tables that run here, "ref" first. test_find_tables is a group's set-up.
extern const or_kernels_t *test_tables[TEST_TABLES_MAX];
extern size_t test_table_count;
int test_find_tables(void **state);

// KIND_SPECIAL: one in a hundred is an infinity, a NaN, a zero of either sign or next to an end of
// the range.
typedef enum { KIND_PLAIN, KIND_DENORMAL, KIND_HUGE, KIND_SPECIAL, KINDS } test_kind_t;

// Return a random array of exactly `count` elements, which the caller frees.
float *test_floats(uint64_t *random, test_kind_t kind, size_t count);
uint16_t *test_halves(uint64_t *random, test_kind_t kind, size_t count);
uint16_t *test_bfloats(uint64_t *random, test_kind_t kind, size_t count);
void *test_bytes(uint64_t *random, size_t count);

// Two outputs of one operation, poisoned differently, each with a guard behind it.
typedef struct {
    float *expected; // of ref, poisoned with 0x55
    float *actual;   // of the table under test, poisoned with 0xAA
    size_t count;    // without the guard
} test_outputs_t;

test_outputs_t test_outputs(size_t count);
// For operations in place: both start from `input`.
test_outputs_t test_outputs_from(const float *input, size_t count);
// Compares them, finds the guards untouched, and frees both.
void test_check_outputs(test_outputs_t *o, const char *what);
// The same for rows of `width` cells every `stride` cells, with untouched cells between.
void test_check_rows(test_outputs_t *o, size_t width, size_t stride, const char *what);

uint32_t test_bits(float value);
// The test fails unless both have the same bits, or both are a NaN.
void assert_same(float actual, float expected, const char *what, size_t at);

// Run a case with each table, each kind of input and each size, a few times.
typedef void (*test_case_t)(const or_kernels_t *table, uint64_t *random, test_kind_t kind,
                            uint32_t size);
void test_run_cases(test_case_t run, const uint32_t *sizes, size_t size_count);

#define TEST_RUN_CASES(run, sizes) test_run_cases(run, sizes, sizeof sizes / sizeof sizes[0])
