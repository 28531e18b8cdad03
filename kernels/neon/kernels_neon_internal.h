// kernels_neon_internal - what the files of the NEON tables share.
//
// Every AArch64 processor has what "neon" needs. "neon_dot" differs in one kernel, compiled for the
// dot products of four bytes that ARMv8.2 added.
#pragma once

#include "kernels/kernels_internal.h"

#define WIDTH 4u // floats in a vector

// or_kernels_t's matmul_quants: the second multiplies by the dot products of ARMv8.2, the first without.
void matmul_quants_neon(const or_quant_panels_t *w, const or_q8_block_t *x, size_t x_stride,
                        uint32_t rows, float *y, size_t y_stride);
void matmul_quants_neon_dot(const or_quant_panels_t *w, const or_q8_block_t *x, size_t x_stride,
                            uint32_t rows, float *y, size_t y_stride);

// or_ceilings_t's `dot` and `blocks` with the dot products of ARMv8.2 (ceilings_neon_dot.c).
void dot_products_neon(uint32_t rounds, int32_t *sum);
void blocks_neon_dot(uint32_t groups, bool minima, uint32_t rounds, float *sum);
