// Rows of floats, each element or each row by itself. A warp has 32 neighbours of a row: loads are whole
// lines, and a warp can quantise what it has just made (rows.cuh).
#include "kernels/cuda/rows.cuh"

#include <assert.h>

#include "common/base/math/elementwise_inline.h"

// ---- element by element ----

OR_GLOBAL void rope_rows(bool halves, float *x, size_t x_stride, uint32_t pairs, uint32_t head_dim,
                         uint32_t dims, const float *cosine, const float *sine,
                         const uint32_t *positions)
{
    or_begin_after();
    uint32_t pair = row_element();
    if (pair >= pairs) {
        return;
    }
    uint32_t half = dims / 2;
    uint32_t head = pair / half;
    uint32_t i = pair % half;
    float *first = x + blockIdx.x * x_stride + (size_t)head * head_dim + (halves ? i : 2 * i);
    size_t angle = (size_t)positions[blockIdx.x] * half + i;
    canonical_rotate(first, first + (halves ? half : 1), cosine[angle], sine[angle]);
}

int or_cuda_rope(or_cuda_t *cuda, bool halves, float *x, size_t x_stride, uint32_t heads,
                 uint32_t head_dim, uint32_t dims, const float *cosine, const float *sine,
                 const uint32_t *positions, uint32_t rows)
{
    uint32_t pairs = heads * (dims / 2);
    if (rows == 0 || pairs == 0) {
        return OR_CUDA_OK;
    }
    return or_launch_early(cuda, rope_rows, row_grid(rows, pairs), dim3(ROW_THREADS), 0, halves, x,
                           x_stride, pairs, head_dim, dims, cosine, sine, positions);
}

OR_GLOBAL void scale_rows_by_position(float *x, size_t x_stride, uint32_t n, float growth,
                                      uint32_t unit, const uint32_t *positions)
{
    or_begin_after();
    uint32_t i = row_element();
    if (i < n) {
        uint32_t times = positions[blockIdx.x] / unit;
        double factor = 1 + (double)growth * inline_ln(1.0 + times);
        x[blockIdx.x * x_stride + i] *= (float)factor;
    }
}

int or_cuda_scale_by_position(or_cuda_t *cuda, float *x, size_t x_stride, uint32_t n, float growth,
                              uint32_t unit, const uint32_t *positions, uint32_t rows)
{
    if (rows == 0 || n == 0) {
        return OR_CUDA_OK;
    }
    return or_launch_early(cuda, scale_rows_by_position, row_grid(rows, n), dim3(ROW_THREADS), 0, x,
                           x_stride, n, growth, unit, positions);
}

template <or_cuda_activation_t ACTIVATION> OR_DEVICE float activated(float gate, float up)
{
    if constexpr (ACTIVATION == OR_CUDA_SILU_GATED) {
        return canonical_swiglu(gate, up);
    } else if constexpr (ACTIVATION == OR_CUDA_GELU_EXACT) {
        return inline_gelu_exact(gate);
    } else if constexpr (ACTIVATION == OR_CUDA_RELU) {
        return inline_relu(gate);
    } else {
        float steepness = inline_gelu_steepness(gate);
        return canonical_swiglu(gate * steepness, up / steepness);
    }
}

template <or_cuda_activation_t ACTIVATION>
OR_GLOBAL void activate_rows(or_cuda_rows_t gate, const float *up, size_t up_stride, uint32_t n)
{
    or_begin_after();
    constexpr bool gated = ACTIVATION == OR_CUDA_SILU_GATED || ACTIVATION == OR_CUDA_GELU_GATED;
    uint32_t row = blockIdx.x;
    uint32_t i = row_element();
    float value = 0.0f;
    if (i < n) {
        value = activated<ACTIVATION>(gate.values[row * gate.stride + i],
                                      gated ? up[row * up_stride + i] : 1.0f);
    }
    write_in_warp(&gate, row, n, i, value);
}

typedef void activate_t(or_cuda_rows_t gate, const float *up, size_t up_stride, uint32_t n);

static activate_t *activate_kernel(or_cuda_activation_t activation)
{
    switch (activation) {
    case OR_CUDA_GELU_GATED:
        return activate_rows<OR_CUDA_GELU_GATED>;
    case OR_CUDA_GELU:
        return activate_rows<OR_CUDA_GELU>;
    case OR_CUDA_GELU_EXACT:
        return activate_rows<OR_CUDA_GELU_EXACT>;
    case OR_CUDA_RELU:
        return activate_rows<OR_CUDA_RELU>;
    default:
        assert(activation == OR_CUDA_SILU_GATED);
        return activate_rows<OR_CUDA_SILU_GATED>;
    }
}

