// Goal: products of quantised panels on a GPU get the bits of kernels/ref, in every part, and nothing beside
// them is written.
// Method: as kernels_quant_test.c, on panels of any bytes whatsoever, whose blocks are cut into spans: some
// empty, most of them beginning and ending inside of super-blocks. Activations are quantised from every kind
// of input. Strides are drawn; what lies between rows and between parts is poisoned before and looked at after.
#include "kernels/cuda/tests/cuda_test_support.h"
#include "kernels/kernels_test_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda_kernels.h"
#include "kernels/quant_internal.h"

#define BLOCKS_MAX 20
#define PANELS_MAX 5

// ---- inputs ----

// Activations of each block in each row.
static or_q8_block_t *random_rows(uint64_t *random, test_kind_t kind, size_t count)
{
    float *x = test_floats(random, kind, count * OR_QUANT_BLOCK);
    or_q8_block_t *blocks = malloc(count * sizeof *blocks);
    assert_non_null(blocks);
    or_kernels_ref.quantize_row(x, (uint32_t)count, blocks);
    free(x);
    return blocks;
}

static void put_halves(uint64_t *random, test_kind_t kind, uint8_t *at)
{
    uint16_t *halves = test_halves(random, kind, OR_PANEL);
    memcpy(at, halves, OR_PANEL * sizeof *halves);
    free(halves);
}

// Any bytes, but halves of a kind.
static uint8_t *random_panels(uint64_t *random, test_kind_t kind, or_quant_t type, uint32_t units)
{
    const or_quant_layout_t *layout = or_quant_layout(type);
    uint8_t *panels = test_bytes(random, units * layout->unit_bytes);
    for (size_t u = 0; u < units; u++) {
        put_halves(random, kind, panels + u * layout->unit_bytes + layout->scales);
        if (layout->has_minima) {
            put_halves(random, kind, panels + u * layout->unit_bytes + layout->minima);
        }
    }
    return panels;
}

// ---- a product ----

typedef struct {
    or_quant_t type;
    uint32_t panels;
    uint32_t rows;
    size_t panel_bytes;
    size_t x_stride;
    uint8_t *w;
    or_q8_block_t *x;
    or_cuda_span_t spans[OR_CUDA_SPANS_MAX];
    or_cuda_parts_t to; // y is on the host, and gets what is on the device
} product_t;

// Neighbours that have all of `blocks`, one in four of them nothing.
static void draw_spans(uint64_t *random, product_t *p, uint32_t first, uint32_t blocks)
{
    uint32_t end = first + blocks;
    for (uint32_t s = 0; s < p->to.count; s++) {
        uint32_t left = end - first;
        uint32_t count = test_below(random, 4) == 0 ? 0 : (uint32_t)test_below(random, left + 1);
        count = s + 1 == p->to.count ? left : count;
        p->spans[s] = (or_cuda_span_t){first, count};
        first += count;
    }
}

static void draw_strides(uint64_t *random, product_t *p)
{
    p->to.y_stride = p->panels * OR_PANEL + test_below(random, 20);
    p->to.part_stride = p->rows * p->to.y_stride + test_below(random, 20);
    size_t bytes = p->to.count * p->to.part_stride * sizeof *p->to.y;
    p->to.y = malloc(bytes);
    assert_non_null(p->to.y);
}

static product_t product_random(uint64_t *random, or_quant_t type, test_kind_t kind, uint32_t rows,
                                uint32_t spans)
{
    product_t p = {.type = type, .rows = rows};
    p.panels = 1 + (uint32_t)test_below(random, PANELS_MAX);
    uint32_t x_first = (uint32_t)test_below(random, 12);
    uint32_t skipped = (uint32_t)test_below(random, 3); // blocks of x before the first span
    uint32_t blocks = 1 + (uint32_t)test_below(random, BLOCKS_MAX);
    p.to = (or_cuda_parts_t){.count = spans, .x_first = x_first};
    draw_spans(random, &p, x_first + skipped, blocks);
    draw_strides(random, &p);

    uint32_t unit_blocks = or_quant_unit_blocks(type);
    uint32_t units = (x_first + skipped + blocks + unit_blocks - 1) / unit_blocks;
    p.panel_bytes = units * or_quant_unit_bytes(type);
    p.w = random_panels(random, kind, type, p.panels * units);
    p.x_stride = skipped + blocks + test_below(random, 3);
    p.x = random_rows(random, kind == KIND_SPECIAL ? kind : KIND_PLAIN, rows * p.x_stride);
    return p;
}

