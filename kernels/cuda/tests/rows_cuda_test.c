// Goal: rows on a GPU get the bits of kernels/ref, in their floats and in their blocks, and nothing beside
// them is written.
// Method: each operation beside ref's, row by row, on inputs of every kind, with one row and many, widths that
// fill a warp, a thread block or what rmsnorm stages at a time, and widths that do not. Strides and
// alignment are drawn; what lies between rows is poisoned before and looked at after.
#include "kernels/cuda/tests/cuda_test_support.h"
#include "kernels/kernels_test_support.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/math/math.h"
#include "common/model/cpu/elementwise.h"
#include "kernels/cuda/cuda_kernels.h"

#define POISON 0xAA
#define EPS 1e-5f

// ---- inputs ----

typedef struct {
    float *host;
    float *device;
    size_t stride;
} input_t;

static input_t input_create(uint64_t *random, test_kind_t kind, uint32_t rows, uint32_t n)
{
    input_t x = {.stride = n + test_below(random, 9)};
    x.host = test_floats(random, kind, rows * x.stride);
    x.device = cuda_test_upload(test_device, x.host, rows * x.stride * sizeof *x.host);
    return x;
}

static void input_free(input_t *x)
{
    or_cuda_free(test_device, x->device);
    free(x->host);
}

// ---- outputs ----

typedef struct {
    uint32_t rows;
    uint32_t n;
    uint32_t blocks;     // of a row
    test_outputs_t host; // what is expected, and what the device is found to have
    or_cuda_rows_t device;
} output_t;

static size_t output_blocks(const output_t *y)
{
    return y->rows * y->device.blocks_stride + 1; // and a guard
}

// Rows of n, poison or what `from` has, on the device and in what is expected.
static output_t output_create(uint64_t *random, uint32_t rows, uint32_t n, const input_t *from)
{
    output_t y = {.rows = rows, .n = n, .blocks = (n + OR_QUANT_BLOCK - 1) / OR_QUANT_BLOCK};
    size_t stride = n + 1 + test_below(random, 9);
    y.host = test_outputs(rows * stride);
    for (size_t row = 0; from && row < rows; row++) {
        size_t bytes = n * sizeof(float);
        memcpy(y.host.expected + row * stride, from->host + row * from->stride, bytes);
        memcpy(y.host.actual + row * stride, from->host + row * from->stride, bytes);
    }
    y.device.stride = stride;
    y.device.values =
        cuda_test_upload(test_device, y.host.actual, y.host.count * sizeof *y.host.actual);
    return y;
}

static void output_add_blocks(output_t *y, uint64_t *random)
{
    y->device.blocks_stride = y->blocks + test_below(random, 3);
    y->device.blocks =
        cuda_test_upload(test_device, NULL, output_blocks(y) * sizeof(or_q8_block_t));
}

static float *output_expected(const output_t *y, size_t row)
{
    return y->host.expected + row * y->device.stride;
}

static void check_row_blocks(const output_t *y, size_t row, const or_q8_block_t *actual)
{
    size_t floats = (size_t)y->blocks * OR_QUANT_BLOCK;
    float *padded = calloc(floats, sizeof *padded);
    or_q8_block_t *expected = malloc(y->blocks * sizeof *expected);
    assert_non_null(padded);
    assert_non_null(expected);
    memcpy(padded, output_expected(y, row), y->n * sizeof *padded);
    or_kernels_ref.quantize_row(padded, y->blocks, expected);
    for (uint32_t b = 0; b < y->blocks; b++) {
        cuda_test_same_block(&actual[b], &expected[b], b);
    }
    free(expected);
    free(padded);
}

