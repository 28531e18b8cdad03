// Products with float, half and bfloat16 weights. A lane makes a few outputs of a few rows and keeps their chains in
// registers; a warp is a grid of such lanes, and a thread block one warp, or two side by side that share inputs.
//
// K is walked in tiles, which are copied to shared memory as they are, weights and inputs, several tiles ahead of
// their use: that keeps memory busy where rows are few. Weights become floats when a lane reads them, once for all
// its rows.
//
// What a lane reads of a step grows with the sides of its tile, outputs and rows, and what it computes with their
// product. So many rows want large tiles; a small matrix wants small ones, or some multiprocessors have nothing to do.
//
// Behind the end of K weights are +0 and inputs -0: their product is -0, which no sum notices.
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/cuda_portable.cuh"

#include <assert.h>

#define WARP 32u
#define QUAD 4u // steps, or floats, that are read together

struct float_product_t {
    const void *panels;
    size_t panel_bytes;
    uint32_t panel_count;
    const float *x;
    size_t x_stride;
    uint32_t x_first;
    bool x_in_quads; // rows of all spans begin at multiples of 16 bytes
    uint32_t rows;
    uint32_t row_groups; // thread blocks for the rows of the same panels
    float *y;
    size_t y_stride;
    size_t part_stride;
    or_cuda_span_t spans[OR_CUDA_SPANS_MAX];
};

// What a thread block computes. OUTPUTS and ROWS are a lane's; the outputs of LANES lanes lie side by side in a warp,
// those of WARPS warps in a block.
template <or_cuda_float_t TYPE_, uint32_t OUTPUTS_, uint32_t ROWS_, uint32_t LANES_,
          uint32_t WARPS_, uint32_t STEPS_, uint32_t STAGES_>
struct tiling_t {
    static constexpr or_cuda_float_t TYPE = TYPE_;
    static constexpr uint32_t OUTPUTS = OUTPUTS_;
    static constexpr uint32_t ROWS = ROWS_;
    static constexpr uint32_t OUTPUT_LANES = LANES_;
    static constexpr uint32_t ROW_LANES = WARP / LANES_;
    static constexpr uint32_t THREADS = WARPS_ * WARP;
    static constexpr uint32_t PANELS = WARPS_ * LANES_ * OUTPUTS_ / OR_PANEL; // of a block
    static constexpr uint32_t BLOCK_ROWS = ROW_LANES * ROWS_;
    static constexpr uint32_t WEIGHT_BYTES = TYPE_ == OR_CUDA_F32 ? 4 : 2;
    static constexpr uint32_t STEP_PIECES = OR_PANEL * WEIGHT_BYTES / sizeof(uint4); // of a panel
    static constexpr uint32_t STAGES = STAGES_;                 // tiles that there is room for
    static constexpr uint32_t STEPS = STEPS_ / STEP_PIECES * 2; // of a tile
    // In shared memory panels are a step longer than a tile, and rows a quad, so that what lanes read of different
    // ones lies in different banks.
    static constexpr uint32_t PANEL_PIECES = (STEPS + 1) * STEP_PIECES;
    static constexpr uint32_t ROW_QUADS = STEPS / QUAD + 1;
    static constexpr uint32_t STAGE_PIECES = PANELS * PANEL_PIECES;
    static constexpr uint32_t STAGE_QUADS = BLOCK_ROWS * ROW_QUADS;
    // A chain has to wait for each of its steps: where a lane has few, what they read is read well before.
    static constexpr uint32_t QUADS_AT_ONCE = OUTPUTS * ROWS >= 16  ? 2
                                              : OUTPUTS * ROWS >= 4 ? 4
                                                                    : 8;

    static_assert(LANES_ * OUTPUTS_ % OR_PANEL == 0 && OR_PANEL % OUTPUTS_ == 0, "whole panels");
    static_assert(PANELS * STEPS * STEP_PIECES % THREADS == 0, "a thread's pieces are as many");
};

// ---- a tile's way from memory ----