static void product_free(product_t *p)
{
    free(p->to.y);
    free(p->x);
    free(p->w);
}

static void multiply(product_t *p)
{
    size_t y_bytes = p->to.count * p->to.part_stride * sizeof(float);
    void *w = cuda_test_upload(test_device, p->w, p->panels * p->panel_bytes);
    void *x = cuda_test_upload(test_device, p->x, p->rows * p->x_stride * sizeof *p->x);
    void *y = cuda_test_upload(test_device, NULL, y_bytes);
    or_cuda_parts_t to = p->to;
    to.spans = p->spans;
    to.y = y;
    cuda_test_ok(or_cuda_matmul_quants(test_device, p->type, w, p->panel_bytes, p->panels, x,
                                       p->x_stride, p->rows, &to));
    cuda_test_download(test_device, p->to.y, y, y_bytes);
    or_cuda_free(test_device, y);
    or_cuda_free(test_device, x);
    or_cuda_free(test_device, w);
}

static void multiply_span(const product_t *p, or_cuda_span_t span, float *y)
{
    if (span.count == 0) {
        for (size_t m = 0; m < p->rows; m++) {
            memset(y + m * p->to.y_stride, 0, p->panels * OR_PANEL * sizeof *y);
        }
        return;
    }
    const or_quant_panels_t w = {.type = p->type,
                                 .panels = p->w,
                                 .panel_bytes = p->panel_bytes,
                                 .count = p->panels,
                                 .first = span.first,
                                 .blocks = span.count};
    or_kernels_ref.matmul_quants(&w, p->x + (span.first - p->to.x_first), p->x_stride, p->rows, y,
                                 p->to.y_stride);
}

static void check_part(const product_t *p, uint32_t part)
{
    char what[64];
    snprintf(what, sizeof what, "%s, %u rows, part %u", or_quant_name(p->type), p->rows, part);
    const float *y = p->to.y + part * p->to.part_stride;
    size_t count = p->rows * p->to.y_stride;
    for (size_t i = count; i < p->to.part_stride; i++) {
        assert_int_equal(test_bits(y[i]), 0xAAAAAAAA);
    }
    test_outputs_t o = test_outputs(count);
    memcpy(o.actual, y, count * sizeof *y);
    multiply_span(p, p->spans[part], o.expected);
    test_check_rows(&o, p->panels * OR_PANEL, p->to.y_stride, what);
}

static void check_product(product_t *p)
{
    multiply(p);
    for (uint32_t part = 0; part < p->to.count; part++) {
        check_part(p, part);
    }
}

// ---- tests ----

// Each type, few rows and as many as tiles and thread blocks have, a shape and a kind that are drawn.
static void matmul_equals_ref(void **state)
{
    (void)state;
    static const uint32_t rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 23, 32, 33, 64, 70};
    uint64_t random = test_seed();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (or_quant_t type = 0; type < OR_QUANT_TYPES; type++) {
            test_kind_t kind = (test_kind_t)test_below(&random, KINDS);
            product_t p = product_random(&random, type, kind, rows[i], 1);
            check_product(&p);
            product_free(&p);
        }
    }
}

// Likewise in parts.
static void spans_equal_ref(void **state)
{
    (void)state;
    static const uint32_t counts[] = {2, 3, 8};
    uint64_t random = test_seed();
    for (size_t i = 0; i < sizeof counts / sizeof counts[0] * OR_QUANT_TYPES; i++) {
        or_quant_t type = (or_quant_t)(i % OR_QUANT_TYPES);
        uint32_t rows = 1 + (uint32_t)test_below(&random, 40);
        product_t p = product_random(&random, type, KIND_PLAIN, rows, counts[i / OR_QUANT_TYPES]);
        check_product(&p);
        product_free(&p);
    }
}

