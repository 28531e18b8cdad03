// cuda_device.h over the host's memory. A stream is a list of steps that are done when somebody waits, so that whoever
// reads too early, or reuses memory too early, finds what he may find on a GPU. When that is, fetches are as early, as
// late or as much in between as they may be, by turns that OR_EMULATED_SEED changes.
#include "kernels/cuda/cuda_peers.h"
#include "kernels/cuda/cuda_tensor.h"
#include "tests/emulator/emulated_internal.hpp"

#include <algorithm>
#include <deque>
#include <new>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    uint64_t after; // how many of the other stream's are done before
    std::function<void()> run;
} step_t;

typedef struct {
    std::deque<step_t> steps; // still to do
    uint64_t asked;
    uint64_t done;
    uint64_t after; // of what is asked for next
} stream_t;

struct or_cuda {
    stream_t work;
    stream_t fetches;
    uint64_t random;
    or_emulated_recorder_t recorder;
    int broken; // what every wait ends with; OR_CUDA_OK
    bool marked[OR_CUDA_MARKS];
    struct timespec marks[OR_CUDA_MARKS];
};

const char *or_cuda_text(int status)
{
    if (status >= OR_CUDA_PEERS) {
        return or_cuda_peers_text(status);
    }
    if (status >= OR_CUDA_TENSOR) {
        return or_cuda_tensor_text(status);
    }
    switch (status) {
    case OR_CUDA_OK:
        return "no error";
    case OR_EMULATED_OUT_OF_MEMORY:
        return "out of memory";
    case OR_EMULATED_NO_DEVICE:
        return "no such device: the emulated one is device 0";
    case OR_EMULATED_NOT_NOW:
        return "not possible now";
    case OR_EMULATED_RECORDING:
        return "not possible in a recording";
    default:
        return "invalid argument";
    }
}

// ---- the streams ----

static void ask(stream_t *stream, std::function<void()> run)
{
    stream->steps.push_back({stream->after, std::move(run)});
    stream->asked++;
}

static bool can_go_on(const stream_t &stream, const stream_t &other)
{
    return !stream.steps.empty() && stream.steps.front().after <= other.done;
}

static void do_step(stream_t *stream)
{
    stream->steps.front().run();
    stream->steps.pop_front();
    stream->done++;
}

int or_emulated_ask_step(or_cuda_t *cuda, std::function<void()> step)
{
    if (cuda->recorder.recording) {
        or_emulated_record(&cuda->recorder, std::move(step));
    } else {
        ask(&cuda->work, std::move(step));
    }
    return OR_CUDA_OK;
}

or_emulated_recorder_t *or_emulated_recorder(or_cuda_t *cuda)
{
    return &cuda->recorder;
}

// Refuse a call that must not be recorded, and with it the recording.
static int refuse(or_cuda_t *cuda)
{
    return or_emulated_fail(&cuda->recorder, OR_EMULATED_RECORDING);
}

// One of the two can always go on: what a step comes after was asked for before it.
int or_cuda_wait(or_cuda_t *cuda)
{
    enum { EARLY, LATE, BETWEEN, TURNS };
    if (cuda->recorder.recording) {
        return refuse(cuda);
    }
    uint64_t turn = or_emulated_random_below(&cuda->random, TURNS);
    while (!cuda->work.steps.empty()) {
        bool fetches = can_go_on(cuda->fetches, cuda->work);
        if (fetches && can_go_on(cuda->work, cuda->fetches)) {
            fetches = turn == EARLY ||
                      (turn == BETWEEN && or_emulated_random_below(&cuda->random, 2) == 0);
        }
        do_step(fetches ? &cuda->fetches : &cuda->work);
    }
    return cuda->broken;
}

int or_emulated_ask_meeting(or_cuda_t *cuda, std::function<void()> step)
{
    cuda->recorder.meets = true;
    int status = or_emulated_ask_step(cuda, std::move(step));
    return cuda->recorder.recording ? status : or_cuda_wait(cuda);
}

void or_emulated_break(or_cuda_t *cuda, int status)
{
    cuda->broken = status;
}

// Also the fetches that no work awaits.
static int finish(or_cuda_t *cuda)
{
    int status = or_cuda_wait(cuda);
    while (status == OR_CUDA_OK && !cuda->fetches.steps.empty()) {
        do_step(&cuda->fetches);
    }
    return status;
}

// Branches in the order in which they are asked for.
int or_cuda_part(or_cuda_t *cuda)
{
    (void)cuda;
    return OR_CUDA_OK;
}

