#include "kernels/cuda/tensor_trial.h"

#include <string.h>

#define ROWS OR_CUDA_TENSOR_ROWS
#define HALF (ROWS / 2)
#define COPIES 3u
#define COPIES_OF_HALF 2u

static const uint32_t places[COPIES] = {0, HALF - 1, ROWS - 1}; // of the row's copies

typedef struct {
    uint16_t *tile; // the host's
    uint16_t *device_tile;
    float *first; // [parts][outputs] of the first copy
    float *other; // [outputs]
} memory_t;

static size_t tile_bytes(const or_tensor_trial_t *trial)
{
    return (size_t)ROWS * trial->inputs * sizeof(uint16_t);
}

// Pinned memory is the host's too, and says by a code where there is none.
static int take_memory(const or_tensor_trial_t *trial, memory_t *memory)
{
    const size_t part_bytes = trial->outputs * sizeof *memory->first;
    const size_t host_bytes = tile_bytes(trial) + (trial->parts + 1) * part_bytes;
    void *host = NULL, *device = NULL;
    int status = or_cuda_alloc_pinned(trial->cuda, host_bytes, &host);
    if (status == OR_CUDA_OK) {
        status = or_cuda_alloc(trial->cuda, tile_bytes(trial), &device);
    }
    if (status != OR_CUDA_OK) {
        or_cuda_free_pinned(trial->cuda, host);
        return status;
    }
    memory->first = (float *)host;
    memory->other = memory->first + (size_t)trial->parts * trial->outputs;
    memory->tile = (uint16_t *)(memory->other + trial->outputs);
    memory->device_tile = (uint16_t *)device;
    return OR_CUDA_OK;
}

static void give_back(const or_tensor_trial_t *trial, const memory_t *memory)
{
    or_cuda_free(trial->cuda, memory->device_tile);
    or_cuda_free_pinned(trial->cuda, memory->first);
}

// ---- tiles ----

// Numbers of either sign from 1 to 2.
static uint16_t draw(uint64_t *random, or_cuda_float_t type)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    uint16_t bits = (uint16_t)(*random >> 48);
    return type == OR_CUDA_F16 ? (uint16_t)((bits & 0x83FFu) | 0x3C00u)
                               : (uint16_t)((bits & 0x807Fu) | 0x3F80u);
}

static void fill_tile(const or_tensor_trial_t *trial, uint16_t *tile)
{
    const size_t inputs = trial->inputs;
    uint64_t random = 1;
    for (size_t i = 0; i < ROWS * inputs; i++) {
        tile[i] = draw(&random, trial->type);
    }
    for (uint32_t i = 1; i < COPIES; i++) {
        memcpy(tile + places[i] * inputs, tile, inputs * sizeof *tile);
    }
}

// What follows the last row is no number.
static void halve_tile(const or_tensor_trial_t *trial, uint16_t *tile)
{
    const size_t half = (size_t)HALF * trial->inputs;
    memset(tile + half, 0xFF, half * sizeof *tile);
}

static int multiply_tile(const or_tensor_trial_t *trial, const memory_t *memory)
{
    int status = or_cuda_upload(trial->cuda, memory->device_tile, memory->tile, tile_bytes(trial));
    return status == OR_CUDA_OK ? trial->multiply(trial->context, memory->device_tile) : status;
}

// ---- comparing ----

static int fetch(const or_tensor_trial_t *trial, uint32_t copy, uint32_t part, float *to)
{
    const float *y = trial->y + part * trial->part_stride + places[copy] * trial->y_stride;
    return or_cuda_download(trial->cuda, to, y, trial->outputs * sizeof *to);
}

static int fetch_first(const or_tensor_trial_t *trial, const memory_t *memory)
{
    int status = OR_CUDA_OK;
    for (uint32_t part = 0; status == OR_CUDA_OK && part < trial->parts; part++) {
        status = fetch(trial, 0, part, memory->first + (size_t)part * trial->outputs);
    }
    return status;
}

static int compare_copies(const or_tensor_trial_t *trial, const memory_t *memory, uint32_t copies,
                          bool *invariant)
{
    int status = OR_CUDA_OK;
    for (uint32_t i = 0; status == OR_CUDA_OK && i < copies * trial->parts; i++) {
        uint32_t part = i % trial->parts;
        const float *first = memory->first + (size_t)part * trial->outputs;
        status = fetch(trial, i / trial->parts, part, memory->other);
        if (status == OR_CUDA_OK) {
            status = or_cuda_wait(trial->cuda);
        }
        *invariant =
            *invariant && memcmp(memory->other, first, trial->outputs * sizeof *first) == 0;
    }
    return status;
}

static int try_tiles(const or_tensor_trial_t *trial, const memory_t *memory, bool *invariant)
{
    fill_tile(trial, memory->tile);
    int status = multiply_tile(trial, memory);
    if (status == OR_CUDA_OK) {
        status = fetch_first(trial, memory);
    }
    if (status == OR_CUDA_OK) {
        status = compare_copies(trial, memory, COPIES, invariant); // and waits
    }
    if (status == OR_CUDA_OK) {
        halve_tile(trial, memory->tile);
        status = multiply_tile(trial, memory);
    }
    return status == OR_CUDA_OK ? compare_copies(trial, memory, COPIES_OF_HALF, invariant) : status;
}

int or_tensor_try(const or_tensor_trial_t *trial, bool *invariant)
{
    memory_t memory;
    int status = take_memory(trial, &memory);
    if (status != OR_CUDA_OK) {
        return status;
    }
    bool found = true;
    status = try_tiles(trial, &memory, &found);
    give_back(trial, &memory);
    if (status == OR_CUDA_OK) {
        *invariant = found;
    }
    return status;
}