// The weights of the tile that begins `done` steps into the span.
template <typename T>
OR_DEVICE void copy_weights(const float_product_t &product, or_cuda_span_t span,
                            uint32_t first_panel, uint32_t done, uint4 *tile)
{
    constexpr uint32_t PIECES = T::STEPS * T::STEP_PIECES; // of a panel
    const uint32_t left = (span.count - done) * T::STEP_PIECES;
    const size_t first = ((size_t)span.first + done) * T::STEP_PIECES;
    for (uint32_t j = 0; j < T::PANELS * PIECES / T::THREADS; j++) {
        const uint32_t i = j * T::THREADS + threadIdx.x;
        const uint32_t panel = i / PIECES;
        const uint32_t piece = i % PIECES;
        const bool there = piece < left && first_panel + panel < product.panel_count;
        const char *at = (const char *)product.panels;
        at += there ? (first_panel + panel) * product.panel_bytes + (first + piece) * sizeof *tile
                    : 0;
        or_copy_piece(&tile[panel * T::PANEL_PIECES + piece], at, there);
    }
}

// Four neighbours of a row, one by one.
OR_DEVICE void copy_inputs_apart(const float *from, uint32_t count, float *to)
{
    for (uint32_t j = 0; j < QUAD; j++) {
        if (j < count) {
            or_copy_float(&to[j], &from[j]);
        } else {
            to[j] = -0.0f;
        }
    }
}

// The inputs of the same tile; rows that are not there are -0.
template <typename T>
OR_DEVICE void copy_inputs(const float_product_t &product, or_cuda_span_t span, uint32_t first_row,
                           uint32_t done, float4 *tile)
{
    constexpr uint32_t QUADS = T::STEPS / QUAD;
    const uint32_t left = span.count - done;
    const float *x = product.x + (span.first - product.x_first) + done;
    for (uint32_t i = threadIdx.x; i < T::BLOCK_ROWS * QUADS; i += T::THREADS) {
        const uint32_t row = i / QUADS;
        const uint32_t step = i % QUADS * QUAD;
        const bool there = first_row + row < product.rows && step < left;
        const uint32_t count = there ? left - step : 0;
        const float *from = there ? x + (first_row + row) * product.x_stride + step : product.x;
        float4 *to = &tile[row * T::ROW_QUADS + step / QUAD];
        if (product.x_in_quads && count >= QUAD) {
            or_copy_piece(to, from, true);
        } else {
            copy_inputs_apart(from, count, (float *)to);
        }
    }
}

// ---- the chains ----

// Return the float that the lower half of `bits` stands for.
template <or_cuda_float_t TYPE> OR_DEVICE float widen(uint32_t bits)
{
    uint16_t half = (uint16_t)bits;
    return TYPE == OR_CUDA_F16 ? or_widen_half(half) : canonical_widen_bf16(half);
}

template <uint32_t COUNT> OR_DEVICE void read_words(const char *at, uint32_t words[COUNT])
{
    if constexpr (COUNT == 1) {
        words[0] = *(const uint32_t *)at;
    } else if constexpr (COUNT == 2) {
        const uint2 two = *(const uint2 *)at;
        words[0] = two.x;
        words[1] = two.y;
    } else {
        for (uint32_t i = 0; i < COUNT; i += 4) {
            const uint4 four = ((const uint4 *)at)[i / 4];
            words[i] = four.x;
            words[i + 1] = four.y;
            words[i + 2] = four.z;
            words[i + 3] = four.w;
        }
    }
}

// Read `COUNT` neighbours as floats.
template <or_cuda_float_t TYPE, uint32_t COUNT>
OR_DEVICE void read_weights(const char *at, float weights[COUNT])
{
    if constexpr (TYPE == OR_CUDA_F32) {
        uint32_t words[COUNT];
        read_words<COUNT>(at, words);
        for (uint32_t i = 0; i < COUNT; i++) {
            weights[i] = float_of(words[i]);
        }
    } else if constexpr (COUNT == 1) {
        weights[0] = widen<TYPE>(*(const uint16_t *)at);
    } else {
        uint32_t words[COUNT / 2];
        read_words<COUNT / 2>(at, words);
        for (uint32_t i = 0; i < COUNT; i++) {
            weights[i] = widen<TYPE>(i % 2 == 0 ? words[i / 2] : words[i / 2] >> 16);
        }
    }
}