static void check_blocks(const output_t *y)
{
    size_t count = output_blocks(y);
    size_t stride = y->device.blocks_stride;
    or_q8_block_t *actual = malloc(count * sizeof *actual);
    assert_non_null(actual);
    cuda_test_download(test_device, actual, y->device.blocks, count * sizeof *actual);
    for (size_t row = 0; row < y->rows; row++) {
        check_row_blocks(y, row, actual + row * stride);
    }
    or_q8_block_t poison;
    memset(&poison, POISON, sizeof poison);
    for (size_t b = 0; b < count; b++) {
        if (b == count - 1 || b % stride >= y->blocks) {
            assert_memory_equal(&actual[b], &poison, sizeof poison);
        }
    }
    free(actual);
}

// Compare, and free all.
static void output_check(output_t *y, const char *what)
{
    cuda_test_download(test_device, y->host.actual, y->device.values,
                       y->host.count * sizeof *y->host.actual);
    if (y->device.blocks) {
        check_blocks(y);
        or_cuda_free(test_device, y->device.blocks);
    }
    or_cuda_free(test_device, y->device.values);
    test_check_rows(&y->host, y->n, y->device.stride, what);
}

// ---- shapes ----

typedef void (*case_t)(uint64_t *random, test_kind_t kind, uint32_t rows, uint32_t n);

// Many rows and long ones at once are for plain values only: an emulated device takes its time.
static bool is_run(test_kind_t kind, size_t rows, size_t n)
{
    return rows * n <= (kind == KIND_PLAIN ? 64 * 2048 : 3 * 4100);
}

static void run_shapes(case_t run)
{
    static const uint32_t rows[] = {1, 3, 64};
    static const uint32_t widths[] = {1, 31, 32, 64, 100, 2048, 4100, 9001};
    uint64_t random = test_seed();
    for (test_kind_t kind = 0; kind < KINDS; kind++) {
        for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
            for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
                if (is_run(kind, rows[r], widths[w])) {
                    run(&random, kind, rows[r], widths[w]);
                }
            }
        }
    }
}

// ---- operations ----

static void expect_rmsnorm(const input_t *x, const input_t *weight, output_t *y)
{
    for (size_t row = 0; row < y->rows; row++) {
        or_kernels_ref.rmsnorm(x->host + row * x->stride, weight->host, y->n, EPS,
                               output_expected(y, row));
    }
}

static void rmsnorm_case(uint64_t *random, test_kind_t kind, uint32_t rows, uint32_t n)
{
    input_t x = input_create(random, kind, rows, n);
    input_t weight = input_create(random, KIND_PLAIN, 1, n);
    output_t y = output_create(random, rows, n, NULL);
    output_add_blocks(&y, random);
    expect_rmsnorm(&x, &weight, &y);
    cuda_test_ok(
        or_cuda_rmsnorm(test_device, x.device, x.stride, weight.device, n, EPS, rows, &y.device));
    output_check(&y, "rmsnorm");
    input_free(&weight);
    input_free(&x);
}

static void rmsnorm_equals_ref(void **state)
{
    (void)state;
    run_shapes(rmsnorm_case);
}

// And without blocks.
static void rmsnorm_in_place_case(uint64_t *random, test_kind_t kind, uint32_t rows, uint32_t n)
{
    input_t x = input_create(random, kind, rows, n);
    input_t weight = input_create(random, KIND_PLAIN, 1, n);
    output_t y = output_create(random, rows, n, &x);
    expect_rmsnorm(&x, &weight, &y);
    cuda_test_ok(or_cuda_rmsnorm(test_device, y.device.values, y.device.stride, weight.device, n,
                                 EPS, rows, &y.device));
    output_check(&y, "rmsnorm in place");
    input_free(&weight);
    input_free(&x);
}

static void rmsnorm_in_place_equals_ref(void **state)
{
    (void)state;
    run_shapes(rmsnorm_in_place_case);
}

static void expect_rope(bool halves, const output_t *y, uint32_t head_dim, uint32_t dims,
                        const input_t *cosine, const input_t *sine, const uint32_t *positions)
{
    for (size_t row = 0; row < y->rows; row++) {
        size_t angles = (size_t)positions[row] * (dims / 2);
        for (uint32_t i = 0; i < y->n; i += head_dim) {
            (halves ? or_kernels_ref.rope_halves : or_kernels_ref.rope_pairs)(
                output_expected(y, row) + i, cosine->host + angles, sine->host + angles, dims);
        }
    }
}

