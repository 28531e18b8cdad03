#include "tests/emulator/emulated_test_kernels.h"

#include "kernels/cuda/cuda_portable.cuh"

OR_DEVICE uint32_t thread_number(void)
{
    return blockIdx.x * blockDim.x + threadIdx.x;
}

// ---- how they run ----

// Memory of this program's that all threads add to: only here do they take turns.
static uint32_t turn;

OR_GLOBAL void take_turn(uint32_t *turns)
{
    turns[thread_number()] = turn++;
}

int test_launch_turns(or_cuda_t *cuda, uint32_t blocks, uint32_t threads, uint32_t *turns)
{
    turn = 0;
    return or_launch(cuda, take_turn, dim3(blocks), dim3(threads), 0, turns);
}

OR_GLOBAL void show_garbage(uint32_t *words)
{
    OR_SHARED(uint32_t, fixed, 2);
    OR_SHARED_DYNAMIC(uint32_t, dynamic);
    uint32_t *own = words + 4 * blockIdx.x;
    uint32_t *from = threadIdx.x < 2 ? fixed + threadIdx.x : dynamic + threadIdx.x - 2;
    own[threadIdx.x] = *from;
    *from = 7;
}

int test_launch_garbage(or_cuda_t *cuda, uint32_t blocks, uint32_t *words)
{
    return or_launch(cuda, show_garbage, dim3(blocks), dim3(4), 2 * sizeof *words, words);
}

OR_GLOBAL void write_doubles(uint32_t *y)
{
    y[thread_number()] = 2 * thread_number();
}

int test_launch_double(or_cuda_t *cuda, const uint32_t *y, uint32_t blocks, uint32_t threads,
                       size_t shared)
{
    return or_launch(cuda, write_doubles, dim3(blocks), dim3(threads), shared, (uint32_t *)y);
}

OR_GLOBAL void add_early(const uint32_t *weights, uint32_t *y)
{
    const uint32_t weight = weights[thread_number()];
    or_await_before();
    y[thread_number()] += weight;
}

// Until the first thread has awaited, the others wait for it with what they have read.
OR_GLOBAL void add_behind_first(const uint32_t *weights, uint32_t *y)
{
    OR_SHARED(uint32_t, first, 1);
    const uint32_t weight = or_shuffle_xor(weights[threadIdx.x ^ 1], 1);
    if (threadIdx.x == 0) {
        or_await_before();
        *first = 1;
    }
    or_block_wait();
    or_await_before();
    y[threadIdx.x] += weight * *first;
}

int test_launch_early(or_cuda_t *cuda, bool behind_first, uint32_t threads, const uint32_t *weights,
                      uint32_t *y)
{
    return behind_first
               ? or_launch_early(cuda, add_behind_first, dim3(1), dim3(threads), 0, weights, y)
               : or_launch_early(cuda, add_early, dim3(1), dim3(threads), 0, weights, y);
}

OR_GLOBAL void add_chosen_early(const uint32_t *const *weights, uint32_t choice, uint32_t *y)
{
    const uint32_t weight = weights[choice][thread_number()];
    or_await_before();
    y[thread_number()] += weight;
}

int test_launch_chosen_early(or_cuda_t *cuda, uint32_t threads, const uint32_t *const *weights,
                             uint32_t choice, uint32_t *y)
{
    return or_launch_early(cuda, add_chosen_early, dim3(1), dim3(threads), 0, weights, choice, y);
}

// ---- what none may do ----

OR_GLOBAL void return_from_block(uint32_t *y)
{
    if (blockIdx.x == 1 && threadIdx.x == 5) {
        return;
    }
    or_block_wait();
    y[thread_number()] = 1;
}

OR_GLOBAL void return_from_warp(uint32_t *y)
{
    if (threadIdx.x == 32 + 3) {
        return;
    }
    y[thread_number()] = or_shuffle_xor(threadIdx.x, 1);
}

