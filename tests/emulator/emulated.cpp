// A launch, block by block, each thread from one wait to its next.
//
//     begun     threads start one after the other on one fiber, for as long as none waits
//     waiting   a thread that waits keeps its fiber and hangs in the queue of its group, the warp or the block;
//               the next thread starts on another fiber
//     ready     the last of a group to arrive moves the group's queue to the end of the ready ones, and goes on
//
// When none is left to start and none is ready, all have returned, or they wait for what never comes.
//
// An early launch is rehearsed first: its threads go as far as or_await_before, or to a wait that only those behind it
// would end, while memory that kernels write is hidden (emulated_memory.cpp). Nothing of a rehearsal is left, since it
// may write shared memory only. It takes as long as a short kernel does, so a launch as others were is not rehearsed.
#include "tests/emulator/emulated_fiber.hpp"
#include "tests/emulator/emulated_internal.hpp"

#include <mutex>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#define WARP 32u
#define THREADS_MAX 1024u
// The most bytes of shared memory. CUDA gives more only if it is asked to, which or_launch does not do.
#define SHARED_MAX ((size_t)48 * 1024)
#define SHARED_ARRAYS_MAX 32u
#define GUARD_BYTES ((size_t)256) // behind the dynamic shared memory
#define GARBAGE 0xFF              // NaNs, and -1
#define REHEARSED_MAX 8u          // blocks of a launch

typedef struct thread thread_t;

typedef struct {
    thread_t *first;
    thread_t *last;
} queue_t;

// Threads that wait for one another.
typedef struct {
    uint32_t expected;
    uint32_t arrived;
    or_emulated_wait_t wait; // of those that have arrived
    queue_t waiting;
} group_t;

struct thread {
    uint3 index;
    or_fiber_t *fiber; // of one that waits or is ready
    thread_t *next;
    group_t *waits_for;
    bool returned;
    bool awaited; // the kernels before this one
    uint32_t exchanges;
};

// Lanes show what they have in either half by turns: none can show for the next but one time before all have
// read this one's.
typedef struct {
    group_t group;
    or_emulated_lane_t lanes[2][WARP];
} warp_t;

static struct {
    const or_emulated_launch_t *launch;
    uint32_t threads; // of a block
    uint32_t begun;
    uint32_t returned;
    or_emulated_order_t order;
    thread_t thread[THREADS_MAX];
    warp_t warp[THREADS_MAX / WARP];
    group_t all;
    queue_t ready;
    const void *shared[SHARED_ARRAYS_MAX];
    uint32_t shared_count;
    size_t shared_bytes;
    bool told; // a loop, by a thread of this launch
    bool rehearsed;
    uint64_t random[2]; // of what is not rehearsed, which rehearsals do not change, and of what is
    bool given_up;      // the rehearsal's waits, which nobody will end
} block;

static thread_t *running;
static or_fiber_t *idle[THREADS_MAX + 1];
static uint32_t idle_count;
static std::mutex one_launch;
static jmp_buf rehearsal_end[THREADS_MAX];

uint3 threadIdx;
uint3 blockIdx;
dim3 blockDim;
dim3 gridDim;
alignas(16) unsigned char or_emulated_dynamic_shared[SHARED_MAX + GUARD_BYTES];

// ---- what went wrong ----

[[noreturn]] static void end_thread(const thread_t *thread, const char *format, va_list arguments)
{
    char sentence[512];
    vsnprintf(sentence, sizeof sentence, format, arguments);
    or_emulated_end(block.launch->call, "block (%u, %u, %u), thread (%u, %u, %u) %s", blockIdx.x,
                    blockIdx.y, blockIdx.z, thread->index.x, thread->index.y, thread->index.z,
                    sentence);
}

// The thread at fault first.
[[noreturn, gnu::format(printf, 2, 3)]] static void end_at(const thread_t *thread,
                                                           const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    end_thread(thread, format, arguments);
}

