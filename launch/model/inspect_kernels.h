// inspect_kernels - `outrider model inspect --kernels`: what this machine computes with.
#pragma once

#include <stdbool.h>

#include "common/base/status.h"

// On standard output: the kernels in use, those that were built and whether they run here, the arithmetic,
// the types of weights. OR_ERR_UNSUPPORTED, after printing, if OUTRIDER_KERNELS names none that runs here;
// OR_ERR_NO_MEMORY.
or_status_t or_inspect_kernels(bool json);
