// portable_test_kernels - kernels that use what cuda_portable.cuh has, and nothing else, for portable_test.c.
#pragma once

#include "kernels/cuda/cuda_device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    uint32_t x, y, z;
} test_size_t;

// counts[number of the thread in the grid] += 1 + its number in the block, without a wait.
int test_launch_count(or_cuda_t *cuda, test_size_t grid, test_size_t block, uint32_t *counts);
// The sum of each block's n values into all of its n sums; n, a power of 2 up to 256, is the block's size. By shared
// memory of fixed size, or else of the launch.
int test_launch_block_sums(or_cuda_t *cuda, uint32_t blocks, uint32_t n, int dynamic,
                           const uint32_t *values, uint32_t *sums);
// For each of up to 8 warps: what lane ^ mask has, by a shuffle and by shared memory, and what
// lane from[lane] has, and 1.
int test_launch_shuffles(or_cuda_t *cuda, uint32_t warps, uint32_t mask, const uint32_t *from,
                         const float *values, float *by_mask, float *by_memory, float *by_lane);
// sums[16][8] += a[16][32] * b[8][32] for each warp.
int test_launch_multiply(or_cuda_t *cuda, uint32_t warps, const uint8_t *a, const int8_t *b,
                         int32_t *sums);
// picked = or_pick_bytes(low, high, which), n times
int test_launch_pick(or_cuda_t *cuda, uint32_t n, const uint32_t *low, const uint32_t *high,
                     const uint32_t *which, uint32_t *picked);
// y = y * factor + 1
int test_launch_step(or_cuda_t *cuda, uint32_t *y, uint32_t factor, uint32_t n);
// One more turn, and whether it is the last of those that are wanted.
int test_launch_turn(or_cuda_t *cuda, uint32_t *turns, const uint32_t *wanted, or_cuda_loop_t loop);

#ifdef __cplusplus
}
#endif
