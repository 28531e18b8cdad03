// inline - OR_INLINE marks a function that hosts and devices compile from the same lines, for the same bits.
//
// Such a function is C and C++ at once, does plain arithmetic in a fixed order, and includes nothing that only
// one of them has. Code in C calls the functions of math.h and rng.h, which wrap these; kernels/cuda calls
// these directly.
#pragma once

#include <stdint.h>

#ifdef __CUDACC__
#define OR_INLINE static __host__ __device__ inline
#else
#define OR_INLINE static inline
#endif

OR_INLINE uint32_t or_min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}
