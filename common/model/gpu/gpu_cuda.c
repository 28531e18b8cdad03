// The functions of whichever library of kernels this is linked with.
#include "common/model/gpu/gpu.h"

#define FUNCTION(name) .name = or_cuda_##name,
static const or_gpu_functions_t functions = {OR_GPU_FUNCTIONS(FUNCTION)};

const or_gpu_functions_t *or_gpu_functions(void)
{
    return &functions;
}