// Halves of any bits too, most of them far from the others, and many NaNs.
static void matmul_equals_ref_on_any_bytes(void **state)
{
    (void)state;
    enum { ROUNDS = 5, ROWS = 5 };
    uint64_t random = test_seed();
    for (size_t i = 0; i < test_runs(ROUNDS) * OR_QUANT_TYPES; i++) {
        or_quant_t type = (or_quant_t)(i % OR_QUANT_TYPES);
        product_t p = product_random(&random, type, KIND_PLAIN, ROWS, 1);
        free(p.w);
        p.w = test_bytes(&random, p.panels * p.panel_bytes);
        check_product(&p);
        product_free(&p);
    }
}

// Longer chains than a thread block works on at a time.
static void long_rows_equal_ref(void **state)
{
    (void)state;
    enum { BLOCKS = 100 };
    uint64_t random = test_seed();
    for (or_quant_t type = 0; type < OR_QUANT_TYPES; type++) {
        product_t p = {.type = type, .panels = 1, .rows = 1 + (uint32_t)test_below(&random, 32)};
        uint32_t units = (BLOCKS - 1) / or_quant_unit_blocks(type) + 1;
        p.to.count = 1;
        p.spans[0] = (or_cuda_span_t){0, BLOCKS};
        draw_strides(&random, &p);
        p.panel_bytes = units * or_quant_unit_bytes(type);
        p.x_stride = BLOCKS;
        p.w = random_panels(&random, KIND_PLAIN, type, units);
        p.x = random_rows(&random, KIND_PLAIN, p.rows * BLOCKS);
        check_product(&p);
        product_free(&p);
    }
}

// ---- products beside one another, and their sums ----

// Several matrices of the same inputs; of some none of the panels.
static void beside_equals_ref(void **state)
{
    (void)state;
    enum { MATRICES = OR_CUDA_BESIDE_MAX };
    uint64_t random = test_seed();
    for (or_quant_t type = 0; type < OR_QUANT_TYPES; type++) {
        const uint32_t rows = 1 + type % (OR_CUDA_FEW_ROWS + 1);
        product_t p = product_random(&random, type, KIND_PLAIN, rows, 1);
        const size_t y_bytes = p.to.count * p.to.part_stride * sizeof(float);
        void *w = cuda_test_upload(test_device, p.w, p.panels * p.panel_bytes);
        void *x = cuda_test_upload(test_device, p.x, p.rows * p.x_stride * sizeof *p.x);
        or_cuda_beside_t matrices[MATRICES];
        uint32_t first[MATRICES];
        for (uint32_t i = 0; i < MATRICES; i++) {
            first[i] = (uint32_t)test_below(&random, p.panels);
            const uint32_t count = (uint32_t)test_below(&random, p.panels - first[i] + 1);
            matrices[i] =
                (or_cuda_beside_t){(uint8_t *)w + first[i] * p.panel_bytes, count,
                                   cuda_test_upload(test_device, NULL, y_bytes), p.to.y_stride};
        }
        or_cuda_parts_t to = p.to;
        to.spans = p.spans;
        cuda_test_ok(or_cuda_matmul_quants_beside(test_device, type, matrices, MATRICES,
                                                  p.panel_bytes, x, p.x_stride, rows, &to));
        for (uint32_t i = 0; i < MATRICES; i++) {
            product_t one = p;
            one.panels = matrices[i].panel_count;
            one.w = p.w + first[i] * p.panel_bytes;
            cuda_test_download(test_device, one.to.y, matrices[i].y, y_bytes);
            check_part(&one, 0);
            or_cuda_free(test_device, matrices[i].y);
        }
        or_cuda_free(test_device, x);
        or_cuda_free(test_device, w);
        product_free(&p);
    }
}