// `n` is what the heads have together, or a little less.
static void rope_case(uint64_t *random, test_kind_t kind, uint32_t rows, uint32_t n)
{
    enum { CONTEXT = 40, ROWS_MAX = 64 };
    static const uint32_t head_dims[] = {2, 32, 64, 96, 100, 128};
    uint32_t head_dim = head_dims[test_below(random, 6)];
    uint32_t heads = n < head_dim ? 1 : n / head_dim;
    uint32_t dims =
        test_below(random, 2) == 0 ? head_dim : 2 + 2 * (uint32_t)test_below(random, head_dim / 2);
    bool halves = test_below(random, 2) == 0;
    uint32_t positions[ROWS_MAX];
    for (uint32_t row = 0; row < rows; row++) {
        positions[row] = (uint32_t)test_below(random, CONTEXT);
    }
    uint32_t *device_positions = cuda_test_upload(test_device, positions, rows * sizeof *positions);
    input_t x = input_create(random, kind, rows, heads * head_dim);
    input_t cosine = input_create(random, KIND_PLAIN, 1, CONTEXT * head_dim / 2);
    input_t sine = input_create(random, KIND_PLAIN, 1, CONTEXT * head_dim / 2);
    output_t y = output_create(random, rows, heads * head_dim, &x);
    expect_rope(halves, &y, head_dim, dims, &cosine, &sine, positions);
    cuda_test_ok(or_cuda_rope(test_device, halves, y.device.values, y.device.stride, heads,
                              head_dim, dims, cosine.device, sine.device, device_positions, rows));
    output_check(&y, halves ? "rope of halves" : "rope of pairs");
    input_free(&sine);
    input_free(&cosine);
    input_free(&x);
    or_cuda_free(test_device, device_positions);
}

static void rope_equals_ref(void **state)
{
    (void)state;
    run_shapes(rope_case);
}

// The activation that a draw picks, and what the CPU makes of it.
static const struct {
    or_cuda_activation_t activation;
    or_activation_t on_cpu;
    bool gated;
} activations[] = {
    {OR_CUDA_SILU_GATED, or_silu_gated, true},
    {OR_CUDA_GELU_GATED, or_gelu_gated, true},
    {OR_CUDA_GELU, or_gelu, false},
    {OR_CUDA_GELU_EXACT, or_gelu_exact, false},
    {OR_CUDA_RELU, or_relu, false},
};

static void activate_case(uint64_t *random, test_kind_t kind, uint32_t rows, uint32_t n)
{
    size_t which = test_below(random, sizeof activations / sizeof *activations);
    bool gated = activations[which].gated;
    input_t gate = input_create(random, kind, rows, n);
    input_t up = input_create(random, kind == KIND_SPECIAL ? kind : KIND_PLAIN, rows, n);
    output_t y = output_create(random, rows, n, &gate);
    if (test_below(random, 4) > 0) {
        output_add_blocks(&y, random);
    }
    for (size_t row = 0; row < rows; row++) {
        activations[which].on_cpu(&or_kernels_ref, output_expected(&y, row),
                                  up.host + row * up.stride,
                                  n); // writes over `up`, which the device has
    }
    cuda_test_ok(or_cuda_activate(test_device, activations[which].activation, &y.device,
                                  gated ? up.device : NULL, up.stride, n, rows));
    output_check(&y, "activate");
    input_free(&up);
    input_free(&gate);
}

static void activations_equal_the_cpu(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4; i++) { // each meets most shapes
        run_shapes(activate_case);
    }
}

