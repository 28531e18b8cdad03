// gpu_steps - the launches of a pass, which are recorded when they come again, and then replayed by one call.
//
// Passes of equally many rows that see about equally many positions launch the same kernels with the same arguments,
// some 18 a layer. Whatever else differs lies in tables and buffers, at addresses that never change. A *step* is what
// such passes have in common:
//
//     rows          1    1    1    1   17   17    1   17    1 ...
//     positions  <256 <256 <256 <256 <256 <256 <512 <512 <512
//                   -  rec  rep  rep    -  rec    -    -  rec     first launched, then recorded, then replayed
//
// Trees that grow on the device (gpu_growth.h) are steps of another kind, with equally many rows in each of their
// passes.
//
// A step that comes once is not worth recording. The table has room for some steps; the least recently used one is
// replaced. Bits are the same either way.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/model/model.h"
#include "kernels/cuda/cuda_device.h"

#define OR_GPU_STEPS 64u

typedef enum { OR_GPU_PASS, OR_GPU_GROWTH, OR_GPU_STEP_KINDS } or_gpu_step_kind_t;

typedef struct {
    or_gpu_step_kind_t kind;
    uint32_t rows; // 0: none
    uint32_t positions_max;
    uint64_t used;                  // when `asked` was this
    or_cuda_recording_t *recording; // owned; NULL: not yet
} or_gpu_step_t;

typedef struct {
    or_gpu_step_t table[OR_GPU_STEPS];
    uint64_t asked;              // how often for some step
    uint64_t replays;            // of those
    bool off[OR_GPU_STEP_KINDS]; // nothing of that kind is recorded any more
} or_gpu_steps_t;

// The function that launches a pass of `rows` planned rows, or a growth. Where it can be recorded it neither waits
// nor copies from or to the host.
typedef or_status_t or_gpu_launch_t(or_model_t *model, uint32_t rows);

// Round a number of positions up, by at most an eighth or 255, so that attention is launched alike for many passes.
uint32_t or_gpu_steps_round(uint32_t positions);

// Return the recording of the step of `rows` rows and gpu->positions_max, if that step came before, borrowed until
// the next call. NULL means that nothing is recorded and the caller launches. `launch` is the same function for all
// steps of a kind.
or_cuda_recording_t *or_gpu_steps_find(or_model_t *model, or_gpu_step_kind_t kind, uint32_t rows,
                                       or_gpu_launch_t *launch);
void or_gpu_steps_replay(or_model_t *model, or_cuda_recording_t *recording);

// Do what `launch` does for a pass, by a recording or without one.
or_status_t or_gpu_steps_run(or_model_t *model, uint32_t rows, or_gpu_launch_t *launch);

// Forget all steps, which nothing on the device needs any more.
void or_gpu_steps_forget(or_model_t *model);
