// Products of panels and quantised activations of few rows, mostly one: a plain step.
//
// All that counts is that memory is kept busy, and that few instructions are spent on a weight. A thread block has a
// panel and neighbouring spans of it, and goes through their blocks in chunks. In each,
//
//     items    a warp multiplies a few blocks by all rows at once, and leaves the terms of the chains' steps
//              (quants_few.cuh)
//     chains   a thread has an output of a span and a row, and makes the steps of its chain over the chunk, in order
//
// Weights are loaded before the kernels in front are done (or_await_before), and those of the next chunk before chains
// are worked on.
#include "kernels/cuda/quants_few.cuh"

#include <assert.h>

#define THREADS (WARPS * WARP)
#define BLOCKS_MOST                                                                                \
    128u // that the spans of a thread block have, if they are several and not summed
#define SUMMED_MOST 128u // likewise, if they are
#define SMALL_GRID                                                                                 \
    528u // thread blocks: all find room at once, four on each of an H100's multiprocessors

typedef struct {
    or_cuda_beside_t matrices[OR_CUDA_BESIDE_MAX];
    const or_q8_block_t *x;
    size_t panel_bytes;
    size_t x_stride;
    size_t part_stride;
    uint32_t rows;
    uint32_t x_first;
    uint32_t together; // spans of a thread block
    uint32_t count;    // of the spans
    bool summed;       // y is the sum of all spans' products, or has it added to it
    bool over;
    uint32_t outputs;              // of the sum
    const or_cuda_group_t *groups; // NULL: the rows are of one matrix
    size_t expert_bytes;
    or_cuda_span_t spans[OR_CUDA_SPANS_MAX];
} product_t;

// ---- a thread block ----

// Spans by index, of a parameter that each thread would copy were it indexed (quants.cu).
OR_DEVICE or_cuda_span_t span_at(const product_t &p, uint32_t index)
{
    or_cuda_span_t span = p.spans[0];
    for (uint32_t i = 1; i < OR_CUDA_SPANS_MAX; i++) {
        if (i == index) {
            span = p.spans[i];
        }
    }
    return span;
}

// The matrix that a thread block is of, and its panel.
OR_DEVICE or_cuda_beside_t own_matrix(const product_t &p, uint32_t *panel)
{
    or_cuda_beside_t matrix = p.matrices[0];
    *panel = blockIdx.x;
    for (uint32_t i = 1; i < OR_CUDA_BESIDE_MAX; i++) {
        if (*panel >= matrix.panel_count) {
            *panel -= matrix.panel_count;
            matrix = p.matrices[i];
        }
    }
    return matrix;
}

// The chain of a thread, if it has one.
typedef struct {
    bool there;
    uint32_t row;
    uint32_t index; // of the span
    or_cuda_span_t span;
} chain_t;

template <uint32_t ROWS>
OR_DEVICE chain_t own_chain(const product_t &p, uint32_t first_span, uint32_t spans, uint32_t rows)
{
    const uint32_t row = threadIdx.x / OR_PANEL % ROWS;
    const uint32_t own = threadIdx.x / OR_PANEL / ROWS;
    return {own < spans && row < rows, row, first_span + own, span_at(p, first_span + own)};
}

template <typename FEW, typename UNIT>
OR_DEVICE void load_chunk_weights(const task_t *task, const UNIT *panel, uint32_t begin,
                                  item_t<FEW> *items)
{
    const uint32_t first = begin + threadIdx.x / WARP * FEW::ITEM;
    OR_UNROLL(FEW::DEPTH)
    for (uint32_t d = 0; d < FEW::DEPTH; d++) {
        load_weights<FEW>(task, panel, first + d * WARPS * FEW::ITEM, &items[d]);
    }
}

template <typename FEW>
OR_DEVICE void load_chunk_activations(const task_t *task, uint32_t begin, item_t<FEW> *items)
{
    const uint32_t first = begin + threadIdx.x / WARP * FEW::ITEM;
    OR_UNROLL(FEW::DEPTH)
    for (uint32_t d = 0; d < FEW::DEPTH; d++) {
        load_activations<FEW>(task, first + d * WARPS * FEW::ITEM, &items[d]);
    }
}

