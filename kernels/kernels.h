// kernels - the arithmetic of the forward pass, one table of function pointers, one table per
// instruction set.
//
// Canonical arithmetic (docs/design.md section 7): kernels/ref is the definition, plain C; every other
// table gives the same bits on every input. That works because lanes are given to outputs and each
// output is one chain of fused multiply-adds in order:
//
//     matmul    y[m][n] = fma(x[m][K-1], w[n][K-1], ... fma(x[m][1], w[n][1],
//                         fma(x[m][0], w[n][0], +0)))
//     panels    weights re-laid at load: 16 outputs side by side, [panel][k][16], the last panel
//               padded with zero rows
//     quants    (quants.h) 32 weights are a block: integers and a scale or two; activations are
//               made so once a row; a group g of weights is one step of the chain (two steps where
//               the type has minima, see there), its sum of products exact, from y = +0:
//               y[m][n] = fma(w_scale[n][g] * x_scale[m][b], (float)sum, y[m][n]), g in order
//     lane sum  only in rmsnorm and softmax: lane j takes elements j, j+16, ... in order; then
//               (j, j+8), (j, j+4), (j, j+2), (j, j+1)
//     parts     only in attention, and in softmax over more than 256 experts: positions 0 to 255 of a
//               text are a part, 256 to 511 the next, and so on. What a query sees of a part is summed alone, weights and weighted values alike.
//               Then the parts are added in order: ((first + second) + third) + ... So several
//               threads, or blocks of a GPU, can sum one query, and only positions decide the bits
//
// Built with -ffp-contract=off; nothing here depends on the rounding of a C library. Kernels hold
// no state and take no locks: any thread, any slice of rows or panels. Pointers need no alignment
// beyond their type's; buffers do not overlap unless said.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/quants.h"

#define OR_KV_BLOCK 32u        // positions in a K or V block
#define OR_ATTENTION_PART 256u // positions in a part of attention's sums: whole blocks

// Blocks first .. first + blocks - 1 of `count` panels, `panel_bytes` apart, each of units of `type`
// (quants.h). They need not begin or end with a unit.
//
// The caller may go on from here, with blocks of the same panels up to `walk_end`. Then come those of
// the panels that follow, from `walk_first` on, up to `walk_count` panels in all. Only what is
// fetched ahead depends on it. With walk_count 0 it does not go on.
typedef struct {
    or_quant_t type;
    const void *panels;
    size_t panel_bytes;
    uint32_t count;
    uint32_t first;
    uint32_t blocks;
    uint32_t walk_first;
    uint32_t walk_end;
    uint32_t walk_count;
} or_quant_panels_t;

// The types of the numbers of K and V.
typedef enum {
    OR_KV_F32,
    OR_KV_F16, // IEEE halves
    OR_KV_Q8_0, // bytes; each 32 numbers of one head's vector share a scale, the last ones perhaps fewer
} or_kv_type_t;

// Return the number of scales of one head's vector of Q8_0.
static inline size_t or_kv_scales(uint32_t head_dim)
{
    return ((size_t)head_dim + OR_QUANT_BLOCK - 1) / OR_QUANT_BLOCK;
}

// A block of K or V where it lies. Halves are widened exactly; a number of Q8_0 is scale * byte, rounded to a float.
typedef struct {
    const void *numbers; // K [head_dim][32], V [32][head_dim]
    or_kv_type_t type;
    const float
        *scales; // of Q8_0 alone: K [or_kv_scales(head_dim)][32], V [32][or_kv_scales(head_dim)]
    // The memory that is read after this block; NULL: none. It is fetched meanwhile, and decides no bit.
    const void *next;
    size_t next_bytes;
} or_kv_block_t;

#define OR_ROW_PANELS_MAX 4u

