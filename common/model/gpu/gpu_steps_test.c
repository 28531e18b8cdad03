// Goal: passes are launched, recorded and replayed as gpu_steps.h says, and no recording is lost or used for another step.
// Method: a device that only counts, whose recordings say what was launched into them.
#include "common/model/gpu/gpu_steps.h"

#include <stdlib.h>

#include "common/model/gpu/gpu_internal.h"
#include "tests/support/test_support.h"

#define BROKEN 99

struct or_cuda_recording {
    uint32_t rows;
    uint32_t positions_max;
};

// ---- the device ----

static or_gpu_t gpu;
static bool records;        // between begin and end
static bool refuses;        // to end a recording
static bool fails_recorded; // a launch, which the device does not hear of
static uint32_t waits;
static bool is_busy;                 // with a recording, as far as the host knows
static uint32_t launches;            // but for those that were recorded
static uint32_t living;              // recordings
static or_cuda_recording_t launched; // last, or replayed

static int record_begin(or_cuda_t *cuda)
{
    (void)cuda;
    records = true;
    return OR_CUDA_OK;
}

static int record_end(or_cuda_t *cuda, or_cuda_recording_t **recording_p)
{
    (void)cuda;
    records = false;
    if (refuses) {
        return BROKEN;
    }
    *recording_p = malloc(sizeof **recording_p);
    assert_non_null(*recording_p);
    **recording_p = launched;
    launched = (or_cuda_recording_t){0}; // nothing was done
    living++;
    return OR_CUDA_OK;
}

static int replay(or_cuda_t *cuda, or_cuda_recording_t *recording)
{
    (void)cuda;
    launched = *recording;
    is_busy = true;
    return OR_CUDA_OK;
}

static void recording_free(or_cuda_recording_t **recording_p)
{
    assert_non_null(*recording_p);
    assert_false(is_busy);
    free(*recording_p);
    *recording_p = NULL;
    living--;
}

static int wait(or_cuda_t *cuda)
{
    (void)cuda;
    waits++;
    is_busy = false;
    return OR_CUDA_OK;
}

static const or_gpu_functions_t functions = {.wait = wait,
                                             .record_begin = record_begin,
                                             .record_end = record_end,
                                             .replay = replay,
                                             .recording_free = recording_free};

static or_status_t launch(or_model_t *model, uint32_t rows)
{
    launched = (or_cuda_recording_t){rows, model->gpu->positions_max};
    launches += !records;
    return records && fails_recorded ? OR_ERR_IO : OR_OK;
}

// ---- passes ----

static or_model_t new_model(void)
{
    gpu = (or_gpu_t){.functions = &functions};
    refuses = fails_recorded = is_busy = false;
    launches = waits = 0;
    assert_int_equal(living, 0);
    return (or_model_t){.gpu = &gpu, .ranks = or_ranks_single()};
}

// A pass, of which all is done that should be. Was it launched kernel by kernel?
static bool is_launched(or_model_t *model, uint32_t rows, uint32_t positions)
{
    uint32_t before = launches;
    gpu.positions_max = or_gpu_steps_round(positions);
    launched = (or_cuda_recording_t){0};
    assert_int_equal(or_gpu_steps_run(model, rows, launch), OR_OK);
    assert_int_equal(launched.rows, rows);
    assert_int_equal(launched.positions_max, gpu.positions_max);
    return launches > before;
}

static void close_model(or_model_t *model)
{
    uint32_t waits_due = waits + living;
    or_gpu_steps_forget(model);
    assert_int_equal(living, 0);
    assert_int_equal(waits, waits_due);
}

// ---- tests ----

static void a_step_that_comes_again_is_replayed(void **state)
{
    (void)state;
    or_model_t model = new_model();
    assert_true(is_launched(&model, 1, 100));
    assert_int_equal(living, 0);
    for (uint32_t i = 101; i <= 256; i++) {
        assert_false(is_launched(&model, 1, i));
    }
    assert_int_equal(gpu.steps.replays, 156);
    assert_int_equal(waits, 0); // until recordings go
    assert_true(is_launched(&model, 1, 257));
    assert_true(is_launched(&model, 2, 257));
    assert_false(is_launched(&model, 1, 258));
    assert_false(is_launched(&model, 1, 256));
    assert_false(is_launched(&model, 2, 300));
    assert_int_equal(living, 3);
    close_model(&model);
}

