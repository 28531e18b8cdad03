// Goal: products on tensor cores are those of kernels/ref up to the roundings of floats, and a row's bits
// depend neither on its batch nor on how many ranks share the matrix; halves are rounded to nearest even.
// Method: random weights and inputs of many shapes, each product beside ref's over the same rounded inputs, within
// a small part of the sum of all magnitudes; the same rows and spans alone and among others, by memcmp. Where there
// is no GPU, plain sums in another order stand for the library (tests/emulator/emulated_tensor.cpp), which can be told to
// recommend algorithms that break the rule.
#include "kernels/kernels_test_support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda_tensor.h"
#include "kernels/cuda/tests/cuda_test_support.h"

// The error that rounding may cause in a sum, in units of the sum of magnitudes. Tensor cores cut where others round.
#define ERROR_MOST 0x1p-18
#define PARTS 8u

static or_cuda_tensor_t *tensor;

static int open_device(void **state)
{
    char name[OR_CUDA_TENSOR_NAME];
    (void)cuda_test_set_up(state);
    cuda_test_ok(or_cuda_tensor_open(test_device, &tensor));
    or_cuda_tensor_name(tensor, name);
    print_message("tensor cores: %s\n", name);
    return 0;
}

static int close_device(void **state)
{
    or_cuda_tensor_close(&tensor);
    assert_null(tensor);
    return cuda_test_tear_down(state);
}

static float widen(or_cuda_float_t type, uint16_t half)
{
    return type == OR_CUDA_F16 ? or_f16_to_f32(half) : or_bf16_to_f32(half);
}

// ---- a matrix, and rows for it ----

typedef struct {
    or_cuda_float_t type;
    uint32_t rows;
    uint32_t outputs;
    uint32_t inputs;
    uint16_t *weights; // [outputs][inputs]
    uint16_t *x;       // [rows][inputs]
    void *device_weights;
    or_cuda_rows_t device_x;
} product_t;

static size_t whole_tiles(size_t rows)
{
    return (rows + OR_CUDA_TENSOR_ROWS - 1) / OR_CUDA_TENSOR_ROWS * OR_CUDA_TENSOR_ROWS;
}

static uint16_t *draw(uint64_t *random, or_cuda_float_t type, size_t count)
{
    return type == OR_CUDA_F16 ? test_halves(random, KIND_PLAIN, count)
                               : test_bfloats(random, KIND_PLAIN, count);
}

// Rows at a stride, with room for a tile that begins at the last of them; what is there is no number.
static or_cuda_rows_t upload_rows(const product_t *p, size_t stride)
{
    size_t halves = (p->rows + OR_CUDA_TENSOR_ROWS) * stride;
    uint16_t *padded = malloc(halves * sizeof *padded);
    assert_non_null(padded);
    memset(padded, 0xFF, halves * sizeof *padded);
    for (size_t row = 0; row < p->rows; row++) {
        memcpy(padded + row * stride, p->x + row * p->inputs, p->inputs * sizeof *padded);
    }
    or_cuda_rows_t x = {.halves = cuda_test_upload(test_device, padded, halves * sizeof *padded),
                        .halves_stride = stride,
                        .halves_type = p->type};
    free(padded);
    return x;
}

static product_t product_create(uint64_t *random, or_cuda_float_t type, uint32_t rows,
                                uint32_t outputs, uint32_t inputs)
{
    product_t p = {.type = type, .rows = rows, .outputs = outputs, .inputs = inputs};
    size_t weights = (size_t)outputs * inputs;
    p.weights = draw(random, type, weights);
    p.x = draw(random, type, (size_t)rows * inputs);
    p.device_weights = cuda_test_upload(test_device, p.weights, weights * sizeof *p.weights);
    p.device_x = upload_rows(&p, inputs + OR_CUDA_TENSOR_MULTIPLE * (size_t)test_below(random, 3));
    return p;
}

