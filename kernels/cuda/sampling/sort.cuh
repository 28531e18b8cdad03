// sort - a thread block puts a few things in order.
#pragma once

#include "kernels/cuda/cuda_portable.cuh"

// Return how many things are sorted where there are `count`, at least 1: a power of 2. The caller fills the places
// behind `count` with things that go before nothing.
OR_DEVICE uint32_t width_of_sort(uint32_t count)
{
    uint32_t width = 1;
    while (width < count) {
        width *= 2;
    }
    return width;
}

// Sort in shared memory by Batcher's bitonic sort (1968): before(a, b) says that a goes before b. Called by the
// block's COUNT threads.
template <uint32_t COUNT, typename T, typename before_t>
OR_DEVICE void sort_in_block(T *things, uint32_t width, before_t before)
{
    for (uint32_t run = 2; run <= width; run *= 2) {
        for (uint32_t apart = run / 2; apart > 0; apart /= 2) {
            for (uint32_t pair = threadIdx.x; pair < width / 2; pair += COUNT) {
                uint32_t i = pair / apart * 2 * apart + pair % apart;
                T first = things[i];
                T second = things[i + apart];
                bool falls = (i & run) == 0;
                if (falls ? before(second, first) : before(first, second)) {
                    things[i] = second;
                    things[i + apart] = first;
                }
            }
            or_block_wait();
        }
    }
}
