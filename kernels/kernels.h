// kernels - the arithmetic of the forward pass, one table of function pointers, one table per
// instruction set.
//
// Canonical arithmetic (DESIGN.md section 7): kernels/ref is the definition, plain C; every other
// table gives the same bits on every input. That works because lanes are given to outputs and each
// output is one chain of fused multiply-adds in order:
//
//     matmul    y[m][n] = fma(x[m][K-1], w[n][K-1], ... fma(x[m][1], w[n][1], fma(x[m][0], w[n][0], +0)))
//     panels    weights re-laid at load: 16 outputs side by side, [panel][k][16], the last panel padded with zero rows
//     lane sum  only in rmsnorm and softmax: lane j takes elements j, j+16, ... in order; then (j, j+8), (j, j+4), (j, j+2), (j, j+1)
//
// Built with -ffp-contract=off; nothing here depends on the rounding of a C library. Kernels hold
// no state and take no locks: any thread, any slice of rows or panels. Pointers need no alignment
// beyond their type's; buffers do not overlap unless said.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define OR_PANEL 16u    // outputs in a panel
#define OR_KV_BLOCK 32u // positions in a K or V block

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

    // y = (x * r) * weight with r = 1 / sqrt(lane_sum(x^2) / n + eps); the squares are accumulated
    // with fma. y may be x.
    void (*rmsnorm)(const float *x, const float *weight, uint32_t n, float eps, float *y);

    // Rotate interleaved pairs in place: (a, b) -> (fma(a, c, -(b s)), fma(a, s, b c)), cosine and
    // sine per pair [head_dim / 2].
    void (*rope_pairs)(float *x, const float *cosine, const float *sine, uint32_t head_dim);

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
