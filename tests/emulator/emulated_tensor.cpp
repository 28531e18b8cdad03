// cuda_tensor.h without tensor cores and cuBLASLt: plain sums of floats in an order that, as there, belongs to the
// shape of the whole matrix. What a real product leaves behind the last row is full of NaNs here.
//
// OR_EMULATED_TENSOR=place, neighbours, load or none has the library recommend algorithms first, or only, whose rows have
// bits that depend on their place in a tile, on its last row, or on how much of the matrix is multiplied: tensor_trial.h
// has to find that out. With "refusal" the first one does not multiply at all.
#include "kernels/cuda/cuda_tensor.h"

#include <math.h>
#include <new>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

#include "kernels/cuda/cuda_portable.cuh"
#include "kernels/cuda/tensor_trial.h"
#include "tests/emulator/emulated_internal.hpp"

#define CHAINS_LEAST 4u
#define CHAINS_MOST 8u
#define ALIGNMENT 16u

#define NO_MEMORY OR_CUDA_TENSOR
#define NO_ALGORITHM (OR_CUDA_TENSOR + 1)

typedef enum { SOUND, BY_PLACE, BY_NEIGHBOURS, BY_LOAD, REFUSING } algorithm_t;

typedef struct {
    or_cuda_tensor_shape_t shape;
    algorithm_t algorithm;
} plan_t;

struct or_cuda_tensor {
    or_cuda_t *cuda;
    std::vector<algorithm_t> candidates;
    std::vector<plan_t> plans;
};

typedef struct {
    or_cuda_tensor_matrix_t matrix;
    or_cuda_rows_t x;
    uint32_t rows;
    or_cuda_parts_t to; // its spans are below
    or_cuda_span_t spans[OR_CUDA_SPANS_MAX];
    algorithm_t algorithms[OR_CUDA_SPANS_MAX];
} product_t;

static std::vector<algorithm_t> recommend()
{
    const char *fault = getenv("OR_EMULATED_TENSOR");
    if (!fault) {
        return {SOUND};
    }
    return strcmp(fault, "place") == 0        ? std::vector<algorithm_t>{BY_PLACE, SOUND}
           : strcmp(fault, "neighbours") == 0 ? std::vector<algorithm_t>{BY_NEIGHBOURS, SOUND}
           : strcmp(fault, "load") == 0       ? std::vector<algorithm_t>{BY_LOAD, SOUND}
           : strcmp(fault, "refusal") == 0    ? std::vector<algorithm_t>{REFUSING, SOUND}
                                              : std::vector<algorithm_t>{BY_PLACE, BY_NEIGHBOURS};
}

int or_cuda_tensor_open(or_cuda_t *cuda, or_cuda_tensor_t **tensor_p)
{
    or_cuda_tensor_t *tensor = new (std::nothrow) or_cuda_tensor_t{cuda, recommend(), {}};
    if (!tensor) {
        return NO_MEMORY;
    }
    *tensor_p = tensor;
    return OR_CUDA_OK;
}

void or_cuda_tensor_close(or_cuda_tensor_t **tensor_p)
{
    if (*tensor_p) {
        (void)or_cuda_wait((*tensor_p)->cuda);
        delete *tensor_p;
        *tensor_p = nullptr;
    }
}

void or_cuda_tensor_name(const or_cuda_tensor_t *, char name[OR_CUDA_TENSOR_NAME])
{
    snprintf(name, OR_CUDA_TENSOR_NAME, "emulated");
}

const char *or_cuda_tensor_text(int status)
{
    return status == NO_MEMORY ? "out of memory for an emulated cuBLASLt"
                               : "an emulated cuBLASLt has no algorithm that gives a row the same "
                                 "bits in every batch";
}

// ---- sums ----

static float widen(or_cuda_float_t type, uint16_t half)
{
    return type == OR_CUDA_F16 ? canonical_widen(half) : canonical_widen_bf16(half);
}

static uint32_t chains_of(const or_cuda_tensor_matrix_t *matrix, uint32_t inputs)
{
    uint32_t shape = matrix->whole_outputs / OR_PANEL + matrix->whole_parts + inputs;
    return CHAINS_LEAST + shape % (CHAINS_MOST - CHAINS_LEAST + 1);
}

