// Goal: a part of a matrix multiplies as the whole does, bit for bit, whatever it holds; so do many rows
// at once, and a sum of shards is that of its parts. By rows it is the file's.
// Method: random matrices of every type, outputs that fill no panel; products of parts compared
// with those of the whole over the same inputs, of many rows with those of each alone, and of shards with
// products over their inputs that a tree of seven additions adds, by memcmp.
#include "common/model/cpu/weights.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/model/cpu/products.h"
#include "tests/support/test_support.h"

#define INPUTS 512u // two super-blocks
#define OUTPUTS 262u
#define PANELS 17u // of them: each of two threads has some that a row alone takes at once
#define ROWS 3u
#define Y_STRIDE 272u      // whole panels
#define MANY_ROWS 130u     // of more than 128, groups of panels are smaller
#define MANY_INPUTS 16384u // of so many, both rows and panels are cut into tiles
#define POISON 0xAA

#define NO_HALF SIZE_MAX

// The places of the halves in a block of the file.
static const struct {
    or_tensor_type_t type;
    size_t scale, minimum;
} types[] = {
    {OR_TENSOR_F32, NO_HALF, NO_HALF},
    {OR_TENSOR_F16, 0, NO_HALF},
    {OR_TENSOR_BF16, NO_HALF, NO_HALF},
    {OR_TENSOR_Q8_0, 0, NO_HALF},
    {OR_TENSOR_Q4_0, 0, NO_HALF},
    {OR_TENSOR_IQ4_NL, 0, NO_HALF},
    {OR_TENSOR_Q5_0, 0, NO_HALF},
    {OR_TENSOR_Q4_1, 0, 2},
    {OR_TENSOR_Q5_1, 0, 2},
    {OR_TENSOR_Q4_K, 0, 2},
    {OR_TENSOR_Q5_K, 0, 2},
    {OR_TENSOR_Q2_K, 80, 82},
    {OR_TENSOR_Q3_K, 108, NO_HALF},
    {OR_TENSOR_Q6_K, 208, NO_HALF},
    {OR_TENSOR_IQ4_XS, 0, NO_HALF},
    {OR_TENSOR_IQ3_S, 0, NO_HALF},
    {OR_TENSOR_IQ3_XXS, 0, NO_HALF},
    {OR_TENSOR_IQ2_S, 0, NO_HALF},
    {OR_TENSOR_IQ2_XS, 0, NO_HALF},
    {OR_TENSOR_IQ2_XXS, 0, NO_HALF},
    {OR_TENSOR_MXFP4, NO_HALF, NO_HALF},
};
#define TYPES (sizeof types / sizeof types[0])

static void put_number(unsigned char *at, uint16_t number)
{
    memcpy(at, &number, sizeof number);
}

// A tensor of small random numbers of types[t]; its data are the caller's to free.
static or_gguf_tensor_t random_tensor(uint64_t *rng, size_t t, uint32_t inputs)
{
    or_tensor_type_t type = types[t].type;
    or_tensor_block_t block = or_gguf_tensor_block(type);
    size_t bytes = (size_t)inputs * OUTPUTS / block.elements * block.bytes;
    unsigned char *data = malloc(bytes);
    assert_non_null(data);
    for (size_t i = 0; i < bytes; i++) {
        data[i] = (unsigned char)test_random(rng);
    }
    for (size_t at = 0; at < bytes; at += block.bytes) {
        float number = (float)test_uniform(rng) - 0.5f;
        uint16_t bits = (uint16_t)test_below(rng, 0x400);
        if (type == OR_TENSOR_F32) {
            memcpy(data + at, &number, sizeof number);
        } else if (type == OR_TENSOR_BF16) {
            put_number(data + at, 0x3F00 | (bits & 0xFF));
        } else if (type == OR_TENSOR_MXFP4) {
            data[at] = (unsigned char)(124 + bits % 4); // 1/16 .. 1/2
        } else {
            put_number(data + at + types[t].scale, 0x2C00 | bits); // 1/16 .. 1/8
        }
        if (types[t].minimum != NO_HALF) {
            put_number(data + at + types[t].minimum, 0x2C00 | (bits ^ 0x155));
        }
    }
    return (or_gguf_tensor_t){.name = {"random", 6},
                              .type = type,
                              .dim_count = 2,
                              .dims = {inputs, OUTPUTS, 1, 1},
                              .elements = (uint64_t)inputs * OUTPUTS,
                              .data = data,
                              .bytes = bytes};
}