// To itself, or to other rows with their blocks.
static void scale_case(uint64_t *random, test_kind_t kind, uint32_t rows, uint32_t n)
{
    float factor = test_below(random, 3) == 0 ? 1.0f : 0.37f;
    input_t x = input_create(random, kind, rows, n);
    bool in_place = test_below(random, 2) == 0;
    output_t y = output_create(random, rows, n, in_place ? &x : NULL);
    if (!in_place) {
        output_add_blocks(&y, random);
    }
    for (size_t row = 0; row < rows; row++) {
        float *expected = output_expected(&y, row);
        memcpy(expected, x.host + row * x.stride, n * sizeof *expected);
        or_scale(expected, n, factor);
    }
    cuda_test_ok(or_cuda_scale(test_device, in_place ? y.device.values : x.device,
                               in_place ? y.device.stride : x.stride, factor, n, rows, &y.device));
    output_check(&y, "scale");
    input_free(&x);
}

static void scale_equals_the_cpu(void **state)
{
    (void)state;
    run_shapes(scale_case);
}

static void scale_by_case(uint64_t *random, test_kind_t kind, uint32_t rows, uint32_t n)
{
    const float factor = 0.01f * (float)test_below(random, 200);
    input_t x = input_create(random, kind, rows, n);
    output_t y = output_create(random, rows, n, &x);
    for (size_t row = 0; row < rows; row++) {
        or_scale(output_expected(&y, row), n, factor);
    }
    float *there = cuda_test_upload(test_device, &factor, sizeof factor);
    cuda_test_ok(or_cuda_scale_by(test_device, y.device.values, y.device.stride, there, n, rows));
    output_check(&y, "scale by a number of the device");
    or_cuda_free(test_device, there);
    input_free(&x);
}

static void scale_by_equals_the_cpu(void **state)
{
    (void)state;
    run_shapes(scale_by_case);
}

static void scale_by_position_case(uint64_t *random, test_kind_t kind, uint32_t rows, uint32_t n)
{
    enum { ROWS_MAX = 64 };
    const uint32_t unit = 1 + (uint32_t)test_below(random, 8192);
    const float growth = 0.1f * (float)(1 + test_below(random, 9));
    uint32_t positions[ROWS_MAX];
    input_t x = input_create(random, kind, rows, n);
    output_t y = output_create(random, rows, n, &x);
    for (size_t row = 0; row < rows; row++) {
        positions[row] = (uint32_t)test_below(random, 1u << 20);
        double factor = 1 + (double)growth * or_ln(1.0 + positions[row] / unit);
        or_scale(output_expected(&y, row), n, (float)factor);
    }
    uint32_t *there = cuda_test_upload(test_device, positions, rows * sizeof *positions);
    cuda_test_ok(or_cuda_scale_by_position(test_device, y.device.values, y.device.stride, n, growth,
                                           unit, there, rows));
    output_check(&y, "scale by position");
    or_cuda_free(test_device, there);
    input_free(&x);
}

static void scale_by_position_equals_the_cpu(void **state)
{
    (void)state;
    run_shapes(scale_by_position_case);
}

static void softcap_case(uint64_t *random, test_kind_t kind, uint32_t rows, uint32_t n)
{
    float cap = test_below(random, 2) == 0 ? 30.0f : 0.5f;
    input_t x = input_create(random, kind, rows, n);
    output_t y = output_create(random, rows, n, &x);
    for (size_t row = 0; row < rows; row++) {
        or_softcap(output_expected(&y, row), n, cap);
    }
    cuda_test_ok(or_cuda_softcap(test_device, y.device.values, y.device.stride, cap, n, rows));
    output_check(&y, "softcap");
    input_free(&x);
}

static void softcap_equals_the_cpu(void **state)
{
    (void)state;
    run_shapes(softcap_case);
}