template <typename FEW>
OR_DEVICE void multiply_chunk(const task_t *task, uint32_t begin, const item_t<FEW> *items,
                              term_of<FEW::TYPE> *terms)
{
    const uint32_t first = threadIdx.x / WARP * FEW::ITEM;
    OR_UNROLL(FEW::DEPTH)
    for (uint32_t d = 0; d < FEW::DEPTH; d++) {
        const uint32_t block = first + d * WARPS * FEW::ITEM;
        if (begin + block < task->end) {
            multiply_item<FEW>(&items[d], block, terms);
        }
    }
}

// The tree of or_cuda_add_parts over the products of a row's `count` spans, each [ROWS][OR_PANEL].
template <uint32_t ROWS> OR_DEVICE float sum_spans(const float *products, uint32_t count)
{
    float sums[OR_CUDA_SPANS_MAX];
    for (uint32_t i = 0; i < OR_CUDA_SPANS_MAX; i++) {
        sums[i] = i < count ? products[i * ROWS * OR_PANEL] : 0.0f;
    }
    for (uint32_t width = 1; width < OR_CUDA_SPANS_MAX; width *= 2) {
        for (uint32_t i = 0; i < OR_CUDA_SPANS_MAX; i += 2 * width) {
            sums[i] = width < count ? sums[i] + sums[i + width] : sums[i];
        }
    }
    return sums[0];
}

template <uint32_t ROWS>
OR_DEVICE void write_sums(const product_t &p, const or_cuda_beside_t &m, uint32_t panel,
                          const chain_t *chain, float y)
{
    OR_SHARED(float, products, OR_CUDA_SPANS_MAX *ROWS *OR_PANEL);
    if (chain->there) {
        products[threadIdx.x] = y; // [span][row][output], as threads are
    }
    or_block_wait();
    const uint32_t output = panel * OR_PANEL + threadIdx.x % OR_PANEL;
    if (chain->there && chain->index == 0 && output < p.outputs) {
        float *at = m.y + chain->row * m.y_stride + output;
        const float sum = sum_spans<ROWS>(products + threadIdx.x, p.count);
        *at = p.over ? sum : *at + sum;
    }
}

template <or_quant_t TYPE, typename UNIT, uint32_t ROWS, uint32_t DEPTH>
OR_GLOBAL void multiply_few(const product_t p)
{
    typedef few_t<TYPE, ROWS, DEPTH> few;
    OR_SHARED(term_of<TYPE>, terms, few::TERMS);
    uint32_t panel;
    or_cuda_beside_t m = own_matrix(p, &panel);
    const uint8_t *panels = (const uint8_t *)m.panels;
    const or_q8_block_t *x = p.x;
    uint32_t rows = p.rows;
    or_let_next_begin();
    if (p.groups) {
        or_await_before();
        const or_cuda_group_t group = p.groups[blockIdx.y];
        panels += group.expert * p.expert_bytes;
        x += group.first * p.x_stride;
        m.y += group.first * m.y_stride;
        rows = group.count;
        if (rows == 0) {
            return;
        }
    }
    const uint32_t first_span = blockIdx.z * p.together;
    const uint32_t spans = p.count - first_span < p.together ? p.count - first_span : p.together;
    const or_cuda_span_t last = span_at(p, first_span + spans - 1);
    const UNIT *w = (const UNIT *)(panels + panel * p.panel_bytes);
    const task_t task = {
        x, p.x_stride, p.x_first, rows, span_at(p, first_span).first, last.first + last.count};
    const chain_t chain = own_chain<ROWS>(p, first_span, spans, rows);
    const uint32_t chain_end = chain.span.first + chain.span.count;
    float y = 0.0f;

    uint32_t begin = task.begin / few::ITEM * few::ITEM;
    item_t<few> ahead[DEPTH] = {};
    load_chunk_weights<few>(&task, w, begin, ahead);
    or_await_before();
    load_chunk_activations<few>(&task, begin, ahead);
    for (; begin < task.end; begin += few::BLOCKS) {
        const uint32_t next = begin + few::BLOCKS;
        multiply_chunk<few>(&task, begin, ahead, terms);
        load_chunk_weights<few>(&task, w, next, ahead);
        load_chunk_activations<few>(&task, next, ahead);
        or_block_wait();
        if (chain.there) {
            const uint32_t from = chain.span.first > begin ? chain.span.first : begin;
            const uint32_t to = chain_end < next ? chain_end : next;
            y = step_chunk<few>(terms, chain.row, from - begin, to > begin ? to - begin : 0, y);
        }
        or_block_wait();
    }
    if (p.summed) {
        write_sums<ROWS>(p, m, panel, &chain, y);
    } else if (chain.there) {
        m.y[chain.index * p.part_stride + chain.row * m.y_stride + panel * OR_PANEL +
            threadIdx.x % OR_PANEL] = y;
    }
}