static void free_tensor(const or_gguf_tensor_t *tensor)
{
    free((void *)(uintptr_t)tensor->data);
}

static float *random_numbers(uint64_t *rng, size_t count)
{
    float *numbers = malloc(count * sizeof *numbers);
    assert_non_null(numbers);
    for (size_t i = 0; i < count; i++) {
        numbers[i] = (float)test_uniform(rng) - 0.5f;
    }
    return numbers;
}

static or_workers_t *create_workers(uint32_t threads)
{
    or_workers_t *workers = NULL;
    assert_int_equal(or_workers_create(&(or_workers_options_t){.threads = threads}, &workers),
                     OR_OK);
    return workers;
}

static or_matrix_t pack(const or_gguf_tensor_t *tensor, or_span_t outputs, or_span_t inputs)
{
    or_matrix_t matrix;
    or_workers_t *workers = create_workers(2);
    assert_int_equal(or_matrix_pack(workers, tensor, outputs, inputs, &matrix), OR_OK);
    or_workers_destroy(&workers);
    return matrix;
}

static or_matrix_t pack_whole(const or_gguf_tensor_t *tensor)
{
    return pack(tensor, (or_span_t){0, OUTPUTS}, (or_span_t){0, (uint32_t)tensor->dims[0]});
}

// The rows that a matrix holding these inputs reads; `numbers` has rows of `stride`.
static void fill_rows(or_activations_t *x, const float *numbers, size_t stride, uint32_t rows,
                      const or_matrix_t *matrix)
{
    uint32_t width = matrix->inputs.end - matrix->inputs.begin;
    assert_int_equal(or_activations_init(x, rows, width, matrix->quantised), OR_OK);
    for (uint32_t i = 0; i < rows; i++) {
        memcpy(x->values + i * x->stride, numbers + i * stride + matrix->inputs.begin,
               width * sizeof *numbers);
        or_activations_quantise(x, or_kernels_pick(), i);
    }
}

static void multiply(const or_matrix_t *matrix, const float *numbers, or_span_t outputs,
                     or_span_t inputs, float *y)
{
    or_workers_t *workers = create_workers(1);
    or_activations_t x;
    fill_rows(&x, numbers, INPUTS, ROWS, matrix);
    or_product_t product = or_product(matrix, outputs.begin, outputs.end, y, Y_STRIDE);
    product.inputs = inputs;
    memset(y, POISON, ROWS * Y_STRIDE * sizeof *y);
    or_products_run(or_kernels_pick(), workers, &x, 0, ROWS, &product, 1);
    or_workers_destroy(&workers);
    or_activations_fini(&x);
}

// A part that is mapped in the whole has the same products as one that was packed, and copied the same bytes.
static void check_mapped(const or_gguf_tensor_t *tensor, const or_matrix_t *whole,
                         const or_matrix_t *part, const float *numbers, or_span_t outputs,
                         or_span_t inputs)
{
    float expected[ROWS * Y_STRIDE], y[ROWS * Y_STRIDE];
    or_matrix_t copy;
    or_workers_t *workers = create_workers(2);
    const or_span_t held = {part->panels.begin * OR_PANEL,
                            part->panels.end * OR_PANEL < whole->outputs
                                ? part->panels.end * OR_PANEL
                                : whole->outputs};
    or_matrix_t mapped = or_matrix_map(tensor, held, part->inputs, whole->memory);
    assert_true(mapped.borrowed);
    assert_int_equal(mapped.bytes, part->bytes);
    multiply(part, numbers, outputs, inputs, expected);
    multiply(&mapped, numbers, outputs, inputs, y);
    assert_memory_equal(y, expected, sizeof y);
    assert_int_equal(or_matrix_copy(workers, &mapped, &copy), OR_OK);
    assert_false(copy.borrowed);
    assert_int_equal(copy.panel_bytes, part->panel_bytes);
    assert_memory_equal(copy.memory, part->memory, part->bytes);
    or_matrix_free(&copy);
    or_matrix_free(&mapped); // which leaves the whole
    or_workers_destroy(&workers);
}

