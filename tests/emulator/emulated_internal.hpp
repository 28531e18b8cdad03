// emulated_internal - what the emulator's files know of each other.
#pragma once

#include <memory>
#include <vector>

#include "kernels/cuda/cuda_device.h"
#include "tests/emulator/emulated.hpp"

// The numbers are CUDA's.
#define OR_EMULATED_INVALID 1
#define OR_EMULATED_OUT_OF_MEMORY 2
#define OR_EMULATED_NO_DEVICE 101
#define OR_EMULATED_NOT_NOW 401
#define OR_EMULATED_RECORDING 900

typedef std::vector<std::function<void()>> or_emulated_steps_t;
struct or_emulated_loop;

// The state of the recording that a device makes, if it makes one.
typedef struct {
    bool recording;
    int status; // of what failed first, so that nothing is recorded
    bool meets; // a step of it is a meeting
    or_emulated_steps_t steps;
    std::shared_ptr<or_emulated_loop> loop; // that is recorded
} or_emulated_recorder_t;

or_emulated_recorder_t *or_emulated_recorder(struct or_cuda *cuda);
void or_emulated_record(or_emulated_recorder_t *recorder, std::function<void()> step);
// `status`, which the end of the recording tells too.
int or_emulated_fail(or_emulated_recorder_t *recorder, int status);

// Do it when somebody waits for this device, or record it. OR_CUDA_OK always.
int or_emulated_ask_step(struct or_cuda *cuda, std::function<void()> step);
// The same for a step that other devices wait for, and so at once; what was asked for before is done first. Of a
// recording, when that is replayed.
int or_emulated_ask_meeting(struct or_cuda *cuda, std::function<void()> step);
// The device is of no use any more: whoever waits for it gets `status`.
void or_emulated_break(struct or_cuda *cuda, int status);

// A thread's copies to shared memory begin anew; how many were not waited for.
void or_emulated_copies_begin(uint32_t thread);
size_t or_emulated_copies_left(uint32_t thread);
bool or_emulated_has_awaited(uint32_t thread); // what comes before its launch
uint32_t or_emulated_thread(void);

// False: it is not this loop that is done now.
bool or_emulated_tell_loop(or_cuda_loop_t loop, bool again);

// One of a sequence of numbers below count that OR_EMULATED_SEED changes; *state is 0 where it begins.
uint64_t or_emulated_random_below(uint64_t *state, uint64_t count);

// Say what a kernel or its caller did wrong, in a sentence without an end, and abort.
[[noreturn, gnu::format(printf, 2, 3)]] void or_emulated_end(const char *call, const char *format,
                                                             ...);