// Go on with a lane's chains over a tile. `weights` are those of the lane's first output, `inputs` those of its first
// row; its rows are ROW_LANES apart.
template <typename T>
OR_DEVICE void multiply_tile(const char *weights, const float4 *inputs,
                             float sums[T::ROWS][T::OUTPUTS])
{
    OR_UNROLL(T::QUADS_AT_ONCE)
    for (uint32_t k = 0; k < T::STEPS; k += QUAD) {
        float w[QUAD][T::OUTPUTS];
        for (uint32_t j = 0; j < QUAD; j++) {
            read_weights<T::TYPE, T::OUTPUTS>(weights + (k + j) * OR_PANEL * T::WEIGHT_BYTES, w[j]);
        }
        for (uint32_t r = 0; r < T::ROWS; r++) {
            const float4 x = inputs[r * T::ROW_LANES * T::ROW_QUADS + k / QUAD];
            for (uint32_t i = 0; i < T::OUTPUTS; i++) {
                float sum = sums[r][i];
                sum = fmaf(x.x, w[0][i], sum);
                sum = fmaf(x.y, w[1][i], sum);
                sum = fmaf(x.z, w[2][i], sum);
                sums[r][i] = fmaf(x.w, w[3][i], sum);
            }
        }
    }
}

// ---- a thread block ----

// Where a lane's first output and first row are in its block's.
typedef struct {
    uint32_t output;
    uint32_t row;
} place_t;

template <typename T> OR_DEVICE place_t own_place(void)
{
    const uint32_t lane = threadIdx.x % WARP;
    const uint32_t warp = threadIdx.x / WARP;
    return {(warp * T::OUTPUT_LANES + lane % T::OUTPUT_LANES) * T::OUTPUTS, lane / T::OUTPUT_LANES};
}

template <typename T>
OR_DEVICE void write_sums(const float_product_t &product, uint32_t output, uint32_t row,
                          const float sums[T::ROWS][T::OUTPUTS])
{
    float *y = product.y + blockIdx.y * product.part_stride + output;
    if (output / OR_PANEL >= product.panel_count) {
        return;
    }
    for (uint32_t r = 0; r < T::ROWS; r++) {
        if (row + r * T::ROW_LANES < product.rows) {
            for (uint32_t i = 0; i < T::OUTPUTS; i++) {
                y[(row + r * T::ROW_LANES) * product.y_stride + i] = sums[r][i];
            }
        }
    }
}

// Grid: (groups of panels x groups of rows) x spans. Neighbours in the grid read the same panels.
template <typename T> OR_GLOBAL void multiply_floats(const float_product_t product)
{
    OR_SHARED(uint4, weights, T::STAGES * T::STAGE_PIECES);
    OR_SHARED(float4, inputs, T::STAGES * T::STAGE_QUADS);
    const uint32_t first_panel = blockIdx.x / product.row_groups * T::PANELS;
    const uint32_t first_row = blockIdx.x % product.row_groups * T::BLOCK_ROWS;
    const or_cuda_span_t span = product.spans[blockIdx.y];
    const place_t own = own_place<T>();
    const uint32_t column = own.output / OR_PANEL * T::PANEL_PIECES * sizeof(uint4) +
                            own.output % OR_PANEL * T::WEIGHT_BYTES;
    float sums[T::ROWS][T::OUTPUTS] = {};

    const auto copy_tile = [&](uint32_t tile) {
        const uint32_t stage = tile % T::STAGES;
        if (tile * T::STEPS < span.count) {
            copy_weights<T>(product, span, first_panel, tile * T::STEPS,
                            weights + stage * T::STAGE_PIECES);
            copy_inputs<T>(product, span, first_row, tile * T::STEPS,
                           inputs + stage * T::STAGE_QUADS);
        }
        or_copies_end();
    };
    for (uint32_t tile = 0; tile + 1 < T::STAGES; tile++) {
        copy_tile(tile);
    }
    for (uint32_t tile = 0; tile * T::STEPS < span.count; tile++) {
        const uint32_t stage = tile % T::STAGES;
        or_copies_wait<T::STAGES - 2>();
        or_block_wait(); // this tile is whole, and nobody needs the one before
        copy_tile(tile + T::STAGES - 1);
        multiply_tile<T>((const char *)(weights + stage * T::STAGE_PIECES) + column,
                         inputs + stage * T::STAGE_QUADS + own.row * T::ROW_QUADS, sums);
    }
    write_sums<T>(product, first_panel * OR_PANEL + own.output, first_row + own.row, sums);
}

