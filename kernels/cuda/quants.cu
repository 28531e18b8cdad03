// Products of panels and quantised activations.
//
// A thread block has a panel, a span and up to 32 rows, and goes through the span in chunks. In each,
//
//     sums     its warps have a few blocks each: tensor cores multiply the panel's 16 outputs with 8 rows at a
//              time. Integer sums are exact, so any warp may make any block's.
//     chains   a thread has an output of a row, or of two, and makes the steps of its chain over the chunk, in order.
//
// So K is split among warps though chains are not, and one row of a small matrix keeps a GPU's memory busy: the
// next chunk is on its way while chains are worked on. More rows are more thread blocks, neighbours in the grid, of
// which one reads the panel from memory and the others find it in the L2 cache.
#include "kernels/cuda/quants.cuh"

#include <assert.h>

#define WARP 32u
#define WARPS 8u
#define THREADS (WARPS * WARP)
#define TILE_ROWS 8u // that or_multiply_bytes takes
#define TILES_MAX 4u
#define TILE_SUMS (TILE_ROWS * OR_PANEL)
#define CHAIN_ROWS (THREADS / OR_PANEL) // that have a thread for each output

typedef struct {
    size_t panel_bytes;
    size_t x_stride;
    size_t y_stride;
    size_t part_stride;
    uint32_t rows;
    uint32_t row_groups; // thread blocks for the rows of a panel
    uint32_t x_first;
    const or_cuda_group_t *groups; // NULL: the rows are of one matrix
    size_t expert_bytes;
    or_cuda_span_t spans[OR_CUDA_SPANS_MAX];
} product_t;

// The part of a product that a thread block computes.
typedef struct {
    const or_q8_block_t *x;
    size_t x_stride;
    uint32_t x_first;
    uint32_t rows;
    uint32_t end; // of its blocks
} task_t;

// What the chains need of a block of activations beside its quants: for each group the sum of its quants, scaled or as
// a bias.
template <or_quant_t TYPE> struct factors_t {
    float scale;
    uint32_t sums[shape_of(TYPE).groups];
};

// A chunk: what there is of it, as many sums for any number of tiles, and what a thread loads of it ahead.
template <or_quant_t TYPE, uint32_t TILES> struct chunk_t {
    static constexpr uint32_t ROWS = TILES * TILE_ROWS;
    static constexpr uint32_t CHAINS = (ROWS + CHAIN_ROWS - 1) / CHAIN_ROWS; // of a thread
    static constexpr uint32_t UNIT_BLOCKS = shape_of(TYPE).unit_blocks;
    static constexpr uint32_t GROUPS = shape_of(TYPE).groups; // of a block
    static constexpr uint32_t DEPTH = TILES_MAX / TILES;      // blocks of a warp
    static constexpr uint32_t BLOCKS = WARPS * DEPTH;
    static constexpr uint32_t BLOCK_SUMS = GROUPS * TILES * TILE_SUMS;
    static constexpr uint32_t SUMS = BLOCKS * BLOCK_SUMS;
    static constexpr uint32_t SCALES = BLOCKS * GROUPS * OR_PANEL;
    static constexpr uint32_t THREAD_SCALES = (SCALES + THREADS - 1) / THREADS;
    static_assert(ROWS * BLOCKS == THREADS, "a block of a row for each thread");

    loaded_t<uint2> integers[DEPTH];  // of the warp's blocks
    uint32_t quants[DEPTH][TILES][2]; // of a row in each tile
    loaded_group_t groups[THREAD_SCALES];
    factors_t<TYPE> factors;
};

OR_DEVICE const or_q8_block_t *activations(const task_t *task, uint32_t row, uint32_t block)
{
    return task->x + row * task->x_stride + (block - task->x_first);
}

// ---- loading ----

// The pieces of a chunk that a thread has are a constant number of whole units apart, wherever in a unit the chunk
// begins. So only the offsets of an address change.
static_assert(WARPS % OR_SUPER_BLOCK == 0 && THREADS / OR_PANEL % (2 * OR_SUPER_BLOCK) == 0,
              "whole units");

// A lane's words of a row; of one that is not there they are 0.
OR_DEVICE void load_quants(const or_q8_block_t *x, bool there, uint32_t t, uint32_t words[2])
{
    words[0] = words[1] = 0;
    if (there) {
        words[0] = ((const uint32_t *)x->quants)[t];
        words[1] = ((const uint32_t *)x->quants)[4 + t];
    }
}

