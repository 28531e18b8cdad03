// Goal: products with float, half and bfloat16 weights have the bits of kernels/ref on a GPU, whatever
// else is in the batch, for each span of the inputs by itself, and write nothing else.
// Method: random, denormal, huge and special inputs; rows, K and panels that fill blocks and tiles or do
// not; strides, spans and places drawn. Outputs have a row of guards behind each part.
#include "kernels/kernels_test_support.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/tests/cuda_test_support.h"

#define ALIGNED 16u // bytes: of a panel

static int open_device(void **state)
{
    (void)cuda_test_set_up(state);
    return test_find_tables(state);
}

// ---- a product and its definition ----

typedef struct {
    or_cuda_float_t type;
    test_kind_t kind;
    uint32_t rows;
    uint32_t k; // where the last span ends
    uint32_t panels;
    uint32_t parts;
} shape_t;

typedef struct {
    size_t skipped; // weights before the panels
    size_t panel_stride;
    size_t x_skipped;
    size_t x_stride;
    or_cuda_span_t spans[OR_CUDA_SPANS_MAX];
    or_cuda_parts_t to; // its y is an offset, until it is known
    size_t outputs;
} places_t;

static size_t width_of(const shape_t *shape)
{
    return (size_t)shape->panels * OR_PANEL;
}

static size_t weight_bytes(or_cuda_float_t type)
{
    return type == OR_CUDA_F32 ? sizeof(float) : sizeof(uint16_t);
}

// Spans that follow each other up to K, of which some are empty, from an input at which x may have begun.
static void draw_spans(uint64_t *random, const shape_t *shape, places_t *places)
{
    uint32_t at = (uint32_t)test_below(random, 4) ? 0 : (uint32_t)test_below(random, shape->k);
    places->to.x_first = (uint32_t)test_below(random, at + 1);
    for (uint32_t s = 0; s < shape->parts; s++) {
        uint32_t left = shape->k - at;
        uint32_t even = left / (shape->parts - s);
        uint32_t count = test_below(random, 3) ? even : (uint32_t)test_below(random, left + 1);
        count = s + 1 == shape->parts ? left : count;
        places->spans[s] = (or_cuda_span_t){at, count};
        at += count;
    }
}

static places_t draw_places(uint64_t *random, const shape_t *shape)
{
    size_t step = ALIGNED / weight_bytes(shape->type);
    places_t places = {
        .skipped = step * test_below(random, 5),
        .panel_stride = (size_t)shape->k * OR_PANEL + step * test_below(random, 5),
        .x_skipped = test_below(random, 4),
        .to = {.count = shape->parts, .y_stride = width_of(shape) + test_below(random, 20)},
    };
    draw_spans(random, shape, &places);
    places.x_stride = shape->k - places.to.x_first + test_below(random, 4);
    places.to.part_stride = (shape->rows + test_below(random, 2)) * places.to.y_stride;
    places.outputs =
        (shape->parts - 1) * places.to.part_stride + (shape->rows + 1) * places.to.y_stride;
    return places;
}

static void *draw_weights(uint64_t *random, const shape_t *shape, size_t count)
{
    switch (shape->type) {
    case OR_CUDA_F32:
        return test_floats(random, shape->kind, count);
    case OR_CUDA_F16:
        return test_halves(random, shape->kind, count);
    default:
        return test_bfloats(random, shape->kind, count);
    }
}

static void multiply_ref(const shape_t *shape, const void *panels, size_t panel_stride, uint32_t k,
                         const float *x, size_t x_stride, float *y, size_t y_stride)
{
    const or_kernels_t *ref = &or_kernels_ref;
    switch (shape->type) {
    case OR_CUDA_F32:
        ref->matmul_f32(panels, panel_stride, shape->panels, k, x, x_stride, shape->rows, y,
                        y_stride);
        break;
    case OR_CUDA_F16:
        ref->matmul_f16(panels, panel_stride, shape->panels, k, x, x_stride, shape->rows, y,
                        y_stride);
        break;
    default:
        ref->matmul_bf16(panels, panel_stride, shape->panels, k, x, x_stride, shape->rows, y,
                         y_stride);
    }
}