static void rmsnorm_heads_case(uint64_t *random, test_kind_t kind, uint32_t rows, uint32_t n)
{
    static const uint32_t head_dims[] = {1, 8, 40, 64, 128, 256};
    uint32_t head_dim = head_dims[test_below(random, 6)];
    uint32_t heads = n < head_dim ? 1 : n / head_dim;
    input_t x = input_create(random, kind, rows, heads * head_dim);
    input_t weight = input_create(random, KIND_PLAIN, 1, head_dim);
    output_t y = output_create(random, rows, heads * head_dim, &x);
    for (size_t row = 0; row < rows; row++) {
        for (uint32_t h = 0; h < heads; h++) {
            float *head = output_expected(&y, row) + (size_t)h * head_dim;
            or_kernels_ref.rmsnorm(head, weight.host, head_dim, EPS, head);
        }
    }
    cuda_test_ok(or_cuda_rmsnorm_heads(test_device, y.device.values, y.device.stride, heads,
                                       head_dim, weight.device, EPS, rows));
    output_check(&y, "rmsnorm of heads");
    input_free(&weight);
    input_free(&x);
}

static void rmsnorm_of_heads_equals_ref(void **state)
{
    (void)state;
    run_shapes(rmsnorm_heads_case);
}

static void layer_norm_case(uint64_t *random, test_kind_t kind, uint32_t rows, uint32_t n)
{
    input_t x = input_create(random, kind, rows, n);
    input_t weight = input_create(random, KIND_PLAIN, 1, n);
    input_t bias = input_create(random, KIND_PLAIN, 1, n);
    bool has_bias = test_below(random, 2) == 0;
    output_t y = output_create(random, rows, n, NULL);
    if (test_below(random, 2) == 0) {
        output_add_blocks(&y, random);
    }
    for (size_t row = 0; row < rows; row++) {
        or_layer_norm(x.host + row * x.stride, weight.host, has_bias ? bias.host : NULL, n, EPS,
                      output_expected(&y, row));
    }
    cuda_test_ok(or_cuda_layer_norm(test_device, x.device, x.stride, weight.device,
                                    has_bias ? bias.device : NULL, n, EPS, rows, &y.device));
    output_check(&y, "layer norm");
    input_free(&bias);
    input_free(&weight);
    input_free(&x);
}

static void layer_norm_equals_the_cpu(void **state)
{
    (void)state;
    run_shapes(layer_norm_case);
}

static void add_case(uint64_t *random, test_kind_t kind, uint32_t rows, uint32_t n)
{
    bool is_bias = test_below(random, 2) == 0;
    input_t sum = input_create(random, kind, rows, n);
    input_t x = input_create(random, kind, is_bias ? 1 : rows, n);
    x.stride = is_bias ? 0 : x.stride;
    output_t y = output_create(random, rows, n, &sum);
    for (size_t row = 0; row < rows; row++) {
        or_kernels_ref.add(output_expected(&y, row), x.host + row * x.stride, n);
    }
    cuda_test_ok(
        or_cuda_add(test_device, y.device.values, y.device.stride, x.device, x.stride, n, rows));
    output_check(&y, is_bias ? "add a bias" : "add");
    input_free(&x);
    input_free(&sum);
}

static void add_equals_ref(void **state)
{
    (void)state;
    run_shapes(add_case);
}

static void quantize_case(uint64_t *random, test_kind_t kind, uint32_t rows, uint32_t n)
{
    input_t x = input_create(random, kind, rows, n);
    if (test_below(random, 3) == 0) { // a row of zeros of both signs
        float *zeros = x.host + test_below(random, rows) * x.stride;
        for (uint32_t i = 0; i < n; i++) {
            zeros[i] = i % 3 ? 0.0f : -0.0f;
        }
    }
    output_t y = output_create(random, rows, n, &x);
    output_add_blocks(&y, random);
    cuda_test_ok(or_cuda_quantize(test_device, &y.device, n, rows));
    output_check(&y, "quantize");
    input_free(&x);
}

static void quantize_equals_ref(void **state)
{
    (void)state;
    run_shapes(quantize_case);
}

