// contenders - what the steps from a row of logits to its contenders share.
//
//     survey    filters.cu       a part    its best token
//     weigh     filters.cu       a part    the mass of each block of tokens (sums.h)
//     cut       filters.cu       a row     the last token that the filters keep
//     score     contenders.cu    a part    its best score
//     mark      contenders.cu    a part    a bit for each token within the window
//     list      contenders.cu    a row     those tokens in order
//
// A *part* is what one thread block sees of a row. The first three do nothing for a row without filters. What all
// filters keep are the first tokens of one ranking, logits descending and ids ascending, so a *cut* tells it.
#pragma once

#include "common/base/math/rng_inline.h"
#include "common/base/math/sums.h"
#include "common/decode/sampling/noise_inline.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/cuda_portable.cuh"

#define WARP 32u
#define PART 1024u // tokens
#define THREADS 128u
#define OWN (PART / THREADS)         // tokens of a thread, THREADS apart
#define MASSES (PART / OR_SUM_BLOCK) // sums of a part

typedef struct {
    uint64_t least;   // the rank of the last token that is kept
    double floor;     // no token whose score is below it is kept
    uint32_t unknown; // not 0: a filter that cannot be decided here
} cut_t;

typedef struct {
    const float *logits;
    size_t stride;
    uint32_t vocab_size;
    uint32_t rows;
    uint32_t parts; // of a row
    const uint64_t *token_keys;
    const or_cuda_contest_t *contests;
    uint64_t *leaders; // [rows][parts] the rank of the best
    uint32_t *finite;  // [rows][parts] how many
    double *masses;    // [rows][parts][MASSES]
    cut_t *cuts;       // [rows]
    double *bests;     // [rows][parts]
    uint32_t *marks;   // [rows][parts * PART / 32]
} contenders_t;

// Fill in `cuts`. rows and parts are not 0.
int or_cuda_cut(or_cuda_t *cuda, const contenders_t *job);

// A token's place in the ranking: a better one's is greater, and one whose logit is not finite has 0. The logit's bits
// are turned so that they count as the floats do, with one zero.
OR_DEVICE uint64_t rank_of(float logit, uint32_t id)
{
    uint32_t bits = logit == 0.0f ? 0 : bits_of(logit);
    if ((bits & 0x7F800000u) == 0x7F800000u) {
        return 0;
    }
    uint32_t order = bits >> 31 ? ~bits : bits | 0x80000000u;
    return (uint64_t)order << 32 | (UINT32_MAX - id);
}

OR_DEVICE float logit_of(uint64_t rank)
{
    uint32_t order = (uint32_t)(rank >> 32);
    return float_of(order >> 31 ? order & 0x7FFFFFFFu : ~order);
}

// Without noise.
OR_DEVICE double score_of(const or_cuda_contest_t *contest, float logit)
{
    return contest->temperature == 0.0f ? (double)logit
                                        : (double)logit / (double)contest->temperature;
}

// Return the uniform variate of a token's noise (or_noise_uniform).
OR_DEVICE double uniform_of(const or_cuda_contest_t *contest, uint64_t token_key)
{
    const uint32_t counter[4] = {(uint32_t)token_key, (uint32_t)(token_key >> 32),
                                 contest->zero_width, contest->byte_offset};
    or_rng_key_t key = {contest->key};
    return or_rng_uniform(inline_philox_64(key, counter));
}

// The largest of what a block's COUNT threads have, told to each of them.
template <uint32_t COUNT, typename T> OR_DEVICE T largest_in_block(T value)
{
    OR_SHARED(T, of_warps, COUNT / WARP);
    for (uint32_t mask = WARP / 2; mask > 0; mask /= 2) {
        T other = or_shuffle_xor(value, mask);
        value = other > value ? other : value;
    }
    if (threadIdx.x % WARP == 0) {
        of_warps[threadIdx.x / WARP] = value;
    }
    or_block_wait();
    for (uint32_t warp = 0; warp < COUNT / WARP; warp++) {
        value = of_warps[warp] > value ? of_warps[warp] : value;
    }
    or_block_wait(); // until all have read: the next call writes there again
    return value;
}

// Combine what the parts of a row have, [rows][parts].
template <uint32_t COUNT, typename T>
OR_DEVICE T largest_of_parts(const contenders_t *job, const T *of_parts, uint32_t row, T none)
{
    const T *own = of_parts + (size_t)row * job->parts;
    T value = none;
    for (uint32_t part = threadIdx.x; part < job->parts; part += COUNT) {
        value = own[part] > value ? own[part] : value;
    }
    return largest_in_block<COUNT>(value);
}