// The rows behind a part must stay as they are: that is what is expected of them.
static void expect_part(const shape_t *shape, const places_t *places, uint32_t s, const char *w,
                        const float *x, test_outputs_t *o)
{
    or_cuda_span_t span = places->spans[s];
    size_t first_weight = places->skipped + (size_t)span.first * OR_PANEL;
    size_t part = s * places->to.part_stride;
    size_t end = part + shape->rows * places->to.y_stride;
    size_t next = s + 1 == shape->parts ? places->outputs : part + places->to.part_stride;
    multiply_ref(shape, w + first_weight * weight_bytes(shape->type), places->panel_stride,
                 span.count, x + places->x_skipped + (span.first - places->to.x_first),
                 places->x_stride, o->expected + part, places->to.y_stride);
    for (size_t row = end; row < next; row += places->to.y_stride) {
        memcpy(o->expected + row, o->actual + row, width_of(shape) * sizeof(float));
    }
}

static void multiply_on_device(const shape_t *shape, const places_t *places, const void *w,
                               size_t weights, const float *x, size_t inputs, float *y)
{
    size_t y_bytes = places->outputs * sizeof *y;
    char *device_w = cuda_test_upload(test_device, w, weights * weight_bytes(shape->type));
    float *device_x = cuda_test_upload(test_device, x, inputs * sizeof *x);
    or_cuda_parts_t to = places->to;
    to.spans = places->spans;
    to.y = cuda_test_upload(test_device, y, y_bytes);
    cuda_test_ok(or_cuda_matmul_floats(
        test_device, shape->type, device_w + places->skipped * weight_bytes(shape->type),
        places->panel_stride, shape->panels, device_x + places->x_skipped, places->x_stride,
        shape->rows, &to));
    cuda_test_download(test_device, y, to.y, y_bytes);
    or_cuda_free(test_device, to.y);
    or_cuda_free(test_device, device_x);
    or_cuda_free(test_device, device_w);
}

static void compare(uint64_t *random, const shape_t *shape)
{
    static const char *const names[] = {"floats", "halves", "bfloats"};
    places_t places = draw_places(random, shape);
    size_t weights =
        places.skipped + (shape->panels - 1) * places.panel_stride + (size_t)shape->k * OR_PANEL;
    size_t inputs =
        places.x_skipped + (shape->rows - 1) * places.x_stride + shape->k - places.to.x_first;
    void *w = draw_weights(random, shape, weights);
    // Denormal activations as well would leave nothing but zeros.
    float *x = test_floats(random, shape->kind == KIND_SPECIAL ? KIND_SPECIAL : KIND_PLAIN, inputs);
    test_outputs_t o = test_outputs(places.outputs);
    for (uint32_t s = 0; s < shape->parts; s++) {
        expect_part(shape, &places, s, w, x, &o);
    }
    multiply_on_device(shape, &places, w, weights, x, inputs, o.actual);
    test_check_rows(&o, width_of(shape), places.to.y_stride, names[shape->type]);
    free(x);
    free(w);
}

// Each type and kind of input; panels and parts are drawn.
static void compare_all(uint64_t *random, uint32_t rows, uint32_t k)
{
    static const uint32_t parts[] = {1, 1, 2, 8};
    for (or_cuda_float_t type = OR_CUDA_F32; type <= OR_CUDA_BF16; type++) {
        for (test_kind_t kind = 0; kind < KINDS; kind++) {
            shape_t shape = {type,
                             kind,
                             rows,
                             k,
                             1 + (uint32_t)test_below(random, 5),
                             parts[test_below(random, 4)]};
            compare(random, &shape);
        }
    }
}

// ---- tests ----

static void products_equal_ref_for_all_rows(void **state)
{
    (void)state;
    static const uint32_t rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 33, 64, 70};
    uint64_t random = test_seed();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        compare_all(&random, rows[i], 1 + (uint32_t)test_below(&random, 300));
    }
}

static void products_equal_ref_for_all_k(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    for (uint32_t k = 1; k <= 70; k++) {
        compare_all(&random, 1 + (uint32_t)test_below(&random, 3), k);
    }
    static const uint32_t tiles[] = {127, 128, 129, 255, 256, 257, 300};
    for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++) {
        compare_all(&random, 1 + (uint32_t)test_below(&random, 9), tiles[i]);
    }
}

