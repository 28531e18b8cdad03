// quants_few - what a warp does with few rows and a few blocks of a panel (quants_few.cu): an *item*.
//
// or_multiply_bytes has place for eight rows. Here its columns are not only rows but also blocks, and the two groups
// of a block: an item is as many blocks as fill all columns.
//
//     column 2 t + c     t is (row, group, couple), c one of the couple's two blocks
//
// A lane loads words of four outputs, of block c = lane / 16 of each couple. So what or_multiply_bytes calls outputs g and
// g + 8 are outputs of block c, of which the columns of c are what is wanted; the others are never looked at.
// In one call only one couple's columns are not 0, so that all couples add up in the same registers. In the end each
// lane has four outputs of one column, and all lanes have something to do. They make *terms* of them, each complete
// but for the two multiply-adds of its step of a chain.
#pragma once

#include "kernels/cuda/quants.cuh"

#define WARP 32u
#define WARPS 8u
#define QUAD 4u // outputs of a lane

// The part of a product that a thread block computes.
typedef struct {
    const or_q8_block_t *x;
    size_t x_stride;
    uint32_t x_first;
    uint32_t rows;
    uint32_t begin; // of its blocks
    uint32_t end;
} task_t;

// A chunk of a type and ROWS rows, in which a warp has DEPTH items.
template <or_quant_t TYPE_, uint32_t ROWS_, uint32_t DEPTH_> struct few_t {
    static constexpr or_quant_t TYPE = TYPE_;
    static constexpr uint32_t ROWS = ROWS_;
    static constexpr uint32_t DEPTH = DEPTH_;
    static constexpr uint32_t GROUPS = shape_of(TYPE_).groups;
    static constexpr uint32_t UNIT_BLOCKS = shape_of(TYPE_).unit_blocks;
    static constexpr uint32_t COUPLES = 4 / (ROWS * GROUPS); // of an item
    static constexpr uint32_t ITEM = 2 * COUPLES;            // blocks
    static constexpr uint32_t BLOCKS = WARPS * DEPTH * ITEM;
    static constexpr uint32_t TERMS = ROWS * BLOCKS * GROUPS * OR_PANEL;
    static_assert(ROWS * GROUPS * COUPLES == 4, "columns");
    static_assert(OR_SUPER_BLOCK % ITEM == 0,
                  "an item is of one unit, or of blocks that are units");
};

// A step of a chain, or two where the type has minima.
template <bool MINIMA> struct term_t {
    float scale; // the weight's times the activation's
    float sum;
};
template <> struct alignas(16) term_t<true> {
    float scale;
    float sum;
    float minimum; // with a minus
    float x_sum;
};

template <or_quant_t TYPE> using term_of = term_t<shape_of(TYPE).minima>;

// A column of an item. A lane is told two by its number: of activations it loads words of a column that is not the one whose term it makes.
typedef struct {
    uint32_t row;
    uint32_t group;
    uint32_t couple;
    uint32_t block; // of the item
} column_t;

template <typename FEW> OR_DEVICE column_t column_at(uint32_t t, uint32_t c)
{
    const uint32_t couple = t % FEW::COUPLES;
    const uint32_t of_row = t / FEW::COUPLES;
    return {of_row / FEW::GROUPS, of_row % FEW::GROUPS, couple, 2 * couple + c};
}

template <typename FEW> OR_DEVICE column_t loaded_column(uint32_t lane)
{
    return column_at<FEW>(lane / 8, lane / 4 % 2);
}

template <typename FEW> OR_DEVICE column_t own_column(uint32_t lane)
{
    return column_at<FEW>(lane % 4, lane / 16);
}

// ---- loading ----

// Four outputs' groups of one block, as they are kept.
typedef struct {
    uint2 scales;
    uint2 minima;
    uint32_t groups;
    uint32_t block_minima;
} loaded_groups_t;

// All that a lane loads of an item.
template <typename FEW> struct item_t {
    loaded_t<uint4> integers[FEW::COUPLES]; // of the lane's block of each couple
    loaded_groups_t groups;                 // of its own column's block
    uint32_t quants[2];                     // of the column that it loads
    float x_scale;                          // of its own column
    uint32_t x_sum; // likewise: scaled where the type has minima, else as a bias
};

