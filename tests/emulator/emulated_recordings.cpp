// Recordings and their loops, for emulated_device.cpp: lists of steps.
#include "tests/emulator/emulated_internal.hpp"

#include <new>

#define TURNS_MAX 100000u // of a loop; a GPU would never end

struct or_cuda_recording {
    or_emulated_steps_t steps;
    bool meets;
};

// Done as one step of its recording.
struct or_emulated_loop {
    or_emulated_steps_t steps;
    bool again;
};

// Each host's thread does its own devices' work.
static thread_local or_emulated_loop *running;

void or_emulated_record(or_emulated_recorder_t *recorder, std::function<void()> step)
{
    (recorder->loop ? recorder->loop->steps : recorder->steps).push_back(std::move(step));
}

int or_emulated_fail(or_emulated_recorder_t *recorder, int status)
{
    if (recorder->status == OR_CUDA_OK) {
        recorder->status = status;
    }
    return status;
}

int or_cuda_record_begin(or_cuda_t *cuda)
{
    or_emulated_recorder_t *recorder = or_emulated_recorder(cuda);
    if (recorder->recording) {
        return or_emulated_fail(recorder, OR_EMULATED_RECORDING);
    }
    *recorder = {};
    recorder->recording = true;
    return OR_CUDA_OK;
}

int or_cuda_record_end(or_cuda_t *cuda, or_cuda_recording_t **recording_p)
{
    or_emulated_recorder_t *recorder = or_emulated_recorder(cuda);
    if (!recorder->recording) {
        return OR_EMULATED_NOT_NOW;
    }
    recorder->recording = false;
    if (recorder->loop) {
        (void)or_emulated_fail(recorder, OR_EMULATED_NOT_NOW);
    }
    if (recorder->status != OR_CUDA_OK) {
        return recorder->status;
    }
    or_cuda_recording_t *recording = new (std::nothrow) or_cuda_recording_t{};
    if (!recording) {
        return OR_EMULATED_OUT_OF_MEMORY;
    }
    recording->steps.swap(recorder->steps);
    recording->meets = recorder->meets;
    *recording_p = recording;
    return OR_CUDA_OK;
}

int or_cuda_replay(or_cuda_t *cuda, or_cuda_recording_t *recording)
{
    or_emulated_recorder_t *recorder = or_emulated_recorder(cuda);
    if (recorder->recording) {
        return or_emulated_fail(recorder, OR_EMULATED_RECORDING);
    }
    for (const auto &step : recording->steps) {
        (void)or_emulated_ask_step(cuda, step);
    }
    return recording->meets ? or_cuda_wait(cuda) : OR_CUDA_OK;
}

void or_cuda_recording_free(or_cuda_recording_t **recording_p)
{
    delete *recording_p;
    *recording_p = nullptr;
}

// ---- loops ----

static void repeat(or_emulated_loop *loop)
{
    running = loop;
    loop->again = true;
    for (uint32_t turn = 0; loop->again; turn++) {
        if (turn == TURNS_MAX) {
            or_emulated_end("or_cuda_loop_begin", "a loop that was done %u times and goes on",
                            TURNS_MAX);
        }
        for (const auto &step : loop->steps) {
            step();
        }
    }
    running = nullptr;
}

int or_cuda_loop_begin(or_cuda_t *cuda, or_cuda_loop_t *loop)
{
    or_emulated_recorder_t *recorder = or_emulated_recorder(cuda);
    if (!recorder->recording || recorder->loop) {
        return or_emulated_fail(recorder, OR_EMULATED_NOT_NOW);
    }
    recorder->loop = std::make_shared<or_emulated_loop>();
    *loop = (or_cuda_loop_t)(uintptr_t)recorder->loop.get();
    return OR_CUDA_OK;
}

int or_cuda_loop_end(or_cuda_t *cuda)
{
    or_emulated_recorder_t *recorder = or_emulated_recorder(cuda);
    if (!recorder->loop) {
        return or_emulated_fail(recorder, OR_EMULATED_NOT_NOW);
    }
    std::shared_ptr<or_emulated_loop> loop = std::move(recorder->loop);
    or_emulated_record(recorder, [loop] { repeat(loop.get()); });
    return OR_CUDA_OK;
}

bool or_emulated_tell_loop(or_cuda_loop_t loop, bool again)
{
    if (!running || loop != (or_cuda_loop_t)(uintptr_t)running) {
        return false;
    }
    running->again = again;
    return true;
}