void or_emulated_end_thread(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    end_thread(running, format, arguments);
}

static const char *wait_name(or_emulated_wait_t wait)
{
    static const char *const names[] = {"or_block_wait", "or_warp_wait", "or_shuffle_xor",
                                        "or_shuffle", "or_multiply_bytes"};
    return names[wait];
}

static bool is_of(const thread_t *thread, const group_t *group)
{
    uint32_t number = (uint32_t)(thread - block.thread);
    return group == &block.all || group == &block.warp[number / WARP].group;
}

// None can go on: name one that waits, and one that it waits for.
[[noreturn]] static void end_stuck(void)
{
    const thread_t *waits = block.thread;
    while (!waits->waits_for) {
        waits++;
    }
    const group_t *group = waits->waits_for;
    const thread_t *missing = block.thread;
    while (!is_of(missing, group) || missing->waits_for == group) {
        missing++;
    }
    end_at(waits, "waits in %s for thread (%u, %u, %u), which %s%s", wait_name(group->wait),
           missing->index.x, missing->index.y, missing->index.z,
           missing->returned ? "has returned" : "waits in ",
           missing->returned ? "" : wait_name(missing->waits_for->wait));
}

// ---- threads that take turns ----

static void push(queue_t *queue, queue_t *more)
{
    if (!more->first) {
        return;
    }
    if (queue->first) {
        queue->last->next = more->first;
    } else {
        queue->first = more->first;
    }
    queue->last = more->last;
    *more = {};
}

static void push_thread(queue_t *queue, thread_t *thread)
{
    thread->next = nullptr;
    queue_t one = {thread, thread};
    push(queue, &one);
}

static thread_t *pop(queue_t *queue)
{
    thread_t *thread = queue->first;
    queue->first = thread->next;
    return thread;
}

static uint3 index_in(uint64_t number, const dim3 &size)
{
    uint64_t row = number / size.x;
    return {(uint32_t)(number % size.x), (uint32_t)(row % size.y), (uint32_t)(row / size.y)};
}

static void check_end(const thread_t *thread)
{
    if (or_emulated_copies_left(or_emulated_thread()) > 0) {
        end_at(thread, "returns without waiting for what it copies");
    }
    if (block.launch->early && !thread->awaited) {
        end_at(thread, "returns without or_await_before");
    }
}

// The thread comes back when it returns or its rehearsal ends, with all that it kept on the stack forgotten.
static void rehearse(void)
{
    if (_setjmp(rehearsal_end[or_emulated_thread()]) == 0) {
        block.launch->thread();
    }
}

[[noreturn]] static void end_rehearsal(void)
{
    _longjmp(rehearsal_end[or_emulated_thread()], 1);
}

// Let all that wait go on, each to its end.
static void give_up_waits(void)
{
    block.given_up = true;
    push(&block.ready, &block.all.waiting);
    for (uint32_t first = 0; first < block.threads; first += WARP) {
        push(&block.ready, &block.warp[first / WARP].group.waiting);
    }
}

static void run_thread(thread_t *thread)
{
    *thread = {};
    thread->index = index_in((uint64_t)(thread - block.thread), blockDim);
    threadIdx = thread->index;
    running = thread;
    or_emulated_copies_begin(or_emulated_thread(), block.rehearsed);
    if (block.rehearsed) {
        rehearse();
    } else {
        block.launch->thread();
        check_end(thread);
    }
    thread->returned = true;
    block.returned++;
}

static void leave(void);

// Run the threads of a fiber.
static void run_threads(void)
{
    for (;;) {
        while (block.begun < block.threads) {
            block.begun++;
            run_thread(&block.thread[or_emulated_take_next(&block.order)]);
        }
        idle[idle_count++] = or_fiber_current();
        leave();
    }
}

static or_fiber_t *take_idle(void)
{
    return idle_count > 0 ? idle[--idle_count] : or_fiber_create(run_threads);
}

