// The real device: cuda_device.h over CUDA's runtime. Its runtime is linked statically and looks for the driver when it
// is first asked, so a program that was built with this starts where there is none.
#include "kernels/cuda/cuda_device.h"

#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda_portable.cuh"

struct or_cuda {
    int index;
    cudaStream_t stream; // where work is asked for: one of the next two
    cudaStream_t work;
    cudaStream_t loop; // only ever records, what lies in one
    int recorded;      // what failed first in the recording that is made
    bool loop_is_gone; // CUDA has freed what a loop of the recording that is made had
    cudaStream_t fetches;
    cudaEvent_t asked;   // how far the stream was asked for when fetches were held last
    cudaEvent_t fetched; // likewise the fetches that were awaited last
    cudaStream_t beside[OR_CUDA_BRANCHES]; // branches 1 and above
    cudaEvent_t parted;
    uint32_t branch; // where kernels are asked for: 0 is the stream
    cudaEvent_t marks[OR_CUDA_MARKS];
    bool overlaps;     // kernels may begin while the one before runs
    bool after_kernel; // the stream's last work is one
};

struct or_cuda_recording {
    cudaGraphExec_t graph;
};

// The runtime also remembers a failure, for whoever asks for the last one, and that is the next launch.
static int told(cudaError_t status)
{
    if (status != cudaSuccess)
        (void)cudaGetLastError();
    return (int)status;
}

// Each thread has a device of its own that is current, and what is asked of another's stream fails.
static int enter(or_cuda_t *cuda)
{
    cuda->after_kernel = false;
    return told(cudaSetDevice(cuda->index));
}

// Return the stream, and enter the device's context for the launch that follows, which fails where that does.
cudaStream_t or_cuda_stream(or_cuda_t *cuda)
{
    (void)enter(cuda);
    return cuda->branch > 0 ? cuda->beside[cuda->branch - 1] : cuda->stream;
}

cudaStream_t or_cuda_kernel_stream(or_cuda_t *cuda, bool *early)
{
    *early = cuda->overlaps && cuda->after_kernel;
    cudaStream_t stream = or_cuda_stream(cuda);
    cuda->after_kernel = cuda->branch == 0;
    return stream;
}

// ---- devices ----

// Streams that do not wait for the default one, which this process' other libraries may use.
static int create_streams(or_cuda_t *cuda)
{
    cudaStream_t *const streams[] = {&cuda->work, &cuda->loop, &cuda->fetches, &cuda->beside[0],
                                     &cuda->beside[1]};
    cudaEvent_t *const events[] = {&cuda->asked, &cuda->fetched, &cuda->parted};
    int status = enter(cuda);
    for (size_t i = 0; i < sizeof streams / sizeof streams[0] && status == OR_CUDA_OK; i++)
        status = told(cudaStreamCreateWithFlags(streams[i], cudaStreamNonBlocking));
    for (size_t i = 0; i < sizeof events / sizeof events[0] && status == OR_CUDA_OK; i++)
        status = told(cudaEventCreateWithFlags(events[i], cudaEventDisableTiming));
    for (uint32_t i = 0; i < OR_CUDA_MARKS && status == OR_CUDA_OK; i++)
        status = told(cudaEventCreate(&cuda->marks[i]));
    cuda->stream = cuda->work;
    return status;
}
static_assert(OR_CUDA_BRANCHES == 2, "streams beside");

int or_cuda_open(uint32_t index, or_cuda_t **cuda_p)
{
    or_cuda_t *cuda = (or_cuda_t *)calloc(1, sizeof *cuda);
    if (!cuda)
        return (int)cudaErrorMemoryAllocation;
    cuda->index = (int)index;
    cuda->overlaps = or_cuda_overlaps(cuda->index);
    int status = create_streams(cuda);
    if (status != OR_CUDA_OK) {
        or_cuda_close(&cuda);
        return status;
    }
    *cuda_p = cuda;
    return OR_CUDA_OK;
}

static void destroy_event(cudaEvent_t event)
{
    if (event)
        (void)told(cudaEventDestroy(event));
}

static void destroy_stream(cudaStream_t stream)
{
    if (!stream)
        return;
    (void)told(cudaStreamSynchronize(stream));
    (void)told(cudaStreamDestroy(stream));
}

