// kernels_internal - the tables that are built for some processors only; kernels.c decides which of them can run.
// Private to kernels.
#pragma once

#include "kernels/kernels.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

// For x86-64 with AVX2, FMA and F16C; built where OR_KERNELS_AVX2 is defined.
extern const or_kernels_t or_kernels_avx2;

// For x86-64 with AVX-512 F, BW, VL and DQ, and the same with VNNI; built where OR_KERNELS_AVX512
// is defined.
extern const or_kernels_t or_kernels_avx512;
extern const or_kernels_t or_kernels_avx512vnni;

// For AArch64, whose every processor has these instructions, and the same with dot products; built
// where OR_KERNELS_NEON is defined.
extern const or_kernels_t or_kernels_neon;
extern const or_kernels_t or_kernels_neon_dot;
