// Products with float, half and bfloat16 weights. A thread block makes the outputs of two panels for up
// to 64 rows: a lane is an output, a warp has 1 to 8 of the rows, and their chains stay in registers.
//
// K is walked in tiles. Threads load a tile's weights 16 bytes at a time and leave them in shared memory
// as floats: read and widened once for all rows. While a tile is multiplied, the next one is on its way
// to registers (8 or 16 KiB of it), which is what keeps memory busy where rows are few.
//
// Behind the end of K weights are +0 and inputs -0: their product is -0, which no sum notices.
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/cuda_portable.cuh"

#include <assert.h>

#define WARP 32u
#define WARPS 8u
#define THREADS (WARPS * WARP)
#define PANELS 2u
#define OUTPUTS (PANELS * OR_PANEL) // of a warp, one for each lane
#define TILE 128u                   // steps of K; with 8 rows a warp they fill 48 KiB
#define STEPS 16u                   // of which a lane loads the weights together

struct float_product_t {
    const void *panels;
    size_t panel_bytes;
    uint32_t panel_count;
    const float *x;
    size_t x_stride;
    uint32_t x_first;
    uint32_t rows;
    float *y;
    size_t y_stride;
    size_t part_stride;
    or_cuda_span_t spans[OR_CUDA_SPANS_MAX];
};

// ---- a tile's way from memory ----

template <or_cuda_float_t TYPE> constexpr uint32_t piece_weights = TYPE == OR_CUDA_F32 ? 4 : 8;

// Pieces of a tile that each thread brings.
template <or_cuda_float_t TYPE>
constexpr uint32_t pieces_brought = (TILE * OUTPUTS) / (piece_weights<TYPE> * THREADS);

// Return the float that the lower half of `bits` stands for.
template <or_cuda_float_t TYPE> OR_DEVICE float widen(uint32_t bits)
{
    uint16_t half = (uint16_t)bits;
    return TYPE == OR_CUDA_F16 ? canonical_widen(half) : canonical_widen_bf16(half);
}

template <or_cuda_float_t TYPE> OR_DEVICE float4 widen_four(uint32_t first, uint32_t second)
{
    return make_float4(widen<TYPE>(first), widen<TYPE>(first >> 16), widen<TYPE>(second),
                       widen<TYPE>(second >> 16));
}

template <or_cuda_float_t TYPE> OR_DEVICE void store_widened(uint4 piece, float4 *to)
{
    if constexpr (TYPE == OR_CUDA_F32) {
        to[0] =
            make_float4(float_of(piece.x), float_of(piece.y), float_of(piece.z), float_of(piece.w));
    } else {
        to[0] = widen_four<TYPE>(piece.x, piece.y);
        to[1] = widen_four<TYPE>(piece.z, piece.w);
    }
}

// The pieces of the tile that begins `done` steps into the span: in the order in which they are stored,
// [step][panel][piece], so that neither the loads nor the stores of a warp are scattered.
template <or_cuda_float_t TYPE>
OR_DEVICE void load_weights(const float_product_t &product, or_cuda_span_t span, uint32_t done,
                            uint4 *pieces)
{
    const uint32_t step_pieces = OR_PANEL / piece_weights<TYPE>;
    for (uint32_t j = 0; j < pieces_brought<TYPE>; j++) {
        uint32_t i = j * THREADS + threadIdx.x;
        uint32_t step = done + i / (PANELS * step_pieces);
        uint32_t panel = blockIdx.x * PANELS + i / step_pieces % PANELS;
        pieces[j] = make_uint4(0, 0, 0, 0);
        if (step < span.count && panel < product.panel_count) {
            size_t piece = ((size_t)span.first + step) * step_pieces + i % step_pieces;
            const char *at = (const char *)product.panels + panel * product.panel_bytes;
            pieces[j] = ((const uint4 *)at)[piece];
        }
    }
}

template <or_cuda_float_t TYPE> OR_DEVICE void store_weights(const uint4 *pieces, float4 *tile)
{
    for (uint32_t j = 0; j < pieces_brought<TYPE>; j++) {
        uint32_t i = j * THREADS + threadIdx.x;
        store_widened<TYPE>(pieces[j], tile + (size_t)i * (piece_weights<TYPE> / 4));
    }
}

// A warp brings the inputs of its own rows.
template <uint32_t ROWS>
OR_DEVICE void load_inputs(const float_product_t &product, or_cuda_span_t span, uint32_t done,
                           uint32_t first_row, float inputs[ROWS][TILE / WARP])
{
    for (uint32_t r = 0; r < ROWS; r++) {
        const float *x = product.x + (first_row + r) * product.x_stride;
        for (uint32_t j = 0; j < TILE / WARP; j++) {
            uint32_t step = done + j * WARP + threadIdx.x % WARP;
            bool there = first_row + r < product.rows && step < span.count;
            inputs[r][j] = there ? x[span.first - product.x_first + step] : -0.0f;
        }
    }
}

template <uint32_t ROWS>
OR_DEVICE void store_inputs(const float inputs[ROWS][TILE / WARP], float *tile)
{
    for (uint32_t r = 0; r < ROWS; r++) {
        for (uint32_t j = 0; j < TILE / WARP; j++) {
            tile[r * TILE + j * WARP + threadIdx.x % WARP] = inputs[r][j];
        }
    }
}

// ---- the chains ----