static float sum(const product_t *p, const uint16_t *weights, const uint16_t *x, uint32_t inputs,
                 uint32_t first_chain)
{
    const uint32_t chains = chains_of(&p->matrix, inputs);
    float chain[CHAINS_MOST] = {};
    for (uint32_t k = 0; k < inputs; k++) {
        chain[k % chains] += widen(p->matrix.type, weights[k]) * widen(p->matrix.type, x[k]);
    }
    float all = 0.0f;
    for (uint32_t c = 0; c < chains; c++) {
        all += chain[(first_chain + c) % chains];
    }
    return all;
}

// Return the chain with which an unsound algorithm begins to add up.
static uint32_t first_chain_of(const product_t *p, uint32_t s, const uint16_t *x, size_t row)
{
    const size_t place = row % OR_CUDA_TENSOR_ROWS;
    const size_t last = row - place + OR_CUDA_TENSOR_ROWS - 1;
    switch (p->algorithms[s]) {
    case BY_PLACE:
        return place < OR_CUDA_TENSOR_ROWS / 2 ? 0 : 1;
    case BY_NEIGHBOURS:
        return isnan(widen(p->matrix.type, x[last * p->x.halves_stride])) ? 1 : 0;
    case BY_LOAD:
        return p->matrix.outputs < p->matrix.whole_outputs || p->to.count < p->matrix.whole_parts;
    default:
        return 0;
    }
}

static uint32_t rows_of_tiles(uint32_t rows)
{
    return (rows + OR_CUDA_TENSOR_ROWS - 1) / OR_CUDA_TENSOR_ROWS * OR_CUDA_TENSOR_ROWS;
}

static void multiply_part(const product_t *p, uint32_t s)
{
    const or_cuda_span_t span = p->spans[s];
    const uint16_t *weights = (const uint16_t *)p->matrix.weights + span.first;
    const uint16_t *x = p->x.halves + (span.first - p->to.x_first);
    const uint32_t rows = span.count > 0 ? rows_of_tiles(p->rows) : p->rows;
    for (size_t row = 0; row < rows; row++) {
        float *y = p->to.y + s * p->to.part_stride + row * p->to.y_stride;
        for (size_t output = 0; output < p->matrix.outputs; output++) {
            y[output] = row >= p->rows ? NAN
                                       : sum(p, weights + output * p->matrix.inputs,
                                             x + row * p->x.halves_stride, span.count,
                                             first_chain_of(p, s, x, row));
        }
    }
}

// ---- what is asked for ----

static void check_array(const char *what, const void *at, size_t count, size_t size)
{
    if (count > 0) {
        or_emulated_check_pointer(what, at);
        or_emulated_check_pointer(what, (const char *)at + count * size - 1);
    }
}

static void check_aligned(const char *what, uintptr_t bytes)
{
    if (bytes % ALIGNMENT != 0) {
        or_emulated_end("or_cuda_matmul_tensor", "%s, not at a multiple of %u bytes", what,
                        ALIGNMENT);
    }
}

static void check_spans(const product_t *p)
{
    uint32_t inputs = p->matrix.inputs | p->to.x_first;
    for (uint32_t s = 0; s < p->to.count; s++) {
        inputs |= p->spans[s].first | p->spans[s].count;
    }
    check_aligned("inputs", inputs * sizeof(uint16_t));
}

// Return how far what is written reaches, with the rows behind the last.
static size_t floats_of(const product_t *p)
{
    const size_t rows = rows_of_tiles(p->rows);
    return (p->to.count - 1) * p->to.part_stride + (rows - 1) * p->to.y_stride + p->matrix.outputs;
}

static void check_arrays(const product_t *p)
{
    const or_cuda_tensor_matrix_t *m = &p->matrix;
    const size_t rows = rows_of_tiles(p->rows);
    check_aligned("weights", (uintptr_t)m->weights);
    check_aligned("x", (uintptr_t)p->x.halves | p->x.halves_stride * sizeof(uint16_t));
    check_aligned("y", (uintptr_t)p->to.y | (p->to.y_stride | p->to.part_stride) * sizeof(float));
    check_array("weights", m->weights, (size_t)m->outputs * m->inputs, sizeof(uint16_t));
    check_array("x", p->x.halves, rows * p->x.halves_stride, sizeof(uint16_t));
    check_array("y", p->to.y, floats_of(p), sizeof(float));
    if (p->to.count > 1 && p->to.part_stride < rows * p->to.y_stride) {
        or_emulated_end("or_cuda_matmul_tensor", "parts of %zu rows without room for all of them",
                        rows);
    }
    if (p->x.halves_type != m->type) {
        or_emulated_end("or_cuda_matmul_tensor", "rows and weights of different types");
    }
}