static void product_free(product_t *p)
{
    or_cuda_free(test_device, p->device_x.halves);
    or_cuda_free(test_device, p->device_weights);
    free(p->x);
    free(p->weights);
}

// ---- on the device ----

// The parts of a product that are asked for, and where they go.
typedef struct {
    uint32_t first_row;
    uint32_t rows;
    uint32_t first_output; // as a rank's, of the whole matrix
    uint32_t outputs;
    or_cuda_span_t spans[PARTS];
    uint32_t parts;
    uint32_t whole_parts;
    float *y; // [parts][rows][outputs]
} asked_t;

static asked_t all_of(const product_t *p)
{
    return (asked_t){.rows = p->rows,
                     .outputs = p->outputs,
                     .spans = {{0, p->inputs}},
                     .parts = 1,
                     .whole_parts = 1};
}

// Only outputs are written: neither what is between rows nor what is behind the last tile.
static void take_outputs(const asked_t *asked, const or_cuda_parts_t *to, const float *device_y,
                         size_t floats)
{
    const size_t tiles = whole_tiles(asked->rows) * to->y_stride;
    for (size_t i = 0; i < floats; i++) {
        size_t part = i / to->part_stride;
        size_t place = i % to->part_stride;
        size_t row = place / to->y_stride;
        size_t output = place % to->y_stride;
        bool is_written = part < asked->parts && place < tiles && output < asked->outputs;
        if (!is_written) {
            assert_int_equal(test_bits(device_y[i]), 0xAAAAAAAAu);
        } else if (row < asked->rows) {
            asked->y[(part * asked->rows + row) * asked->outputs + output] = device_y[i];
        }
    }
}

static int prepare(or_cuda_tensor_t *on, or_cuda_float_t type, uint32_t outputs, uint32_t inputs,
                   uint32_t parts)
{
    const or_cuda_tensor_shape_t shape = {type, outputs, inputs, parts};
    return or_cuda_tensor_prepare(on, &shape);
}

static void prepare_all(const product_t *p, const asked_t *asked)
{
    for (uint32_t s = 0; s < asked->parts; s++) {
        if (asked->spans[s].count > 0) {
            cuda_test_ok(
                prepare(tensor, p->type, p->outputs, asked->spans[s].count, asked->whole_parts));
        }
    }
}

static void multiply(const product_t *p, asked_t *asked)
{
    prepare_all(p, asked);
    const or_cuda_tensor_matrix_t matrix = {.type = p->type,
                                            .weights = (const uint16_t *)p->device_weights +
                                                       (size_t)asked->first_output * p->inputs,
                                            .outputs = asked->outputs,
                                            .inputs = p->inputs,
                                            .whole_outputs = p->outputs,
                                            .whole_parts = asked->whole_parts};
    or_cuda_rows_t x = p->device_x;
    x.halves += asked->first_row * x.halves_stride;
    or_cuda_parts_t to = {
        .spans = asked->spans, .count = asked->parts, .y_stride = asked->outputs + OR_PANEL};
    to.part_stride = (whole_tiles(asked->rows) + 1) * to.y_stride;
    size_t floats = asked->parts * to.part_stride;
    to.y = cuda_test_upload(test_device, NULL, floats * sizeof *to.y);
    cuda_test_ok(or_cuda_matmul_tensor(tensor, &matrix, &x, asked->rows, &to));
    float *device_y = malloc(floats * sizeof *device_y);
    asked->y = malloc((size_t)asked->parts * asked->rows * asked->outputs * sizeof *asked->y);
    assert_non_null(device_y);
    assert_non_null(asked->y);
    cuda_test_download(test_device, device_y, to.y, floats * sizeof *device_y);
    take_outputs(asked, &to, device_y, floats);
    free(device_y);
    or_cuda_free(test_device, to.y);
}

// ---- by kernels/ref ----