void or_cuda_close(or_cuda_t **cuda_p)
{
    or_cuda_t *cuda = *cuda_p;
    if (!cuda)
        return;
    *cuda_p = NULL;
    (void)enter(cuda);
    for (uint32_t i = 0; i < OR_CUDA_MARKS; i++)
        destroy_event(cuda->marks[i]);
    for (uint32_t i = 0; i < OR_CUDA_BRANCHES; i++)
        destroy_stream(cuda->beside[i]);
    destroy_event(cuda->parted);
    destroy_event(cuda->fetched);
    destroy_event(cuda->asked);
    destroy_stream(cuda->fetches);
    destroy_stream(cuda->loop);
    destroy_stream(cuda->work);
    free(cuda);
}

int or_cuda_wait(or_cuda_t *cuda)
{
    int status = enter(cuda);
    return status == OR_CUDA_OK ? told(cudaStreamSynchronize(cuda->stream)) : status;
}

// Wait until memory may be freed: also for fetches that no work awaits.
static void finish(or_cuda_t *cuda)
{
    (void)or_cuda_wait(cuda);
    (void)told(cudaStreamSynchronize(cuda->fetches));
}

// ---- memory ----

int or_cuda_alloc(or_cuda_t *cuda, size_t bytes, void **at_p)
{
    void *at = NULL;
    int status = enter(cuda);
    if (status == OR_CUDA_OK)
        status = told(cudaMalloc(&at, bytes));
    if (status == OR_CUDA_OK)
        status = or_cuda_clear(cuda, at, bytes);
    if (status != OR_CUDA_OK) {
        or_cuda_free(cuda, at);
        return status;
    }
    *at_p = at;
    return OR_CUDA_OK;
}

void or_cuda_free(or_cuda_t *cuda, void *at)
{
    if (!at)
        return;
    finish(cuda);
    (void)told(cudaFree(at));
}

int or_cuda_alloc_pinned(or_cuda_t *cuda, size_t bytes, void **at_p)
{
    void *at = NULL;
    int status = enter(cuda);
    if (status == OR_CUDA_OK)
        status = told(cudaMallocHost(&at, bytes));
    if (status == OR_CUDA_OK)
        *at_p = at;
    return status;
}

void or_cuda_free_pinned(or_cuda_t *cuda, void *at)
{
    if (!at)
        return;
    finish(cuda);
    (void)told(cudaFreeHost(at));
}

int or_cuda_clear(or_cuda_t *cuda, void *at, size_t bytes)
{
    int status = enter(cuda);
    if (status != OR_CUDA_OK || bytes == 0)
        return status;
    return told(cudaMemsetAsync(at, 0, bytes, cuda->stream));
}

// ---- copies ----

static int ask_for_copy(or_cuda_t *cuda, void *to, const void *from, size_t bytes,
                        cudaMemcpyKind kind)
{
    int status = enter(cuda);
    if (status != OR_CUDA_OK || bytes == 0)
        return status;
    return told(cudaMemcpyAsync(to, from, bytes, kind, cuda->stream));
}

static bool is_pinned(const void *at)
{
    cudaPointerAttributes attributes;
    return told(cudaPointerGetAttributes(&attributes, at)) == OR_CUDA_OK &&
           attributes.type == cudaMemoryTypeHost;
}

// CUDA leaves it open when it is done with memory that is not pinned: its caller may reuse that at once.
static int settle(or_cuda_t *cuda, const void *host, int status)
{
    return status == OR_CUDA_OK && !is_pinned(host) ? or_cuda_wait(cuda) : status;
}

int or_cuda_upload(or_cuda_t *cuda, void *to, const void *from, size_t bytes)
{
    return settle(cuda, from, ask_for_copy(cuda, to, from, bytes, cudaMemcpyHostToDevice));
}

int or_cuda_download(or_cuda_t *cuda, void *to, const void *from, size_t bytes)
{
    return settle(cuda, to, ask_for_copy(cuda, to, from, bytes, cudaMemcpyDeviceToHost));
}

int or_cuda_copy(or_cuda_t *cuda, void *to, const void *from, size_t bytes)
{
    return ask_for_copy(cuda, to, from, bytes, cudaMemcpyDeviceToDevice);
}

// ---- fetches ----

int or_cuda_fetch(or_cuda_t *cuda, void *to, const void *from, size_t bytes)
{
    int status = enter(cuda);
    cuda->overlaps = false; // weights that change may not be read before other kernels are awaited
    if (status != OR_CUDA_OK || bytes == 0)
        return status;
    return told(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, cuda->fetches));
}

// `later` goes on when all that `first` was asked for by now is done. The event may serve again at once: a stream
// remembers what it was then.
static int put_behind(or_cuda_t *cuda, cudaStream_t later, cudaStream_t first, cudaEvent_t event)
{
    int status = enter(cuda);
    if (status == OR_CUDA_OK)
        status = told(cudaEventRecord(event, first));
    if (status == OR_CUDA_OK)
        status = told(cudaStreamWaitEvent(later, event, 0));
    return status;
}