static void multiply(const product_t &product)
{
    for (uint32_t s = 0; s < product.to.count; s++) {
        multiply_part(&product, s);
    }
}

static int ask(or_cuda_tensor_t *tensor, const product_t &product)
{
    const size_t bytes = floats_of(&product) * sizeof *product.to.y;
    return or_emulated_ask_step(tensor->cuda, [product, bytes] {
        or_emulated_write(product.to.y, bytes, [&] { multiply(product); });
    });
}

// ---- one algorithm for a shape ----

typedef struct {
    or_cuda_tensor_t *tensor;
    const or_cuda_tensor_shape_t *shape;
} choice_t;

static int multiply_trial(void *context, uint32_t candidate, const or_tensor_operands_t *operands,
                          bool *refuses)
{
    const choice_t *choice = (const choice_t *)context;
    const or_cuda_tensor_shape_t *s = choice->shape;
    const algorithm_t algorithm = choice->tensor->candidates[candidate];
    product_t product = {};
    product.matrix = {s->type,    operands->weights, operands->outputs, s->parts * s->inputs,
                      s->outputs, s->parts};
    product.x.halves = (uint16_t *)operands->x;
    product.x.halves_stride = product.matrix.inputs;
    product.rows = OR_CUDA_TENSOR_ROWS;
    product.to.count = operands->parts;
    product.to.y = operands->y;
    product.to.y_stride = operands->outputs;
    product.to.part_stride = (size_t)OR_CUDA_TENSOR_ROWS * operands->outputs;
    for (uint32_t part = 0; part < operands->parts; part++) {
        product.spans[part] = {part * s->inputs, s->inputs};
        product.algorithms[part] = algorithm;
    }
    *refuses = algorithm == REFUSING;
    return *refuses ? OR_CUDA_OK : ask(choice->tensor, product);
}

static const plan_t *find_plan(const or_cuda_tensor_t *tensor, const or_cuda_tensor_shape_t &shape)
{
    for (const plan_t &plan : tensor->plans) {
        if (plan.shape.type == shape.type && plan.shape.outputs == shape.outputs &&
            plan.shape.inputs == shape.inputs && plan.shape.parts == shape.parts) {
            return &plan;
        }
    }
    return nullptr;
}

int or_cuda_tensor_prepare(or_cuda_tensor_t *tensor, const or_cuda_tensor_shape_t *shape)
{
    if (find_plan(tensor, *shape)) {
        return OR_CUDA_OK;
    }
    const uint32_t count = (uint32_t)tensor->candidates.size();
    choice_t choice = {tensor, shape};
    const or_tensor_trial_t trial = {tensor->cuda, *shape, count, multiply_trial, &choice};
    uint32_t chosen;
    int status = or_tensor_choose(&trial, &chosen);
    if (status == OR_CUDA_OK && chosen == count) {
        return NO_ALGORITHM;
    }
    if (status == OR_CUDA_OK) {
        tensor->plans.push_back({*shape, tensor->candidates[chosen]});
    }
    return status;
}

static algorithm_t algorithm_of(const or_cuda_tensor_t *tensor, const product_t *p, uint32_t s)
{
    const or_cuda_tensor_matrix_t *m = &p->matrix;
    const plan_t *plan =
        find_plan(tensor, {m->type, m->whole_outputs, p->spans[s].count, m->whole_parts});
    if (!plan) {
        or_emulated_end("or_cuda_matmul_tensor", "%u outputs, %u inputs of %u parts: not prepared",
                        m->whole_outputs, p->spans[s].count, m->whole_parts);
    }
    return plan->algorithm;
}

// ---- products ----

int or_cuda_matmul_tensor(or_cuda_tensor_t *tensor, const or_cuda_tensor_matrix_t *matrix,
                          const or_cuda_rows_t *x, uint32_t rows, const or_cuda_parts_t *to)
{
    if (rows == 0 || matrix->outputs == 0) {
        return OR_CUDA_OK;
    }
    product_t product = {*matrix, *x, rows, *to, {}, {}};
    memcpy(product.spans, to->spans, to->count * sizeof *to->spans);
    check_spans(&product);
    check_arrays(&product);
    for (uint32_t s = 0; s < to->count; s++) {
        if (product.spans[s].count > 0) {
            product.algorithms[s] = algorithm_of(tensor, &product, s);
        }
        if (product.algorithms[s] == REFUSING) {
            return NO_ALGORITHM;
        }
    }
    return ask(tensor, product);
}