template <or_quant_t TYPE, uint32_t TILES, typename UNIT>
OR_DEVICE void load_blocks(const task_t *task, const UNIT *panel, uint32_t begin,
                           chunk_t<TYPE, TILES> *to)
{
    typedef chunk_t<TYPE, TILES> chunk;
    const uint32_t lane = threadIdx.x % WARP;
    const uint32_t first = begin + threadIdx.x / WARP;
    const UNIT *unit = panel + first / chunk::UNIT_BLOCKS;
    for (uint32_t d = 0; d < chunk::DEPTH; d++) {
        if (first + d * WARPS < task->end) {
            to->integers[d] =
                load_integers<TYPE, uint2>(unit + d * (WARPS / chunk::UNIT_BLOCKS),
                                           first % chunk::UNIT_BLOCKS, lane / 4, lane % 4);
            for (uint32_t tile = 0; tile < TILES; tile++) {
                const uint32_t row = tile * TILE_ROWS + lane / 4;
                const or_q8_block_t *x = activations(task, row, first) + d * WARPS;
                load_quants(x, row < task->rows, lane % 4, to->quants[d][tile]);
            }
        }
    }
}

template <or_quant_t TYPE, uint32_t TILES, typename UNIT>
OR_DEVICE void load_groups(const task_t *task, const UNIT *panel, uint32_t begin,
                           chunk_t<TYPE, TILES> *to)
{
    typedef chunk_t<TYPE, TILES> chunk;
    constexpr uint32_t APART = THREADS / OR_PANEL / chunk::GROUPS; // blocks
    const uint32_t group = threadIdx.x / OR_PANEL;
    const uint32_t first = begin + group / chunk::GROUPS;
    const UNIT *unit = panel + first / chunk::UNIT_BLOCKS;
    for (uint32_t i = 0; i < chunk::THREAD_SCALES; i++) {
        const uint32_t block = first + i * APART;
        if (block < begin + chunk::BLOCKS && block < task->end) {
            to->groups[i] = load_group<TYPE>(unit + i * (APART / chunk::UNIT_BLOCKS),
                                             first % chunk::UNIT_BLOCKS, group % chunk::GROUPS,
                                             threadIdx.x % OR_PANEL);
        }
    }
}

// Where a row's factors of a block are kept: those that a warp reads, of two rows, have banks of their own.
template <typename CHUNK> OR_DEVICE uint32_t factors_place(uint32_t row, uint32_t block)
{
    return row * (CHUNK::BLOCKS + 1) + block;
}

// A thread has a block of a row.
template <or_quant_t TYPE, uint32_t TILES>
OR_DEVICE void load_factors(const task_t *task, uint32_t begin, chunk_t<TYPE, TILES> *to)
{
    typedef chunk_t<TYPE, TILES> chunk;
    constexpr shape_t s = shape_of(TYPE);
    const uint32_t row = threadIdx.x / chunk::BLOCKS;
    const uint32_t block = begin + threadIdx.x % chunk::BLOCKS;
    if (row < task->rows && block < task->end) {
        const or_q8_block_t *x = activations(task, row, block);
        to->factors.scale = x->scale;
        for (uint32_t g = 0; g < s.groups; g++) {
            if constexpr (s.minima) {
                to->factors.sums[g] =
                    bits_of(s.groups == 1 ? x->scaled_sum : x->scaled_half_sums[g]);
            } else if constexpr (s.bias != NO_BIAS) {
                to->factors.sums[g] = (uint32_t)(s.groups == 1 ? x->bias : x->half_biases[g]);
            }
        }
    }
}

// ---- sums ----

// Return the place where the sum of a row and an output of a tile is kept. A warp reads 32 neighbours in 32 banks:
// all outputs of two rows. The places are turned by 8 t, so that the sums that half a warp writes have a bank each,
// too.
OR_DEVICE uint32_t place_of(uint32_t row, uint32_t output)
{
    const uint32_t t = row / 2;
    return 2 * OR_PANEL * t + ((row % 2 * OR_PANEL + output) ^ 8 * t);
}

OR_DEVICE void store_sums(const int32_t of_lane[4], uint32_t lane, int32_t *sums)
{
    const uint32_t row = lane % 4 * 2;
    const uint32_t output = lane / 4 * 2;
    *(int2 *)(sums + place_of(row, output)) = make_int2(of_lane[0], of_lane[2]);
    *(int2 *)(sums + place_of(row + 1, output)) = make_int2(of_lane[1], of_lane[3]);
}