int or_cuda_hold_fetches(or_cuda_t *cuda)
{
    return put_behind(cuda, cuda->fetches, cuda->stream, cuda->asked);
}

int or_cuda_await_fetches(or_cuda_t *cuda)
{
    return put_behind(cuda, cuda->stream, cuda->fetches, cuda->fetched);
}

// Where the stream is recorded, those that are put behind it are, too, until it is put behind them.
int or_cuda_part(or_cuda_t *cuda)
{
    int status = OR_CUDA_OK;
    for (uint32_t i = 0; i < OR_CUDA_BRANCHES && status == OR_CUDA_OK; i++)
        status = put_behind(cuda, cuda->beside[i], cuda->stream, cuda->parted);
    return status;
}

void or_cuda_branch(or_cuda_t *cuda, uint32_t branch)
{
    cuda->branch = branch;
    cuda->after_kernel = false;
}

int or_cuda_meet(or_cuda_t *cuda)
{
    int status = OR_CUDA_OK;
    cuda->branch = 0;
    for (uint32_t i = 0; i < OR_CUDA_BRANCHES && status == OR_CUDA_OK; i++)
        status = put_behind(cuda, cuda->stream, cuda->beside[i], cuda->parted);
    return status;
}

// ---- time ----

int or_cuda_mark(or_cuda_t *cuda, uint32_t mark)
{
    int status = enter(cuda);
    return status == OR_CUDA_OK ? told(cudaEventRecord(cuda->marks[mark], cuda->stream)) : status;
}

int or_cuda_elapsed(or_cuda_t *cuda, uint32_t from, uint32_t to, float *milliseconds)
{
    int status = enter(cuda);
    if (status == OR_CUDA_OK)
        status = told(cudaEventSynchronize(cuda->marks[from]));
    if (status == OR_CUDA_OK)
        status = told(cudaEventSynchronize(cuda->marks[to]));
    if (status == OR_CUDA_OK)
        status = told(cudaEventElapsedTime(milliseconds, cuda->marks[from], cuda->marks[to]));
    return status;
}

// ---- recordings ----

// For what CUDA does not hold against a recording by itself.
static int keep(or_cuda_t *cuda, int status)
{
    if (cuda->recorded == OR_CUDA_OK)
        cuda->recorded = status;
    return status;
}

// Other threads, with devices of their own, may meanwhile do what may not be recorded.
int or_cuda_record_begin(or_cuda_t *cuda)
{
    int status = enter(cuda);
    if (status != OR_CUDA_OK)
        return status;
    status = told(cudaStreamBeginCapture(cuda->stream, cudaStreamCaptureModeThreadLocal));
    if (status == OR_CUDA_OK) {
        cuda->recorded = OR_CUDA_OK;
        cuda->loop_is_gone = false;
    }
    return keep(cuda, status);
}

static int instantiate(cudaGraph_t graph, or_cuda_recording_t **recording_p)
{
    or_cuda_recording_t *recording = (or_cuda_recording_t *)calloc(1, sizeof *recording);
    if (!recording)
        return (int)cudaErrorMemoryAllocation;
    int status = told(cudaGraphInstantiateWithFlags(&recording->graph, graph, 0));
    if (status != OR_CUDA_OK) {
        free(recording);
        return status;
    }
    *recording_p = recording;
    return OR_CUDA_OK;
}

int or_cuda_record_end(or_cuda_t *cuda, or_cuda_recording_t **recording_p)
{
    cudaGraph_t graph = NULL;
    if (cuda->stream == cuda->loop) {
        (void)or_cuda_loop_end(cuda);
        (void)keep(cuda, (int)cudaErrorStreamCaptureUnjoined);
    }
    int status = enter(cuda);
    if (status == OR_CUDA_OK)
        status = told(cudaStreamEndCapture(cuda->stream, &graph));
    if (status == OR_CUDA_OK)
        status = cuda->recorded;
    if (status == OR_CUDA_OK)
        status = instantiate(graph, recording_p);
    // CUDA would free a loop that is gone once more, and crash (driver 580.159): such a graph leaks.
    if (graph && !cuda->loop_is_gone)
        (void)told(cudaGraphDestroy(graph));
    return status;
}

int or_cuda_replay(or_cuda_t *cuda, or_cuda_recording_t *recording)
{
    int status = enter(cuda);
    return status == OR_CUDA_OK ? told(cudaGraphLaunch(recording->graph, cuda->stream)) : status;
}

