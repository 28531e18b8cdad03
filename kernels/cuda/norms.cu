// Norms of rows, and of heads. A warp has 32 neighbours of a row where it writes (rows.cuh).
#include "kernels/cuda/rows.cuh"

// ---- rmsnorm ----
//
// The squares are 16 chains: one warp walks them, n / 16 dependent steps, while the whole thread block
// brings the row into shared memory before and scales it after. One warp is enough, since a step
// of a chain takes as long as its latency however many walk.

#define NORM_THREADS 512u
#define BLOCKS_ENOUGH 128u // thread blocks that keep a device busy
#define STAGE 8192u        // floats of a row in shared memory at a time
#define AHEAD 16u          // floats of a chain that are loaded before the first is used
static_assert(STAGE % LANES == 0, "a lane goes on with its own floats in the next stage");

#define OWN (STAGE / NORM_THREADS) // floats of a thread in a stage

OR_DEVICE void load_own(const float *x, uint32_t count, float own[OWN])
{
    OR_UNROLL(OWN)
    for (uint32_t k = 0; k < OWN; k++) {
        uint32_t i = k * NORM_THREADS + threadIdx.x;
        own[k] = i < count ? x[i] : 0.0f;
    }
}

OR_DEVICE void fill_stage(float *stage, const float *x, uint32_t count)
{
    float own[OWN]; // all on their way before the first is stored
    load_own(x, count, own);
    for (uint32_t k = 0; k < OWN; k++) {
        stage[k * NORM_THREADS + threadIdx.x] = own[k];
    }
}

// Go on with lane `lane`'s chain over `count` floats.
OR_DEVICE float walk_squares(const float *stage, uint32_t count, uint32_t lane, float squares)
{
    uint32_t i = lane;
    for (; i + (AHEAD - 1) * LANES < count; i += AHEAD * LANES) {
        float x[AHEAD];
        for (uint32_t k = 0; k < AHEAD; k++) {
            x[k] = stage[i + k * LANES];
        }
        for (uint32_t k = 0; k < AHEAD; k++) {
            squares = fmaf(x[k], x[k], squares);
        }
    }
    for (; i < count; i += LANES) {
        squares = fmaf(stage[i], stage[i], squares);
    }
    return squares;
}

// Tell every thread of a block the factor of a row whose squares the first lanes have. The upper half of the warp does
// what the lower does.
OR_DEVICE float tell_factor(float squares, uint32_t n, float eps)
{
    OR_SHARED(float, factor, 1);
    if (threadIdx.x < 2 * LANES) {
        float sum = lane_sum(squares);
        if (threadIdx.x == 0) {
            *factor = canonical_rms_factor(sum, n, eps);
        }
    }
    or_block_wait();
    return *factor;
}

// A row of one stage, written by gridDim.y thread blocks, each of which finds the factor anew: making blocks of 32 takes longer
// than that. What is written is still in registers when the factor is known, and the weights are there before the row.
OR_DEVICE void norm_stage(const float *x, const float *weight, uint32_t n, float eps, float *stage,
                          const or_cuda_rows_t *to)
{
    float weights[OWN], own[OWN];
    load_own(weight, n, weights);
    or_begin_after();
    load_own(x, n, own);
    OR_UNROLL(OWN)
    for (uint32_t k = 0; k < OWN; k++) {
        stage[k * NORM_THREADS + threadIdx.x] = own[k];
    }
    or_block_wait();
    float squares = 0.0f;
    if (threadIdx.x < 2 * LANES) {
        squares = walk_squares(stage, n, threadIdx.x % LANES, squares);
    }
    float factor = tell_factor(squares, n, eps);
    OR_UNROLL(OWN)
    for (uint32_t k = 0; k < OWN; k++) {
        uint32_t i = k * NORM_THREADS + threadIdx.x;
        if (k % gridDim.y == blockIdx.y) {
            write_in_warp(to, blockIdx.x, n, i, i < n ? own[k] * factor * weights[k] : 0.0f);
        }
    }
}

OR_DEVICE void norm_stages(const float *x, const float *weight, uint32_t n, float eps, float *stage,
                           const or_cuda_rows_t *to)
{
    float squares = 0.0f;
    for (uint32_t first = 0; first < n; first += STAGE) {
        uint32_t count = n - first < STAGE ? n - first : STAGE;
        fill_stage(stage, x + first, count);
        or_block_wait();
        if (threadIdx.x < 2 * LANES) {
            squares = walk_squares(stage, count, threadIdx.x % LANES, squares);
        }
        or_block_wait();
    }
    float factor = tell_factor(squares, n, eps);
    for (uint32_t i = threadIdx.x; i - i % OR_QUANT_BLOCK < n; i += NORM_THREADS) {
        float value = i < n ? x[i] * factor * weight[i] : 0.0f;
        write_in_warp(to, blockIdx.x, n, i, value);
    }
}

OR_GLOBAL void rmsnorm_rows(const float *x, size_t x_stride, const float *weight, uint32_t n,
                            float eps, or_cuda_rows_t to)
{
    OR_SHARED(float, stage, STAGE);
    x += blockIdx.x * x_stride;
    if (n <= STAGE) {
        norm_stage(x, weight, n, eps, stage, &to);
    } else {
        or_begin_after();
        norm_stages(x, weight, n, eps, stage, &to);
    }
}