template <or_quant_t TYPE, typename UNIT>
OR_DEVICE loaded_groups_t load_groups(const UNIT *unit, uint32_t b, uint32_t group, uint32_t quad)
{
    constexpr shape_t s = shape_of(TYPE);
    loaded_groups_t to = {};
    to.scales = ((const uint2 *)unit->scales)[quad];
    if constexpr (s.minima) {
        to.minima = ((const uint2 *)unit->minima)[quad];
    }
    if constexpr (s.groups == 2) {
        to.groups = ((const uint32_t *)unit->groups[b * 2 + group])[quad];
    } else if constexpr (s.unit_blocks > 1) {
        to.groups = ((const uint32_t *)unit->block_scales[b])[quad];
    }
    if constexpr (s.groups == 1 && s.unit_blocks > 1 && s.minima) {
        to.block_minima = ((const uint32_t *)unit->block_minima[b])[quad];
    }
    return to;
}

// The weights of the item that begins with block `first`. Of a super-block all is there; else blocks may be behind the
// last.
template <typename FEW, typename UNIT>
OR_DEVICE void load_weights(const task_t *task, const UNIT *panel, uint32_t first, item_t<FEW> *to)
{
    const uint32_t lane = threadIdx.x % WARP;
    const uint32_t quad = lane / 4 % (OR_PANEL / QUAD);
    const UNIT *unit = panel + first / FEW::UNIT_BLOCKS;
    if (first >= task->end) {
        return;
    }
    for (uint32_t couple = 0; couple < FEW::COUPLES; couple++) {
        const uint32_t b = 2 * couple + lane / 16;
        if (FEW::UNIT_BLOCKS > 1) {
            to->integers[couple] =
                load_integers<FEW::TYPE, uint4>(unit, first % FEW::UNIT_BLOCKS + b, quad, lane % 4);
        } else if (first + b < task->end) {
            to->integers[couple] = load_integers<FEW::TYPE, uint4>(unit + b, 0, quad, lane % 4);
        }
    }
    const column_t own = own_column<FEW>(lane);
    if (FEW::UNIT_BLOCKS > 1) {
        to->groups =
            load_groups<FEW::TYPE>(unit, first % FEW::UNIT_BLOCKS + own.block, own.group, quad);
    } else if (first + own.block < task->end) {
        to->groups = load_groups<FEW::TYPE>(unit + own.block, 0, own.group, quad);
    }
}

// A column's activations; NULL where it has none.
OR_DEVICE const or_q8_block_t *activations(const task_t *task, const column_t *column,
                                           uint32_t first)
{
    const uint32_t block = first + column->block;
    const bool there = column->row < task->rows && block >= task->begin && block < task->end;
    return there ? task->x + column->row * task->x_stride + (block - task->x_first) : NULL;
}

template <typename FEW>
OR_DEVICE void load_activations(const task_t *task, uint32_t first, item_t<FEW> *to)
{
    constexpr shape_t s = shape_of(FEW::TYPE);
    const uint32_t lane = threadIdx.x % WARP;
    const column_t loaded = loaded_column<FEW>(lane);
    const or_q8_block_t *x = activations(task, &loaded, first);
    to->quants[0] = to->quants[1] = 0;
    if (x) {
        const uint32_t *words = (const uint32_t *)x->quants + lane % 4;
        if (FEW::GROUPS == 1 || loaded.group == 0) {
            to->quants[0] = words[0];
        }
        if (FEW::GROUPS == 1 || loaded.group == 1) {
            to->quants[1] = words[4];
        }
    }
    const column_t own = own_column<FEW>(lane);
    x = activations(task, &own, first);
    if (x) {
        to->x_scale = x->scale;
        if constexpr (s.minima) {
            to->x_sum = bits_of(s.groups == 1 ? x->scaled_sum : x->scaled_half_sums[own.group]);
        } else if constexpr (s.bias != NO_BIAS) {
            to->x_sum = (uint32_t)(s.groups == 1 ? x->bias : x->half_biases[own.group]);
        }
    }
}

// ---- items ----

// Return the place where a term is kept. The lanes that write at once, those that differ in t and in the quad, have banks of their own;
// so have the 16 outputs that are read at once.
template <typename FEW>
OR_DEVICE uint32_t place_of(uint32_t row, uint32_t block, uint32_t group, uint32_t output)
{
    const uint32_t t = (row * FEW::GROUPS + group) * FEW::COUPLES + block % FEW::ITEM / 2;
    return ((row * FEW::BLOCKS + block) * FEW::GROUPS + group) * OR_PANEL + (output ^ t);
}