int or_cuda_activate(or_cuda_t *cuda, or_cuda_activation_t activation, const or_cuda_rows_t *gate,
                     const float *up, size_t up_stride, uint32_t n, uint32_t rows)
{
    if (rows == 0 || n == 0) {
        return OR_CUDA_OK;
    }
    return or_launch_early(cuda, activate_kernel(activation), row_grid(rows, n), dim3(ROW_THREADS),
                           0, *gate, up, up_stride, n);
}

OR_GLOBAL void scale_rows(const float *x, size_t x_stride, float factor, uint32_t n,
                          or_cuda_rows_t to)
{
    or_begin_after();
    uint32_t row = blockIdx.x;
    uint32_t i = row_element();
    write_in_warp(&to, row, n, i, i < n ? x[row * x_stride + i] * factor : 0.0f);
}

int or_cuda_scale(or_cuda_t *cuda, const float *x, size_t x_stride, float factor, uint32_t n,
                  uint32_t rows, const or_cuda_rows_t *to)
{
    if (rows == 0 || n == 0) {
        return OR_CUDA_OK;
    }
    return or_launch_early(cuda, scale_rows, row_grid(rows, n), dim3(ROW_THREADS), 0, x, x_stride,
                           factor, n, *to);
}

// The factor is one that only the device knows.
OR_GLOBAL void scale_rows_by(float *x, size_t x_stride, const float *factor, uint32_t n)
{
    uint32_t i = row_element();
    if (i < n) {
        x[blockIdx.x * x_stride + i] *= *factor;
    }
}

int or_cuda_scale_by(or_cuda_t *cuda, float *x, size_t x_stride, const float *factor, uint32_t n,
                     uint32_t rows)
{
    if (rows == 0 || n == 0) {
        return OR_CUDA_OK;
    }
    return or_launch(cuda, scale_rows_by, row_grid(rows, n), dim3(ROW_THREADS), 0, x, x_stride,
                     factor, n);
}

OR_GLOBAL void softcap_rows(float *x, size_t x_stride, float cap, uint32_t n)
{
    or_begin_after();
    uint32_t i = row_element();
    if (i < n) {
        float *at = x + blockIdx.x * x_stride + i;
        *at = inline_softcap(*at, cap);
    }
}

int or_cuda_softcap(or_cuda_t *cuda, float *x, size_t x_stride, float cap, uint32_t n,
                    uint32_t rows)
{
    if (rows == 0 || n == 0) {
        return OR_CUDA_OK;
    }
    return or_launch_early(cuda, softcap_rows, row_grid(rows, n), dim3(ROW_THREADS), 0, x, x_stride,
                           cap, n);
}

OR_GLOBAL void add_rows(float *y, size_t y_stride, const float *x, size_t x_stride, uint32_t n)
{
    or_begin_after();
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
    return or_launch_early(cuda, add_rows, row_grid(rows, n), dim3(ROW_THREADS), 0, y, y_stride, x,
                           x_stride, n);
}

OR_GLOBAL void quantize_rows(or_cuda_rows_t x, uint32_t n)
{
    or_begin_after();
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
    return or_launch_early(cuda, quantize_rows, row_grid(rows, n), dim3(ROW_THREADS), 0, *x, n);
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
    return or_launch(cuda, embed_rows, row_grid(rows, width), dim3(ROW_THREADS), 0, type, panels,
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
OR_GLOBAL void add_part_rows(bool over, float *y, size_t y_stride, const float *parts,
                             size_t part_stride, size_t p_stride, uint32_t n)
{
    or_begin_after();
    uint32_t i = row_element();
    if (i < n) {
        float sum = sum_parts<COUNT>(parts + blockIdx.x * p_stride + i, part_stride);
        float *at = y + blockIdx.x * y_stride + i;
        *at = over ? sum : *at + sum;
    }
}

typedef void add_parts_t(bool over, float *y, size_t y_stride, const float *parts,
                         size_t part_stride, size_t p_stride, uint32_t n);

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

int or_cuda_add_parts(or_cuda_t *cuda, bool over, float *y, size_t y_stride, const float *parts,
                      size_t part_stride, size_t p_stride, uint32_t count, uint32_t n,
                      uint32_t rows)
{
    if (rows == 0 || n == 0) {
        return OR_CUDA_OK;
    }
    return or_launch_early(cuda, add_parts_kernel(count), row_grid(rows, n), dim3(ROW_THREADS), 0,
                           over, y, y_stride, parts, part_stride, p_stride, n);
}