// Any bits at all: all exponents, ties, every special. In odd rows all values have one exponent, so that none
// dwarfs the others.
static void quantize_equals_ref_on_any_bits(void **state)
{
    (void)state;
    enum { ROWS = 256, N = 4 * OR_QUANT_BLOCK };
    uint64_t random = test_seed();
    input_t x = input_create(&random, KIND_PLAIN, ROWS, N);
    for (size_t i = 0; i < ROWS * x.stride; i++) {
        size_t row = i / x.stride;
        uint32_t bits = (uint32_t)test_random(&random);
        bits = row % 2 ? (bits & 0x80FFFFFFu) | (uint32_t)(row % 128) << 24 : bits;
        memcpy(&x.host[i], &bits, sizeof bits);
    }
    output_t y = output_create(&random, ROWS, N, &x);
    output_add_blocks(&y, &random);
    cuda_test_ok(or_cuda_quantize(test_device, &y.device, N, ROWS));
    output_check(&y, "quantize any bits");
    input_free(&x);
}

// The tree over parts, by its definition: neighbours first.
static float tree_sum(const float *parts, size_t stride, uint32_t count)
{
    if (count == 1) {
        return parts[0];
    }
    uint32_t half = count / 2;
    return tree_sum(parts, stride, half) + tree_sum(parts + half * stride, stride, half);
}

static void add_parts_case(uint64_t *random, test_kind_t kind, uint32_t rows, uint32_t n)
{
    uint32_t count = 1u << test_below(random, 4);
    bool over = test_below(random, 2) == 0;
    input_t sum = input_create(random, kind, rows, n);
    input_t parts = input_create(random, kind, count * (rows + 1), n); // a row between parts
    size_t part_stride = (rows + 1) * parts.stride;
    output_t y = output_create(random, rows, n, &sum);
    for (size_t row = 0; row < rows; row++) {
        for (size_t i = 0; i < n; i++) {
            const float *first = parts.host + row * parts.stride + i;
            float *expected = &output_expected(&y, row)[i];
            *expected = (over ? -0.0f : *expected) + tree_sum(first, part_stride, count);
        }
    }
    cuda_test_ok(or_cuda_add_parts(test_device, over, y.device.values, y.device.stride,
                                   parts.device, part_stride, parts.stride, count, n, rows));
    output_check(&y, "add parts");
    input_free(&parts);
    input_free(&sum);
}

static void add_parts_equals_tree(void **state)
{
    (void)state;
    run_shapes(add_parts_case);
}

#define EMBED_ROWS 5
#define EMBED_PANELS 2

// Tokens of EMBED_PANELS panels with a gap of one step between them; the last one has tokens that are never asked for.
static void check_embed(uint64_t *random, or_cuda_float_t type, const void *panels, uint32_t width,
                        float (*expected)(const void *panels, size_t at))
{
    int32_t tokens[EMBED_ROWS];
    size_t panel_stride = ((size_t)width + 1) * OR_PANEL;
    output_t y = output_create(random, EMBED_ROWS, width, NULL);
    for (size_t row = 0; row < EMBED_ROWS; row++) {
        size_t token = test_below(random, EMBED_PANELS * OR_PANEL - 3);
        size_t first = token / OR_PANEL * panel_stride + token % OR_PANEL;
        tokens[row] = (int32_t)token;
        for (size_t i = 0; i < width; i++) {
            output_expected(&y, row)[i] = expected(panels, first + i * OR_PANEL);
        }
    }
    size_t bytes = EMBED_PANELS * panel_stride * (type == OR_CUDA_F32 ? 4 : 2);
    void *device_panels = cuda_test_upload(test_device, panels, bytes);
    int32_t *device_tokens = cuda_test_upload(test_device, tokens, sizeof tokens);
    cuda_test_ok(or_cuda_embed(test_device, type, device_panels, panel_stride, width, device_tokens,
                               EMBED_ROWS, y.device.values, y.device.stride));
    output_check(&y, "embed");
    or_cuda_free(test_device, device_tokens);
    or_cuda_free(test_device, device_panels);
}

static float float_at(const void *panels, size_t at)
{
    return ((const float *)panels)[at];
}

static float half_at(const void *panels, size_t at)
{
    return or_f16_to_f32(((const uint16_t *)panels)[at]);
}

static float bfloat_at(const void *panels, size_t at)
{
    return or_bf16_to_f32(((const uint16_t *)panels)[at]);
}