// A matrix of many panels is cut into other blocks than one of few.
static void products_of_large_matrices_equal_ref(void **state)
{
    (void)state;
    static const uint32_t rows[] = {1, 2, 3, 4, 5, 8, 9, 16, 17, 33, 70};
    uint64_t random = test_seed();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (or_cuda_float_t type = OR_CUDA_F32; type <= OR_CUDA_BF16; type++) {
            const uint32_t parts = i % 2 == 0 ? 1 : 8;
            shape_t shape = {.type = type,
                             .kind = (test_kind_t)test_below(&random, KINDS),
                             .rows = rows[i],
                             .k = 1 + (uint32_t)test_below(&random, parts == 1 ? 200 : 600),
                             .panels = 520 / parts + (uint32_t)test_below(&random, 4),
                             .parts = parts};
            compare(&random, &shape);
        }
    }
}

// Products so small that they round to -0 leave a -0 in the chain, which must survive the end of K.
static void a_negative_zero_survives(void **state)
{
    (void)state;
    const float x[] = {0x1p-100f, 0.0f};
    float w[2 * OR_PANEL];
    for (size_t i = 0; i < 2 * OR_PANEL; i++) {
        w[i] = -0x1p-100f;
    }
    for (uint32_t k = 1; k <= 2; k++) {
        shape_t shape = {OR_CUDA_F32, KIND_PLAIN, 1, k, 1, 1};
        places_t places = {.panel_stride = 2 * OR_PANEL,
                           .x_stride = 2,
                           .spans = {{0, k}},
                           .to = {.count = 1, .y_stride = OR_PANEL, .part_stride = OR_PANEL},
                           .outputs = OR_PANEL};
        float y[OR_PANEL];
        memset(y, 0xAA, sizeof y);
        multiply_on_device(&shape, &places, w, 2 * OR_PANEL, x, 2, y);
        for (size_t i = 0; i < OR_PANEL; i++) {
            assert_int_equal(test_bits(y[i]), 0x80000000u); // 0 * -2^-100 is a -0, too
        }
    }
}

// All 65,536 halves and bfloats: fma(1, w, +0) is w, except that -0 becomes +0.
static void every_half_is_widened(void **state)
{
    (void)state;
    enum { HALVES = 1 << 16 };
    static uint16_t halves[HALVES];
    static float y[HALVES];
    const float one = 1.0f;
    for (uint32_t i = 0; i < HALVES; i++) {
        halves[i] = (uint16_t)i;
    }
    for (or_cuda_float_t type = OR_CUDA_F16; type <= OR_CUDA_BF16; type++) {
        shape_t shape = {type, KIND_PLAIN, 1, 1, HALVES / OR_PANEL, 1};
        places_t places = {.panel_stride = OR_PANEL,
                           .x_stride = 1,
                           .spans = {{0, 1}},
                           .to = {.count = 1, .y_stride = HALVES, .part_stride = HALVES},
                           .outputs = HALVES};
        memset(y, 0xAA, sizeof y);
        multiply_on_device(&shape, &places, halves, HALVES, &one, 1, y);
        for (uint32_t i = 0; i < HALVES; i++) {
            uint16_t half = (uint16_t)i;
            float value = type == OR_CUDA_F16 ? or_f16_to_f32(half) : or_bf16_to_f32(half);
            assert_same(y[i], i == 0x8000 ? 0.0f : value, "a half, widened", i);
        }
    }
}

static void nothing_is_written_where_nothing_is_asked_for(void **state)
{
    (void)state;
    const or_cuda_span_t span = {0, 1};
    const or_cuda_parts_t to = {.spans = &span, .count = 1};
    for (uint32_t rows = 0; rows < 2; rows++) {
        cuda_test_ok(
            or_cuda_matmul_floats(test_device, OR_CUDA_F32, NULL, 0, 1 - rows, NULL, 0, rows, &to));
    }
    cuda_test_ok(or_cuda_wait(test_device));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_equal_ref_for_all_rows),
        cmocka_unit_test(products_equal_ref_for_all_k),
        cmocka_unit_test(products_of_large_matrices_equal_ref),
        cmocka_unit_test(a_negative_zero_survives),
        cmocka_unit_test(every_half_is_widened),
        cmocka_unit_test(nothing_is_written_where_nothing_is_asked_for),
    };
    return cmocka_run_group_tests(tests, open_device, cuda_test_tear_down);
}