// A block and a tile of rows: [group][TILES][TILE_SUMS]. Two groups are two products of half a block.
template <or_quant_t TYPE, uint32_t TILES>
OR_DEVICE void sum_tile(const uint32_t words[4], const uint32_t quants[2], uint32_t lane,
                        int32_t *sums)
{
    constexpr uint32_t GROUPS = shape_of(TYPE).groups;
    for (uint32_t group = 0; group < GROUPS; group++) {
        const uint32_t of_group[2] = {GROUPS == 1 || group == 0 ? quants[0] : 0,
                                      GROUPS == 1 || group == 1 ? quants[1] : 0};
        int32_t of_lane[4] = {0, 0, 0, 0};
        or_multiply_bytes(of_lane, words, of_group);
        store_sums(of_lane, lane, sums + group * TILES * TILE_SUMS);
    }
}

// sums [block][group][tile][TILE_SUMS], scales [block][group][output], factors by factors_place
template <or_quant_t TYPE, uint32_t TILES>
OR_DEVICE void sum_chunk(const task_t *task, const chunk_t<TYPE, TILES> *loaded, uint32_t begin,
                         int32_t *sums, or_quant_group_t *scales, factors_t<TYPE> *factors)
{
    typedef chunk_t<TYPE, TILES> chunk;
    const uint32_t lane = threadIdx.x % WARP;
    factors[factors_place<chunk>(threadIdx.x / chunk::BLOCKS, threadIdx.x % chunk::BLOCKS)] =
        loaded->factors;
    for (uint32_t d = 0; d < chunk::DEPTH; d++) {
        const uint32_t b = d * WARPS + threadIdx.x / WARP;
        if (begin + b < task->end) {
            uint32_t words[4];
            unpack_block<TYPE>(&loaded->integers[d], 0, lane % 4, words);
            for (uint32_t tile = 0; tile < TILES; tile++) {
                if (tile * TILE_ROWS < task->rows) {
                    sum_tile<TYPE, TILES>(words, loaded->quants[d][tile], lane,
                                          sums + b * chunk::BLOCK_SUMS + tile * TILE_SUMS);
                }
            }
        }
    }
    for (uint32_t i = 0; i < chunk::THREAD_SCALES; i++) {
        const uint32_t at = i * THREADS + threadIdx.x;
        if (at < chunk::SCALES) {
            const loaded_group_t g = loaded->groups[i];
            scales[at] = or_quant_group(TYPE, g.scale, g.minimum, g.group, g.block_minimum);
        }
    }
}

// ---- chains ----

template <or_quant_t TYPE>
OR_DEVICE float step(or_quant_group_t w, const factors_t<TYPE> *x, uint32_t group, int32_t sum,
                     float y)
{
    constexpr shape_t s = shape_of(TYPE);
    static_assert(s.bias == NO_BIAS || !s.minima, "a sum is either's");
    if constexpr (s.bias != NO_BIAS) {
        sum += (int32_t)x->sums[group] >> s.bias;
    }
    y = fmaf(w.scale * x->scale, (float)sum, y);
    if constexpr (s.minima) {
        y = fmaf(-w.minimum, float_of(x->sums[group]), y);
    }
    return y;
}

// A chain's steps over the chunk.
template <or_quant_t TYPE, uint32_t TILES>
OR_DEVICE float step_chunk(const task_t *task, uint32_t begin, uint32_t row, const int32_t *sums,
                           const or_quant_group_t *scales, const factors_t<TYPE> *factors, float y)
{
    typedef chunk_t<TYPE, TILES> chunk;
    const uint32_t output = threadIdx.x % OR_PANEL;
    const uint32_t left = task->end - begin;
    const uint32_t count = left < chunk::BLOCKS ? left : chunk::BLOCKS;
    sums += row / TILE_ROWS * TILE_SUMS + place_of(row % TILE_ROWS, output);
    factors += factors_place<chunk>(row, 0);
    OR_UNROLL(8 / chunk::GROUPS) // what the steps read is read before the chain waits for it
    for (uint32_t b = 0; b < count; b++) {
        for (uint32_t g = 0; g < chunk::GROUPS; g++) {
            y = step<TYPE>(scales[(b * chunk::GROUPS + g) * OR_PANEL + output], factors + b, g,
                           sums[b * chunk::BLOCK_SUMS + g * TILES * TILE_SUMS], y);
        }
    }
    return y;
}

// ---- a thread block ----

// Copy the span with constant indices: of a parameter that is indexed by any other value each thread makes itself a
// copy.
OR_DEVICE or_cuda_span_t own_span(const product_t *p)
{
    or_cuda_span_t span = p->spans[0];
    for (uint32_t i = 1; i < OR_CUDA_SPANS_MAX; i++) {
        if (i == blockIdx.z) {
            span = p->spans[i];
        }
    }
    return span;
}

