// Orders that are scrambled but the same in every run; OR_EMULATED_SEED changes them.
#include "tests/emulator/emulated_internal.hpp"

#include <numeric>
#include <stdlib.h>

uint64_t or_emulated_random_below(uint64_t *state, uint64_t count)
{
    if (*state == 0) {
        const char *seed = getenv("OR_EMULATED_SEED");
        *state = seed ? strtoull(seed, nullptr, 0) * 2 + 1 : 1;
    }
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (*state >> 33) % count;
}

// A stride without a common divisor leads through all.
or_emulated_order_t or_emulated_scramble(uint64_t *state, uint64_t count)
{
    or_emulated_order_t order = {count, 1, or_emulated_random_below(state, count)};
    do {
        order.stride = 1 + or_emulated_random_below(state, count);
    } while (std::gcd(order.stride, count) != 1);
    return order;
}

uint64_t or_emulated_take_next(or_emulated_order_t *order)
{
    uint64_t taken = order->at;
    order->at += order->stride;
    order->at -= order->at < order->count ? 0 : order->count;
    return taken;
}