static uint16_t *pack(const product_t *p)
{
    uint16_t *panels = malloc((size_t)p->outputs * p->inputs * sizeof *panels);
    assert_non_null(panels);
    for (size_t output = 0; output < p->outputs; output++) {
        for (size_t k = 0; k < p->inputs; k++) {
            size_t panel = output / OR_PANEL * p->inputs * OR_PANEL;
            panels[panel + k * OR_PANEL + output % OR_PANEL] = p->weights[output * p->inputs + k];
        }
    }
    return panels;
}

// All rows over a span.
static float *multiply_ref(const product_t *p, or_cuda_span_t span)
{
    size_t inputs = (size_t)p->rows * p->inputs;
    uint16_t *panels = pack(p);
    float *x = malloc(inputs * sizeof *x);
    float *y = malloc((size_t)p->rows * p->outputs * sizeof *y);
    assert_non_null(x);
    assert_non_null(y);
    for (size_t i = 0; i < inputs; i++) {
        x[i] = widen(p->type, p->x[i]);
    }
    (p->type == OR_CUDA_F16 ? or_kernels_ref.matmul_f16 : or_kernels_ref.matmul_bf16)(
        panels + (size_t)span.first * OR_PANEL, (size_t)p->inputs * OR_PANEL, p->outputs / OR_PANEL,
        span.count, x + span.first, p->inputs, p->rows, y, p->outputs);
    free(x);
    free(panels);
    return y;
}

static double magnitude(const product_t *p, or_cuda_span_t span, size_t row, size_t output)
{
    const uint16_t *w = p->weights + output * p->inputs + span.first;
    const uint16_t *x = p->x + row * p->inputs + span.first;
    double sum = 0;
    for (uint32_t k = 0; k < span.count; k++) {
        sum += fabs((double)widen(p->type, w[k]) * (double)widen(p->type, x[k]));
    }
    return sum;
}

static void assert_near_ref(const product_t *p, or_cuda_span_t span, const float *y)
{
    float *expected = multiply_ref(p, span);
    for (size_t i = 0; i < (size_t)p->rows * p->outputs; i++) {
        double most = ERROR_MOST * magnitude(p, span, i / p->outputs, i % p->outputs);
        double error = fabs((double)y[i] - (double)expected[i]);
        if (!(error <= most)) {
            fail_msg("K %u, row %zu of %u, output %zu of %u: %.9g, expected %.9g within %.3g",
                     span.count, i / p->outputs, p->rows, i % p->outputs, p->outputs, (double)y[i],
                     (double)expected[i], most);
        }
    }
    free(expected);
}

// ---- tests ----

static void check_near_ref(uint64_t *random, uint32_t rows, uint32_t outputs, uint32_t inputs)
{
    for (or_cuda_float_t type = OR_CUDA_F16; type <= OR_CUDA_BF16; type++) {
        product_t p = product_create(random, type, rows, outputs, inputs);
        asked_t asked = all_of(&p);
        multiply(&p, &asked);
        assert_near_ref(&p, asked.spans[0], asked.y);
        free(asked.y);
        product_free(&p);
    }
}

static void products_are_near_ref(void **state)
{
    (void)state;
    static const uint32_t rows[] = {1, 2, 3, 7, 8, 16, 17, 33, 63, 64, 65, 200};
    static const uint32_t inputs[] = {8, 24, 64, 256, 1000, 2048, 4096, 14336};
    uint64_t random = test_seed();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        check_near_ref(&random, rows[i], OR_PANEL * (1 + (uint32_t)test_below(&random, 5)), 256);
    }
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
        check_near_ref(&random, 1 + (uint32_t)test_below(&random, 16), 2 * OR_PANEL, inputs[i]);
    }
}