template <or_quant_t TYPE, typename UNIT, uint32_t TILES>
OR_GLOBAL void multiply(const uint8_t *panels, const or_q8_block_t *x, float *y, product_t p)
{
    or_begin_after();
    typedef chunk_t<TYPE, TILES> chunk;
    OR_SHARED(int2, pairs, chunk::BLOCKS * chunk::BLOCK_SUMS / 2); // for their alignment
    OR_SHARED(or_quant_group_t, scales, chunk::SCALES);
    OR_SHARED(factors_t<TYPE>, factors, (chunk::BLOCKS + 1) * chunk::ROWS);
    int32_t *sums = (int32_t *)pairs;

    const uint32_t panel = blockIdx.x / p.row_groups;
    const uint32_t first_row = blockIdx.x % p.row_groups * chunk::ROWS;
    const uint32_t row = threadIdx.x / OR_PANEL; // and every CHAIN_ROWS-th from there on
    const or_cuda_span_t span = own_span(&p);
    uint32_t rows = p.rows;
    if (p.groups) {
        const or_cuda_group_t group = p.groups[blockIdx.y];
        panels += group.expert * p.expert_bytes;
        x += group.first * p.x_stride;
        y += group.first * p.y_stride;
        rows = group.count;
        if (first_row >= rows) {
            return;
        }
    }
    rows -= first_row;
    const UNIT *w = (const UNIT *)(panels + panel * p.panel_bytes);
    const task_t task = {x + first_row * p.x_stride, p.x_stride, p.x_first,
                         rows < chunk::ROWS ? rows : chunk::ROWS, span.first + span.count};

    float chains[chunk::CHAINS] = {};
    chunk ahead = {};
    load_blocks(&task, w, span.first, &ahead);
    load_groups(&task, w, span.first, &ahead);
    load_factors(&task, span.first, &ahead);
    for (uint32_t begin = span.first; begin < task.end; begin += chunk::BLOCKS) {
        sum_chunk(&task, &ahead, begin, sums, scales, factors);
        or_block_wait();
        load_blocks(&task, w, begin + chunk::BLOCKS, &ahead);
        load_groups(&task, w, begin + chunk::BLOCKS, &ahead);
        load_factors(&task, begin + chunk::BLOCKS, &ahead);
        for (uint32_t c = 0; c < chunk::CHAINS; c++) {
            if (row + c * CHAIN_ROWS < task.rows) {
                chains[c] = step_chunk<TYPE, TILES>(&task, begin, row + c * CHAIN_ROWS, sums,
                                                    scales, factors, chains[c]);
            }
        }
        or_block_wait();
    }

    y += blockIdx.z * p.part_stride + first_row * p.y_stride + panel * OR_PANEL;
    for (uint32_t c = 0; c < chunk::CHAINS; c++) {
        if (row + c * CHAIN_ROWS < task.rows) {
            y[(row + c * CHAIN_ROWS) * p.y_stride + threadIdx.x % OR_PANEL] = chains[c];
        }
    }
}

// ---- launching ----

typedef int (*launch_t)(or_cuda_t *cuda, const void *panels, uint32_t panel_count,
                        const or_q8_block_t *x, const or_cuda_parts_t *to, product_t p);

template <or_quant_t TYPE, typename UNIT, uint32_t TILES>
static int launch_tiles(or_cuda_t *cuda, const void *panels, uint32_t panel_count,
                        const or_q8_block_t *x, const or_cuda_parts_t *to, product_t p)
{
    p.row_groups = (p.rows - 1) / (TILES * TILE_ROWS) + 1;
    return or_launch_early(
        cuda, multiply<TYPE, UNIT, TILES>,
        dim3(panel_count * p.row_groups, to->groups ? to->groups->count : 1, to->count),
        dim3(THREADS), 0, (const uint8_t *)panels, x, to->y, p);
}

template <or_quant_t TYPE, typename UNIT>
static int launch(or_cuda_t *cuda, const void *panels, uint32_t panel_count, const or_q8_block_t *x,
                  const or_cuda_parts_t *to, product_t p)
{
    if (p.rows <= TILE_ROWS) {
        return launch_tiles<TYPE, UNIT, 1>(cuda, panels, panel_count, x, to, p);
    }
    if (p.rows <= 2 * TILE_ROWS) {
        return launch_tiles<TYPE, UNIT, 2>(cuda, panels, panel_count, x, to, p);
    }
    return launch_tiles<TYPE, UNIT, TILES_MAX>(cuda, panels, panel_count, x, to, p);
}

#define LAUNCH(type, unit) launch<type, unit>,
static const launch_t launches[] = {OR_QUANT_UNITS(LAUNCH)};
static_assert(sizeof launches / sizeof launches[0] == OR_QUANT_TYPES, "one for each type");