// Multiply `outputs` over `inputs` with a matrix that holds just `held_outputs` and `held_inputs`.
static void check_part(const or_gguf_tensor_t *tensor, const float *numbers, or_span_t held_outputs,
                       or_span_t held_inputs, or_span_t outputs, or_span_t inputs)
{
    float expected[ROWS * Y_STRIDE], y[ROWS * Y_STRIDE];
    or_matrix_t whole = pack_whole(tensor);
    or_matrix_t part = pack(tensor, held_outputs, held_inputs);
    multiply(&whole, numbers, (or_span_t){0, OUTPUTS}, inputs, expected);
    multiply(&part, numbers, outputs, inputs, y);
    for (uint32_t i = 0; i < ROWS; i++) {
        assert_memory_equal(y + (size_t)i * Y_STRIDE + or_matrix_place(&part, outputs.begin),
                            expected + (size_t)i * Y_STRIDE + outputs.begin,
                            (outputs.end - outputs.begin) * sizeof *y);
    }
    check_mapped(tensor, &whole, &part, numbers, outputs, inputs);
    // A part holds whole panels, and the units that have some of its inputs.
    uint32_t unit = or_gguf_tensor_block(tensor->type).elements;
    size_t units = (held_inputs.end - 1) / unit - held_inputs.begin / unit + 1;
    size_t panels = part.panels.end - part.panels.begin;
    assert_int_equal(part.bytes * PANELS * (INPUTS / unit), whole.bytes * panels * units);
    or_matrix_free(&part);
    or_matrix_free(&whole);
}

static void parts_multiply_as_the_whole(void **state)
{
    (void)state;
    uint64_t rng = test_seed();
    float *numbers = random_numbers(&rng, ROWS * INPUTS);
    const or_span_t all = {0, OUTPUTS}, some = {37, 66}, last = {50, OUTPUTS};
    const or_span_t inner = {32, 384}, block = {320, 352}, odd = {5, 77}, within = {9, 60};
    for (size_t t = 0; t < TYPES; t++) {
        or_gguf_tensor_t tensor = random_tensor(&rng, t, INPUTS);
        check_part(&tensor, numbers, some, (or_span_t){0, INPUTS}, some, (or_span_t){0, INPUTS});
        check_part(&tensor, numbers, all, inner, all, inner);
        check_part(&tensor, numbers, last, inner, (or_span_t){64, OUTPUTS}, block);
        check_part(&tensor, numbers, all, block, all, block);
        if (or_gguf_tensor_block(types[t].type).elements == 1) {
            check_part(&tensor, numbers, some, odd, some, within);
        }
        free_tensor(&tensor);
    }
    free(numbers);
}

// A rank without heads holds nothing of the matrices about them.
static void an_empty_part_is_nothing(void **state)
{
    (void)state;
    uint64_t rng = test_seed();
    for (size_t t = 0; t < TYPES; t++) {
        or_gguf_tensor_t tensor = random_tensor(&rng, t, INPUTS);
        or_matrix_t no_outputs = pack(&tensor, (or_span_t){24, 24}, (or_span_t){0, INPUTS});
        or_matrix_t no_inputs = pack(&tensor, (or_span_t){0, OUTPUTS}, (or_span_t){64, 64});
        assert_null(no_outputs.memory);
        assert_null(no_inputs.memory);
        float numbers[ROWS * INPUTS] = {0};
        float y[ROWS * Y_STRIDE], poison[ROWS * Y_STRIDE];
        memset(poison, POISON, sizeof poison);
        multiply(&no_outputs, numbers, (or_span_t){24, 24}, (or_span_t){0, INPUTS}, y);
        assert_memory_equal(y, poison, sizeof y);
        or_matrix_free(&no_inputs);
        or_matrix_free(&no_outputs);
        free_tensor(&tensor);
    }
}