void or_cuda_branch(or_cuda_t *cuda, uint32_t branch)
{
    (void)cuda;
    if (branch > OR_CUDA_BRANCHES) {
        or_emulated_end("or_cuda_branch", "branch %u, of %u beside the stream", branch,
                        OR_CUDA_BRANCHES);
    }
}

int or_cuda_meet(or_cuda_t *cuda)
{
    (void)cuda;
    return OR_CUDA_OK;
}

int or_cuda_hold_fetches(or_cuda_t *cuda)
{
    if (cuda->recorder.recording) {
        return refuse(cuda);
    }
    cuda->fetches.after = cuda->work.asked;
    return OR_CUDA_OK;
}

int or_cuda_await_fetches(or_cuda_t *cuda)
{
    if (cuda->recorder.recording) {
        return refuse(cuda);
    }
    cuda->work.after = cuda->fetches.asked;
    return OR_CUDA_OK;
}

// ---- the device ----

uint32_t or_cuda_count(void)
{
    return 1;
}

static uint64_t bytes_of_pages(int name)
{
    return (uint64_t)sysconf(name) * (uint64_t)sysconf(_SC_PAGESIZE);
}

// Return the memory of the device: all of the host's, or what OR_EMULATED_MEMORY says, for tests of what has no room
// there.
static uint64_t memory_limit(void)
{
    const char *limit = getenv("OR_EMULATED_MEMORY");
    return limit ? strtoull(limit, nullptr, 0) : bytes_of_pages(_SC_PHYS_PAGES);
}

static uint64_t memory_left(void)
{
    const uint64_t used = or_emulated_memory_used();
    const uint64_t limit = memory_limit();
    return used < limit ? limit - used : 0;
}

// Each of the host's threads has a device of its own, unless OR_EMULATED_ONE_DEVICE is set.
static void name_device(or_cuda_description_t *description)
{
    const pid_t thread = getenv("OR_EMULATED_ONE_DEVICE") ? 1 : gettid();
    memcpy(description->uuid, &thread, sizeof thread);
}

int or_cuda_describe(uint32_t index, or_cuda_description_t *description)
{
    if (index > 0) {
        return OR_EMULATED_NO_DEVICE;
    }
    *description = {};
    strcpy(description->name, "emulated, on the CPU");
    name_device(description);
    description->major = 9;
    description->multiprocessors = 1;
    description->memory_bytes = memory_limit();
    return OR_CUDA_OK;
}

int or_cuda_free_bytes(uint32_t index, uint64_t *bytes)
{
    if (index > 0) {
        return OR_EMULATED_NO_DEVICE;
    }
    *bytes = std::min(memory_left(), bytes_of_pages(_SC_AVPHYS_PAGES));
    return OR_CUDA_OK;
}

int or_cuda_open(uint32_t index, or_cuda_t **cuda_p)
{
    if (index > 0) {
        return OR_EMULATED_NO_DEVICE;
    }
    or_cuda_t *cuda = new (std::nothrow) or_cuda_t{};
    if (!cuda) {
        return OR_EMULATED_OUT_OF_MEMORY;
    }
    *cuda_p = cuda;
    return OR_CUDA_OK;
}

void or_cuda_close(or_cuda_t **cuda_p)
{
    or_cuda_t *cuda = *cuda_p;
    if (!cuda) {
        return;
    }
    (void)finish(cuda);
    const size_t left = or_emulated_memory_of(cuda);
    if (left > 0) {
        or_emulated_end("or_cuda_close",
                        "%zu bytes were allocated and not freed, unless a test failed", left);
    }
    delete cuda;
    *cuda_p = nullptr;
}

// ---- time ----

int or_cuda_mark(or_cuda_t *cuda, uint32_t mark)
{
    if (mark >= OR_CUDA_MARKS) {
        return OR_EMULATED_INVALID;
    }
    if (cuda->recorder.recording) {
        return refuse(cuda);
    }
    cuda->marked[mark] = true;
    return or_emulated_ask_step(cuda,
                                [=] { (void)clock_gettime(CLOCK_MONOTONIC, &cuda->marks[mark]); });
}

int or_cuda_elapsed(or_cuda_t *cuda, uint32_t from, uint32_t to, float *milliseconds)
{
    if (from >= OR_CUDA_MARKS || to >= OR_CUDA_MARKS || !cuda->marked[from] || !cuda->marked[to]) {
        return OR_EMULATED_INVALID;
    }
    int status = or_cuda_wait(cuda);
    if (status != OR_CUDA_OK) {
        return status;
    }
    const struct timespec *first = &cuda->marks[from];
    const struct timespec *last = &cuda->marks[to];
    *milliseconds = (float)((double)(last->tv_sec - first->tv_sec) * 1e3 +
                            (double)(last->tv_nsec - first->tv_nsec) * 1e-6);
    return OR_CUDA_OK;
}

