#include "kernels/cuda/tests/portable_test_kernels.h"

#include "kernels/cuda/cuda_portable.cuh"

#define THREADS 256u

static dim3 dim3_of(test_size_t size)
{
    return dim3(size.x, size.y, size.z);
}

// ---- threads ----

OR_GLOBAL void count(uint32_t *counts)
{
    uint32_t block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    uint32_t thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    counts[block * blockDim.x * blockDim.y * blockDim.z + thread] += 1 + thread;
}

int test_launch_count(or_cuda_t *cuda, test_size_t grid, test_size_t block, uint32_t *counts)
{
    return or_launch(cuda, count, dim3_of(grid), dim3_of(block), 0, counts);
}

// ---- blocks ----

OR_DEVICE uint32_t sum_in_block(uint32_t *shared, uint32_t value)
{
    shared[threadIdx.x] = value;
    for (uint32_t width = blockDim.x / 2; width > 0; width /= 2) {
        or_block_wait();
        if (threadIdx.x < width) {
            shared[threadIdx.x] += shared[threadIdx.x + width];
        }
    }
    or_block_wait();
    return shared[0];
}

OR_GLOBAL void sum_fixed(const uint32_t *values, uint32_t *sums)
{
    OR_SHARED(uint32_t, shared, THREADS);
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    sums[i] = sum_in_block(shared, values[i]);
}

OR_GLOBAL void sum_dynamic(const uint32_t *values, uint32_t *sums)
{
    OR_SHARED_DYNAMIC(uint32_t, shared);
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    sums[i] = sum_in_block(shared, values[i]);
}

int test_launch_block_sums(or_cuda_t *cuda, uint32_t blocks, uint32_t n, int dynamic,
                           const uint32_t *values, uint32_t *sums)
{
    if (dynamic) {
        return or_launch(cuda, sum_dynamic, dim3(blocks), dim3(n), n * sizeof *values, values,
                         sums);
    }
    return or_launch(cuda, sum_fixed, dim3(blocks), dim3(n), 0, values, sums);
}

// ---- warps ----

OR_GLOBAL void shuffle(uint32_t mask, const uint32_t *from, const float *values, float *by_mask,
                       float *by_memory, float *by_lane)
{
    OR_SHARED(float, shared, THREADS);
    uint32_t i = threadIdx.x;
    by_mask[i] = or_shuffle_xor(values[i], mask);
    by_lane[i] = or_shuffle(values[i] + 1.0f, from[i % 32]);
    shared[i] = values[i];
    or_warp_wait();
    by_memory[i] = shared[i ^ mask];
}

int test_launch_shuffles(or_cuda_t *cuda, uint32_t warps, uint32_t mask, const uint32_t *from,
                         const float *values, float *by_mask, float *by_memory, float *by_lane)
{
    return or_launch(cuda, shuffle, dim3(1), dim3(32 * warps), 0, mask, from, values, by_mask,
                     by_memory, by_lane);
}

OR_DEVICE uint32_t word_at(const void *bytes)
{
    return *(const uint32_t *)bytes;
}

OR_GLOBAL void multiply(const uint8_t *a, const int8_t *b, int32_t *sums)
{
    uint32_t warp = blockIdx.x;
    uint32_t g = threadIdx.x / 4;
    uint32_t t = threadIdx.x % 4;
    const uint8_t *output = a + warp * 16 * 32 + g * 32 + 4 * t;
    const int8_t *row = b + warp * 8 * 32 + g * 32 + 4 * t;
    int32_t *sum = sums + warp * 16 * 8 + g * 8 + 2 * t;

    uint32_t a_words[4] = {word_at(output), word_at(output + 8 * 32), word_at(output + 16),
                           word_at(output + 8 * 32 + 16)};
    uint32_t b_words[2] = {word_at(row), word_at(row + 16)};
    int32_t own[4] = {sum[0], sum[1], sum[8 * 8], sum[8 * 8 + 1]};
    or_multiply_bytes(own, a_words, b_words);
    sum[0] = own[0];
    sum[1] = own[1];
    sum[8 * 8] = own[2];
    sum[8 * 8 + 1] = own[3];
}

int test_launch_multiply(or_cuda_t *cuda, uint32_t warps, const uint8_t *a, const int8_t *b,
                         int32_t *sums)
{
    return or_launch(cuda, multiply, dim3(warps), dim3(32), 0, a, b, sums);
}

// ---- threads by themselves ----

OR_GLOBAL void pick(uint32_t n, const uint32_t *low, const uint32_t *high, const uint32_t *which,
                    uint32_t *picked)
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        picked[i] = or_pick_bytes(low[i], high[i], which[i]);
    }
}

int test_launch_pick(or_cuda_t *cuda, uint32_t n, const uint32_t *low, const uint32_t *high,
                     const uint32_t *which, uint32_t *picked)
{
    return or_launch(cuda, pick, dim3((n - 1) / THREADS + 1), dim3(THREADS), 0, n, low, high, which,
                     picked);
}

OR_GLOBAL void step(uint32_t *y, uint32_t factor, uint32_t n)
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = y[i] * factor + 1;
    }
}

int test_launch_step(or_cuda_t *cuda, uint32_t *y, uint32_t factor, uint32_t n)
{
    return or_launch(cuda, step, dim3((n - 1) / THREADS + 1), dim3(THREADS), 0, y, factor, n);
}

OR_GLOBAL void count_turn(uint32_t *turns, const uint32_t *wanted, or_cuda_loop_t loop)
{
    if (threadIdx.x == 0) {
        *turns += 1;
        or_go_on(loop, *turns < *wanted);
    }
}

int test_launch_turn(or_cuda_t *cuda, uint32_t *turns, const uint32_t *wanted, or_cuda_loop_t loop)
{
    return or_launch(cuda, count_turn, dim3(1), dim3(32), 0, turns, wanted, loop);
}
