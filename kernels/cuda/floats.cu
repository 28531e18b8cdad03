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
// Behind the end of a span weights are +0 and inputs -0: their product is -0, which no sum notices.
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
    const or_cuda_group_t *groups; // NULL: the rows are of one matrix
    uint32_t group_count;
    size_t expert_bytes;
    or_cuda_span_t spans[OR_CUDA_SPANS_MAX];
};

// What a thread block multiplies: all rows with the one matrix, or those of a group with an expert. It is looked up where it
// is needed, as registers are dear in between.
typedef struct {
    const char *panels;
    const float *x;
    float *y;
    uint32_t rows;
} operands_t;

OR_DEVICE operands_t own_operands(const float_product_t &product)
{
    operands_t own = {(const char *)product.panels, product.x, product.y, product.rows};
    if (product.groups) {
        const or_cuda_group_t group = product.groups[blockIdx.z];
        own.panels += group.expert * product.expert_bytes;
        own.x += group.first * product.x_stride;
        own.y += group.first * product.y_stride;
        own.rows = group.count;
    }
    return own;
}

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
    static constexpr uint32_t PIECES = STEPS * STEP_PIECES; // of a panel's tile
    static constexpr uint32_t QUADS = STEPS / QUAD;
    static constexpr uint32_t ROWS_AT_ONCE =
        (THREADS + QUADS - 1) / QUADS; // whose quads are a piece for each thread
    // Steps that are read before those before them are multiplied: a chain takes longer for one than it takes a lane
    // to issue it, and reading takes longer still.
    static constexpr uint32_t GROUP = OUTPUTS * ROWS <= 2 ? 16 : OUTPUTS * ROWS <= 4 ? 8 : 4;
    static constexpr uint32_t GROUPS = STEPS / GROUP; // of a tile

    static_assert(LANES_ * OUTPUTS_ % OR_PANEL == 0 && OR_PANEL % OUTPUTS_ == 0, "whole panels");
    static_assert(PIECES % THREADS == 0, "each thread has as many pieces of a panel");
    static_assert(THREADS % QUADS == 0, "a thread's quads are of the same steps");
    static_assert(GROUPS % 2 == 0, "groups lie in two places by turns");
};

// ---- a tile's way from memory ----

// Where a thread takes its pieces of a tile from. Panels and rows that are not there are the last one's: what comes of
// them is not written.
typedef struct {
    const char
        *weights; // of the block's first panel, the thread's first piece of the span's first tile
    const float *inputs; // of the thread's first row, its quad of the span's first tile
    or_cuda_span_t span;
    uint32_t first_row; // of the block
    uint32_t last_row;  // of its rows, counted from there
    uint32_t last_panel;
} source_t;

OR_DEVICE uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

template <typename T>
OR_DEVICE source_t source_of(const float_product_t &product, const operands_t &own,
                             or_cuda_span_t span, uint32_t first_panel, uint32_t first_row)
{
    const uint32_t last_row = least(own.rows - first_row, T::BLOCK_ROWS) - 1;
    const size_t first_piece = (size_t)span.first * T::STEP_PIECES + threadIdx.x;
    return {own.panels + first_panel * product.panel_bytes + first_piece * sizeof(uint4),
            own.x + (first_row + least(threadIdx.x / T::QUADS, last_row)) * product.x_stride +
                (span.first - product.x_first) + threadIdx.x % T::QUADS * QUAD,
            span,
            first_row,
            last_row,
            least(product.panel_count - first_panel, T::PANELS) - 1};
}

// The tile that begins `done` steps into the span and is whole. Each thread's pieces are so far apart that all but the
// panel and the row are constant.
template <typename T>
OR_DEVICE void copy_whole_tile(const float_product_t &product, const source_t *from, uint32_t done,
                               uint4 *weights, float4 *inputs)
{
    const char *w = from->weights + (size_t)done * T::STEP_PIECES * sizeof *weights;
    for (uint32_t panel = 0; panel < T::PANELS; panel++) {
        for (uint32_t i = 0; i < T::PIECES; i += T::THREADS) {
            or_copy_piece(&weights[panel * T::PANEL_PIECES + i + threadIdx.x],
                          w + i * sizeof *weights, true);
        }
        w += panel < from->last_panel ? product.panel_bytes : 0;
    }
    const float *x = from->inputs + done;
    const uint32_t first_row = threadIdx.x / T::QUADS;
    float4 *to = inputs + first_row * T::ROW_QUADS + threadIdx.x % T::QUADS;
    for (uint32_t row = 0; row < T::BLOCK_ROWS; row += T::ROWS_AT_ONCE) {
        if (first_row + row < T::BLOCK_ROWS) {
            or_copy_piece(to + row * T::ROW_QUADS, x, true);
        }
        // Up to the last row, and no further.
        const uint32_t next = least(first_row + row + T::ROWS_AT_ONCE, from->last_row);
        const uint32_t now = least(first_row + row, from->last_row);
        x += (next - now) * product.x_stride;
    }
}

