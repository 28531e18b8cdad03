// Goal: a part of a matrix multiplies as the whole does, bit for bit, whatever it holds.
// Method: random matrices of every type, outputs that fill no panel; products of parts compared
// with those of the whole over the same inputs, by memcmp.
#include "common/model/weights.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/test_support.h"

#define INPUTS 128u
#define OUTPUTS 70u
#define ROWS 3u
#define Y_STRIDE 80u // whole panels
#define POISON 0xAA

static const or_tensor_type_t types[] = {OR_TENSOR_F32, OR_TENSOR_F16, OR_TENSOR_BF16,
                                         OR_TENSOR_Q8_0, OR_TENSOR_Q4_0};
#define TYPES (sizeof types / sizeof types[0])

// A tensor of small random numbers; its data are the caller's to free.
static or_gguf_tensor_t random_tensor(uint64_t *rng, or_tensor_type_t type)
{
    or_tensor_block_t block = or_gguf_tensor_block(type);
    size_t bytes = (size_t)INPUTS * OUTPUTS / block.elements * block.bytes;
    unsigned char *data = malloc(bytes);
    assert_non_null(data);
    for (size_t i = 0; i < bytes; i++) {
        data[i] = (unsigned char)test_random(rng);
    }
    for (size_t at = 0; at < bytes; at += block.bytes) {
        float number = (float)test_uniform(rng) - 0.5f;
        uint16_t half = 0x2C00 | (data[at] & 0x3FF); // 1/16 .. 1/8, as scale or weight
        uint16_t bfloat = 0x3F00 | data[at];
        if (type == OR_TENSOR_F32) {
            memcpy(data + at, &number, sizeof number);
        } else {
            memcpy(data + at, type == OR_TENSOR_BF16 ? &bfloat : &half, sizeof half);
        }
    }
    return (or_gguf_tensor_t){.name = {"random", 6},
                              .type = type,
                              .dim_count = 2,
                              .dims = {INPUTS, OUTPUTS, 1, 1},
                              .elements = (uint64_t)INPUTS * OUTPUTS,
                              .data = data,
                              .bytes = bytes};
}

// The rows that a matrix holding these inputs reads.
static void fill_rows(or_activations_t *x, const float *numbers, or_span_t inputs, bool quantised)
{
    uint32_t width = inputs.end - inputs.begin;
    assert_int_equal(or_activations_init(x, ROWS, width, quantised), OR_OK);
    for (uint32_t i = 0; i < ROWS; i++) {
        memcpy(x->values + i * x->stride, numbers + (size_t)i * INPUTS + inputs.begin,
               width * sizeof *numbers);
    }
}

static void multiply(const or_matrix_t *matrix, const float *numbers, or_span_t outputs,
                     or_span_t inputs, float *y)
{
    or_workers_t *workers = NULL;
    or_activations_t x;
    fill_rows(&x, numbers, matrix->inputs, or_matrix_is_quantised(matrix));
    assert_int_equal(or_workers_create(1, &workers), OR_OK);
    or_product_t product = or_product(matrix, outputs.begin, outputs.end, y, Y_STRIDE);
    product.inputs = inputs;
    memset(y, POISON, ROWS * Y_STRIDE * sizeof *y);
    or_products_run(or_kernels_pick(), workers, &x, 0, ROWS, &product, 1);
    or_workers_destroy(&workers);
    or_activations_fini(&x);
}

// Multiply `outputs` over `inputs` with a matrix that holds just `held_outputs` and `held_inputs`.
static void check_part(const or_gguf_tensor_t *tensor, const float *numbers, or_span_t held_outputs,
                       or_span_t held_inputs, or_span_t outputs, or_span_t inputs)
{
    or_matrix_t whole, part;
    float expected[ROWS * Y_STRIDE], y[ROWS * Y_STRIDE];
    assert_int_equal(
        or_matrix_pack(tensor, (or_span_t){0, OUTPUTS}, (or_span_t){0, INPUTS}, &whole), OR_OK);
    assert_int_equal(or_matrix_pack(tensor, held_outputs, held_inputs, &part), OR_OK);
    multiply(&whole, numbers, (or_span_t){0, OUTPUTS}, inputs, expected);
    multiply(&part, numbers, outputs, inputs, y);
    for (uint32_t i = 0; i < ROWS; i++) {
        assert_memory_equal(y + (size_t)i * Y_STRIDE + or_matrix_place(&part, outputs.begin),
                            expected + (size_t)i * Y_STRIDE + outputs.begin,
                            (outputs.end - outputs.begin) * sizeof *y);
    }
    size_t panels = part.panels.end - part.panels.begin;
    assert_int_equal(part.bytes * 5 * INPUTS,
                     whole.bytes * panels * (held_inputs.end - held_inputs.begin));
    or_matrix_free(&part);
    or_matrix_free(&whole);
}

static void parts_multiply_as_the_whole(void **state)
{
    (void)state;
    uint64_t rng = test_seed();
    float numbers[ROWS * INPUTS];
    for (size_t i = 0; i < ROWS * INPUTS; i++) {
        numbers[i] = (float)test_uniform(&rng) - 0.5f;
    }
    const or_span_t all = {0, OUTPUTS}, some = {37, 66}, last = {50, OUTPUTS};
    const or_span_t inner = {32, 96}, block = {64, 96}, odd = {5, 77}, within = {9, 60};
    for (size_t i = 0; i < TYPES; i++) {
        or_gguf_tensor_t tensor = random_tensor(&rng, types[i]);
        check_part(&tensor, numbers, some, (or_span_t){0, INPUTS}, some, (or_span_t){0, INPUTS});
        check_part(&tensor, numbers, all, inner, all, inner);
        check_part(&tensor, numbers, last, inner, (or_span_t){64, OUTPUTS}, block);
        if (or_gguf_tensor_block(types[i]).elements == 1) {
            check_part(&tensor, numbers, some, odd, some, within);
        }
        free((void *)(uintptr_t)tensor.data);
    }
}

// A rank without heads holds nothing of the matrices about them.
static void an_empty_part_is_nothing(void **state)
{
    (void)state;
    uint64_t rng = test_seed();
    for (size_t i = 0; i < TYPES; i++) {
        or_gguf_tensor_t tensor = random_tensor(&rng, types[i]);
        or_matrix_t no_outputs, no_inputs;
        assert_int_equal(
            or_matrix_pack(&tensor, (or_span_t){24, 24}, (or_span_t){0, INPUTS}, &no_outputs),
            OR_OK);
        assert_int_equal(
            or_matrix_pack(&tensor, (or_span_t){0, OUTPUTS}, (or_span_t){64, 64}, &no_inputs),
            OR_OK);
        assert_null(no_outputs.memory);
        assert_null(no_inputs.memory);
        float numbers[ROWS * INPUTS] = {0};
        float y[ROWS * Y_STRIDE], poison[ROWS * Y_STRIDE];
        memset(poison, POISON, sizeof poison);
        multiply(&no_outputs, numbers, (or_span_t){24, 24}, (or_span_t){0, INPUTS}, y);
        assert_memory_equal(y, poison, sizeof y);
        or_matrix_free(&no_inputs);
        or_matrix_free(&no_outputs);
        free((void *)(uintptr_t)tensor.data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_multiply_as_the_whole),
        cmocka_unit_test(an_empty_part_is_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
