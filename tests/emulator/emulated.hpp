// emulated - CUDA's way of running a kernel, on the CPU: what cuda_portable.cuh needs where there is no nvcc.
//
// The blocks of a grid run one after the other, and a block's threads as fibers of one host thread, each from one
// wait to its next. Both orders are scrambled but the same in every run (OR_EMULATED_SEED changes them). Shared
// memory is full of NaNs when a block begins. Work is done as late as a device may do it: when somebody waits. The
// device has as much memory as the host, or OR_EMULATED_MEMORY bytes.
//
// A kernel that breaks a rule which a GPU does not check ends the program with a sentence that names the launch, the
// block and the thread. All threads of a block, or lanes of a warp, must come to a wait, and a warp has 32. A launch may
// not have more threads, shared memory or parameters than CUDA allows. A pointer must be to device memory, nothing may be
// written behind the shared memory, what is copied there must be waited for, and no address may lack memory. A loop is told by one thread of its own launch, and
// never to go on forever. Reading and writing behind other memory is told by AddressSanitizer.
//
// Each thread of an early launch must come to or_await_before. Until then it may write nothing but shared memory, and
// read no memory of its device that any kernel has written since it was allocated. (Products and gathers of libraries
// are not noted: nothing begins early behind them.) To find out, such a launch is rehearsed: some blocks first run as far
// as that, and then all from their beginning. It is not if one like it was, with the same kernel, shape and arguments,
// and no other memory written since. Any two pointers to written memory are alike. A table of pointers counts as its address.
//
// Launches of several host threads wait for each other.
#pragma once

#include <functional>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <type_traits>
#include <vector>

#include "kernels/cuda/cuda_device.h"

#pragma GCC diagnostic ignored "-Wunknown-pragmas" // nvcc's "unroll"

#define OR_GLOBAL static
#define OR_DEVICE static inline
#define OR_UNROLL(rounds)

// Every thread passes here; the first of a block fills the array with NaNs.
#define OR_SHARED(type, name, count)                                                               \
    static type name[count];                                                                       \
    or_emulated_share(name, sizeof name)
#define OR_SHARED_DYNAMIC(type, name) type *name = (type *)or_emulated_dynamic_shared

// ---- CUDA's types and names ----

struct uint3 {
    uint32_t x, y, z;
};

struct dim3 {
    uint32_t x, y, z;
    dim3(uint32_t x_count = 1, uint32_t y_count = 1, uint32_t z_count = 1)
        : x(x_count), y(y_count), z(z_count)
    {
    }
};

struct alignas(8) uint2 {
    uint32_t x, y;
};

struct alignas(8) int2 {
    int32_t x, y;
};

struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};

struct alignas(16) float4 {
    float x, y, z, w;
};

static inline int2 make_int2(int32_t x, int32_t y)
{
    return {x, y};
}

// The indices of the thread that runs.
extern uint3 threadIdx;
extern uint3 blockIdx;
extern dim3 blockDim;
extern dim3 gridDim;

// ---- waits ----

typedef enum {
    OR_EMULATED_BLOCK_WAIT,
    OR_EMULATED_WARP_WAIT,
    OR_EMULATED_SHUFFLE_XOR,
    OR_EMULATED_SHUFFLE,
    OR_EMULATED_MULTIPLY_BYTES
} or_emulated_wait_t;

// The value that a lane shows the others of its warp.
typedef struct {
    alignas(8) unsigned char bytes[24];
} or_emulated_lane_t;

// Show `bytes` at `value`; the 32 lanes of the warp, which stay as they are until this one shows again.
const or_emulated_lane_t *or_emulated_exchange(or_emulated_wait_t wait, const void *value,
                                               size_t bytes);
uint32_t or_emulated_lane(void);

void or_emulated_share(void *at, size_t bytes);
extern unsigned char or_emulated_dynamic_shared[];

void or_block_wait(void);
void or_warp_wait(void);
void or_multiply_bytes(int32_t sums[4], const uint32_t a[4], const uint32_t b[2]);

