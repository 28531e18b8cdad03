#include "kernels/cuda/tensor_trial.h"

#include <string.h>

#define ROWS OR_CUDA_TENSOR_ROWS
#define HALF (ROWS / 2)
#define COPIES 3u
#define COPIES_OF_HALF 2u
#define TILES 2u

static const uint32_t places[COPIES] = {0, HALF - 1, ROWS - 1}; // of the row's copies

typedef struct {
    uint16_t *tiles; // the host's: the full one, the half one
    float *first;    // [parts][outputs] of the first copy
    float *other;    // [outputs]
    uint16_t *device_tiles;
    uint16_t *weights;
    float *y;
} memory_t;

// ---- memory ----

static size_t row_halves(const or_tensor_trial_t *trial)
{
    return (size_t)trial->shape.parts * trial->shape.inputs;
}

static size_t tile_bytes(const or_tensor_trial_t *trial)
{
    return ROWS * row_halves(trial) * sizeof(uint16_t);
}

static size_t part_floats(const or_tensor_trial_t *trial)
{
    return (size_t)ROWS * trial->shape.outputs;
}

// Pinned memory is the host's too, and says by a code where there is none.
static int take_host_memory(const or_tensor_trial_t *trial, memory_t *memory)
{
    const size_t output_bytes = trial->shape.outputs * sizeof *memory->first;
    void *at = NULL;
    int status = or_cuda_alloc_pinned(
        trial->cuda, TILES * tile_bytes(trial) + (trial->shape.parts + 1) * output_bytes, &at);
    if (status == OR_CUDA_OK) {
        memory->first = (float *)at;
        memory->other = memory->first + (size_t)trial->shape.parts * trial->shape.outputs;
        memory->tiles = (uint16_t *)(memory->other + trial->shape.outputs);
    }
    return status;
}

static int take_device_memory(const or_tensor_trial_t *trial, memory_t *memory)
{
    const size_t weight_bytes = trial->shape.outputs * row_halves(trial) * sizeof(uint16_t);
    const size_t y_bytes = trial->shape.parts * part_floats(trial) * sizeof *memory->y;
    void *tiles = NULL, *weights = NULL, *y = NULL;
    int status = or_cuda_alloc(trial->cuda, TILES * tile_bytes(trial), &tiles);
    if (status == OR_CUDA_OK) {
        status = or_cuda_alloc(trial->cuda, weight_bytes, &weights);
    }
    if (status == OR_CUDA_OK) {
        status = or_cuda_alloc(trial->cuda, y_bytes, &y);
    }
    memory->device_tiles = (uint16_t *)tiles;
    memory->weights = (uint16_t *)weights;
    memory->y = (float *)y;
    return status;
}

static void give_back(const or_tensor_trial_t *trial, const memory_t *memory)
{
    or_cuda_free(trial->cuda, memory->y); // waits
    or_cuda_free(trial->cuda, memory->weights);
    or_cuda_free(trial->cuda, memory->device_tiles);
    or_cuda_free_pinned(trial->cuda, memory->first);
}

// ---- numbers ----

// Draw a number of either sign and of one of eight powers of two, up to 2, so that sums are rounded and differ by
// their order.
static uint16_t draw(uint64_t *random, or_cuda_float_t type)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    uint16_t bits = (uint16_t)(*random >> 48);
    return type == OR_CUDA_F16 ? (uint16_t)((bits & 0x9FFFu) | 0x2000u)
                               : (uint16_t)((bits & 0x83FFu) | 0x3C00u);
}

// Fill both tiles. The numbers behind the last row of the half tile are NaNs.
static void fill_tiles(const or_tensor_trial_t *trial, uint16_t *full)
{
    const size_t inputs = row_halves(trial);
    uint16_t *half = full + ROWS * inputs;
    uint64_t random = 1;
    for (size_t i = 0; i < ROWS * inputs; i++) {
        full[i] = draw(&random, trial->shape.type);
    }
    for (uint32_t i = 1; i < COPIES; i++) {
        memcpy(full + places[i] * inputs, full, inputs * sizeof *full);
    }
    memcpy(half, full, HALF * inputs * sizeof *full);
    memset(half + HALF * inputs, 0xFF, HALF * inputs * sizeof *full);
}

// The full tile again and again will do for weights.
static int send_weights(const or_tensor_trial_t *trial, const memory_t *memory)
{
    const size_t inputs = row_halves(trial);
    const uint32_t outputs = trial->shape.outputs;
    int status = OR_CUDA_OK;
    for (uint32_t output = 0; status == OR_CUDA_OK && output < outputs; output += ROWS) {
        const size_t rows = outputs - output < ROWS ? outputs - output : ROWS;
        status = or_cuda_upload(trial->cuda, memory->weights + output * inputs, memory->tiles,
                                rows * inputs * sizeof *memory->tiles);
    }
    return status;
}