// The rows are those of a part of the outputs and inputs, padded to whole panels.
static void rows_are_those_of_the_file(void **state)
{
    (void)state;
    uint64_t rng = test_seed();
    const or_span_t outputs = {37, OUTPUTS}, inputs = {32, 384};
    const size_t first = 32, last = Y_STRIDE, width = 352;
    or_workers_t *workers = create_workers(2);
    for (size_t t = 1; t < 3; t++) {
        or_gguf_tensor_t tensor = random_tensor(&rng, t, INPUTS);
        or_matrix_t matrix;
        assert_int_equal(or_matrix_pack_rows(workers, &tensor, outputs, inputs, &matrix), OR_OK);
        assert_true(matrix.by_rows);
        assert_int_equal(matrix.outputs, OUTPUTS);
        assert_int_equal(matrix.bytes, (last - first) * width * sizeof(uint16_t));
        const uint16_t *rows = matrix.memory;
        for (size_t i = first; i < last; i++) {
            const uint16_t *from = (const uint16_t *)tensor.data + i * INPUTS + inputs.begin;
            for (size_t k = 0; k < width; k++) {
                assert_int_equal(rows[(i - first) * width + k], i < OUTPUTS ? from[k] : 0);
            }
        }
        or_matrix_free(&matrix);
        free_tensor(&tensor);
    }
    or_workers_destroy(&workers);
}

static void tiles_do_not_show(void **state)
{
    (void)state;
    static float together[MANY_ROWS * Y_STRIDE], alone[MANY_ROWS * Y_STRIDE];
    const or_kernels_t *kernels = or_kernels_pick();
    uint64_t rng = test_seed();
    float *numbers = random_numbers(&rng, MANY_ROWS * MANY_INPUTS);
    or_workers_t *workers = create_workers(2);
    for (size_t t = 0; t < TYPES; t++) {
        or_gguf_tensor_t tensor = random_tensor(&rng, t, MANY_INPUTS);
        or_matrix_t matrix = pack_whole(&tensor);
        or_activations_t x;
        fill_rows(&x, numbers, MANY_INPUTS, MANY_ROWS, &matrix);
        memset(together, POISON, sizeof together);
        or_product_t product = or_product(&matrix, 0, OUTPUTS, together, Y_STRIDE);
        or_products_run(kernels, workers, &x, 0, MANY_ROWS, &product, 1);
        for (uint32_t i = 0; i < MANY_ROWS; i++) {
            product.y = alone + (size_t)i * Y_STRIDE;
            or_products_run(kernels, workers, &x, i, 1, &product, 1);
        }
        assert_memory_equal(together, alone, sizeof together);
        or_activations_fini(&x);
        or_matrix_free(&matrix);
        free_tensor(&tensor);
    }
    or_workers_destroy(&workers);
    free(numbers);
}

static uint32_t four_panels(or_quant_t type)
{
    (void)type;
    return 4;
}

// Return this processor's kernels, but a row alone takes four panels at once, as with AVX2.
static or_kernels_t kernels_of_four_panels(void)
{
    or_kernels_t kernels = *or_kernels_pick();
    kernels.row_panels = four_panels;
    return kernels;
}

