// Rows of floats, each element or each row by itself. A warp has 32 neighbours of a row: loads are whole
// lines, and a warp can quantise what it has just made (rows.cuh).
#include "kernels/cuda/rows.cuh"

#include <assert.h>

// ---- element by element ----

#define THREADS 256u

// A thread for each of n elements in each row, in whole warps. Rows are many in x, the one dimension of a
// grid that is as good as endless.
static dim3 row_grid(uint32_t rows, uint32_t n)
{
    return dim3(rows, (n - 1) / THREADS + 1);
}

OR_DEVICE uint32_t row_element(void)
{
    return blockIdx.y * THREADS + threadIdx.x;
}

OR_GLOBAL void rope_rows(bool halves, float *x, size_t x_stride, uint32_t pairs, uint32_t head_dim,
                         const float *cosine, const float *sine, const uint32_t *positions)
{
    uint32_t pair = row_element();
    if (pair >= pairs) {
        return;
    }
    uint32_t half = head_dim / 2;
    uint32_t head = pair / half;
    uint32_t i = pair % half;
    float *first = x + blockIdx.x * x_stride + (size_t)head * head_dim + (halves ? i : 2 * i);
    size_t angle = (size_t)positions[blockIdx.x] * half + i;
    canonical_rotate(first, first + (halves ? half : 1), cosine[angle], sine[angle]);
}

int or_cuda_rope(or_cuda_t *cuda, bool halves, float *x, size_t x_stride, uint32_t heads,
                 uint32_t head_dim, const float *cosine, const float *sine,
                 const uint32_t *positions, uint32_t rows)
{
    uint32_t pairs = heads * (head_dim / 2);
    if (rows == 0 || pairs == 0) {
        return OR_CUDA_OK;
    }
    return or_launch(cuda, rope_rows, row_grid(rows, pairs), dim3(THREADS), 0, halves, x, x_stride,
                     pairs, head_dim, cosine, sine, positions);
}

OR_GLOBAL void swiglu_rows(or_cuda_rows_t gate, const float *up, size_t up_stride, uint32_t n)
{
    uint32_t row = blockIdx.x;
    uint32_t i = row_element();
    float value = 0.0f;
    if (i < n) {
        value = canonical_swiglu(gate.values[row * gate.stride + i], up[row * up_stride + i]);
    }
    write_in_warp(&gate, row, n, i, value);
}

int or_cuda_swiglu(or_cuda_t *cuda, const or_cuda_rows_t *gate, const float *up, size_t up_stride,
                   uint32_t n, uint32_t rows)
{
    if (rows == 0 || n == 0) {
        return OR_CUDA_OK;
    }
    return or_launch(cuda, swiglu_rows, row_grid(rows, n), dim3(THREADS), 0, *gate, up, up_stride,
                     n);
}

OR_GLOBAL void add_rows(float *y, size_t y_stride, const float *x, size_t x_stride, uint32_t n)
{
    uint32_t i = row_element();
    if (i < n) {
        y[blockIdx.x * y_stride + i] += x[blockIdx.x * x_stride + i];
    }
}

int or_cuda_add(or_cuda_t *cuda, float *y, size_t y_stride, const float *x, size_t x_stride,
                uint32_t n, uint32_t rows)
{
    if (rows == 0 || n == 0) {
        return OR_CUDA_OK;
    }
    return or_launch(cuda, add_rows, row_grid(rows, n), dim3(THREADS), 0, y, y_stride, x, x_stride,
                     n);
}

OR_GLOBAL void quantize_rows(or_cuda_rows_t x, uint32_t n)
{
    uint32_t i = row_element();
    uint32_t lane = i % OR_QUANT_BLOCK;
    if (i - lane >= n) {
        return;
    }
    float value = i < n ? x.values[blockIdx.x * x.stride + i] : 0.0f;
    size_t block = blockIdx.x * x.blocks_stride + i / OR_QUANT_BLOCK;
    quantize_in_warp(value, lane, &x.blocks[block]);
}

int or_cuda_quantize(or_cuda_t *cuda, const or_cuda_rows_t *x, uint32_t n, uint32_t rows)
{
    if (rows == 0 || n == 0) {
        return OR_CUDA_OK;
    }
    return or_launch(cuda, quantize_rows, row_grid(rows, n), dim3(THREADS), 0, *x, n);
}

// ---- embeddings ----

OR_DEVICE float read_float(or_cuda_float_t type, const void *numbers, size_t at)
{
    switch (type) {
    case OR_CUDA_F16:
        return canonical_widen(((const uint16_t *)numbers)[at]);
    case OR_CUDA_BF16:
        return canonical_widen_bf16(((const uint16_t *)numbers)[at]);
    default:
        return ((const float *)numbers)[at];
    }
}

// Neighbours of a row are a panel's width apart: a sector of memory for each, but rows are few.
OR_GLOBAL void embed_rows(or_cuda_float_t type, const void *panels, size_t panel_stride,
                          uint32_t width, const int32_t *tokens, float *x, size_t x_stride)
{
    uint32_t i = row_element();
    if (i < width) {
        uint32_t token = (uint32_t)tokens[blockIdx.x];
        size_t at = token / OR_PANEL * panel_stride + (size_t)i * OR_PANEL + token % OR_PANEL;
        x[blockIdx.x * x_stride + i] = read_float(type, panels, at);
    }
}