// A copy is done at once, or when it is waited for.
void or_copy_piece(void *to, const void *from, bool there);
void or_copy_float(float *to, const float *from);
void or_copies_end(void);
void or_emulated_copies_wait(uint32_t groups);

template <uint32_t COUNT> static inline void or_copies_wait(void)
{
    or_emulated_copies_wait(COUNT);
}

template <typename T> static T or_emulated_take(or_emulated_wait_t wait, T value, uint32_t from)
{
    static_assert(std::is_arithmetic<T>::value, "shuffle numbers");
    const or_emulated_lane_t *lanes = or_emulated_exchange(wait, &value, sizeof value);
    memcpy(&value, lanes[from % 32].bytes, sizeof value);
    return value;
}

template <typename T> static inline T or_shuffle_xor(T value, uint32_t mask)
{
    return or_emulated_take(OR_EMULATED_SHUFFLE_XOR, value, or_emulated_lane() ^ mask);
}

template <typename T> static inline T or_shuffle(T value, uint32_t from)
{
    return or_emulated_take(OR_EMULATED_SHUFFLE, value, from);
}

void or_go_on(or_cuda_loop_t loop, bool again);
void or_await_before(void);

static inline void or_let_next_begin(void)
{
}

// ---- launches ----

#define OR_EMULATED_PARAMETERS_MAX 4096 // bytes

struct or_cuda;

typedef struct {
    const char *call; // "rows.cu:40: or_launch(cuda, add, ...)"
    dim3 grid;
    dim3 block;
    size_t shared;
    bool early;
    std::vector<uint64_t> kernel; // its address and its arguments, each in words of its own
    std::function<void()> thread; // runs the kernel once
} or_emulated_launch_t;

int or_emulated_ask(struct or_cuda *cuda, or_emulated_launch_t launch);
void or_emulated_check_pointer(const char *call, const void *pointer);

template <typename T> static void or_emulated_check(const char *call, T argument)
{
    if constexpr (std::is_pointer<T>::value) {
        or_emulated_check_pointer(call, argument);
    }
    (void)call;
    (void)argument;
}

template <typename T>
static void or_emulated_add_words(std::vector<uint64_t> *words, const T &value)
{
    const size_t count = words->size();
    words->resize(count + (sizeof value - 1) / sizeof(uint64_t) + 1);
    memcpy(words->data() + count, &value, sizeof value);
}

template <bool EARLY, typename... Parameters, typename... Arguments>
static int or_emulated_launch(const char *call, struct or_cuda *cuda, void (*kernel)(Parameters...),
                              dim3 grid, dim3 block, size_t shared, Arguments... arguments)
{
    static_assert((sizeof(Parameters) + ... + 0) <= OR_EMULATED_PARAMETERS_MAX,
                  "too many parameters");
    static_assert((std::is_trivially_copyable<Parameters>::value && ...),
                  "parameters are copied as bytes");
    (or_emulated_check(call, arguments), ...);
    std::vector<uint64_t> words;
    if constexpr (EARLY) {
        or_emulated_add_words(&words, kernel);
        (or_emulated_add_words(&words, Parameters(arguments)), ...);
    }
    return or_emulated_ask(
        cuda, {call, grid, block, shared, EARLY, std::move(words), [=] { kernel(arguments...); }});
}

// A macro for the sake of `call`; templates' commas are why it takes whatever it is given.
#define OR_EMULATED_TEXT(line) OR_EMULATED_QUOTE(line)
#define OR_EMULATED_QUOTE(line) #line
#define or_launch(...)                                                                             \
    or_emulated_launch<false>(                                                                     \
        __FILE__ ":" OR_EMULATED_TEXT(__LINE__) ": or_launch(" #__VA_ARGS__ ")", __VA_ARGS__)
#define or_launch_early(...)                                                                       \
    or_emulated_launch<true>(__FILE__                                                              \
                             ":" OR_EMULATED_TEXT(__LINE__) ": or_launch_early(" #__VA_ARGS__ ")", \
                             __VA_ARGS__)