// Eight shards of which two are empty, and the ranks' halves of them.
static void a_sum_of_shards_is_that_of_its_parts(void **state)
{
    (void)state;
    static float parts[8][MANY_ROWS * Y_STRIDE], expected[MANY_ROWS * Y_STRIDE];
    static float y[MANY_ROWS * Y_STRIDE], other_half[MANY_ROWS * Y_STRIDE];
    static float scratch[2 * OR_SHARD_SUM_FLOATS];
    static const uint32_t cuts[9] = {0, 64, 64, 128, 160, 288, 384, 512, 512};
    const or_kernels_t four = kernels_of_four_panels(), *kernels = &four;
    uint64_t rng = test_seed();
    float *numbers = random_numbers(&rng, MANY_ROWS * INPUTS);
    or_workers_t *workers = create_workers(2);
    for (size_t t = 0; t < TYPES; t++) {
        or_gguf_tensor_t tensor = random_tensor(&rng, t, INPUTS);
        or_matrix_t matrix = pack_whole(&tensor);
        or_activations_t x;
        or_span_t shards[8];
        fill_rows(&x, numbers, INPUTS, MANY_ROWS, &matrix);
        memset(parts, 0, sizeof parts);
        for (uint32_t s = 0; s < 8; s++) {
            shards[s] = (or_span_t){cuts[s], cuts[s + 1]};
            or_product_t part = or_product(&matrix, 0, OUTPUTS, parts[s], Y_STRIDE);
            part.inputs = shards[s];
            if (cuts[s] < cuts[s + 1]) {
                or_products_run(kernels, workers, &x, 0, MANY_ROWS, &part, 1);
            }
        }
        for (uint32_t i = 0; i < MANY_ROWS * Y_STRIDE; i++) {
            expected[i] = ((parts[0][i] + parts[1][i]) + (parts[2][i] + parts[3][i])) +
                          ((parts[4][i] + parts[5][i]) + (parts[6][i] + parts[7][i]));
        }
        memset(y, POISON, sizeof y);
        or_product_t product = or_product(&matrix, 0, OUTPUTS, y, Y_STRIDE);
        or_shard_sum_run(kernels, workers, scratch, &x, MANY_ROWS, &product, shards, 8);
        assert_memory_equal(y, expected, sizeof y);
        or_shard_sum_run(kernels, workers, scratch, &x, MANY_ROWS, &product, shards, 4);
        product.y = other_half;
        or_shard_sum_run(kernels, workers, scratch, &x, MANY_ROWS, &product, shards + 4, 4);
        kernels->add(y, other_half, MANY_ROWS * Y_STRIDE);
        assert_memory_equal(y, expected, sizeof y);
        product.y = y;
        memset(y, POISON, sizeof y);
        or_shard_sum_run(kernels, workers, scratch, &x, 1, &product, shards, 8);
        assert_memory_equal(y, expected, Y_STRIDE * sizeof *y);
        or_activations_fini(&x);
        or_matrix_free(&matrix);
        free_tensor(&tensor);
    }
    or_workers_destroy(&workers);
    free(numbers);
}

#define EXPERTS 2u

// A tensor's outputs as experts of half of them each.
static or_gguf_tensor_t as_experts(or_gguf_tensor_t tensor)
{
    tensor.dim_count = 3;
    tensor.dims[1] = OUTPUTS / EXPERTS;
    tensor.dims[2] = EXPERTS;
    return tensor;
}

// One of them as a tensor of its own.
static or_gguf_tensor_t expert_of(const or_gguf_tensor_t *experts, uint32_t expert)
{
    or_gguf_tensor_t tensor = *experts;
    tensor.dim_count = 2;
    tensor.dims[2] = 1;
    tensor.elements = experts->elements / EXPERTS;
    tensor.bytes = experts->bytes / EXPERTS;
    tensor.data = (const char *)experts->data + expert * tensor.bytes;
    return tensor;
}

static void check_mapped_expert(const or_gguf_tensor_t *tensor, const or_span_t cut[2],
                                uint32_t number, const or_matrix_t *alone)
{
    or_matrix_t whole =
        pack(tensor, (or_span_t){0, OUTPUTS / EXPERTS}, (or_span_t){0, (uint32_t)tensor->dims[0]});
    or_workers_t *workers = create_workers(1);
    or_matrix_t mapped = or_matrix_map(tensor, cut[0], cut[1], whole.memory);
    or_matrix_t one = or_matrix_expert(&mapped, number);
    or_matrix_t copy, copied;
    assert_int_equal(or_matrix_copy(workers, &one, &copied), OR_OK);
    assert_memory_equal(copied.memory, alone->memory, alone->bytes);
    assert_int_equal(or_matrix_copy(workers, &mapped, &copy), OR_OK);
    or_matrix_t other = or_matrix_expert(&copy, number);
    assert_memory_equal(other.memory, alone->memory, alone->bytes);
    or_matrix_free(&copy);
    or_matrix_free(&copied);
    or_matrix_free(&whole);
    or_workers_destroy(&workers);
}

