// gpu_steps - the launches of a pass, recorded where they come again, and then asked for by one call.
//
// Passes of as many rows that see about as much launch the same kernels with the same arguments, some 18 a layer:
// whatever else differs lies in tables and buffers, at addresses that never change. A *step* is what such passes
// have in common:
//
//     rows          1    1    1    1   17   17    1   17    1 ...
//     positions  <256 <256 <256 <256 <256 <256 <512 <512 <512
//                   -  rec  rep  rep    -  rec    -    -  rec     first launched, then recorded, then replayed
//
// A step that comes once is not worth recording. There is room for some; the one that was not asked for the
// longest makes place. Bits are the same either way.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/model/model.h"
#include "kernels/cuda/cuda_device.h"

#define OR_GPU_STEPS 64u

typedef struct {
    uint32_t rows; // 0: none
    uint32_t positions_max;
    uint64_t used;                  // in which pass last
    or_cuda_recording_t *recording; // owned; NULL: not yet
} or_gpu_step_t;

typedef struct {
    or_gpu_step_t table[OR_GPU_STEPS];
    uint64_t passes;
    uint64_t replays; // of those passes
    bool off;         // nothing is recorded any more
} or_gpu_steps_t;

// What a pass of `rows` planned rows launches. Where it can be recorded it neither waits nor copies from or to the
// host.
typedef or_status_t or_gpu_launch_t(or_model_t *model, uint32_t rows);

// As many positions, and up to an eighth more, or 255: so that attention is launched alike for many passes.
uint32_t or_gpu_steps_round(uint32_t positions);

// Do what `launch` does, which is the same function for all passes of a model. Recordings may be freed, so the pass
// before must be done (or_gpu_tables_clear waits for it).
or_status_t or_gpu_steps_run(or_model_t *model, uint32_t rows, or_gpu_launch_t *launch);

// Forget all steps, which nothing on the device needs any more.
void or_gpu_steps_forget(or_model_t *model);