// ---- launching ----

typedef int (*launch_t)(or_cuda_t *cuda, const product_t &p, dim3 grid);

// Few thread blocks all find room, and each has more of its weights on the way; of many, more find room with fewer.
template <or_quant_t TYPE, typename UNIT, uint32_t ROWS>
static int launch(or_cuda_t *cuda, const product_t &p, dim3 grid)
{
    constexpr uint32_t LEAST = ROWS * shape_of(TYPE).groups == 4 ? 2 : 1;
    const bool small = (uint64_t)grid.x * grid.y * grid.z <= SMALL_GRID;
    return or_launch_early(
        cuda, small ? multiply_few<TYPE, UNIT, ROWS, 2> : multiply_few<TYPE, UNIT, ROWS, LEAST>,
        grid, dim3(THREADS), 0, p);
}

#define LAUNCHES(type, unit) {launch<type, unit, 1>, launch<type, unit, 2>},

// The launchers of each type, for one row and for two.
static const launch_t launches[OR_QUANT_TYPES][OR_CUDA_FEW_ROWS] = {OR_QUANT_UNITS(LAUNCHES)};

static bool are_neighbours(const or_cuda_parts_t *to)
{
    bool neighbours = true;
    for (uint32_t s = 1; s < to->count; s++) {
        neighbours =
            neighbours && to->spans[s].first == to->spans[s - 1].first + to->spans[s - 1].count;
    }
    return neighbours;
}

// The blocks of all spans.
static uint32_t count_blocks(const or_cuda_parts_t *to)
{
    uint32_t blocks = 0;
    for (uint32_t s = 0; s < to->count; s++) {
        blocks += to->spans[s].count;
    }
    return blocks;
}

// Return how many neighbouring spans a thread block takes.
static uint32_t spans_together(const or_cuda_parts_t *to, uint32_t rows)
{
    uint32_t together = are_neighbours(to) ? to->count : 1;
    uint32_t blocks = count_blocks(to);
    while (together > 1 && (together * rows * OR_PANEL > THREADS || blocks > BLOCKS_MOST)) {
        together = (together + 1) / 2;
        blocks /= 2;
    }
    return together;
}

bool or_cuda_few_can_sum(const or_cuda_parts_t *to, uint32_t rows)
{
    return are_neighbours(to) && to->count * rows * OR_PANEL <= THREADS && !to->groups &&
           count_blocks(to) <= SUMMED_MOST;
}

int or_cuda_few_quants(or_cuda_t *cuda, or_quant_t type, const or_cuda_beside_t *matrices,
                       uint32_t count, size_t panel_bytes, const or_q8_block_t *x, size_t x_stride,
                       uint32_t rows, const or_cuda_parts_t *to, const or_cuda_few_sum_t *sum)
{
    assert(rows >= 1 && rows <= OR_CUDA_FEW_ROWS && count <= OR_CUDA_BESIDE_MAX);
    product_t p = {};
    uint32_t panels = 0;
    for (uint32_t i = 0; i < count; i++) {
        p.matrices[i] = matrices[i];
        panels += matrices[i].panel_count;
    }
    if (to->groups) {
        p.groups = to->groups->groups;
        p.expert_bytes = to->groups->expert_bytes;
    }
    p.x = x;
    p.panel_bytes = panel_bytes;
    p.x_stride = x_stride;
    p.part_stride = to->part_stride;
    p.rows = rows;
    p.x_first = to->x_first;
    p.together = sum ? to->count : spans_together(to, rows);
    p.count = to->count;
    if (sum) {
        p.summed = true;
        p.over = sum->over;
        p.outputs = sum->outputs;
    }
    memcpy(p.spans, to->spans, to->count * sizeof *to->spans);
    const dim3 grid(panels, to->groups ? to->groups->count : 1, (to->count - 1) / p.together + 1);
    return launches[type][rows - 1](cuda, p, grid);
}
