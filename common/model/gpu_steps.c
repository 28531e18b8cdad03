#include "common/model/gpu_steps.h"

#include "common/model/gpu_internal.h"

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

static void forget(or_gpu_t *gpu, or_gpu_step_t *step)
{
    if (step->recording != NULL) {
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

static or_gpu_step_t *find(or_gpu_t *gpu, uint32_t rows)
{
    or_gpu_step_t *table = gpu->steps.table;
    or_gpu_step_t *oldest = &table[0];
    for (uint32_t i = 0; i < OR_GPU_STEPS; i++) {
        if (table[i].rows == rows && table[i].positions_max == gpu->positions_max) {
            return &table[i];
        }
        oldest = table[i].used < oldest->used ? &table[i] : oldest;
    }
    forget(gpu, oldest);
    *oldest = (or_gpu_step_t){.rows = rows, .positions_max = gpu->positions_max};
    return oldest;
}

// ---- recording ----

// Between launches several ranks meet, and layers that are away are fetched: neither can be recorded.
static bool can_record(const or_model_t *model)
{
    const or_gpu_t *gpu = model->gpu;
    return !gpu->steps.off && gpu->layers.away == 0 && or_ranks_is_alone(model->ranks);
}

// NULL if the device would not.
static or_cuda_recording_t *record(or_model_t *model, uint32_t rows, or_gpu_launch_t *launch)
{
    or_gpu_t *gpu = model->gpu;
    or_cuda_recording_t *recording = NULL;
    if (gpu->functions->record_begin(gpu->cuda) != OR_CUDA_OK) {
        return NULL;
    }
    int before = gpu->status;
    (void)launch(model, rows);
    bool whole = gpu->status == OR_CUDA_OK;
    gpu->status = before; // what fails by itself too will fail again
    int status = gpu->functions->record_end(gpu->cuda, &recording);
    if (!whole && status == OR_CUDA_OK) {
        gpu->functions->recording_free(&recording);
    }
    return whole && status == OR_CUDA_OK ? recording : NULL;
}

// A device that has no memory for a recording goes on without.
static void record_if_again(or_model_t *model, or_gpu_step_t *step, or_gpu_launch_t *launch)
{
    or_gpu_steps_t *steps = &model->gpu->steps;
    if (step->recording == NULL && step->used > 0) {
        step->recording = record(model, step->rows, launch);
        steps->off = step->recording == NULL;
    }
}

or_status_t or_gpu_steps_run(or_model_t *model, uint32_t rows, or_gpu_launch_t *launch)
{
    or_gpu_t *gpu = model->gpu;
    or_gpu_steps_t *steps = &gpu->steps;
    steps->passes++;
    if (!can_record(model)) {
        return launch(model, rows);
    }
    or_gpu_step_t *step = find(gpu, rows);
    record_if_again(model, step, launch);
    step->used = steps->passes;
    if (step->recording == NULL) {
        return launch(model, rows);
    }
    or_gpu_keep(gpu, gpu->functions->replay(gpu->cuda, step->recording));
    steps->replays++;
    return or_gpu_check(gpu);
}