// Byte, or half, i of neighbours in words.
OR_DEVICE uint8_t byte_of(uint32_t word, uint32_t i)
{
    return (uint8_t)(word >> 8 * i);
}

OR_DEVICE uint16_t half_of(const uint2 &words, uint32_t i)
{
    return (uint16_t)(word_of(words, i / 2) >> 16 * (i % 2));
}

template <or_quant_t TYPE>
OR_DEVICE or_quant_group_t group_of(const loaded_groups_t *groups, uint32_t i)
{
    const uint16_t scale = half_of(groups->scales, i);
    return or_quant_group_of(
        TYPE, TYPE == OR_QUANT_MXFP4 ? canonical_widen_bf16(scale) : or_widen_half(scale),
        or_widen_half(half_of(groups->minima, i)), byte_of(groups->groups, i),
        byte_of(groups->block_minima, i));
}

template <or_quant_t TYPE>
OR_DEVICE term_of<TYPE> make_term(const loaded_groups_t *groups, uint32_t i, int32_t sum,
                                  float x_scale, uint32_t x_sum)
{
    constexpr shape_t s = shape_of(TYPE);
    static_assert(s.bias == NO_BIAS || !s.minima, "a sum is either's");
    const or_quant_group_t w = group_of<TYPE>(groups, i);
    if constexpr (s.minima) {
        return {w.scale * x_scale, (float)sum, -w.minimum, float_of(x_sum)};
    } else {
        if constexpr (s.bias != NO_BIAS) {
            sum += (int32_t)x_sum >> s.bias;
        }
        return {w.scale * x_scale, (float)sum};
    }
}

// Leave the terms of an item, whose first block is `block` of the chunk.
template <typename FEW>
OR_DEVICE void multiply_item(const item_t<FEW> *item, uint32_t block, term_of<FEW::TYPE> *terms)
{
    const uint32_t lane = threadIdx.x % WARP;
    const uint32_t couple_loaded = loaded_column<FEW>(lane).couple;
    int32_t sums[QUAD / 2][4] = {}; // of two outputs each, of columns 2 t and 2 t + 1
    for (uint32_t couple = 0; couple < FEW::COUPLES; couple++) {
        const bool own = couple == couple_loaded;
        const uint32_t quants[2] = {own ? item->quants[0] : 0, own ? item->quants[1] : 0};
        for (uint32_t two = 0; two < QUAD / 2; two++) {
            uint32_t words[4];
            unpack_block<FEW::TYPE>(&item->integers[couple], 2 * two, lane % 4, words);
            or_multiply_bytes(sums[two], words, quants);
        }
    }
    const column_t own = own_column<FEW>(lane);
    const bool second = lane / 16 == 1;
    for (uint32_t i = 0; i < QUAD; i++) {
        const int32_t *two = sums[i / 2] + i % 2 * 2;
        const uint32_t output = lane / 4 % (OR_PANEL / QUAD) * QUAD + i;
        terms[place_of<FEW>(own.row, block + own.block, own.group, output)] = make_term<FEW::TYPE>(
            &item->groups, i, second ? two[1] : two[0], item->x_scale, item->x_sum);
    }
}

// ---- chains ----

template <bool MINIMA> OR_DEVICE float step(const term_t<MINIMA> &term, float y)
{
    y = fmaf(term.scale, term.sum, y);
    if constexpr (MINIMA) {
        y = fmaf(term.minimum, term.x_sum, y);
    }
    return y;
}

// A chain's steps over the blocks from..to-1 of the chunk.
template <typename FEW>
OR_DEVICE float step_chunk(const term_of<FEW::TYPE> *terms, uint32_t row, uint32_t from,
                           uint32_t to, float y)
{
    const uint32_t output = threadIdx.x % OR_PANEL;
    OR_UNROLL(8 / FEW::GROUPS) // what the steps read is read before the chain waits for it
    for (uint32_t b = from; b < to; b++) {
        for (uint32_t group = 0; group < FEW::GROUPS; group++) {
            y = step(terms[place_of<FEW>(row, b, group, output)], y);
        }
    }
    return y;
}
