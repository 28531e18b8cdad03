// rows - what rows of floats share: how a warp adds up 16 lanes, and how it writes 32 neighbours of a row
// (or_cuda_rows_t). It writes the floats, and what matrices read of them. Thread blocks are whole warps; a warp has
// the threads of 32 neighbours in x.
#pragma once

#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/cuda_portable.cuh"

#define ROW_THREADS 256u

// A thread for each of n elements in each row, in whole warps. Rows are many in x, the one dimension of a
// grid that is as good as endless.
static inline dim3 row_grid(uint32_t rows, uint32_t n)
{
    return dim3(rows, (n - 1) / ROW_THREADS + 1);
}

OR_DEVICE uint32_t row_element(void)
{
    return blockIdx.y * ROW_THREADS + threadIdx.x;
}

// canonical_lane_sum of the lanes of half a warp, in each of them: a + b is b + a.
OR_DEVICE float lane_sum(float value)
{
    for (uint32_t width = LANES / 2; width > 0; width /= 2) {
        value += or_shuffle_xor(value, width);
    }
    return value;
}

OR_DEVICE uint32_t largest_in_warp(uint32_t value)
{
    for (uint32_t mask = OR_QUANT_BLOCK / 2; mask > 0; mask /= 2) {
        uint32_t other = or_shuffle_xor(value, mask);
        value = other > value ? other : value;
    }
    return value;
}

OR_DEVICE uint32_t least_in_warp(uint32_t value)
{
    return ~largest_in_warp(~value);
}

OR_DEVICE int32_t sum_in_half_warp(int32_t value)
{
    for (uint32_t mask = OR_QUANT_BLOCK / 4; mask > 0; mask /= 2) {
        value += or_shuffle_xor(value, mask);
    }
    return value;
}

// quantize_row of kernels/ref for the one block whose activation `lane` is x.
OR_DEVICE void quantize_in_warp(float x, uint32_t lane, or_q8_block_t *block)
{
    uint32_t largest = largest_in_warp(bits_of(x) & 0x7FFFFFFFu);
    float amax = float_of(largest);
    float inverse = largest == 0 ? 0.0f : QUANT_MAX / amax;
    float scale = amax / QUANT_MAX;
    int8_t quant = canonical_quantize(x, inverse);
    int32_t half_sum = sum_in_half_warp(quant);
    int32_t sum = half_sum + or_shuffle_xor(half_sum, OR_QUANT_BLOCK / 2);

    block->quants[lane] = quant;
    uint32_t half = lane / (OR_QUANT_BLOCK / 2);
    if (lane % (OR_QUANT_BLOCK / 2) == 0) {
        block->scaled_half_sums[half] = scale * (float)half_sum;
        block->half_biases[half] = -128 * half_sum;
    }
    if (lane == 0) {
        block->scale = scale;
        block->scaled_sum = scale * (float)sum;
        block->sum = sum;
        block->bias = -128 * sum;
    }
}

OR_DEVICE uint16_t narrow(or_cuda_float_t type, float value)
{
    return type == OR_CUDA_F16 ? canonical_narrow(value) : canonical_narrow_bf16(value);
}

// Write value i of a row of n, of which each lane has its own. The warp's first i is a multiple of 32;
// from n on values are 0 and no more than the rest of a block. Warps wholly behind n write nothing.
OR_DEVICE void write_in_warp(const or_cuda_rows_t *to, uint32_t row, uint32_t n, uint32_t i,
                             float value)
{
    uint32_t lane = i % OR_QUANT_BLOCK;
    if (i < n) {
        to->values[row * to->stride + i] = value;
    }
    if (to->halves && i < n) {
        to->halves[row * to->halves_stride + i] = narrow(to->halves_type, value);
    }
    if (to->blocks && i - lane < n) {
        quantize_in_warp(value, lane, &to->blocks[row * to->blocks_stride + i / OR_QUANT_BLOCK]);
    }
}
