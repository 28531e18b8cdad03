// cuda_portable - the words that the kernels of this folder are written in. With them nvcc compiles a kernel for
// a GPU, and any C++ compiler for the CPU, where it runs thread by thread (tests/emulator). No other file looks at
// which it is.
//
//     OR_GLOBAL void add(float *y, const float *x, uint32_t n)         a kernel
//     {
//         uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
//         ...
//     }
//     return or_launch(cuda, add, dim3(blocks), dim3(threads), shared_bytes, y, x, n);
//
// A kernel that or_launch_early launches may begin while those before it still run. It calls or_await_before, in each of
// its threads, before it touches what any kernel writes; until then it may read what none does, weights.
//
// Both are compiled without contraction and with IEEE division, square root and denormals: canonical arithmetic.
// All 32 lanes of a warp must take part in what is of a warp, all threads of a block in or_block_wait.
#pragma once

#include <stdint.h>

#include "kernels/cuda/cuda_device.h"

#ifdef __CUDACC__

#include <cuda_runtime.h>

#define OR_GLOBAL static __global__
#define OR_DEVICE static __device__ __forceinline__
#define CANONICAL static __host__ __device__ inline

// Before a loop: so many of its rounds become one.
#define OR_UNROLL(rounds) OR_PRAGMA(unroll(rounds))
#define OR_PRAGMA(words) _Pragma(#words)

// An array in the block's shared memory; all of what or_launch was given in bytes.
#define OR_SHARED(type, name, count) __shared__ type name[count]
#define OR_SHARED_DYNAMIC(type, name)                                                              \
    extern __shared__ __align__(16) unsigned char or_dynamic_shared[];                             \
    type *name = (type *)or_dynamic_shared

OR_DEVICE void or_block_wait(void)
{
    __syncthreads();
}

OR_DEVICE void or_warp_wait(void)
{
    __syncwarp();
}

// Return the value of lane `lane ^ mask`, or of lane `from`.
template <typename T> OR_DEVICE T or_shuffle_xor(T value, uint32_t mask)
{
    return __shfl_xor_sync(0xFFFFFFFFu, value, (int)mask);
}

template <typename T> OR_DEVICE T or_shuffle(T value, uint32_t from)
{
    return __shfl_sync(0xFFFFFFFFu, value, (int)from);
}

// Copy 16 bytes, or a float, to shared memory while the thread goes on; where it is not `there`, 16 bytes of zeros. What a
// thread has asked for up to an or_copies_end is a group; or_copies_wait<N> waits for all of its groups but the last N.
// Other threads see what was copied after or_block_wait.
OR_DEVICE void or_copy_piece(void *to, const void *from, bool there)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from), "r"(there ? 16 : 0)
                 : "memory");
}

OR_DEVICE void or_copy_float(float *to, const float *from)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
                 :
                 : "r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from)
                 : "memory");
}

OR_DEVICE void or_copies_end(void)
{
    asm volatile("cp.async.commit_group;" : : : "memory");
}

template <uint32_t COUNT> OR_DEVICE void or_copies_wait(void)
{
    asm volatile("cp.async.wait_group %0;" : : "n"(COUNT) : "memory");
}

// canonical_widen, by the device's own instruction. It makes other NaNs, as its arithmetic does.
OR_DEVICE float or_widen_half(uint16_t half)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
    return value;
}