// Row by row, and in pieces that begin anywhere.
static void check_rows(uint64_t *random)
{
    for (or_cuda_float_t type = OR_CUDA_F16; type <= OR_CUDA_BF16; type++) {
        product_t p = product_create(random, type, 200, 3 * OR_PANEL, 512);
        asked_t all = all_of(&p);
        multiply(&p, &all);
        for (uint32_t i = 0; i < 20; i++) {
            asked_t some = all_of(&p);
            some.first_row = (uint32_t)test_below(random, p.rows);
            some.rows = 1 + (uint32_t)test_below(random, i < 10 ? 1 : p.rows - some.first_row);
            multiply(&p, &some);
            assert_memory_equal(some.y, all.y + (size_t)some.first_row * p.outputs,
                                (size_t)some.rows * p.outputs * sizeof *some.y);
            free(some.y);
        }
        free(all.y);
        product_free(&p);
    }
}

static void a_row_does_not_know_its_batch(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    check_rows(&random);
}

static void a_shape_may_have_no_algorithm(void **state)
{
    (void)state;
    char name[OR_CUDA_TENSOR_NAME];
    or_cuda_tensor_name(tensor, name);
    if (strcmp(name, "emulated") != 0) {
        skip();
    }
    or_cuda_tensor_t *unsound = NULL;
    setenv("OR_EMULATED_TENSOR", "none", 1);
    cuda_test_ok(or_cuda_tensor_open(test_device, &unsound));
    int status = prepare(unsound, OR_CUDA_F16, OR_PANEL, 512, 1);
    assert_non_null(strstr(or_cuda_text(status), "the same bits"));
    unsetenv("OR_EMULATED_TENSOR");
    or_cuda_tensor_close(&unsound);
}

// Each part near ref, and the same bits when a rank asks for it alone, or for some of the outputs.
static void check_parts(uint64_t *random, const product_t *p, asked_t *all)
{
    size_t part_floats = (size_t)p->rows * p->outputs;
    all->whole_parts = PARTS;
    all->parts = PARTS;
    multiply(p, all);
    for (uint32_t s = 0; s < PARTS; s++) {
        const float *part = all->y + s * part_floats;
        assert_near_ref(p, all->spans[s], part);
        asked_t one = *all;
        one.spans[0] = all->spans[s];
        one.parts = 1;
        one.first_output = OR_PANEL * (uint32_t)test_below(random, p->outputs / OR_PANEL);
        one.outputs = p->outputs - one.first_output;
        multiply(p, &one);
        for (size_t row = 0; row < p->rows; row++) {
            assert_memory_equal(one.y + row * one.outputs,
                                part + row * p->outputs + one.first_output,
                                one.outputs * sizeof *part);
        }
        free(one.y);
    }
    free(all->y);
}

static void check_even_parts(uint64_t *random)
{
    product_t p = product_create(random, OR_CUDA_BF16, 70, 4 * OR_PANEL, 384);
    asked_t asked = all_of(&p);
    for (uint32_t s = 0; s < PARTS; s++) {
        asked.spans[s] = (or_cuda_span_t){s * p.inputs / PARTS, p.inputs / PARTS};
    }
    check_parts(random, &p, &asked);
    product_free(&p);
}

// A rank's outputs are those of the whole.
static void check_outputs(uint64_t *random)
{
    product_t p = product_create(random, OR_CUDA_BF16, 3, 6 * OR_PANEL, 512);
    asked_t all = all_of(&p);
    multiply(&p, &all);
    asked_t some = all_of(&p);
    some.first_output = 2 * OR_PANEL;
    some.outputs = 3 * OR_PANEL;
    multiply(&p, &some);
    for (size_t row = 0; row < p.rows; row++) {
        assert_memory_equal(some.y + row * some.outputs,
                            all.y + row * p.outputs + some.first_output,
                            some.outputs * sizeof *some.y);
    }
    free(some.y);
    free(all.y);
    product_free(&p);
}