static int multiply_many(or_cuda_t *cuda, or_quant_t type, const or_cuda_beside_t *matrix,
                         size_t panel_bytes, const or_q8_block_t *x, size_t x_stride, uint32_t rows,
                         const or_cuda_parts_t *to)
{
    product_t p = {};
    if (matrix->panel_count == 0) {
        return OR_CUDA_OK;
    }
    if (to->groups) {
        p.groups = to->groups->groups;
        p.expert_bytes = to->groups->expert_bytes;
    }
    p.panel_bytes = panel_bytes;
    p.x_stride = x_stride;
    p.y_stride = matrix->y_stride;
    p.part_stride = to->part_stride;
    p.rows = rows;
    p.x_first = to->x_first;
    memcpy(p.spans, to->spans, to->count * sizeof *to->spans);
    or_cuda_parts_t own = *to;
    own.y = matrix->y;
    return launches[type](cuda, matrix->panels, matrix->panel_count, x, &own, p);
}

// Whether panels are as or_cuda_few_quants wants them.
static bool are_aligned(const or_cuda_beside_t *matrices, uint32_t count, size_t panel_bytes,
                        const or_cuda_groups_t *groups)
{
    bool aligned =
        panel_bytes % sizeof(uint4) == 0 && (!groups || groups->expert_bytes % sizeof(uint4) == 0);
    for (uint32_t i = 0; i < count; i++) {
        aligned = aligned && (uintptr_t)matrices[i].panels % sizeof(uint4) == 0;
    }
    return aligned;
}

int or_cuda_matmul_quants_beside(or_cuda_t *cuda, or_quant_t type, const or_cuda_beside_t *matrices,
                                 uint32_t count, size_t panel_bytes, const or_q8_block_t *x,
                                 size_t x_stride, uint32_t rows, const or_cuda_parts_t *to)
{
    uint32_t panels = 0;
    assert(count >= 1 && count <= OR_CUDA_BESIDE_MAX && to->count <= OR_CUDA_SPANS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        assert((uintptr_t)matrices[i].panels % sizeof(uint2) == 0);
        panels += matrices[i].panel_count;
    }
    assert(panel_bytes % sizeof(uint2) == 0);
    if (panels == 0 || rows == 0 || to->count == 0 || (to->groups && to->groups->count == 0)) {
        return OR_CUDA_OK;
    }
    if (rows <= OR_CUDA_FEW_ROWS && are_aligned(matrices, count, panel_bytes, to->groups)) {
        return or_cuda_few_quants(cuda, type, matrices, count, panel_bytes, x, x_stride, rows, to,
                                  NULL);
    }
    int status = OR_CUDA_OK;
    for (uint32_t i = 0; i < count && status == OR_CUDA_OK; i++) {
        status = multiply_many(cuda, type, &matrices[i], panel_bytes, x, x_stride, rows, to);
    }
    return status;
}

int or_cuda_matmul_quants(or_cuda_t *cuda, or_quant_t type, const void *panels, size_t panel_bytes,
                          uint32_t panel_count, const or_q8_block_t *x, size_t x_stride,
                          uint32_t rows, const or_cuda_parts_t *to)
{
    const or_cuda_beside_t matrix = {panels, panel_count, to->y, to->y_stride};
    return or_cuda_matmul_quants_beside(cuda, type, &matrix, 1, panel_bytes, x, x_stride, rows, to);
}

int or_cuda_sum_quants(or_cuda_t *cuda, or_quant_t type, const void *panels, size_t panel_bytes,
                       uint32_t panel_count, const or_q8_block_t *x, size_t x_stride, uint32_t rows,
                       const or_cuda_parts_t *to, bool over, float *y, size_t y_stride, uint32_t n)
{
    const or_cuda_beside_t matrix = {panels, panel_count, y, y_stride};
    if (panel_count > 0 && rows > 0 && rows <= OR_CUDA_FEW_ROWS && or_cuda_few_can_sum(to, rows) &&
        are_aligned(&matrix, 1, panel_bytes, NULL)) {
        const or_cuda_few_sum_t sum = {over, n};
        return or_cuda_few_quants(cuda, type, &matrix, 1, panel_bytes, x, x_stride, rows, to, &sum);
    }
    const int status =
        or_cuda_matmul_quants(cuda, type, panels, panel_bytes, panel_count, x, x_stride, rows, to);
    return status != OR_CUDA_OK ? status
                                : or_cuda_add_parts(cuda, over, y, y_stride, to->y, to->part_stride,
                                                    to->y_stride, to->count, n, rows);
}
