// Which devices are here, for whoever has not opened one, and what a status says (cuda_device.h).
#include "kernels/cuda/cuda_device.h"

#include <cuda_runtime.h>
#include <string.h>

#include "kernels/cuda/cuda_peers.h"
#include "kernels/cuda/cuda_portable.cuh"
#include "kernels/cuda/cuda_tensor.h"

// The runtime also remembers a failure, for whoever asks for the last one, and that is the next launch.
static int told(cudaError_t status)
{
    if (status != cudaSuccess)
        (void)cudaGetLastError();
    return (int)status;
}

const char *or_cuda_text(int status)
{
    if (status >= OR_CUDA_PEERS)
        return or_cuda_peers_text(status);
    if (status >= OR_CUDA_TENSOR)
        return or_cuda_tensor_text(status);
    if (status == (int)cudaErrorInsufficientDriver)
        return "there is no NVIDIA driver, or one too old for the CUDA that this was built with";
    return cudaGetErrorString((cudaError_t)status);
}

uint32_t or_cuda_count(void)
{
    int count = 0;
    return told(cudaGetDeviceCount(&count)) == OR_CUDA_OK ? (uint32_t)count : 0;
}

// All kernels are compiled for what this one is.
OR_GLOBAL void do_nothing(void)
{
}

// Hopper and later, with CUDA 12.4 or later as recordings want it, and with code for Hopper: in what the driver makes of code for
// older cards kernels do not await one another (or_await_before).
bool or_cuda_overlaps(int index)
{
    int major = 0, driver = 0;
    cudaFuncAttributes code = {};
    return CUDART_VERSION >= 12040 && told(cudaSetDevice(index)) == OR_CUDA_OK &&
           told(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index)) ==
               OR_CUDA_OK &&
           told(cudaDriverGetVersion(&driver)) == OR_CUDA_OK &&
           told(cudaFuncGetAttributes(&code, do_nothing)) == OR_CUDA_OK && major >= 9 &&
           driver >= 12040 && code.ptxVersion >= 90;
}

int or_cuda_describe(uint32_t index, or_cuda_description_t *description)
{
    cudaDeviceProp device;
    int status = told(cudaGetDeviceProperties(&device, (int)index));
    if (status != OR_CUDA_OK)
        return status;

    or_cuda_description_t d = {};
    memcpy(d.name, device.name, sizeof d.name - 1);
    memcpy(d.uuid, device.uuid.bytes, sizeof d.uuid);
    d.major = (uint32_t)device.major;
    d.minor = (uint32_t)device.minor;
    d.multiprocessors = (uint32_t)device.multiProcessorCount;
    d.memory_bytes = device.totalGlobalMem;
    *description = d;
    return OR_CUDA_OK;
}

int or_cuda_free_bytes(uint32_t index, uint64_t *bytes)
{
    size_t left = 0, all = 0;
    int status = told(cudaSetDevice((int)index));
    if (status == OR_CUDA_OK)
        status = told(cudaMemGetInfo(&left, &all));
    if (status == OR_CUDA_OK)
        *bytes = left;
    return status;
}