// This is about the emulated library; a real one is not told what to recommend.
static void algorithms_that_will_not_do_are_passed_over(void **state)
{
    (void)state;
    static const char *const faults[] = {"place", "neighbours", "load", "refusal"};
    uint64_t random = test_seed();
    or_cuda_tensor_t *usual = tensor;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        setenv("OR_EMULATED_TENSOR", faults[i], 1);
        cuda_test_ok(or_cuda_tensor_open(test_device, &tensor));
        check_rows(&random);
        check_even_parts(&random);
        check_outputs(&random);
        or_cuda_tensor_close(&tensor);
    }
    unsetenv("OR_EMULATED_TENSOR");
    tensor = usual;
}

static void parts_are_the_same_on_any_rank(void **state)
{
    (void)state;
    static const uint32_t uneven[PARTS] = {64, 32, 64, 0, 96, 8, 0, 120};
    uint64_t random = test_seed();
    for (or_cuda_float_t type = OR_CUDA_F16; type <= OR_CUDA_BF16; type++) {
        product_t p = product_create(&random, type, 70, 4 * OR_PANEL, 384);
        asked_t even = all_of(&p);
        asked_t other = all_of(&p);
        for (uint32_t s = 0, at = 0; s < PARTS; s++) {
            even.spans[s] = (or_cuda_span_t){s * p.inputs / PARTS, p.inputs / PARTS};
            other.spans[s] = (or_cuda_span_t){at, uneven[s]};
            at += uneven[s];
        }
        check_parts(&random, &p, &even);
        check_parts(&random, &p, &other);
        product_free(&p);
    }
}

static void outputs_are_the_same_on_any_rank(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    check_outputs(&random);
}

// Rows that begin with an input of their own, as those of a rank's share do.
static void rows_may_begin_later(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    product_t p = product_create(&random, OR_CUDA_BF16, 5, OR_PANEL, 64);
    const or_cuda_span_t span = {16, 32};
    const or_cuda_tensor_matrix_t matrix = {OR_CUDA_BF16, p.device_weights, p.outputs,
                                            p.inputs,     p.outputs,        1};
    or_cuda_rows_t x = p.device_x;
    x.halves += 8;
    or_cuda_parts_t to = {.spans = &span, .count = 1, .x_first = 8, .y_stride = p.outputs};
    size_t floats = OR_CUDA_TENSOR_ROWS * to.y_stride;
    to.y = cuda_test_upload(test_device, NULL, floats * sizeof *to.y);
    cuda_test_ok(prepare(tensor, p.type, p.outputs, span.count, 1));
    cuda_test_ok(or_cuda_matmul_tensor(tensor, &matrix, &x, p.rows, &to));
    float y[OR_CUDA_TENSOR_ROWS * OR_PANEL];
    cuda_test_download(test_device, y, to.y, sizeof y);
    assert_near_ref(&p, span, y);
    or_cuda_free(test_device, to.y);
    product_free(&p);
}

// No neighbour is nearer, and of two that are as near it is the even one.
static void assert_nearest(float value, uint16_t half)
{
    if (isnan(value)) {
        assert_true(isnan(or_bf16_to_f32(half)));
        return;
    }
    const double sizes[] = {(double)or_bf16_to_f32((uint16_t)(half - 1)),
                            (double)or_bf16_to_f32((uint16_t)(half + 1))};
    double error = fabs((double)or_bf16_to_f32(half) - (double)value);
    for (size_t i = 0; i < 2 && isfinite(or_bf16_to_f32(half)); i++) {
        double other = fabs(sizes[i] - (double)value);
        assert_true(isnan(other) || error < other || (error == other && half % 2 == 0));
    }
}

