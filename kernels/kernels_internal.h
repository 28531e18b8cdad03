// kernels_internal - the tables that exist on some machines only; kernels.c knows where they can
// run.
#pragma once

#include "kernels/kernels.h"

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