// Whole, and a part of the outputs and inputs of each, which begins and ends inside a panel and a super-block.
static void experts_are_packed_as_matrices_are(void **state)
{
    (void)state;
    static const or_span_t cuts[][2] = {{{0, OUTPUTS / EXPERTS}, {0, INPUTS}},
                                        {{0, OUTPUTS / EXPERTS / 2}, {96, 320}}};
    uint64_t rng = test_seed();
    for (size_t t = 0; t < TYPES; t++) {
        or_gguf_tensor_t flat = random_tensor(&rng, t, INPUTS);
        or_gguf_tensor_t tensor = as_experts(flat);
        for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
            or_matrix_t all = pack(&tensor, cuts[i][0], cuts[i][1]);
            for (uint32_t e = 0; e < EXPERTS; e++) {
                or_gguf_tensor_t own = expert_of(&tensor, e);
                or_matrix_t alone = pack(&own, cuts[i][0], cuts[i][1]);
                or_matrix_t expert = or_matrix_expert(&all, e);
                assert_int_equal(expert.bytes, alone.bytes);
                assert_int_equal(expert.experts, 1);
                assert_memory_equal(expert.memory, alone.memory, alone.bytes);
                check_mapped_expert(&tensor, cuts[i], e, &alone);
                or_matrix_free(&alone);
            }
            or_matrix_free(&all);
        }
        free_tensor(&flat);
    }
}

// Add a part's rows, shard by shard, to those of y that are its own.
static void add_naively(const or_kernels_t *kernels, or_workers_t *workers,
                        const or_part_product_t *part, uint32_t shard, float *sums)
{
    static float product[MANY_ROWS * Y_STRIDE];
    or_product_t one = or_product(&part->matrix, 0, OUTPUTS, product, Y_STRIDE);
    one.inputs = part->shards[shard];
    if (or_span_length(one.inputs) == 0) {
        return;
    }
    or_products_run(kernels, workers, part->x, part->first, part->count, &one, 1);
    for (uint32_t i = 0; i < part->count; i++) {
        uint32_t row = part->rows != NULL ? part->rows[i] : i;
        for (uint32_t o = 0; o < OUTPUTS; o++) {
            sums[row * Y_STRIDE + o] += product[i * Y_STRIDE + o];
        }
    }
}

// Compare a sum of three parts with a naive one, whole and as the ranks' halves of it.
static void check_sum_of_parts(const or_kernels_t *kernels, or_workers_t *workers,
                               const or_part_product_t parts[3], uint32_t rows)
{
    static float sums[8][MANY_ROWS * Y_STRIDE], y[MANY_ROWS * Y_STRIDE];
    static float other_half[MANY_ROWS * Y_STRIDE], scratch[2 * OR_PART_SUM_FLOATS];
    const size_t floats = (size_t)rows * Y_STRIDE;
    or_part_product_t second[3];
    memset(sums, 0, sizeof sums);
    for (uint32_t s = 0; s < 8; s++) {
        for (uint32_t i = 0; i < 3; i++) {
            add_naively(kernels, workers, &parts[i], s, sums[s]);
        }
    }
    for (size_t i = 0; i < floats; i++) {
        sums[0][i] = ((sums[0][i] + sums[1][i]) + (sums[2][i] + sums[3][i])) +
                     ((sums[4][i] + sums[5][i]) + (sums[6][i] + sums[7][i]));
    }
    memset(y, 0, sizeof y);
    memset(other_half, 0, sizeof other_half);
    or_part_sum_run(kernels, workers, scratch, parts, 3, 8, rows, y, Y_STRIDE);
    assert_memory_equal(y, sums[0], floats * sizeof *y);
    or_part_sum_run(kernels, workers, scratch, parts, 3, 4, rows, y, Y_STRIDE);
    for (uint32_t i = 0; i < 3; i++) {
        second[i] = parts[i];
        second[i].shards += 4;
    }
    or_part_sum_run(kernels, workers, scratch, second, 3, 4, rows, other_half, Y_STRIDE);
    kernels->add(y, other_half, (uint32_t)floats);
    assert_memory_equal(y, sums[0], floats * sizeof *y);
}