// Return how many thread blocks write a row. One that is written in place is read by one alone.
static uint32_t blocks_of_row(const float *x, uint32_t n, uint32_t rows, const or_cuda_rows_t *to)
{
    uint32_t most = rows < BLOCKS_ENOUGH ? BLOCKS_ENOUGH / rows : 1;
    uint32_t pieces = (n - 1) / NORM_THREADS + 1;
    if (n > STAGE || to->values == x) {
        return 1;
    }
    return pieces < most ? pieces : most;
}

int or_cuda_rmsnorm(or_cuda_t *cuda, const float *x, size_t x_stride, const float *weight,
                    uint32_t n, float eps, uint32_t rows, const or_cuda_rows_t *to)
{
    if (rows == 0 || n == 0) {
        return OR_CUDA_OK;
    }
    return or_launch_early(cuda, rmsnorm_rows, dim3(rows, blocks_of_row(x, n, rows, to)),
                           dim3(NORM_THREADS), 0, x, x_stride, weight, n, eps, *to);
}

// ---- rmsnorm of heads ----
//
// A warp has a head. All of its lanes have read the head when the first learns the sum, so it is written in place.

#define HEAD_WARPS (ROW_THREADS / (2 * LANES))

OR_GLOBAL void rmsnorm_heads(float *x, size_t x_stride, uint32_t heads, uint32_t head_dim,
                             const float *weight, float eps)
{
    or_begin_after();
    uint32_t lane = threadIdx.x % (2 * LANES);
    uint32_t head = blockIdx.y * HEAD_WARPS + threadIdx.x / (2 * LANES);
    if (head >= heads) {
        return;
    }
    x += blockIdx.x * x_stride + (size_t)head * head_dim;
    float squares = walk_squares(x, head_dim, lane % LANES, 0.0f);
    float factor = canonical_rms_factor(lane_sum(squares), head_dim, eps);
    for (uint32_t i = lane; i < head_dim; i += 2 * LANES) {
        x[i] = x[i] * factor * weight[i];
    }
}

int or_cuda_rmsnorm_heads(or_cuda_t *cuda, float *x, size_t x_stride, uint32_t heads,
                          uint32_t head_dim, const float *weight, float eps, uint32_t rows)
{
    if (rows == 0 || heads == 0 || head_dim == 0) {
        return OR_CUDA_OK;
    }
    return or_launch_early(cuda, rmsnorm_heads, dim3(rows, (heads - 1) / HEAD_WARPS + 1),
                           dim3(ROW_THREADS), 0, x, x_stride, heads, head_dim, weight, eps);
}

// ---- layer norm ----
//
// Both sums are one chain of doubles, which the first thread walks.

OR_DEVICE double walk_sum(const float *stage, uint32_t count, double sum)
{
    for (uint32_t i = 0; i < count; i++) {
        sum += (double)stage[i];
    }
    return sum;
}

OR_DEVICE double walk_distances(const float *stage, uint32_t count, double mean, double squares)
{
    for (uint32_t i = 0; i < count; i++) {
        double distance = (double)stage[i] - mean;
        squares += distance * distance;
    }
    return squares;
}

// Walk the row once for its mean and once for its squares.
OR_GLOBAL void layer_norm_rows(const float *x, size_t x_stride, const float *weight,
                               const float *bias, uint32_t n, float eps, or_cuda_rows_t to)
{
    or_begin_after();
    OR_SHARED(float, stage, STAGE);
    OR_SHARED(double, told, 2); // mean and factor
    uint32_t row = blockIdx.x;
    x += row * x_stride;
    for (uint32_t turn = 0; turn < 2; turn++) {
        double sum = 0;
        for (uint32_t first = 0; first < n; first += STAGE) {
            uint32_t count = n - first < STAGE ? n - first : STAGE;
            fill_stage(stage, x + first, count);
            or_block_wait();
            if (threadIdx.x == 0) {
                sum = turn == 0 ? walk_sum(stage, count, sum)
                                : walk_distances(stage, count, told[0], sum);
            }
            or_block_wait();
        }
        if (threadIdx.x == 0) {
            told[turn] = turn == 0 ? sum / n : 1 / sqrt(sum / n + (double)eps);
        }
        or_block_wait();
    }
    for (uint32_t i = threadIdx.x; i - i % OR_QUANT_BLOCK < n; i += NORM_THREADS) {
        float value = 0.0f;
        if (i < n) {
            value = (float)(((double)x[i] - told[0]) * told[1]) * weight[i];
            value = bias ? value + bias[i] : value;
        }
        write_in_warp(&to, row, n, i, value);
    }
}

int or_cuda_layer_norm(or_cuda_t *cuda, const float *x, size_t x_stride, const float *weight,
                       const float *bias, uint32_t n, float eps, uint32_t rows,
                       const or_cuda_rows_t *to)
{
    if (rows == 0 || n == 0) {
        return OR_CUDA_OK;
    }
    return or_launch_early(cuda, layer_norm_rows, dim3(rows), dim3(NORM_THREADS), 0, x, x_stride,
                           weight, bias, n, eps, *to);
}
