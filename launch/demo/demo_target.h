// demo_target - the target of `outrider demo`: the demonstration target, inflated to a size at which a pass is bound by
// reading weights. It is made once and stays in the user's cache folder: $XDG_CACHE_HOME/outrider, or ~/.cache/outrider.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "launch/cluster/paths.h"

typedef struct {
    char path[OR_PATH_BYTES];
    uint64_t parameters;
    uint64_t file_bytes;
    const char *type; // of its matrices: "F16"
    bool made; // now; it was not in the cache folder, or it was broken or made of another file
} or_demo_target_t;

typedef struct {
    const char *size; // "300M"
    const char *type; // of the matrices, as `outrider model quantize` has them
    uint32_t threads; // that make it; 0: one a CPU
} or_demo_wish_t;

// Find the model of the wish that is made of the model at `source`, or make it, which is told on standard error.
// OR_ERR_INVALID for a size or type that cannot be. OR_ERR_IO: no folder for it, or no room on the disk; OR_ERR_NO_MEMORY: the
// machine has too little memory to run it; OR_ERR_CANCELLED if interrupted; else as or_inflate does.
or_status_t or_demo_target_find(const char *source, const or_demo_wish_t *wish,
                                or_demo_target_t *target);
