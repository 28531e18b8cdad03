#include "common/model/gpu/gpu_steps.h"

#include "common/model/gpu/gpu_internal.h"

#define POSITIONS_LEAST 256u // that a step is made for

uint32_t or_gpu_steps_round(uint32_t positions)
{
    uint32_t unit = POSITIONS_LEAST;
    while (unit <= positions / 16) {
        unit *= 2;
    }
    return (positions + unit - 1) / unit * unit;
}

// ---- the table ----

// The device may still be at it.
static void forget(or_gpu_t *gpu, or_gpu_step_t *step)
{
    if (step->recording != NULL) {
        or_gpu_keep(gpu, gpu->functions->wait(gpu->cuda));
        gpu->functions->recording_free(&step->recording);
    }
    *step = (or_gpu_step_t){0};
}

void or_gpu_steps_forget(or_model_t *model)
{
    for (uint32_t i = 0; i < OR_GPU_STEPS; i++) {
        forget(model->gpu, &model->gpu->steps.table[i]);
    }
}

static or_gpu_step_t *find(or_gpu_t *gpu, or_gpu_step_kind_t kind, uint32_t rows)
{
    or_gpu_step_t *table = gpu->steps.table;
    or_gpu_step_t *oldest = &table[0];
    for (uint32_t i = 0; i < OR_GPU_STEPS; i++) {
        const or_gpu_step_t *step = &table[i];
        if (step->kind == kind && step->rows == rows && step->positions_max == gpu->positions_max) {
            return &table[i];
        }
        oldest = table[i].used < oldest->used ? &table[i] : oldest;
    }
    forget(gpu, oldest);
    *oldest = (or_gpu_step_t){.kind = kind, .rows = rows, .positions_max = gpu->positions_max};
    return oldest;
}

// ---- recording ----

// The same on all ranks, as what they agree on is.
static bool can_record(const or_model_t *model, or_gpu_step_kind_t kind)
{
    const or_gpu_t *gpu = model->gpu;
    return !gpu->steps.off[kind] && or_gpu_ranks_can_record(model);
}

// NULL if the device would not, or layers are away: fetches cannot be recorded.
static or_cuda_recording_t *record(or_model_t *model, uint32_t rows, or_gpu_launch_t *launch)
{
    or_gpu_t *gpu = model->gpu;
    or_cuda_recording_t *recording = NULL;
    if (gpu->layers.away > 0 || gpu->functions->record_begin(gpu->cuda) != OR_CUDA_OK) {
        return NULL;
    }
    int before = gpu->status;
    bool whole = launch(model, rows) == OR_OK && gpu->status == OR_CUDA_OK;
    gpu->status = before; // what fails by itself too will fail again
    int status = gpu->functions->record_end(gpu->cuda, &recording);
    if (!whole && status == OR_CUDA_OK) {
        gpu->functions->recording_free(&recording);
    }
    return whole && status == OR_CUDA_OK ? recording : NULL;
}

// A device that has no memory for a recording, or cannot record it, goes on without.
static void record_if_again(or_model_t *model, or_gpu_step_t *step, or_gpu_launch_t *launch)
{
    if (step->recording == NULL && step->used > 0) {
        step->recording = record(model, step->rows, launch);
        bool recorded = or_gpu_ranks_have_recorded(model, step->recording != NULL);
        model->gpu->steps.off[step->kind] = !recorded;
        if (!recorded) {
            forget(model->gpu, step);
        }
    }
}

or_cuda_recording_t *or_gpu_steps_find(or_model_t *model, or_gpu_step_kind_t kind, uint32_t rows,
                                       or_gpu_launch_t *launch)
{
    or_gpu_t *gpu = model->gpu;
    gpu->steps.asked++;
    if (!can_record(model, kind)) {
        return NULL;
    }
    or_gpu_step_t *step = find(gpu, kind, rows);
    record_if_again(model, step, launch);
    step->used = gpu->steps.asked;
    return step->recording;
}

void or_gpu_steps_replay(or_model_t *model, or_cuda_recording_t *recording)
{
    or_gpu_t *gpu = model->gpu;
    or_gpu_keep(gpu, gpu->functions->replay(gpu->cuda, recording));
    gpu->steps.replays++;
}

or_status_t or_gpu_steps_run(or_model_t *model, uint32_t rows, or_gpu_launch_t *launch)
{
    or_cuda_recording_t *recording = or_gpu_steps_find(model, OR_GPU_PASS, rows, launch);
    if (recording == NULL) {
        return launch(model, rows);
    }
    or_gpu_steps_replay(model, recording);
    return or_gpu_check(model->gpu);
}