// The same of one that may end behind the span's end, or whose rows begin anywhere.
template <typename T>
OR_DEVICE void copy_ragged_tile(const float_product_t &product, const source_t *from, uint32_t done,
                                uint4 *weights, float4 *inputs)
{
    const uint32_t left = from->span.count - done;
    const float *x = own_operands(product).x;
    const char *w = from->weights + (size_t)done * T::STEP_PIECES * sizeof *weights;
    for (uint32_t panel = 0; panel < T::PANELS; panel++) {
        for (uint32_t i = 0; i < T::PIECES; i += T::THREADS) {
            const bool there = i + threadIdx.x < left * T::STEP_PIECES;
            or_copy_piece(&weights[panel * T::PANEL_PIECES + i + threadIdx.x],
                          w + (there ? i * sizeof *weights : 0), there);
        }
        w += panel < from->last_panel ? product.panel_bytes : 0;
    }
    for (uint32_t i = threadIdx.x; i < T::BLOCK_ROWS * T::STEPS; i += T::THREADS) {
        const uint32_t row = i / T::STEPS;
        const uint32_t step = i % T::STEPS;
        float *to = (float *)&inputs[row * T::ROW_QUADS] + step;
        const size_t rows_before = least(row, from->last_row);
        if (step < left) {
            or_copy_float(to, x + (from->first_row + rows_before) * product.x_stride +
                                  (from->span.first - product.x_first) + done + step);
        } else {
            *to = -0.0f;
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

// What a lane reads of neighbouring steps, as it lies in shared memory.
template <typename T> struct group_t {
    static constexpr uint32_t WORDS = (T::OUTPUTS * T::WEIGHT_BYTES + 3) / 4; // of a step
    uint32_t weights[T::GROUP][WORDS];
    float4 inputs[T::ROWS][T::GROUP / QUAD];
};

template <typename T>
OR_DEVICE void read_group(const char *weights, const float4 *inputs, uint32_t g, group_t<T> *to)
{
    OR_UNROLL(T::GROUP)
    for (uint32_t j = 0; j < T::GROUP; j++) {
        const char *at = weights + (g * T::GROUP + j) * OR_PANEL * T::WEIGHT_BYTES;
        if constexpr (T::OUTPUTS * T::WEIGHT_BYTES < sizeof(uint32_t)) {
            to->weights[j][0] = *(const uint16_t *)at;
        } else {
            read_words<group_t<T>::WORDS>(at, to->weights[j]);
        }
    }
    OR_UNROLL(T::ROWS)
    for (uint32_t r = 0; r < T::ROWS; r++) {
        OR_UNROLL(T::GROUP / QUAD)
        for (uint32_t q = 0; q < T::GROUP / QUAD; q++) {
            to->inputs[r][q] = inputs[r * T::ROW_LANES * T::ROW_QUADS + g * (T::GROUP / QUAD) + q];
        }
    }
}

template <typename T> OR_DEVICE float weight_of(const uint32_t *words, uint32_t output)
{
    if constexpr (T::TYPE == OR_CUDA_F32) {
        return float_of(words[output]);
    }
    return widen<T::TYPE>(output % 2 == 0 ? words[output / 2] : words[output / 2] >> 16);
}

OR_DEVICE float of_quad(const float4 &x, uint32_t i)
{
    return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w;
}

// A step of each of a lane's chains after the other, so that none waits for itself.
template <typename T>
OR_DEVICE void multiply_group(const group_t<T> *group, float sums[T::ROWS][T::OUTPUTS])
{
    OR_UNROLL(T::GROUP)
    for (uint32_t j = 0; j < T::GROUP; j++) {
        OR_UNROLL(T::OUTPUTS)
        for (uint32_t i = 0; i < T::OUTPUTS; i++) {
            const float w = weight_of<T>(group->weights[j], i);
            OR_UNROLL(T::ROWS)
            for (uint32_t r = 0; r < T::ROWS; r++) {
                const float x = of_quad(group->inputs[r][j / QUAD], j % QUAD);
                sums[r][i] = fmaf(x, w, sums[r][i]);
            }
        }
    }
}

// Go on with a lane's chains over a tile. `weights` are those of the lane's first output, `inputs` those of its first
// row; its rows are ROW_LANES apart.
template <typename T>
OR_DEVICE void multiply_tile(const char *weights, const float4 *inputs,
                             float sums[T::ROWS][T::OUTPUTS])
{
    group_t<T> even, odd;
    read_group<T>(weights, inputs, 0, &even);
    OR_UNROLL(T::GROUPS / 2)
    for (uint32_t g = 0; g < T::GROUPS; g += 2) {
        read_group<T>(weights, inputs, g + 1, &odd);
        multiply_group<T>(&even, sums);
        if (g + 2 < T::GROUPS) {
            read_group<T>(weights, inputs, g + 2, &even);
        }
        multiply_group<T>(&odd, sums);
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
    const operands_t own = own_operands(product);
    float *y = own.y + blockIdx.y * product.part_stride + output;
    if (output / OR_PANEL >= product.panel_count) {
        return;
    }
    for (uint32_t r = 0; r < T::ROWS; r++) {
        if (row + r * T::ROW_LANES < own.rows) {
            for (uint32_t i = 0; i < T::OUTPUTS; i++) {
                y[(row + r * T::ROW_LANES) * product.y_stride + i] = sums[r][i];
            }
        }
    }
}

// Grid: (groups of panels x groups of rows) x spans x groups of experts. Neighbours in the grid read the same panels.
template <typename T> OR_GLOBAL void multiply_floats(const float_product_t product)
{
    or_begin_after();
    OR_SHARED(uint4, weights, T::STAGES * T::STAGE_PIECES);
    OR_SHARED(float4, inputs, T::STAGES * T::STAGE_QUADS);
    const uint32_t first_panel = blockIdx.x / product.row_groups * T::PANELS;
    const uint32_t first_row = blockIdx.x % product.row_groups * T::BLOCK_ROWS;
    const or_cuda_span_t span = product.spans[blockIdx.y];
    const place_t own = own_place<T>();
    const uint32_t column = own.output / OR_PANEL * T::PANEL_PIECES * sizeof(uint4) +
                            own.output % OR_PANEL * T::WEIGHT_BYTES;
    const operands_t operands = own_operands(product);
    if (first_row >= operands.rows) {
        return;
    }
    float sums[T::ROWS][T::OUTPUTS] = {};

    const source_t source = source_of<T>(product, operands, span, first_panel, first_row);
    const auto copy_tile = [&](uint32_t tile) {
        const uint32_t done = tile * T::STEPS;
        uint4 *to_weights = weights + tile % T::STAGES * T::STAGE_PIECES;
        float4 *to_inputs = inputs + tile % T::STAGES * T::STAGE_QUADS;
        if (done + T::STEPS <= span.count && product.x_in_quads) {
            copy_whole_tile<T>(product, &source, done, to_weights, to_inputs);
        } else if (done < span.count) {
            copy_ragged_tile<T>(product, &source, done, to_weights, to_inputs);
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
    dim3 grid(((product.panel_count - 1) / T::PANELS + 1) * product.row_groups, spans,
              product.groups ? product.group_count : 1);
    return or_launch_early(cuda, multiply_floats<T>, grid, dim3(T::THREADS), 0, product);
}

// The shapes are those that took the least time on an H200 (tests/gpu/product_bench.c).
template <or_cuda_float_t TYPE>
static int launch_small(or_cuda_t *cuda, const float_product_t &product, uint32_t spans)
{
    if (product.rows == 1) {
        return launch<tiling_t<TYPE, 1, 1, 32, 1, 128, 4>>(cuda, product, spans);
    }
    if (product.rows == 2) {
        return launch<tiling_t<TYPE, 1, 1, 16, 1, 128, 6>>(cuda, product, spans);
    }
    if (product.rows <= 4) {
        return launch<tiling_t<TYPE, 1, 2, 16, 1, 128, 5>>(cuda, product, spans);
    }
    if (product.rows <= 8) {
        return launch<tiling_t<TYPE, 2, 2, 8, 1, 64, 6>>(cuda, product, spans);
    }
    if (product.rows <= 16) {
        return launch<tiling_t<TYPE, 2, 4, 8, 1, 64, 4>>(cuda, product, spans);
    }
    return launch<tiling_t<TYPE, 4, 4, 4, 2, 64, 2>>(cuda, product, spans);
}

template <or_cuda_float_t TYPE>
static int launch_large(or_cuda_t *cuda, const float_product_t &product, uint32_t spans)
{
    if (product.rows == 1) {
        return launch<tiling_t<TYPE, 1, 1, 32, 1, 128, 3>>(cuda, product, spans);
    }
    if (product.rows == 2) {
        return launch<tiling_t<TYPE, 2, 1, 16, 1, 64, 6>>(cuda, product, spans);
    }
    if (product.rows <= 4) {
        return launch<tiling_t<TYPE, 2, 2, 16, 2, 64, 3>>(cuda, product, spans);
    }
    if (product.rows <= 8) {
        return launch<tiling_t<TYPE, 4, 2, 8, 1, 64, 4>>(cuda, product, spans);
    }
    if (product.rows <= 16) {
        return launch<tiling_t<TYPE, 4, 4, 8, 2, 64, 3>>(cuda, product, spans);
    }
    return launch<tiling_t<TYPE, 4, 4, 4, 2, 64, 2>>(cuda, product, spans);
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
    if (rows == 0 || panel_count == 0 || (to->groups && to->groups->count == 0)) {
        return OR_CUDA_OK;
    }
    float_product_t product = {};
    if (to->groups) {
        product.groups = to->groups->groups;
        product.group_count = to->groups->count;
        product.expert_bytes = to->groups->expert_bytes;
    }
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