// Go on with a lane's chains over a tile of weights [step][OUTPUTS], of which `weights` is its own column,
// and of inputs [row][step].
template <uint32_t ROWS>
OR_DEVICE void multiply_tile(const float *weights, const float4 *inputs, uint32_t steps,
                             float sums[ROWS])
{
    for (uint32_t k = 0; k < steps; k += STEPS) {
        float w[STEPS];
        for (uint32_t j = 0; j < STEPS; j++) {
            w[j] = weights[(k + j) * OUTPUTS];
        }
        for (uint32_t r = 0; r < ROWS; r++) {
            for (uint32_t j = 0; j < STEPS; j += 4) {
                float4 x = inputs[(r * TILE + k + j) / 4];
                sums[r] = fmaf(x.x, w[j], sums[r]);
                sums[r] = fmaf(x.y, w[j + 1], sums[r]);
                sums[r] = fmaf(x.z, w[j + 2], sums[r]);
                sums[r] = fmaf(x.w, w[j + 3], sums[r]);
            }
        }
    }
}

template <uint32_t ROWS>
OR_DEVICE void write_sums(const float_product_t &product, uint32_t first_row,
                          const float sums[ROWS])
{
    uint32_t output = blockIdx.x * OUTPUTS + threadIdx.x % WARP;
    if (output / OR_PANEL >= product.panel_count) {
        return;
    }
    float *part = product.y + blockIdx.z * product.part_stride;
    for (uint32_t r = 0; r < ROWS; r++) {
        if (first_row + r < product.rows) {
            part[(first_row + r) * product.y_stride + output] = sums[r];
        }
    }
}

// Grid: pairs of panels x groups of WARPS * ROWS rows x spans.
template <or_cuda_float_t TYPE, uint32_t ROWS>
OR_GLOBAL void multiply_floats(const float_product_t product)
{
    OR_SHARED(float4, weights, TILE * OUTPUTS / 4);
    OR_SHARED(float4, inputs, WARPS * ROWS * TILE / 4);
    const uint32_t warp = threadIdx.x / WARP;
    const uint32_t first_row = (blockIdx.y * WARPS + warp) * ROWS;
    const or_cuda_span_t span = product.spans[blockIdx.z];
    const float *column = (const float *)weights + threadIdx.x % WARP;
    float4 *own_inputs = inputs + warp * ROWS * TILE / 4;
    uint4 next_weights[pieces_brought<TYPE>];
    float next_inputs[ROWS][TILE / WARP];
    float sums[ROWS] = {};

    load_weights<TYPE>(product, span, 0, next_weights);
    load_inputs<ROWS>(product, span, 0, first_row, next_inputs);
    for (uint32_t done = 0; done < span.count; done += TILE) {
        uint32_t left = span.count - done;
        or_block_wait(); // until nobody needs the tile before
        store_weights<TYPE>(next_weights, weights);
        store_inputs<ROWS>(next_inputs, (float *)own_inputs);
        or_block_wait();
        load_weights<TYPE>(product, span, done + TILE, next_weights);
        load_inputs<ROWS>(product, span, done + TILE, first_row, next_inputs);
        if (first_row < product.rows) {
            multiply_tile<ROWS>(column, own_inputs, left < TILE ? left : TILE, sums);
        }
    }
    write_sums<ROWS>(product, first_row, sums);
}

// ---- launching ----

template <or_cuda_float_t TYPE, uint32_t ROWS>
static int launch(or_cuda_t *cuda, const float_product_t &product, uint32_t spans)
{
    dim3 grid((product.panel_count - 1) / PANELS + 1, (product.rows - 1) / (WARPS * ROWS) + 1,
              spans);
    return or_launch(cuda, multiply_floats<TYPE, ROWS>, grid, dim3(THREADS), 0, product);
}

// A warp's rows share what it reads of a tile, but one warp's chains are slow where few others run: few rows
// are spread over a few warps, and only many fill them.
template <or_cuda_float_t TYPE>
static int launch_rows(or_cuda_t *cuda, const float_product_t &product, uint32_t spans)
{
    if (product.rows == 1) {
        return launch<TYPE, 1>(cuda, product, spans);
    }
    if (product.rows <= 4) {
        return launch<TYPE, 2>(cuda, product, spans);
    }
    if (product.rows <= 16) {
        return launch<TYPE, 4>(cuda, product, spans);
    }
    return launch<TYPE, 8>(cuda, product, spans);
}

int or_cuda_matmul_floats(or_cuda_t *cuda, or_cuda_float_t type, const void *panels,
                          size_t panel_stride, uint32_t panel_count, const float *x,
                          size_t x_stride, uint32_t rows, const or_cuda_parts_t *to)
{
    size_t weight_bytes = type == OR_CUDA_F32 ? sizeof(float) : sizeof(uint16_t);
    assert(to->count >= 1 && to->count <= OR_CUDA_SPANS_MAX);
    assert((uintptr_t)panels % sizeof(uint4) == 0);
    assert(panel_stride * weight_bytes % sizeof(uint4) == 0);
    if (rows == 0 || panel_count == 0) {
        return OR_CUDA_OK;
    }
    float_product_t product = {panels,
                               panel_stride * weight_bytes,
                               panel_count,
                               x,
                               x_stride,
                               to->x_first,
                               rows,
                               to->y,
                               to->y_stride,
                               to->part_stride,
                               {}};
    memcpy(product.spans, to->spans, to->count * sizeof *to->spans);
    switch (type) {
    case OR_CUDA_F32:
        return launch_rows<OR_CUDA_F32>(cuda, product, to->count);
    case OR_CUDA_F16:
        return launch_rows<OR_CUDA_F16>(cuda, product, to->count);
    default:
        return launch_rows<OR_CUDA_BF16>(cuda, product, to->count);
    }
}