static void embed_widens_rows(void **state)
{
    (void)state;
    static const uint32_t widths[] = {1, 32, 100, 2050};
    uint64_t random = test_seed();
    for (size_t w = 0; w < 4; w++) {
        size_t count = EMBED_PANELS * (widths[w] + 1ull) * OR_PANEL;
        for (test_kind_t kind = 0; kind < KINDS; kind++) {
            float *floats = test_floats(&random, kind, count);
            uint16_t *halves = test_halves(&random, kind, count);
            uint16_t *bfloats = test_bfloats(&random, kind, count);
            check_embed(&random, OR_CUDA_F32, floats, widths[w], float_at);
            check_embed(&random, OR_CUDA_F16, halves, widths[w], half_at);
            check_embed(&random, OR_CUDA_BF16, bfloats, widths[w], bfloat_at);
            free(bfloats);
            free(halves);
            free(floats);
        }
    }
}

// No rows, or rows of nothing: neither is an error, and nothing is touched.
static void nothing_is_nothing(void **state)
{
    (void)state;
    static const uint32_t shapes[][2] = {{0, 32}, {2, 0}};
    or_cuda_rows_t none = {0};
    for (size_t i = 0; i < 2; i++) {
        uint32_t rows = shapes[i][0];
        uint32_t n = shapes[i][1];
        cuda_test_ok(or_cuda_rmsnorm(test_device, NULL, 0, NULL, n, EPS, rows, &none));
        cuda_test_ok(or_cuda_rmsnorm_heads(test_device, NULL, 0, n, 32, NULL, EPS, rows));
        cuda_test_ok(or_cuda_layer_norm(test_device, NULL, 0, NULL, NULL, n, EPS, rows, &none));
        cuda_test_ok(or_cuda_rope(test_device, true, NULL, 0, n, 32, 32, NULL, NULL, NULL, rows));
        cuda_test_ok(or_cuda_activate(test_device, OR_CUDA_SILU_GATED, &none, NULL, 0, n, rows));
        cuda_test_ok(or_cuda_scale(test_device, NULL, 0, 2, n, rows, &none));
        cuda_test_ok(or_cuda_scale_by_position(test_device, NULL, 0, n, 2, 1, NULL, rows));
        cuda_test_ok(or_cuda_softcap(test_device, NULL, 0, 2, n, rows));
        cuda_test_ok(or_cuda_add(test_device, NULL, 0, NULL, 0, n, rows));
        cuda_test_ok(or_cuda_quantize(test_device, &none, n, rows));
        cuda_test_ok(or_cuda_add_parts(test_device, false, NULL, 0, NULL, 0, 0, 8, n, rows));
        cuda_test_ok(or_cuda_embed(test_device, OR_CUDA_F32, NULL, 0, n, NULL, rows, NULL, 0));
    }
    cuda_test_ok(or_cuda_wait(test_device));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rmsnorm_equals_ref),
        cmocka_unit_test(rmsnorm_in_place_equals_ref),
        cmocka_unit_test(rope_equals_ref),
        cmocka_unit_test(rmsnorm_of_heads_equals_ref),
        cmocka_unit_test(layer_norm_equals_the_cpu),
        cmocka_unit_test(activations_equal_the_cpu),
        cmocka_unit_test(scale_equals_the_cpu),
        cmocka_unit_test(scale_by_equals_the_cpu),
        cmocka_unit_test(scale_by_position_equals_the_cpu),
        cmocka_unit_test(softcap_equals_the_cpu),
        cmocka_unit_test(add_equals_ref),
        cmocka_unit_test(quantize_equals_ref),
        cmocka_unit_test(quantize_equals_ref_on_any_bits),
        cmocka_unit_test(add_parts_equals_tree),
        cmocka_unit_test(embed_widens_rows),
        cmocka_unit_test(nothing_is_nothing),
    };
    return cmocka_run_group_tests(tests, cuda_test_set_up, cuda_test_tear_down);
}
