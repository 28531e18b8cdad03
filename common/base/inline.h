// inline - OR_INLINE: a function that hosts and devices compile from the same lines, for the same bits.
//
// It is C and C++, plain arithmetic in a fixed order, and includes nothing that only one of them has. C code calls
// the functions of math.h and rng.h, which are these; kernels/cuda has only these.
#pragma once

#ifdef __CUDACC__
#define OR_INLINE static __host__ __device__ inline
#else
#define OR_INLINE static inline
#endif