// Let others run until it is this fiber's turn again.
static void leave(void)
{
    if (block.begun < block.threads) {
        or_fiber_switch(take_idle());
    } else if (block.ready.first) {
        or_fiber_switch(pop(&block.ready)->fiber);
    } else if (block.returned == block.threads) {
        or_fiber_switch(or_fiber_host);
    } else if (block.rehearsed) {
        give_up_waits();
        or_fiber_switch(pop(&block.ready)->fiber);
    } else {
        end_stuck();
    }
}

// ---- waits ----

static void wait_for(group_t *group, or_emulated_wait_t wait)
{
    thread_t *self = running;
    if (group->arrived > 0 && group->wait != wait) {
        end_at(self, "comes to %s while thread (%u, %u, %u) of its warp waits in %s",
               wait_name(wait), group->waiting.first->index.x, group->waiting.first->index.y,
               group->waiting.first->index.z, wait_name(group->wait));
    }
    group->wait = wait;
    group->arrived++;
    if (group->arrived == group->expected) {
        for (thread_t *other = group->waiting.first; other; other = other->next) {
            other->waits_for = nullptr;
        }
        group->arrived = 0;
        push(&block.ready, &group->waiting);
        return;
    }
    push_thread(&group->waiting, self);
    self->waits_for = group;
    self->fiber = or_fiber_current();
    leave();
    running = self;
    threadIdx = self->index;
    if (block.given_up) {
        end_rehearsal();
    }
}

static warp_t *own_warp(or_emulated_wait_t wait)
{
    warp_t *warp = &block.warp[(uint32_t)(running - block.thread) / WARP];
    if (warp->group.expected < WARP) {
        end_at(running, "comes to %s in a warp of %u threads, which must have 32", wait_name(wait),
               warp->group.expected);
    }
    return warp;
}

void or_block_wait(void)
{
    wait_for(&block.all, OR_EMULATED_BLOCK_WAIT);
}

void or_warp_wait(void)
{
    wait_for(&own_warp(OR_EMULATED_WARP_WAIT)->group, OR_EMULATED_WARP_WAIT);
}

void or_await_before(void)
{
    running->awaited = true;
    if (block.rehearsed) {
        end_rehearsal();
    }
}

uint32_t or_emulated_thread(void)
{
    return (uint32_t)(running - block.thread);
}

uint32_t or_emulated_lane(void)
{
    return or_emulated_thread() % WARP;
}

const or_emulated_lane_t *or_emulated_exchange(or_emulated_wait_t wait, const void *value,
                                               size_t bytes)
{
    warp_t *warp = own_warp(wait);
    or_emulated_lane_t *lanes = warp->lanes[running->exchanges % 2];
    running->exchanges++;
    memcpy(lanes[or_emulated_lane()].bytes, value, bytes);
    wait_for(&warp->group, wait);
    return lanes;
}

// ---- loops ----

void or_go_on(or_cuda_loop_t loop, bool again)
{
    if (loop == OR_CUDA_NO_LOOP) {
        return;
    }
    if (block.told) {
        end_at(running, "tells a loop what its launch has told one before");
    }
    block.told = true;
    if (!or_emulated_tell_loop(loop, again)) {
        end_at(running, "tells a loop that it is not in");
    }
}

// ---- shared memory ----

void or_emulated_share(void *at, size_t bytes)
{
    for (uint32_t i = 0; i < block.shared_count; i++) {
        if (block.shared[i] == at) {
            return;
        }
    }
    block.shared_bytes += bytes;
    if (block.shared_count == SHARED_ARRAYS_MAX ||
        block.shared_bytes + block.launch->shared > SHARED_MAX) {
        end_at(running,
               "has more shared memory than CUDA allows: %zu bytes in %u arrays and %zu "
               "of the launch",
               block.shared_bytes, block.shared_count + 1, block.launch->shared);
    }
    block.shared[block.shared_count++] = at;
    memset(at, GARBAGE, bytes);
}

