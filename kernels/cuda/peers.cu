// cuda_peers.h over NCCL.
#include "kernels/cuda/cuda_peers.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda_portable.cuh"

// ---- the library ----

// The part of nccl.h that is needed here. It has been the same since NCCL 2.0, and CUDA's toolkit does not come with
// it.
struct unique_id_t {
    char bytes[OR_CUDA_PEERS_ID];
};
typedef struct ncclComm *group_t;
enum result_t {
    SUCCESS = 0,
    CUDA_FAILED = 1,
    SYSTEM_FAILED = 2,
    INVALID_USAGE = 5,
    REMOTE_FAILED = OR_CUDA_PEERS_LOST - OR_CUDA_PEERS,
};
#define FLOAT32 7
#define VERSION_LEAST 20906 // 2.9.6: what it does can be recorded

struct library_t {
    result_t (*get_version)(int *version);
    result_t (*get_unique_id)(unique_id_t *id);
    result_t (*join)(group_t *group, int size, unique_id_t id, int rank);
    result_t (*abort)(group_t group);
    result_t (*all_gather)(const void *from, void *to, size_t count, int type, group_t group,
                           cudaStream_t stream);
};

#define NO_LIBRARY OR_CUDA_PEERS // above it: codes of the library

template <typename F> static bool find(void *handle, const char *name, F *function)
{
    *function = (F)dlsym(handle, name);
    return *function != NULL;
}

static bool find_functions(void *h, library_t *l)
{
    return find(h, "ncclGetVersion", &l->get_version) &&
           find(h, "ncclGetUniqueId", &l->get_unique_id) && find(h, "ncclCommInitRank", &l->join) &&
           find(h, "ncclCommAbort", &l->abort) && find(h, "ncclAllGather", &l->all_gather);
}

// Open the library where the system looks for it, or where NVIDIA's own installer puts it. Opening it again costs
// nothing, and it is never closed, because threads of its own run in it.
static int open_library(library_t *library)
{
    static const char *const names[] = {"libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2"};
    void *handle = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !handle; i++) {
        handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    }
    return handle && find_functions(handle, library) ? OR_CUDA_OK : NO_LIBRARY;
}

static int told(result_t result)
{
    return result == SUCCESS ? OR_CUDA_OK : OR_CUDA_PEERS + (int)result;
}

const char *or_cuda_peers_text(int status)
{
    switch (status - OR_CUDA_PEERS) {
    case 0:
        return "NCCL is not here, or older than 2.9.6: install libnccl.so.2 (libnccl2), or name "
               "its folder in LD_LIBRARY_PATH";
    case CUDA_FAILED:
        return "NCCL failed in a call of CUDA (NCCL_DEBUG=WARN tells which)";
    case SYSTEM_FAILED:
        return "NCCL failed in a call of the system (NCCL_DEBUG=WARN tells which)";
    case INVALID_USAGE:
        return "NCCL cannot be used so, as by two ranks on one GPU (NCCL_DEBUG=WARN tells why)";
    case REMOTE_FAILED:
        return "NCCL failed on another rank, or lost it";
    default:
        return "NCCL failed (NCCL_DEBUG=WARN tells why)";
    }
}

// ---- a group ----

struct or_cuda_peers {
    or_cuda_t *cuda;
    library_t library;
    group_t group;
};

int or_cuda_peers_name(char name[OR_CUDA_PEERS_NAME])
{
    library_t library;
    int version = 0;
    int status = open_library(&library);
    if (status == OR_CUDA_OK) {
        status = told(library.get_version(&version));
    }
    if (status == OR_CUDA_OK && version < VERSION_LEAST) {
        status = NO_LIBRARY;
    }
    if (status == OR_CUDA_OK) {
        snprintf(name, OR_CUDA_PEERS_NAME, "NCCL %d.%d.%d", version / 10000, version / 100 % 100,
                 version % 100);
    }
    return status;
}

int or_cuda_peers_id(uint8_t id[OR_CUDA_PEERS_ID])
{
    library_t library;
    unique_id_t unique;
    int status = open_library(&library);
    if (status == OR_CUDA_OK) {
        status = told(library.get_unique_id(&unique));
    }
    if (status == OR_CUDA_OK) {
        memcpy(id, unique.bytes, OR_CUDA_PEERS_ID);
    }
    return status;
}

int or_cuda_peers_join(or_cuda_t *cuda, const uint8_t id[OR_CUDA_PEERS_ID], uint32_t rank,
                       uint32_t size, or_cuda_peers_t **peers_p)
{
    or_cuda_peers_t *peers = (or_cuda_peers_t *)calloc(1, sizeof *peers);
    if (!peers) {
        return (int)cudaErrorMemoryAllocation;
    }
    unique_id_t unique;
    memcpy(unique.bytes, id, OR_CUDA_PEERS_ID);
    peers->cuda = cuda;
    (void)or_cuda_stream(cuda); // which enters the device
    int status = open_library(&peers->library);
    if (status == OR_CUDA_OK) {
        status = told(peers->library.join(&peers->group, (int)size, unique, (int)rank));
    }
    if (status != OR_CUDA_OK) {
        free(peers);
        return status;
    }
    *peers_p = peers;
    return OR_CUDA_OK;
}

// Aborting is this rank's own affair; destroying would wait for all others on this host to do so too.
void or_cuda_peers_leave(or_cuda_peers_t **peers_p)
{
    or_cuda_peers_t *peers = *peers_p;
    if (!peers) {
        return;
    }
    *peers_p = NULL;
    (void)or_cuda_stream(peers->cuda);
    (void)peers->library.abort(peers->group);
    free(peers);
}

int or_cuda_peers_gather(or_cuda_peers_t *peers, const float *from, float *to, size_t floats)
{
    return told(peers->library.all_gather(from, to, floats, FLOAT32, peers->group,
                                          or_cuda_stream(peers->cuda)));
}