// Three parts, of some rows, of all, and of one; one row gets all of them, as two alone are the same sum in either order.
// Each has shards of its own. Then a row alone; and three rows, of which the first part has two and the others have one.
static void a_sum_of_parts_is_in_their_order(void **state)
{
    (void)state;
    static const uint32_t cuts[][9] = {{0, 64, 64, 128, 160, 288, 384, 512, 512},
                                       {0, 64, 128, 192, 256, 320, 384, 448, 512}};
    static const uint32_t some[] = {0, 1, 5, MANY_ROWS - 1}, last[] = {MANY_ROWS - 1};
    static const uint32_t few[] = {2, 0, 2};
    const or_kernels_t four = kernels_of_four_panels(), *kernels = &four;
    uint64_t rng = test_seed();
    float *numbers = random_numbers(&rng, MANY_ROWS * INPUTS);
    or_workers_t *workers = create_workers(2);
    for (size_t t = 0; t < TYPES; t++) {
        or_gguf_tensor_t tensors[3];
        or_part_product_t parts[3];
        or_activations_t x;
        or_span_t shards[2][8];
        for (uint32_t s = 0; s < 8; s++) {
            shards[0][s] = (or_span_t){cuts[0][s], cuts[0][s + 1]};
            shards[1][s] = (or_span_t){cuts[1][s], cuts[1][s + 1]};
        }
        for (uint32_t i = 0; i < 3; i++) {
            tensors[i] = random_tensor(&rng, t, INPUTS);
            parts[i] = (or_part_product_t){.matrix = pack_whole(&tensors[i]), .x = &x};
            parts[i].shards = shards[i % 2];
        }
        fill_rows(&x, numbers, INPUTS, MANY_ROWS, &parts[0].matrix);
        parts[0].first = 3;
        parts[0].rows = some;
        parts[0].count = sizeof some / sizeof some[0];
        parts[1].count = MANY_ROWS;
        parts[2].rows = last;
        parts[2].count = 1;
        check_sum_of_parts(kernels, workers, parts, MANY_ROWS);
        for (uint32_t i = 0; i < 3; i++) {
            parts[i].rows = NULL;
            parts[i].count = 1;
        }
        check_sum_of_parts(kernels, workers, parts, 1);
        for (uint32_t i = 0; i < 3; i++) {
            parts[i].rows = &few[i];
        }
        parts[0].count = 2;
        check_sum_of_parts(kernels, workers, parts, 3);
        or_activations_fini(&x);
        for (uint32_t i = 0; i < 3; i++) {
            or_matrix_free(&parts[i].matrix);
            free_tensor(&tensors[i]);
        }
    }
    or_workers_destroy(&workers);
    free(numbers);
}

// Return how many pages of a buffer are in memory.
static size_t resident_pages(void *buffer, size_t pages)
{
    unsigned char *in_memory = malloc(pages);
    size_t count = 0;
    assert_non_null(in_memory);
    assert_int_equal(mincore(buffer, pages * (size_t)sysconf(_SC_PAGESIZE), in_memory), 0);
    for (size_t i = 0; i < pages; i++) {
        count += in_memory[i] & 1;
    }
    free(in_memory);
    return count;
}

// Does the system tell what is in memory? Some sandboxes say of all pages that they are.
static bool is_told(size_t page)
{
    void *fresh = mmap(NULL, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(fresh != MAP_FAILED);
    bool told = resident_pages(fresh, 1) == 0;
    munmap(fresh, page);
    return told;
}

// Also where the allocator gives memory that was used before.
static void zeroed_memory_is_taken_where_it_is_written(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 100, 5000, 1 << 20, (3 << 20) + 7, 40 << 20};
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const bool told = is_told(page);
    for (uint32_t turn = 0; turn < 3; turn++) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            uint8_t *memory = or_zeroed(sizes[i], 1);
            assert_non_null(memory);
            assert_int_equal((uintptr_t)memory % 64, 0);
            if (told && sizes[i] >= 1 << 20) {
                assert_int_equal(resident_pages(memory, sizes[i] / page), 0);
            }
            for (size_t j = 0; j < sizes[i]; j++) {
                assert_int_equal(memory[j], 0);
            }
            memset(memory, 0xAB, sizes[i]);
            free(memory);
        }
    }
    assert_null(or_zeroed(SIZE_MAX / 2, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zeroed_memory_is_taken_where_it_is_written),
        cmocka_unit_test(parts_multiply_as_the_whole),
        cmocka_unit_test(an_empty_part_is_nothing),
        cmocka_unit_test(rows_are_those_of_the_file),
        cmocka_unit_test(tiles_do_not_show),
        cmocka_unit_test(a_sum_of_shards_is_that_of_its_parts),
        cmocka_unit_test(experts_are_packed_as_matrices_are),
        cmocka_unit_test(a_sum_of_parts_is_in_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