static void check_guard(void)
{
    const unsigned char *guard = or_emulated_dynamic_shared + block.launch->shared;
    for (size_t i = 0; i < GUARD_BYTES; i++) {
        if (guard[i] != GARBAGE) {
            or_emulated_end(block.launch->call,
                            "block (%u, %u, %u) wrote behind its %zu bytes of "
                            "shared memory",
                            blockIdx.x, blockIdx.y, blockIdx.z, block.launch->shared);
        }
    }
}

// ---- blocks ----

static void run_block(uint64_t number)
{
    blockIdx = index_in(number, gridDim);
    block.begun = 0;
    block.returned = 0;
    block.given_up = false;
    block.order = or_emulated_scramble(&block.random[block.rehearsed], block.threads);
    block.shared_count = 0;
    block.shared_bytes = 0;
    block.all = {};
    block.all.expected = block.threads;
    for (uint32_t first = 0; first < block.threads; first += WARP) {
        uint32_t rest = block.threads - first;
        block.warp[first / WARP].group = {};
        block.warp[first / WARP].group.expected = rest < WARP ? rest : WARP;
    }
    memset(or_emulated_dynamic_shared, GARBAGE, block.launch->shared + GUARD_BYTES);
    or_fiber_switch(take_idle());
    check_guard();
}

static uint64_t count_of(const dim3 &size)
{
    return (uint64_t)size.x * size.y * size.z;
}

// ---- launches ----

static void run_blocks(bool rehearsed, uint64_t most)
{
    block.rehearsed = rehearsed;
    block.told = false;
    or_emulated_order_t order = or_emulated_scramble(&block.random[rehearsed], count_of(gridDim));
    for (uint64_t i = 0; i < order.count && i < most; i++) {
        run_block(or_emulated_take_next(&order));
    }
}

static void run_launch(const struct or_cuda *cuda, const or_emulated_launch_t &launch)
{
    std::lock_guard<std::mutex> lock(one_launch);
    or_emulated_catch_faults(launch.call);
    block.launch = &launch;
    block.threads = (uint32_t)count_of(launch.block);
    gridDim = launch.grid;
    blockDim = launch.block;
    if (launch.early && or_emulated_is_new(cuda, launch)) {
        or_emulated_hide_written(cuda);
        run_blocks(true, REHEARSED_MAX);
        or_emulated_show_written();
    }
    run_blocks(false, UINT64_MAX);
    or_emulated_leave_faults();
}

static bool within(const dim3 &size, uint32_t x_max, uint32_t y_max, uint32_t z_max)
{
    return size.x >= 1 && size.x <= x_max && size.y >= 1 && size.y <= y_max && size.z >= 1 &&
           size.z <= z_max;
}

int or_emulated_ask(struct or_cuda *cuda, or_emulated_launch_t launch)
{
    if (!within(launch.block, THREADS_MAX, THREADS_MAX, 64) ||
        count_of(launch.block) > THREADS_MAX) {
        or_emulated_end(launch.call,
                        "a block of %u x %u x %u threads; CUDA allows 1 to 1024, of "
                        "those 64 in z",
                        launch.block.x, launch.block.y, launch.block.z);
    }
    if (!within(launch.grid, INT32_MAX, UINT16_MAX, UINT16_MAX)) {
        or_emulated_end(launch.call,
                        "a grid of %u x %u x %u blocks; CUDA allows 1 to 2147483647 "
                        "in x, 65535 in y and z",
                        launch.grid.x, launch.grid.y, launch.grid.z);
    }
    if (launch.shared > SHARED_MAX) {
        or_emulated_end(launch.call, "%zu bytes of shared memory; CUDA allows %zu", launch.shared,
                        SHARED_MAX);
    }
    return or_emulated_ask_step(cuda,
                                [cuda, launch = std::move(launch)] { run_launch(cuda, launch); });
}