// ---- launching ----

#define SMALL_PANELS                                                                               \
    512u // of all spans: with two in a block, a GPU would have blocks for half its multiprocessors

template <typename T> static int launch(or_cuda_t *cuda, float_product_t product, uint32_t spans)
{
    product.row_groups = (product.rows - 1) / T::BLOCK_ROWS + 1;
    dim3 grid(((product.panel_count - 1) / T::PANELS + 1) * product.row_groups, spans);
    return or_launch(cuda, multiply_floats<T>, grid, dim3(T::THREADS), 0, product);
}

template <or_cuda_float_t TYPE>
static int launch_small(or_cuda_t *cuda, const float_product_t &product, uint32_t spans)
{
    if (product.rows <= 2) {
        return launch<tiling_t<TYPE, 1, 1, 16, 1, 64, 8>>(cuda, product, spans);
    }
    if (product.rows <= 4) {
        return launch<tiling_t<TYPE, 1, 2, 16, 1, 64, 8>>(cuda, product, spans);
    }
    if (product.rows <= 8) {
        return launch<tiling_t<TYPE, 2, 2, 8, 1, 64, 6>>(cuda, product, spans);
    }
    if (product.rows <= 16) {
        return launch<tiling_t<TYPE, 2, 4, 8, 1, 64, 4>>(cuda, product, spans);
    }
    return launch<tiling_t<TYPE, 4, 4, 4, 1, 32, 4>>(cuda, product, spans);
}

template <or_cuda_float_t TYPE>
static int launch_large(or_cuda_t *cuda, const float_product_t &product, uint32_t spans)
{
    if (product.rows == 1) {
        return launch<tiling_t<TYPE, 1, 1, 32, 1, 64, 6>>(cuda, product, spans);
    }
    if (product.rows == 2) {
        return launch<tiling_t<TYPE, 2, 1, 16, 1, 64, 6>>(cuda, product, spans);
    }
    if (product.rows <= 4) {
        return launch<tiling_t<TYPE, 2, 2, 16, 1, 64, 5>>(cuda, product, spans);
    }
    if (product.rows <= 8) {
        return launch<tiling_t<TYPE, 4, 2, 8, 1, 64, 4>>(cuda, product, spans);
    }
    if (product.rows <= 16) {
        return launch<tiling_t<TYPE, 4, 4, 8, 2, 32, 4>>(cuda, product, spans);
    }
    return launch<tiling_t<TYPE, 8, 4, 4, 2, 32, 3>>(cuda, product, spans);
}

template <or_cuda_float_t TYPE>
static int launch_type(or_cuda_t *cuda, const float_product_t &product, uint32_t spans)
{
    return (uint64_t)product.panel_count * spans <= SMALL_PANELS
               ? launch_small<TYPE>(cuda, product, spans)
               : launch_large<TYPE>(cuda, product, spans);
}

static bool in_quads(const float *x, size_t x_stride, const or_cuda_parts_t *to)
{
    bool whole = (uintptr_t)x % sizeof(float4) == 0 && x_stride % QUAD == 0;
    for (uint32_t s = 0; s < to->count; s++) {
        whole = whole && (to->spans[s].first - to->x_first) % QUAD == 0;
    }
    return whole;
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
    float_product_t product = {};
    product.panels = panels;
    product.panel_bytes = panel_stride * weight_bytes;
    product.panel_count = panel_count;
    product.x = x;
    product.x_stride = x_stride;
    product.x_first = to->x_first;
    product.x_in_quads = in_quads(x, x_stride, to);
    product.rows = rows;
    product.y = to->y;
    product.y_stride = to->y_stride;
    product.part_stride = to->part_stride;
    memcpy(product.spans, to->spans, to->count * sizeof *to->spans);
    switch (type) {
    case OR_CUDA_F32:
        return launch_type<OR_CUDA_F32>(cuda, product, to->count);
    case OR_CUDA_F16:
        return launch_type<OR_CUDA_F16>(cuda, product, to->count);
    default:
        return launch_type<OR_CUDA_BF16>(cuda, product, to->count);
    }
}
