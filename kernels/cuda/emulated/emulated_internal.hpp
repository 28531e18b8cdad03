// emulated_internal - what the emulator's files know of each other.
#pragma once

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/emulated/emulated.hpp"

// Do it when somebody waits for this device, or record it. OR_CUDA_OK always.
int or_emulated_ask_step(struct or_cuda *cuda, std::function<void()> step);

// One of a sequence of numbers below count that OR_EMULATED_SEED changes; *state is 0 where it begins.
uint64_t or_emulated_random_below(uint64_t *state, uint64_t count);

// Say what a kernel or its caller did wrong, in a sentence without an end, and abort.
[[noreturn, gnu::format(printf, 2, 3)]] void or_emulated_end(const char *call, const char *format,
                                                             ...);