typedef struct {
    const char *name; // "ref", "avx2", "avx512", "avx512vnni", "neon", "neon_dot"

    // Panels p of `panel_stride` elements each, of which the first k * 16 are used: y[m * y_stride
    // + p * 16 + lane], all 16 lanes written. Rows of x are x_stride apart. Both rows and k are at
    // least 1.
    void (*matmul_f32)(const float *panels, size_t panel_stride, uint32_t panel_count, uint32_t k,
                       const float *x, size_t x_stride, uint32_t rows, float *y, size_t y_stride);
    // The same with IEEE half weights, widened exactly.
    void (*matmul_f16)(const uint16_t *panels, size_t panel_stride, uint32_t panel_count,
                       uint32_t k, const float *x, size_t x_stride, uint32_t rows, float *y,
                       size_t y_stride);

    // The same with bfloat16 weights, widened exactly.
    void (*matmul_bf16)(const uint16_t *panels, size_t panel_stride, uint32_t panel_count,
                        uint32_t k, const float *x, size_t x_stride, uint32_t rows, float *y,
                        size_t y_stride);

    // Quantise `blocks` blocks of 32 activations. Of each, amax is the largest without its sign and
    // the scale is amax / 127. A quant is x * (127 / amax), clamped to [-127, 127] and rounded to
    // nearest even. All is 0 where amax is. A NaN (the largest of all) or an infinity shows in the
    // scale; where the product is NaN the quant is -127. All fields are written, on a cache line
    // each.
    void (*quantize_row)(const float *x, uint32_t blocks, or_q8_block_t *out);
    // y[m * y_stride + p * 16 + lane] over the blocks of panel p of `w`, all 16 lanes written. Row m
    // of x begins with block w->first, at x + m * x_stride; an odd x_stride keeps rows apart in the
    // cache. For any bytes at all. rows, w->blocks >= 1.
    void (*matmul_quants)(const or_quant_panels_t *w, const or_q8_block_t *x, size_t x_stride,
                          uint32_t rows, float *y, size_t y_stride);
    // How many panels matmul_quants reads at once for a row alone: a power of two, at most OR_ROW_PANELS_MAX. Sums of shards
    // and of experts give it so many in a call.
    uint32_t (*row_panels)(or_quant_t type);

    // y = (x * r) * weight with r = 1 / sqrt(lane_sum(x^2) / n + eps); the squares are accumulated
    // with fma. y may be x.
    void (*rmsnorm)(const float *x, const float *weight, uint32_t n, float eps, float *y);

    // Rotate interleaved pairs in place: (a, b) -> (fma(a, c, -(b s)), fma(a, s, b c)), cosine and
    // sine per pair [head_dim / 2].
    void (*rope_pairs)(float *x, const float *cosine, const float *sine, uint32_t head_dim);

    // The same with the halves of a head as pairs: (x[i], x[i + head_dim / 2]), the order of NeoX.
    void (*rope_halves)(float *x, const float *cosine, const float *sine, uint32_t head_dim);

    // gate[i] = (gate[i] / (1 + exp(-gate[i]))) * up[i]
    void (*swiglu)(float *gate, const float *up, uint32_t n);

    // y[i] += x[i]
    void (*add)(float *y, const float *x, uint32_t n);

    // For each of some queries, all 32 positions of a block: scores[i * score_stride + p] =
    // scale * (chain of fma over d of q[i * q_stride + d] * keys[d][p]). The block is read once
    // for several queries.
    void (*attention_scores)(const float *q, size_t q_stride, uint32_t queries,
                             const or_kv_block_t *keys, uint32_t head_dim, float scale,
                             float *scores, size_t score_stride);

    // In place over the n >= 1 scores of positions `first` and on: e = exp(s - max of all), then
    // e * (1 / sum). The sum is that of the parts' lane sums, in order; a part's lane 0 begins with
    // the first score that is there. A sink is given as one position more. If max is -inf or NaN
    // the result is unspecified but the same in every table.
    void (*softmax)(float *scores, uint32_t first, uint32_t n);

    // For each of some queries, out[i * out_stride + d] = fma(weights[i * weight_stride + p],
    // values[p][d], out[..]) for p = 0 .. n-1 in order; 1 <= n <= 32. Continues a part's chain.
    void (*attention_values)(const float *weights, size_t weight_stride, uint32_t queries,
                             const or_kv_block_t *values, uint32_t head_dim, uint32_t n, float *out,
                             size_t out_stride);

    // K and V kept as IEEE halves, widened exactly: y[i] = x[i].
    void (*widen_f16)(const uint16_t *x, size_t n, float *y);
    // A vector kept as Q8_0, a scale (an IEEE half) for each 32 of it, the last perhaps for fewer:
    // y[d] = scales[d / 32] * quants[d].
    void (*widen_q8_0)(const uint16_t *scales, const int8_t *quants, uint32_t n, float *y);
    // The same for a K block, whose lanes are positions: y[d][p] = scales[d / 32][p] * quants[d][p].
    void (*widen_q8_0_keys)(const uint16_t *scales, const int8_t *quants, uint32_t head_dim,
                            float *y);
} or_kernels_t;

// The best table this CPU (and its operating system) can run, or the one named by OUTRIDER_KERNELS.
// NULL if that names one that is unknown or cannot run here; or_kernels_names() then helps the
// caller to say so. Decided anew at each call; cheap.
const or_kernels_t *or_kernels_pick(void);
// Return a table by its name; NULL if it is unknown or cannot run here.
const or_kernels_t *or_kernels_find(const char *name);
// Return the names of the tables that can run here: "ref avx2".
const char *or_kernels_names(void);

typedef struct {
    const char *name;
    const char *needs; // of a CPU and its operating system: "AVX2, FMA and F16C"
    bool runs_here;
} or_kernels_description_t;

// Describe the i-th table that was built, from the plainest to the fastest; return false beyond the last.
bool or_kernels_describe(size_t i, or_kernels_description_t *description);

// The definition, always there.
extern const or_kernels_t or_kernels_ref;

// Exact conversions.
float or_f16_to_f32(uint16_t half);
uint16_t or_f32_to_f16(float value); // round to nearest even
float or_bf16_to_f32(uint16_t bfloat);