// y = the tree over the parts that a product alone has, or y += that.
static void check_sum(product_t *p, bool over, uint32_t n)
{
    const size_t stride = p->to.y_stride;
    const size_t y_count = p->rows * stride;
    float *y = malloc(y_count * sizeof *y);
    assert_non_null(y);
    for (size_t i = 0; i < y_count; i++) {
        y[i] = (float)(i % 7) - 3;
    }
    void *w = cuda_test_upload(test_device, p->w, p->panels * p->panel_bytes);
    void *x = cuda_test_upload(test_device, p->x, p->rows * p->x_stride * sizeof *p->x);
    void *parts =
        cuda_test_upload(test_device, NULL, p->to.count * p->to.part_stride * sizeof(float));
    float *sum = cuda_test_upload(test_device, y, y_count * sizeof *y);
    or_cuda_parts_t to = p->to;
    to.spans = p->spans;
    to.y = parts;
    cuda_test_ok(or_cuda_sum_quants(test_device, p->type, w, p->panel_bytes, p->panels, x,
                                    p->x_stride, p->rows, &to, over, sum, stride, n));
    multiply(p); // p->to.y: the parts
    test_outputs_t o = test_outputs(y_count);
    cuda_test_download(test_device, o.actual, sum, y_count * sizeof *y);
    for (size_t i = 0; i < y_count; i++) {
        float tree[OR_CUDA_SPANS_MAX];
        for (uint32_t s = 0; s < p->to.count; s++) {
            tree[s] = p->to.y[s * p->to.part_stride + i];
        }
        for (uint32_t width = 1; width < p->to.count; width *= 2) {
            for (uint32_t s = 0; s < p->to.count; s += 2 * width) {
                tree[s] += tree[s + width];
            }
        }
        o.expected[i] = i % stride >= n ? y[i] : over ? tree[0] : y[i] + tree[0];
    }
    test_check_rows(&o, stride, stride, or_quant_name(p->type));
    or_cuda_free(test_device, sum);
    or_cuda_free(test_device, parts);
    or_cuda_free(test_device, x);
    or_cuda_free(test_device, w);
    free(y);
}

// Sums of 1 to 8 spans, of one row and of more than are summed at once.
static void sums_equal_ref(void **state)
{
    (void)state;
    static const uint32_t counts[] = {1, 2, 4, 8};
    uint64_t random = test_seed();
    for (size_t i = 0; i < sizeof counts / sizeof counts[0] * OR_QUANT_TYPES; i++) {
        const or_quant_t type = (or_quant_t)(i % OR_QUANT_TYPES);
        const uint32_t rows = 1 + (uint32_t)test_below(&random, OR_CUDA_FEW_ROWS + 1);
        product_t p = product_random(&random, type, KIND_PLAIN, rows, counts[i / OR_QUANT_TYPES]);
        const uint32_t outputs = p.panels * OR_PANEL;
        check_sum(&p, test_below(&random, 2) == 0, outputs - (uint32_t)test_below(&random, 16));
        product_free(&p);
    }
}

static void nothing_is_written_where_there_is_nothing(void **state)
{
    (void)state;
    float *y = cuda_test_upload(test_device, NULL, sizeof *y);
    const or_cuda_span_t span = {0, 1};
    const or_cuda_parts_t to = {.spans = &span, .count = 1, .y = y};
    cuda_test_ok(or_cuda_matmul_quants(test_device, OR_QUANT_Q8_0, NULL, 0, 1, NULL, 0, 0, &to));
    cuda_test_ok(or_cuda_matmul_quants(test_device, OR_QUANT_Q8_0, NULL, 0, 0, NULL, 0, 1, &to));
    float after;
    cuda_test_download(test_device, &after, y, sizeof after);
    assert_int_equal(test_bits(after), 0xAAAAAAAA);
    or_cuda_free(test_device, y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matmul_equals_ref),
        cmocka_unit_test(spans_equal_ref),
        cmocka_unit_test(matmul_equals_ref_on_any_bytes),
        cmocka_unit_test(long_rows_equal_ref),
        cmocka_unit_test(beside_equals_ref),
        cmocka_unit_test(sums_equal_ref),
        cmocka_unit_test(nothing_is_written_where_there_is_nothing),
    };
    return cmocka_run_group_tests(tests, cuda_test_set_up, cuda_test_tear_down);
}
