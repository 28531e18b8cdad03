// kernels_internal - the tables that exist on some machines only; kernels.c knows where they can
// run.
#pragma once

#include "kernels/kernels.h"

// For x86-64 with AVX2, FMA and F16C; built where OR_KERNELS_AVX2 is defined.
extern const or_kernels_t or_kernels_avx2;
