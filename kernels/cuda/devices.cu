// Which devices are here, for whoever has not opened one (cuda_device.h).
#include "kernels/cuda/cuda_device.h"

#include <cuda_runtime.h>
#include <string.h>

// The runtime also remembers a failure, for whoever asks for the last one, and that is the next launch.
static int told(cudaError_t status)
{
    if (status != cudaSuccess)
        (void)cudaGetLastError();
    return (int)status;
}

uint32_t or_cuda_count(void)
{
    int count = 0;
    return told(cudaGetDeviceCount(&count)) == OR_CUDA_OK ? (uint32_t)count : 0;
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