OR_GLOBAL void diverge_in_warp(uint32_t *y)
{
    if (threadIdx.x % 32 < 16) {
        or_warp_wait();
    } else {
        y[thread_number()] = or_shuffle(threadIdx.x, 0);
    }
}

OR_GLOBAL void diverge_in_block(uint32_t *y)
{
    if (threadIdx.x == 40) {
        or_warp_wait();
    }
    or_block_wait();
    y[thread_number()] = 1;
}

OR_GLOBAL void write_behind_shared(uint32_t *y)
{
    OR_SHARED_DYNAMIC(uint32_t, shared);
    shared[threadIdx.x + 1] = 1;
    y[thread_number()] = shared[0];
}

OR_GLOBAL void share_too_much(uint32_t *y)
{
    OR_SHARED(uint32_t, most, 12 * 1024);
    OR_SHARED(uint32_t, more, 1);
    most[0] = more[0] = 1;
    y[thread_number()] = most[0];
}

// No process has memory at address 4 * thread.
OR_GLOBAL void write_nowhere(uint32_t *y)
{
    uint32_t *own = y + thread_number();
    if (threadIdx.x == 9) {
        own = (uint32_t *)((uintptr_t)threadIdx.x * sizeof *own);
    }
    *(volatile uint32_t *)own = 1;
}

OR_GLOBAL void await_too_few(uint32_t *y)
{
    OR_SHARED(float, copies, 64);
    for (uint32_t i = 0; i < 64; i++) {
        or_copy_float(&copies[i], (const float *)y);
        or_copies_end();
    }
    or_copies_wait<32>();
}

OR_GLOBAL void return_before_others(uint32_t *y)
{
    if (threadIdx.x == 7) {
        return;
    }
    or_await_before();
    y[thread_number()] = 1;
}

OR_GLOBAL void read_before_others(uint32_t *y)
{
    const uint32_t before = blockIdx.x == 1 && threadIdx.x == 7 ? y[threadIdx.x] : 0;
    or_await_before();
    y[thread_number()] = before;
}

OR_GLOBAL void copy_before_others(uint32_t *y)
{
    OR_SHARED(float, copies, 64);
    if (threadIdx.x == 7) {
        or_copy_float(&copies[7], (const float *)y);
        or_copies_end();
    }
    or_await_before();
    or_copies_wait<0>();
}

OR_GLOBAL void write_before_others(uint32_t *y)
{
    if (threadIdx.x == 7) {
        y[thread_number()] = 1;
    }
    or_await_before();
}

static int launch_early_mistake(or_cuda_t *cuda, test_mistake_t mistake, uint32_t threads,
                                uint32_t *y)
{
    void (*const kernels[])(uint32_t *) = {return_before_others, read_before_others,
                                           copy_before_others, write_before_others};
    void (*const kernel)(uint32_t *) = kernels[mistake - TEST_MISTAKE_BEFORE_OTHERS];
    return or_launch_early(cuda, kernel, dim3(2), dim3(threads), 0, y);
}

int test_launch_mistake(or_cuda_t *cuda, test_mistake_t mistake, uint32_t threads, uint32_t *y)
{
    void (*const kernels[])(uint32_t *) = {return_from_block, return_from_warp,    diverge_in_warp,
                                           diverge_in_block,  write_behind_shared, share_too_much,
                                           write_nowhere,     await_too_few};
    return mistake >= TEST_MISTAKE_BEFORE_OTHERS
               ? launch_early_mistake(cuda, mistake, threads, y)
               : or_launch(cuda, kernels[mistake], dim3(2), dim3(threads), threads * sizeof *y, y);
}

OR_GLOBAL void tell(or_cuda_loop_t loop, uint32_t tellers)
{
    if (thread_number() < tellers) {
        or_go_on(loop, true);
    }
}

int test_launch_tell(or_cuda_t *cuda, or_cuda_loop_t loop, uint32_t tellers)
{
    return or_launch(cuda, tell, dim3(2), dim3(32), 0, loop, tellers);
}
