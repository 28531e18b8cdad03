// emulated_test_kernels - kernels that show how the emulator runs them, and kernels that do what no kernel may.
#pragma once

#include <stdbool.h>

#include "kernels/cuda/cuda_device.h"

#ifdef __cplusplus
extern "C" {
#endif

// turns[i] = the how-manieth of all threads number i is.
int test_launch_turns(or_cuda_t *cuda, uint32_t blocks, uint32_t threads, uint32_t *turns);
// 4 words of each block's shared memory that nobody wrote: 2 of an array, 2 of the launch's. It then writes there.
int test_launch_garbage(or_cuda_t *cuda, uint32_t blocks, uint32_t *words);
// y[i] = 2 * i
int test_launch_double(or_cuda_t *cuda, const uint32_t *y, uint32_t blocks, uint32_t threads,
                       size_t shared);

// y[i] += weights[i], by a block that begins early and reads the weights before it awaits the kernels before. With
// `behind_first` the first thread does so, and the others wait for it before they do, too; threads fill warps then.
int test_launch_early(or_cuda_t *cuda, bool behind_first, uint32_t threads, const uint32_t *weights,
                      uint32_t *y);

// The same with weights[choice], a pointer that the device has.
int test_launch_chosen_early(or_cuda_t *cuda, uint32_t threads, const uint32_t *const *weights,
                             uint32_t choice, uint32_t *y);

typedef enum {
    TEST_MISTAKE_RETURNED_BLOCK, // thread 5 of block 1 returns where the others wait
    TEST_MISTAKE_RETURNED_WARP,  // lane 3 of warp 1 returns where the others shuffle
    TEST_MISTAKE_DIVERGED_WARP,  // half of a warp waits in or_warp_wait, half in or_shuffle
    TEST_MISTAKE_DIVERGED_BLOCK, // warp 0 waits for the block, warp 1 has a lane that waits for its warp
    TEST_MISTAKE_BEHIND_SHARED,   // writes behind the shared memory of the launch
    TEST_MISTAKE_TOO_MUCH_SHARED, // more than 48 KiB in arrays
    TEST_MISTAKE_NOWHERE,         // thread 9 writes where there is no memory
    TEST_MISTAKE_NOT_AWAITED,     // returns while copies to shared memory may be on their way
    // The rest begin early. Thread 7 does not await the kernels before; it reads y, copies it to shared memory, or writes it before
    // it awaits them.
    TEST_MISTAKE_BEFORE_OTHERS,
    TEST_MISTAKE_READ_BEFORE,
    TEST_MISTAKE_COPIED_BEFORE,
    TEST_MISTAKE_WRITTEN_BEFORE,
} test_mistake_t;

// The first `tellers` threads tell the loop that it goes on.
int test_launch_tell(or_cuda_t *cuda, or_cuda_loop_t loop, uint32_t tellers);

int test_launch_mistake(or_cuda_t *cuda, test_mistake_t mistake, uint32_t threads, uint32_t *y);

#ifdef __cplusplus
}
#endif