// ---- memory ----

static int allocate(or_cuda_t *cuda, size_t bytes, bool pinned, void **at_p)
{
    if (cuda->recorder.recording) {
        return refuse(cuda);
    }
    if (bytes > (pinned ? bytes_of_pages(_SC_PHYS_PAGES) : memory_left())) {
        return OR_EMULATED_OUT_OF_MEMORY; // AddressSanitizer would end the program
    }
    void *at = bytes > 0 ? or_emulated_take_memory(cuda, bytes, pinned) : nullptr;
    if (bytes > 0 && !at) {
        return OR_EMULATED_OUT_OF_MEMORY;
    }
    *at_p = at;
    return pinned ? OR_CUDA_OK : or_cuda_clear(cuda, at, bytes);
}

static void release(or_cuda_t *cuda, void *at, const char *call)
{
    if (!at) {
        return;
    }
    if (cuda->recorder.recording) {
        or_emulated_end(call, "it waits, which cannot be recorded");
    }
    (void)finish(cuda);
    if (!or_emulated_give_memory(at)) {
        or_emulated_end(call, "%p was not allocated here, or is freed already", at);
    }
}

int or_cuda_alloc(or_cuda_t *cuda, size_t bytes, void **at_p)
{
    return allocate(cuda, bytes, false, at_p);
}

void or_cuda_free(or_cuda_t *cuda, void *at)
{
    release(cuda, at, "or_cuda_free");
}

int or_cuda_alloc_pinned(or_cuda_t *cuda, size_t bytes, void **at_p)
{
    return allocate(cuda, bytes, true, at_p);
}

void or_cuda_free_pinned(or_cuda_t *cuda, void *at)
{
    release(cuda, at, "or_cuda_free_pinned");
}

static void check_range(const char *call, const void *at, size_t bytes)
{
    if (!or_emulated_is_memory(at, bytes)) {
        or_emulated_end(call, "%zu bytes at %p, which are not (all) of one device memory", bytes,
                        at);
    }
}

// ---- copies ----

static void copy(void *to, const void *from, size_t bytes)
{
    or_emulated_write(to, bytes, [=] { memcpy(to, from, bytes); });
}

static int ask_copy(or_cuda_t *cuda, void *to, const void *from, size_t bytes)
{
    return or_emulated_ask_step(cuda, [=] { copy(to, from, bytes); });
}

// Memory of the host that is not pinned may go away, so it is waited for.
static int copy_with_host(or_cuda_t *cuda, const void *host, void *to, const void *from,
                          size_t bytes)
{
    int status = ask_copy(cuda, to, from, bytes);
    return or_emulated_is_pinned(host, bytes) ? status : or_cuda_wait(cuda);
}

int or_cuda_upload(or_cuda_t *cuda, void *to, const void *from, size_t bytes)
{
    if (bytes == 0) {
        return OR_CUDA_OK;
    }
    check_range("or_cuda_upload", to, bytes);
    return copy_with_host(cuda, from, to, from, bytes);
}

int or_cuda_download(or_cuda_t *cuda, void *to, const void *from, size_t bytes)
{
    if (bytes == 0) {
        return OR_CUDA_OK;
    }
    check_range("or_cuda_download", from, bytes);
    return copy_with_host(cuda, to, to, from, bytes);
}

int or_cuda_fetch(or_cuda_t *cuda, void *to, const void *from, size_t bytes)
{
    if (cuda->recorder.recording) {
        return refuse(cuda);
    }
    if (bytes == 0) {
        return OR_CUDA_OK;
    }
    check_range("or_cuda_fetch", to, bytes);
    if (!or_emulated_is_pinned(from, bytes)) {
        or_emulated_end("or_cuda_fetch",
                        "%zu bytes at %p, which are not (all) of one pinned memory", bytes, from);
    }
    ask(&cuda->fetches, [=] { copy(to, from, bytes); });
    return OR_CUDA_OK;
}

int or_cuda_copy(or_cuda_t *cuda, void *to, const void *from, size_t bytes)
{
    if (bytes == 0) {
        return OR_CUDA_OK;
    }
    check_range("or_cuda_copy", to, bytes);
    check_range("or_cuda_copy", from, bytes);
    return ask_copy(cuda, to, from, bytes);
}

int or_cuda_clear(or_cuda_t *cuda, void *at, size_t bytes)
{
    if (bytes == 0) {
        return OR_CUDA_OK;
    }
    check_range("or_cuda_clear", at, bytes);
    return or_emulated_ask_step(
        cuda, [=] { or_emulated_write(at, bytes, [=] { memset(at, 0, bytes); }); });
}
