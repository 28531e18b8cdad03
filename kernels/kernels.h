// kernels - the arithmetic of the forward pass, one table of function pointers, one table per
// instruction set.
//
// Canonical arithmetic (DESIGN.md section 7): kernels/ref is the definition, plain C; every other
// table gives the same bits on every input. That works because lanes are given to outputs and each
// output is one chain of fused multiply-adds in order:
//
//     matmul    y[m][n] = fma(x[m][K-1], w[n][K-1], ... fma(x[m][1], w[n][1], fma(x[m][0], w[n][0], +0)))
//     panels    weights re-laid at load: 16 outputs side by side, [panel][k][16], the last panel padded with zero rows
//     quants    32 weights are a block: integers and one scale; activations are made so once a row;
//               a block is one step of the chain, its sum of products exact, from y = +0:
//               y[m][n] = fma(w_scale[n][b] * x_scale[m][b], (float)sum, y[m][n]), b in order
//     lane sum  only in rmsnorm and softmax: lane j takes elements j, j+16, ... in order; then (j, j+8), (j, j+4), (j, j+2), (j, j+1)
//
// Built with -ffp-contract=off; nothing here depends on the rounding of a C library. Kernels hold
// no state and take no locks: any thread, any slice of rows or panels. Pointers need no alignment
// beyond their type's; buffers do not overlap unless said.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define OR_PANEL 16u       // outputs in a panel
#define OR_KV_BLOCK 32u    // positions in a K or V block
#define OR_QUANT_BLOCK 32u // weights, or activations, that share a scale

// A block of each of a panel's 16 outputs, Q8_0: w = scale * quant, as dense as in the file. The
// scales are IEEE halves. Zeroed memory is an output of zeros (as it is in Q4_0: the scale is 0).
//
//     quants    [k / 4][output][k % 4]: 32 bytes are four weights of each of eight outputs
typedef struct {
    int8_t quants[OR_QUANT_BLOCK / 4][OR_PANEL][4];
    uint16_t scales[OR_PANEL];
} or_q8_panel_block_t;

// The same of Q4_0: w = scale * (nibble - 8). A byte holds the weights k (low) and k + 16 (high),
// as it does in the file:
//
//     nibbles     [0][output][0..3]      [1][output][0..3]            [3][output][0..3]
//     high      | 16 | 17 | 18 | 19 |  | 20 | 21 | 22 | 23 |  ...   | 28 | 29 | 30 | 31 |
//     low       |  0 |  1 |  2 |  3 |  |  4 |  5 |  6 |  7 |        | 12 | 13 | 14 | 15 |
typedef struct {
    uint8_t nibbles[OR_QUANT_BLOCK / 8][OR_PANEL][4];
    uint16_t scales[OR_PANEL];
} or_q4_panel_block_t;

// Rows that quantize_row wrote. Borrows all of it. Row m begins at quants + m * blocks_stride * 32,
// scales + m * blocks_stride and sums + m * blocks_stride.
typedef struct {
    const int8_t *quants; // -127 to 127
    const float *scales;  // of a block
    const int32_t *sums;  // of a block's quants
    size_t blocks_stride; // blocks from row to row
} or_q8_rows_t;

typedef struct {
    const char *name; // "ref", "avx2"

    // Panels p of `panel_stride` elements each, of which the first k * 16 are used: y[m * y_stride
    // + p * 16 + lane], all 16 lanes written. x rows are x_stride apart. rows, k >= 1.
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

    // Quantise `blocks` blocks of 32 activations. Of each, amax is the largest without its sign,
    // the scale amax / 127, a quant x * (127 / amax) clamped to [-127, 127] and rounded to nearest
    // even; all is 0 where amax is. A NaN (the largest of all) or an infinity shows in the scale;
    // where the product is NaN the quant is -127.
    void (*quantize_row)(const float *x, uint32_t blocks, int8_t *quants, float *scales,
                         int32_t *sums);
    // Panels p of or_q8_panel_block_t, `panel_blocks` from one to the next, of which the first
    // `blocks` are used: a range of K begins at an inner block, of panels and x alike. For any
    // weights, -128 too, sum is the exact sum of the 32 products. rows, blocks >= 1.
    void (*matmul_q8_0)(const void *panels, size_t panel_blocks, uint32_t panel_count,
                        uint32_t blocks, const or_q8_rows_t *x, uint32_t rows, float *y,
                        size_t y_stride);
    // The same with panels of or_q4_panel_block_t.
    void (*matmul_q4_0)(const void *panels, size_t panel_blocks, uint32_t panel_count,
                        uint32_t blocks, const or_q8_rows_t *x, uint32_t rows, float *y,
                        size_t y_stride);

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

    // y[i] = ((p0 + p1) + (p2 + p3)) + ((p4 + p5) + (p6 + p7)), p_s = parts[s * part_stride + i]
    void (*sum_shards)(const float *parts, size_t part_stride, uint32_t n, float *y);

    // scores[p] = scale * (chain of fma over d of q[d] * k_block[d][p]), all 32 positions of a
    // block.
    void (*attention_scores)(const float *q, const float *k_block, uint32_t head_dim, float scale,
                             float *scores);

    // In place over n >= 1 scores: e = exp(s - max), then e * (1 / lane_sum(e)). If max is -inf or
    // NaN the result is unspecified but the same in every table.
    void (*softmax)(float *scores, uint32_t n);

    // out[d] = fma(weights[p], v_block[p][d], out[d]) for p = 0 .. n-1 in order; n <= 32. Continues
    // a chain across blocks.
    void (*attention_values)(const float *weights, const float *v_block, uint32_t head_dim,
                             uint32_t n, float *out);

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
// By name; NULL if unknown or not runnable here.
const or_kernels_t *or_kernels_find(const char *name);
// "ref avx2": those that can run here.
const char *or_kernels_names(void);

// The definition, always there.
extern const or_kernels_t or_kernels_ref;

// Exact conversions.
float or_f16_to_f32(uint16_t half);
uint16_t or_f32_to_f16(float value); // round to nearest even
float or_bf16_to_f32(uint16_t bfloat);

// Write a row of a GGUF file into lane `lane` of `blocks` consecutive blocks of a panel; the other
// lanes are left alone. The row needs no alignment: per block a half and 32 bytes in Q8_0, a half
// and 16 bytes in Q4_0.
void or_pack_q8_0(const void *row, uint32_t blocks, or_q8_panel_block_t *panel, uint32_t lane);
void or_pack_q4_0(const void *row, uint32_t blocks, or_q4_panel_block_t *panel, uint32_t lane);

// The values of such a row, as GGUF defines them: out[blocks * 32], scale * integer in float.
void or_dequantize_q8_0(const void *row, uint32_t blocks, float *out);
void or_dequantize_q4_0(const void *row, uint32_t blocks, float *out);
