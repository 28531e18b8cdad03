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

// A thread's copies to shared memory begin anew, each of them at once or when its turn comes.
void or_emulated_copies_begin(uint32_t thread, bool at_once);
// How many were not waited for.
size_t or_emulated_copies_left(uint32_t thread);
uint32_t or_emulated_thread(void);

// ---- memory ----

// New memory, of the device or pinned; NULL: there is none left.
void *or_emulated_take_memory(const struct or_cuda *owner, size_t bytes, bool pinned);
bool or_emulated_give_memory(void *at); // False: it was not taken.
uint64_t or_emulated_memory_used(void); // of the device
// The size of one that `owner` has not given back; 0: it has no memory.
size_t or_emulated_memory_of(const struct or_cuda *owner);
// Does at .. at + bytes lie in one memory?
bool or_emulated_is_memory(const void *at, size_t bytes);
bool or_emulated_is_pinned(const void *at, size_t bytes);

// Do `write`, which is no kernel's, and may write to .. to + bytes of a device's memory, as nothing else may.
void or_emulated_write(void *to, size_t bytes, const std::function<void()> &write);

// Hide the memory of a device that kernels have written from the one that runs; show it again.
void or_emulated_hide_written(const struct or_cuda *owner);
void or_emulated_show_written(void);

// Does the launch differ from all that were asked about before, as far as it matters before or_await_before?
bool or_emulated_is_new(const struct or_cuda *owner, const or_emulated_launch_t &launch);

typedef enum {
    OR_EMULATED_TOUCHES_NOTHING, // no memory of a device's
    OR_EMULATED_WRITES_FIRST,    // where no kernel wrote before; now it can
    OR_EMULATED_WRITES_EARLY,    // the same, while written memory is hidden
    OR_EMULATED_TOUCHES_WRITTEN  // memory that is hidden, by the launch *writer
} or_emulated_touch_t;

// A kernel of the launch `call` cannot read, or write, what is at `at`.
or_emulated_touch_t or_emulated_touch(const void *at, const char *call, const char **writer);

// Between the two, faults are the launch's.
void or_emulated_catch_faults(const char *call);
void or_emulated_leave_faults(void);

// False: it is not this loop that is done now.
bool or_emulated_tell_loop(or_cuda_loop_t loop, bool again);

// One of a sequence of numbers below count that OR_EMULATED_SEED changes; *state is 0 where it begins.
uint64_t or_emulated_random_below(uint64_t *state, uint64_t count);

// The numbers below `count`, each once, in an order that is drawn from *state.
typedef struct {
    uint64_t count;
    uint64_t stride;
    uint64_t at;
} or_emulated_order_t;

or_emulated_order_t or_emulated_scramble(uint64_t *state, uint64_t count);
uint64_t or_emulated_take_next(or_emulated_order_t *order);

// Say what a kernel or its caller did wrong, in a sentence without an end, and abort.
[[noreturn, gnu::format(printf, 2, 3)]] void or_emulated_end(const char *call, const char *format,
                                                             ...);
// The same of the thread that runs.
[[noreturn, gnu::format(printf, 1, 2)]] void or_emulated_end_thread(const char *format, ...);