void or_cuda_recording_free(or_cuda_recording_t **recording_p)
{
    or_cuda_recording_t *recording = *recording_p;
    if (!recording)
        return;
    *recording_p = NULL;
    (void)told(cudaGraphExecDestroy(recording->graph));
    free(recording);
}

// ---- loops in recordings ----
//
//     the stream's graph    ... ─▶ node ─▶ a node for the loop ─▶ what comes behind it ...
//     the loop's graph                       first ─▶ ... ─▶ last

#if CUDART_VERSION >= 12040

#if CUDART_VERSION >= 13000 // which has no other versions of these
#define cudaStreamGetCaptureInfo_v3 cudaStreamGetCaptureInfo
#define cudaStreamUpdateCaptureDependencies_v2 cudaStreamUpdateCaptureDependencies
#define cudaGraphAddNode_v2 cudaGraphAddNode
#endif

// A graph that is recorded, and what its next node comes after: CUDA's until the stream is asked for more.
typedef struct {
    cudaGraph_t graph;
    const cudaGraphNode_t *last;
    size_t last_count;
} recorded_t;

static int ask_for_recorded(const or_cuda_t *cuda, recorded_t *recorded)
{
    cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
    if (cuda->stream == cuda->loop)
        return (int)cudaErrorIllegalState;
    int status = told(cudaStreamGetCaptureInfo_v3(cuda->stream, &state, NULL, &recorded->graph,
                                                  &recorded->last, NULL, &recorded->last_count));
    if (status == OR_CUDA_OK && state != cudaStreamCaptureStatusActive)
        status = (int)cudaErrorIllegalState;
    return status;
}

// *body_p is the node's own. What the stream is asked for from here on comes behind it.
static int add_loop(or_cuda_t *cuda, const recorded_t *recorded, cudaGraphConditionalHandle handle,
                    cudaGraph_t *body_p)
{
    cudaGraphNode_t node = NULL;
    cudaGraphNodeParams loop = {};
    loop.type = cudaGraphNodeTypeConditional;
    loop.conditional.handle = handle;
    loop.conditional.type = cudaGraphCondTypeWhile;
    loop.conditional.size = 1;
    int status = told(cudaGraphAddNode_v2(&node, recorded->graph, recorded->last, NULL,
                                          recorded->last_count, &loop));
    if (status == OR_CUDA_OK)
        status = told(cudaStreamUpdateCaptureDependencies_v2(cuda->stream, &node, NULL, 1,
                                                             cudaStreamSetCaptureDependencies));
    if (status == OR_CUDA_OK)
        *body_p = loop.conditional.phGraph_out[0];
    return status;
}

int or_cuda_loop_begin(or_cuda_t *cuda, or_cuda_loop_t *loop)
{
    recorded_t recorded = {};
    cudaGraphConditionalHandle handle = 0;
    cudaGraph_t body = NULL;
    int status = enter(cuda);
    if (status == OR_CUDA_OK)
        status = ask_for_recorded(cuda, &recorded);
    if (status == OR_CUDA_OK) // which is 1 whenever the recording is replayed
        status = told(cudaGraphConditionalHandleCreate(&handle, recorded.graph, 1,
                                                       cudaGraphCondAssignDefault));
    if (status == OR_CUDA_OK)
        status = add_loop(cuda, &recorded, handle, &body);
    if (status == OR_CUDA_OK)
        status = told(cudaStreamBeginCaptureToGraph(cuda->loop, body, NULL, NULL, 0,
                                                    cudaStreamCaptureModeThreadLocal));
    if (status != OR_CUDA_OK)
        return keep(cuda, status);
    cuda->stream = cuda->loop;
    *loop = handle;
    return OR_CUDA_OK;
}

int or_cuda_loop_end(or_cuda_t *cuda)
{
    cudaGraph_t body = NULL;
    if (cuda->stream != cuda->loop)
        return keep(cuda, (int)cudaErrorIllegalState);
    int status = enter(cuda);
    if (status == OR_CUDA_OK)
        status = told(cudaStreamEndCapture(cuda->loop, &body));
    cuda->loop_is_gone |= body == NULL; // of a recording that failed
    cuda->stream = cuda->work;
    return keep(cuda, status);
}

#else

int or_cuda_loop_begin(or_cuda_t *cuda, or_cuda_loop_t *loop)
{
    (void)loop;
    return keep(cuda, (int)cudaErrorNotSupported);
}

int or_cuda_loop_end(or_cuda_t *cuda)
{
    return keep(cuda, (int)cudaErrorNotSupported);
}

#endif
