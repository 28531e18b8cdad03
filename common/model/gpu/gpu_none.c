// A build without CUDA.
#include "common/model/gpu/gpu.h"

const or_gpu_functions_t *or_gpu_functions(void)
{
    return NULL;
}