int or_cuda_embed(or_cuda_t *cuda, or_cuda_float_t type, const void *panels, size_t panel_stride,
                  uint32_t width, const int32_t *tokens, uint32_t rows, float *x, size_t x_stride)
{
    if (rows == 0 || width == 0) {
        return OR_CUDA_OK;
    }
    return or_launch(cuda, embed_rows, row_grid(rows, width), dim3(THREADS), 0, type, panels,
                     panel_stride, width, tokens, x, x_stride);
}

// ---- sums of parts ----

// The tree over COUNT floats, `stride` apart. All of them are loaded before the first is added.
template <uint32_t COUNT> OR_DEVICE float sum_parts(const float *parts, size_t stride)
{
    if constexpr (COUNT == 1) {
        return *parts;
    } else {
        float first = sum_parts<COUNT / 2>(parts, stride);
        return first + sum_parts<COUNT / 2>(parts + COUNT / 2 * stride, stride);
    }
}

template <uint32_t COUNT>
OR_GLOBAL void add_part_rows(float *y, size_t y_stride, const float *parts, size_t part_stride,
                             size_t p_stride, uint32_t n)
{
    uint32_t i = row_element();
    if (i < n) {
        const float *first = parts + blockIdx.x * p_stride + i;
        y[blockIdx.x * y_stride + i] += sum_parts<COUNT>(first, part_stride);
    }
}

typedef void add_parts_t(float *y, size_t y_stride, const float *parts, size_t part_stride,
                         size_t p_stride, uint32_t n);

static add_parts_t *add_parts_kernel(uint32_t count)
{
    switch (count) {
    case 1:
        return add_part_rows<1>;
    case 2:
        return add_part_rows<2>;
    case 4:
        return add_part_rows<4>;
    default:
        assert(count == 8);
        return add_part_rows<8>;
    }
}

int or_cuda_add_parts(or_cuda_t *cuda, float *y, size_t y_stride, const float *parts,
                      size_t part_stride, size_t p_stride, uint32_t count, uint32_t n,
                      uint32_t rows)
{
    if (rows == 0 || n == 0) {
        return OR_CUDA_OK;
    }
    return or_launch(cuda, add_parts_kernel(count), row_grid(rows, n), dim3(THREADS), 0, y,
                     y_stride, parts, part_stride, p_stride, n);
}

// ---- rmsnorm ----
//
// The squares are 16 chains: one warp walks them, n / 16 dependent steps, while the whole thread block
// brings the row into shared memory before and scales it after. One warp is enough, since a step
// of a chain takes as long as its latency however many walk.

#define NORM_THREADS 512u
#define STAGE 8192u // floats of a row in shared memory at a time
#define AHEAD 16u   // floats of a chain that are loaded before the first is used
static_assert(STAGE % LANES == 0, "a lane goes on with its own floats in the next stage");

OR_DEVICE void fill_stage(float *stage, const float *x, uint32_t count)
{
    float own[STAGE / NORM_THREADS]; // all on their way before the first is stored
    for (uint32_t k = 0; k < STAGE / NORM_THREADS; k++) {
        uint32_t i = k * NORM_THREADS + threadIdx.x;
        own[k] = i < count ? x[i] : 0.0f;
    }
    for (uint32_t k = 0; k < STAGE / NORM_THREADS; k++) {
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

// The factor of a row, told to every thread of its block. The upper half of the warp does what the lower does.
OR_DEVICE float norm_factor(const float *x, uint32_t n, float eps)
{
    OR_SHARED(float, stage, STAGE);
    OR_SHARED(float, factor, 1);
    bool walks = threadIdx.x < 2 * LANES;
    float squares = 0.0f;
    for (uint32_t first = 0; first < n; first += STAGE) {
        uint32_t count = n - first < STAGE ? n - first : STAGE;
        fill_stage(stage, x + first, count);
        or_block_wait();
        if (walks) {
            squares = walk_squares(stage, count, threadIdx.x % LANES, squares);
        }
        or_block_wait();
    }
    if (walks) {
        float sum = lane_sum(squares);
        if (threadIdx.x == 0) {
            *factor = canonical_rms_factor(sum, n, eps);
        }
    }
    or_block_wait();
    return *factor;
}

OR_GLOBAL void rmsnorm_rows(const float *x, size_t x_stride, const float *weight, uint32_t n,
                            float eps, or_cuda_rows_t to)
{
    uint32_t row = blockIdx.x;
    x += row * x_stride;
    float factor = norm_factor(x, n, eps);
    for (uint32_t i = threadIdx.x; i - i % OR_QUANT_BLOCK < n; i += NORM_THREADS) {
        float value = i < n ? x[i] * factor * weight[i] : 0.0f;
        write_in_warp(&to, row, n, i, value);
    }
}

int or_cuda_rmsnorm(or_cuda_t *cuda, const float *x, size_t x_stride, const float *weight,
                    uint32_t n, float eps, uint32_t rows, const or_cuda_rows_t *to)
{
    if (rows == 0 || n == 0) {
        return OR_CUDA_OK;
    }
    return or_launch(cuda, rmsnorm_rows, dim3(rows), dim3(NORM_THREADS), 0, x, x_stride, weight, n,
                     eps, *to);
}