static int set_up(const or_tensor_trial_t *trial, memory_t *memory)
{
    int status = take_host_memory(trial, memory);
    if (status == OR_CUDA_OK) {
        status = take_device_memory(trial, memory);
    }
    if (status == OR_CUDA_OK) {
        fill_tiles(trial, memory->tiles);
        status = send_weights(trial, memory);
    }
    return status == OR_CUDA_OK ? or_cuda_upload(trial->cuda, memory->device_tiles, memory->tiles,
                                                 TILES * tile_bytes(trial))
                                : status;
}

// ---- a product ----

typedef struct {
    uint32_t ranks; // that share the matrix
    uint32_t tile;
    uint32_t copies; // of the row, in this tile
} product_t;

static const product_t products[] = {
    {1, 0, COPIES},         // the others are compared with it
    {1, 1, COPIES_OF_HALF}, // the half tile
    {2, 0, COPIES},         // half of the matrix
    {4, 0, COPIES},         // a quarter
    {8, 0, COPIES},         // an eighth
};
#define PRODUCTS (sizeof products / sizeof products[0])

// A matrix has many parts where ranks cut its inputs, and one where they cut its outputs.
static or_tensor_operands_t operands_of(const or_tensor_trial_t *trial, const memory_t *memory,
                                        const product_t *product)
{
    const or_cuda_tensor_shape_t *shape = &trial->shape;
    const uint32_t panels = shape->outputs / OR_PANEL;
    or_tensor_operands_t operands = {
        shape->outputs, shape->parts, memory->weights,
        memory->device_tiles + product->tile * ROWS * row_halves(trial), memory->y};
    if (shape->parts > 1) {
        operands.parts = (shape->parts + product->ranks - 1) / product->ranks;
    } else {
        operands.outputs = (panels + product->ranks - 1) / product->ranks * OR_PANEL;
    }
    return operands;
}

static int fetch(const or_tensor_trial_t *trial, const or_tensor_operands_t *operands,
                 uint32_t copy, uint32_t part, float *to)
{
    const size_t row = (size_t)part * ROWS + places[copy];
    return or_cuda_download(trial->cuda, to, operands->y + row * operands->outputs,
                            operands->outputs * sizeof *to);
}

static int fetch_first(const or_tensor_trial_t *trial, const memory_t *memory,
                       const or_tensor_operands_t *operands)
{
    int status = OR_CUDA_OK;
    for (uint32_t part = 0; status == OR_CUDA_OK && part < operands->parts; part++) {
        status = fetch(trial, operands, 0, part, memory->first + (size_t)part * operands->outputs);
    }
    return status;
}

// *fits stays true if all copies are the first one.
static int compare_copies(const or_tensor_trial_t *trial, const memory_t *memory,
                          const or_tensor_operands_t *operands, uint32_t copies, bool *fits)
{
    const uint32_t parts = operands->parts;
    int status = OR_CUDA_OK;
    for (uint32_t i = 0; status == OR_CUDA_OK && *fits && i < copies * parts; i++) {
        const float *first = memory->first + (size_t)(i % parts) * trial->shape.outputs;
        status = fetch(trial, operands, i / parts, i % parts, memory->other);
        if (status == OR_CUDA_OK) {
            status = or_cuda_wait(trial->cuda);
        }
        *fits = memcmp(memory->other, first, operands->outputs * sizeof *first) == 0;
    }
    return status;
}

static int try_product(const or_tensor_trial_t *trial, const memory_t *memory, uint32_t candidate,
                       const product_t *product, bool *fits)
{
    const or_tensor_operands_t operands = operands_of(trial, memory, product);
    bool refuses = false;
    int status = trial->multiply(trial->context, candidate, &operands, &refuses);
    *fits = !refuses;
    if (status != OR_CUDA_OK || refuses) {
        return status;
    }
    if (product == products) {
        status = fetch_first(trial, memory, &operands);
    }
    return status == OR_CUDA_OK ? compare_copies(trial, memory, &operands, product->copies, fits)
                                : status;
}

// ---- candidates ----

static int try_candidate(const or_tensor_trial_t *trial, const memory_t *memory, uint32_t candidate,
                         bool *fits)
{
    int status = OR_CUDA_OK;
    *fits = true;
    for (size_t i = 0; status == OR_CUDA_OK && *fits && i < PRODUCTS; i++) {
        status = try_product(trial, memory, candidate, &products[i], fits);
    }
    return status;
}

int or_tensor_choose(const or_tensor_trial_t *trial, uint32_t *chosen)
{
    memory_t memory = {0};
    int status = set_up(trial, &memory);
    uint32_t candidate = 0;
    bool fits = false;
    while (status == OR_CUDA_OK && !fits && candidate < trial->candidates) {
        status = try_candidate(trial, &memory, candidate, &fits);
        candidate += !fits;
    }
    give_back(trial, &memory);
    if (status == OR_CUDA_OK) {
        *chosen = candidate;
    }
    return status;
}
