// kernels_internal - the tables that are built for some processors only; kernels.c decides which of them can run.
// Private to kernels.
#pragma once

#include "kernels/kernels.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

// How many of n positions from `first` on are in one part with the first (OR_ATTENTION_PART).
static inline uint32_t or_part_count(uint32_t first, uint32_t n)
{
    uint32_t left = OR_ATTENTION_PART - first % OR_ATTENTION_PART;
    return left < n ? left : n;
}

// The table for x86-64 with AVX2, FMA and F16C; built where OR_KERNELS_AVX2 is defined.
extern const or_kernels_t or_kernels_avx2;

// The tables for x86-64 with AVX-512 F, BW, VL and DQ, without VNNI and with it; built where OR_KERNELS_AVX512 is
// defined.
extern const or_kernels_t or_kernels_avx512;
extern const or_kernels_t or_kernels_avx512vnni;

// The tables for AArch64, whose every processor has the instructions of the first; the second needs dot products.
// Built where OR_KERNELS_NEON is defined.
extern const or_kernels_t or_kernels_neon;
extern const or_kernels_t or_kernels_neon_dot;

// or_kernels_t's row_panels where panels are read one after the other.
static inline uint32_t one_panel(or_quant_t type)
{
    (void)type;
    return 1;
}