// sums += a * b, exactly: 16 outputs x 32 bytes without a sign, times 32 bytes with one x 8 rows. With
// g = lane / 4 and t = lane % 4 a lane holds, of four neighbours in K in a word,
//
//     a[0]  output g,     K 4 t ...         a[2]  output g,     K 16 + 4 t ...
//     a[1]  output g + 8, K 4 t ...         a[3]  output g + 8, K 16 + 4 t ...
//     b[0]  row g,        K 4 t ...         b[1]  row g,        K 16 + 4 t ...
//     sums[0], sums[1]  output g,     rows 2 t, 2 t + 1
//     sums[2], sums[3]  output g + 8, rows 2 t, 2 t + 1
OR_DEVICE void or_multiply_bytes(int32_t sums[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Byte i is one of low's (0 to 3) or high's (4 to 7): the one that nibble i of `which` names, 0 to 7.
OR_DEVICE uint32_t or_pick_bytes(uint32_t low, uint32_t high, uint32_t which)
{
    return __byte_perm(low, high, which);
}

// Add in one step, whatever other threads do; what was there before.
OR_DEVICE uint32_t or_atomic_add(uint32_t *at, uint32_t value)
{
    return atomicAdd(at, value);
}

// Tell whether the work in `loop` is done once more. Only one thread may call it. Does nothing for OR_CUDA_NO_LOOP.
OR_DEVICE void or_go_on(or_cuda_loop_t loop, bool again)
{
#if CUDART_VERSION >= 12040 // before, there are none
    if (loop != OR_CUDA_NO_LOOP)
        cudaGraphSetConditional((cudaGraphConditionalHandle)loop, again ? 1u : 0u);
#else
    (void)loop;
    (void)again;
#endif
}

// Wait until all that was asked for before this kernel is done; at once where it was not launched early.
OR_DEVICE void or_await_before(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" : : : "memory");
#endif
}

// Let the next kernel begin, if it is launched early, as soon as there is room for it beside this one.
OR_DEVICE void or_let_next_begin(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" : : : "memory");
#endif
}

cudaStream_t or_cuda_stream(struct or_cuda *cuda);
// The same for a kernel, and whether it may begin early: behind a kernel, on a device that can do so.
cudaStream_t or_cuda_kernel_stream(struct or_cuda *cuda, bool *early);
bool or_cuda_overlaps(int index);

template <typename... Parameters, typename... Arguments>
static int or_launch(struct or_cuda *cuda, void (*kernel)(Parameters...), dim3 grid, dim3 block,
                     size_t shared, Arguments... arguments)
{
    bool early;
    kernel<<<grid, block, shared, or_cuda_kernel_stream(cuda, &early)>>>(arguments...);
    return (int)cudaGetLastError();
}

template <typename... Parameters, typename... Arguments>
static int or_launch_early(struct or_cuda *cuda, void (*kernel)(Parameters...), dim3 grid,
                           dim3 block, size_t shared, Arguments... arguments)
{
    bool early;
    cudaLaunchConfig_t how = {};
    how.gridDim = grid;
    how.blockDim = block;
    how.dynamicSmemBytes = shared;
    how.stream = or_cuda_kernel_stream(cuda, &early);
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    how.attrs = &attribute;
    how.numAttrs = early ? 1 : 0;
    (void)cudaLaunchKernelEx(&how, kernel, Parameters(arguments)...);
    return (int)cudaGetLastError();
}

#else

#include "tests/emulator/emulated.hpp"

OR_DEVICE uint32_t or_atomic_add(uint32_t *at, uint32_t value)
{
    uint32_t before = *at; // threads take turns at waits only
    *at += value;
    return before;
}

OR_DEVICE uint32_t or_pick_bytes(uint32_t low, uint32_t high, uint32_t which)
{
    const uint64_t bytes = (uint64_t)high << 32 | low;
    uint32_t picked = 0;
    for (uint32_t i = 0; i < 4; i++) {
        picked |= (uint32_t)(bytes >> (which >> 4 * i & 7) * 8 & 0xFF) << 8 * i;
    }
    return picked;
}

#endif

// Both at the beginning, of a kernel that reads nothing before. The next one comes only when all before this one is done,
// which has left all multiprocessors alike. Blocks that come where others still run pile up where those end first.
OR_DEVICE void or_begin_after(void)
{
    or_await_before();
    or_let_next_begin();
}

#include "kernels/canonical.h"

#ifndef __CUDACC__
OR_DEVICE float or_widen_half(uint16_t half)
{
    return canonical_widen(half);
}
#endif
