// cuda_device - one GPU: its memory, copies, clock and recorded steps, for C.
//
// Callers need no CUDA headers. What is here exists where the build found nvcc (OR_CUDA is defined), and in
// the tests' library that runs the same kernels thread by thread on the CPU (cuda_portable.cuh).
//
// A device has one stream. Work is done in the order in which it was asked for, and a function returns before its
// work is done unless it says that it waits. Beside it a second stream fetches from the host. One thread at a
// time for each device. Whatever a launched kernel did wrong is told by the next function that waits; the device
// is of no use then.
//
// All return OR_CUDA_OK or a code for or_cuda_text.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OR_CUDA_OK 0
#define OR_CUDA_TENSOR 100000 // and above: of cuda_tensor.h
#define OR_CUDA_PEERS 200000  // and above: of cuda_peers.h
#define OR_CUDA_MAJOR_MIN 8u  // compute capability from which on the kernels run: Ampere
#define OR_CUDA_BRANCHES 2u   // beside the stream
#define OR_CUDA_MARKS 16u     // places in the stream whose time can be asked for

typedef struct or_cuda or_cuda_t;
typedef struct or_cuda_recording or_cuda_recording_t;

typedef struct {
    char name[128];   // "NVIDIA H100 80GB HBM3"
    uint8_t uuid[16]; // of no other device, on whichever host
    uint32_t major;   // compute capability
    uint32_t minor;
    uint32_t multiprocessors;
    uint64_t memory_bytes;
} or_cuda_description_t;

// A sentence without an end, as "out of memory".
const char *or_cuda_text(int status);

// Devices that can be used here; 0 too where there is no driver.
uint32_t or_cuda_count(void);
// Describe a device by what the driver says of it. This does not open the device, which another process may have to
// itself.
int or_cuda_describe(uint32_t index, or_cuda_description_t *description);
// Return how many of the memory_bytes are free. This opens the device for this process, which takes some of them, and
// fails where another process has it to itself.
int or_cuda_free_bytes(uint32_t index, uint64_t *bytes);

int or_cuda_open(uint32_t index, or_cuda_t **cuda_p);
// Waits. What was allocated must be freed before.
void or_cuda_close(or_cuda_t **cuda_p);

// Device memory, aligned to 256 bytes, zeroed. Freeing waits; NULL is nothing.
int or_cuda_alloc(or_cuda_t *cuda, size_t bytes, void **at_p);
void or_cuda_free(or_cuda_t *cuda, void *at);
// Memory of the host, not zeroed, that the device reads and writes by itself; copies to and from any other wait.
int or_cuda_alloc_pinned(or_cuda_t *cuda, size_t bytes, void **at_p);
void or_cuda_free_pinned(or_cuda_t *cuda, void *at);

int or_cuda_upload(or_cuda_t *cuda, void *to, const void *from, size_t bytes);
int or_cuda_download(or_cuda_t *cuda, void *to, const void *from, size_t bytes);
int or_cuda_copy(or_cuda_t *cuda, void *to, const void *from, size_t bytes); // within the device
int or_cuda_clear(or_cuda_t *cuda, void *at, size_t bytes);
// Wait until all work that was launched is done, except fetches that no work awaits.
int or_cuda_wait(or_cuda_t *cuda);

// Copy pinned memory of the host to the device while other work goes on. Fetches are done in order. Work and they wait for each
// other only where that is said:
//
//     for each part of what has no room on the device, with two buffers by turns
//         or_cuda_await_fetches(cuda)                  this part is there
//         or_cuda_hold_fetches(cuda)                   the work on the part before is done with its buffer,
//         or_cuda_fetch(cuda, that, next, bytes)       where the next part comes while
//         ...                                          this one is worked on
//
// None of them may be recorded.
int or_cuda_fetch(or_cuda_t *cuda, void *to, const void *from, size_t bytes);
// Let later fetches begin only after all work that was launched so far.
int or_cuda_hold_fetches(or_cuda_t *cuda);
// Work that is asked for from here on is done after all fetches that were asked for so far.
int or_cuda_await_fetches(or_cuda_t *cuda);

// Kernels that need nothing of each other, and so may run at the same time, each where few blocks would leave a part of the
// device idle:
//
//     or_cuda_part(cuda)                           all that was asked for before is done first
//     ...                                          kernels of branch 0, the stream itself
//     or_cuda_branch(cuda, 1)
//     ...                                          kernels of branch 1, up to OR_CUDA_BRANCHES
//     or_cuda_meet(cuda)                           what comes behind waits for all of them
//
// All of it may be recorded, in a loop or out of it. Between part and meet nothing but kernels may be asked for, and
// whatever fails, meet is called.
int or_cuda_part(or_cuda_t *cuda);
void or_cuda_branch(or_cuda_t *cuda, uint32_t branch);
int or_cuda_meet(or_cuda_t *cuda);

// Note the time when the stream comes here; milliseconds between two marks, which waits for both.
int or_cuda_mark(or_cuda_t *cuda, uint32_t mark);
int or_cuda_elapsed(or_cuda_t *cuda, uint32_t from, uint32_t to, float *milliseconds);

// Work that is launched between begin and end is recorded, not done; replaying it is one call (a CUDA graph). Nothing
// that waits may be recorded: it fails, and with it the recording. Nor may marks or replays be. Where a recording
// ends, whoever owns it frees it.
int or_cuda_record_begin(or_cuda_t *cuda);
int or_cuda_record_end(or_cuda_t *cuda, or_cuda_recording_t **recording_p);
int or_cuda_replay(or_cuda_t *cuda, or_cuda_recording_t *recording);
void or_cuda_recording_free(or_cuda_recording_t **recording_p);

// A part of a recording that repeats itself, and says on the device whether (a CUDA graph's conditional node):
//
//     or_cuda_record_begin
//         ...                                          once
//         or_cuda_loop_begin(cuda, &loop)
//             ...                                      once at least, and again while the last word was yes
//             a kernel that is given `loop`            by one of its threads says: or_go_on (cuda_portable.cuh)
//         or_cuda_loop_end(cuda)
//         ...                                          once
//     or_cuda_record_end
//
// Each replay starts afresh. A loop that is told nothing never ends. Loops may follow one another, not lie in one another.
// Kernels, copies and or_cuda_clear may lie in one, nothing that meets other devices. What fails leaves nothing
// recorded, which or_cuda_record_end tells too. That is so wherever CUDA or its driver is older than 12.4.
typedef uint64_t or_cuda_loop_t;
#define OR_CUDA_NO_LOOP UINT64_MAX
int or_cuda_loop_begin(or_cuda_t *cuda, or_cuda_loop_t *loop);
int or_cuda_loop_end(or_cuda_t *cuda);

#ifdef __cplusplus
}
#endif