// silu(x) * 1 is x from 100 on: numbers between two halves, next to the middle and in it, carries, and the end of
// the range; random ones of both signs in between.
static float *draw_values(uint64_t *random, uint32_t n)
{
    static const uint32_t tails[] = {0x0000, 0x0001, 0x1000, 0x3000, 0x7FFF,
                                     0x8000, 0x8001, 0xFFFF, 0xEFFF, 0xF000};
    float *values = test_floats(random, KIND_PLAIN, n);
    for (uint32_t i = 0; i < n; i += 2) {
        uint32_t high = 0x42C8u + (uint32_t)test_below(random, 0x7F80u - 0x42C8u);
        uint32_t bits = high << 16 | tails[test_below(random, sizeof tails / sizeof tails[0])];
        memcpy(&values[i], &bits, sizeof bits);
    }
    values[1] = NAN;
    values[3] = INFINITY;
    values[5] = 65519.0f; // the last that is a half, and
    values[7] = 65520.0f; // the first that is not
    return values;
}

static void check_rounding(uint64_t *random, or_cuda_float_t type, uint32_t n)
{
    size_t stride = n + test_below(random, 9);
    float *values = draw_values(random, n);
    float *ones = malloc(n * sizeof *ones);
    uint16_t *halves = malloc(stride * sizeof *halves);
    assert_non_null(ones);
    assert_non_null(halves);
    for (uint32_t i = 0; i < n; i++) {
        ones[i] = 1.0f;
    }
    float *up = cuda_test_upload(test_device, ones, n * sizeof *ones);
    or_cuda_rows_t gate = {.values = cuda_test_upload(test_device, values, n * sizeof *values),
                           .stride = n,
                           .halves = cuda_test_upload(test_device, NULL, stride * sizeof *halves),
                           .halves_stride = stride,
                           .halves_type = type};
    cuda_test_ok(or_cuda_activate(test_device, OR_CUDA_SILU_GATED, &gate, up, n, n, 1));
    cuda_test_download(test_device, values, gate.values, n * sizeof *values);
    cuda_test_download(test_device, halves, gate.halves, stride * sizeof *halves);
    for (uint32_t i = 0; i < n; i++) {
        if (type == OR_CUDA_F16) {
            assert_int_equal(halves[i], or_f32_to_f16(values[i]));
        } else {
            assert_nearest(values[i], halves[i]);
        }
    }
    for (size_t i = n; i < stride; i++) {
        assert_int_equal(halves[i], 0xAAAA);
    }
    or_cuda_free(test_device, gate.halves);
    or_cuda_free(test_device, gate.values);
    or_cuda_free(test_device, up);
    free(halves);
    free(ones);
    free(values);
}

static void halves_are_the_nearest(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    for (or_cuda_float_t type = OR_CUDA_F16; type <= OR_CUDA_BF16; type++) {
        for (uint32_t n = 8; n < 3000; n = n * 5 / 2) {
            check_rounding(&random, type, n);
        }
    }
}

static void nothing_is_written_where_nothing_is_asked_for(void **state)
{
    (void)state;
    const or_cuda_span_t span = {0, 8};
    const or_cuda_parts_t to = {.spans = &span, .count = 1};
    const or_cuda_rows_t x = {0};
    for (uint32_t rows = 0; rows < 2; rows++) {
        const or_cuda_tensor_matrix_t matrix = {.type = OR_CUDA_F16, .outputs = 16 - 16 * rows};
        cuda_test_ok(or_cuda_matmul_tensor(tensor, &matrix, &x, rows, &to));
    }
    cuda_test_ok(or_cuda_wait(test_device));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_near_ref),
        cmocka_unit_test(a_row_does_not_know_its_batch),
        cmocka_unit_test(algorithms_that_will_not_do_are_passed_over),
        cmocka_unit_test(a_shape_may_have_no_algorithm),
        cmocka_unit_test(parts_are_the_same_on_any_rank),
        cmocka_unit_test(outputs_are_the_same_on_any_rank),
        cmocka_unit_test(rows_may_begin_later),
        cmocka_unit_test(halves_are_the_nearest),
        cmocka_unit_test(nothing_is_written_where_nothing_is_asked_for),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