static void the_step_that_rested_longest_makes_place(void **state)
{
    (void)state;
    or_model_t model = new_model();
    for (uint32_t i = 0; i < 2 * OR_GPU_STEPS; i++) {
        assert_int_equal(is_launched(&model, 1 + i % OR_GPU_STEPS, 1), i < OR_GPU_STEPS);
    }
    assert_int_equal(living, OR_GPU_STEPS);
    assert_false(is_launched(&model, 1, 1));
    assert_true(is_launched(&model, OR_GPU_STEPS + 1, 1)); // in place of 2
    assert_int_equal(living, OR_GPU_STEPS - 1);
    assert_int_equal(waits, 1);
    assert_false(is_launched(&model, 1, 1));
    assert_false(is_launched(&model, OR_GPU_STEPS, 1));
    assert_true(is_launched(&model, 2, 1)); // in place of 3
    assert_true(is_launched(&model, 3, 1));
    close_model(&model);
}

static void a_device_that_refuses_is_not_asked_again(void **state)
{
    (void)state;
    or_model_t model = new_model();
    refuses = true;
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(is_launched(&model, 1, 1));
    }
    refuses = false;
    assert_true(is_launched(&model, 1, 1));
    close_model(&model);
}

// A part of a loop might never end.
static void half_a_recording_is_not_replayed(void **state)
{
    (void)state;
    or_model_t model = new_model();
    fails_recorded = true;
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(is_launched(&model, 1, 1));
        assert_int_equal(living, 0);
    }
    assert_int_equal(gpu.steps.replays, 0);
    assert_int_equal(gpu.status, OR_CUDA_OK);
    close_model(&model);
}

// Growths are only replayed, and refused alone.
static void kinds_do_not_mix(void **state)
{
    (void)state;
    or_model_t model = new_model();
    assert_true(is_launched(&model, 8, 1));
    assert_null(or_gpu_steps_find(&model, OR_GPU_GROWTH, 8, launch));
    or_cuda_recording_t *growth = or_gpu_steps_find(&model, OR_GPU_GROWTH, 8, launch);
    assert_non_null(growth);
    assert_false(is_launched(&model, 8, 1));
    assert_int_equal(living, 2);
    assert_ptr_equal(or_gpu_steps_find(&model, OR_GPU_GROWTH, 8, launch), growth);
    refuses = true;
    for (uint32_t i = 0; i < 2; i++) {
        assert_null(or_gpu_steps_find(&model, OR_GPU_GROWTH, 16, launch));
    }
    assert_true(gpu.steps.off[OR_GPU_GROWTH]);
    assert_null(or_gpu_steps_find(&model, OR_GPU_GROWTH, 8, launch));
    assert_false(is_launched(&model, 8, 1));
    close_model(&model);
}

static void what_cannot_be_recorded_is_launched(void **state)
{
    (void)state;
    const or_ranks_t two = {.rank = 0, .size = 2};
    or_model_t model = new_model();
    model.ranks = &two;
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(is_launched(&model, 1, 1));
    }
    model.ranks = or_ranks_single();
    gpu.layers.away = 1;
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(is_launched(&model, 1, 1));
    }
    close_model(&model);
}

static void steps_are_an_eighth_apart_at_most(void **state)
{
    (void)state;
    for (uint32_t n = 1; n < 100000; n++) {
        uint32_t room = or_gpu_steps_round(n);
        assert_true(room >= n && (room < n + 256 || room <= n + n / 8));
        assert_int_equal(or_gpu_steps_round(room), room);
        assert_int_equal(room % OR_KV_BLOCK, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_that_comes_again_is_replayed),
        cmocka_unit_test(the_step_that_rested_longest_makes_place),
        cmocka_unit_test(a_device_that_refuses_is_not_asked_again),
        cmocka_unit_test(half_a_recording_is_not_replayed),
        cmocka_unit_test(kinds_do_not_mix),
        cmocka_unit_test(what_cannot_be_recorded_is_launched),
        cmocka_unit_test(steps_are_an_eighth_apart_at_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
