// Goal: a loop in a recording is done as often as its kernels say, on a GPU and in the emulator alike, and one that could
// not be recorded leaves the device as it was.
// Method: loops that count their turns up to a number in the device's memory, which changes between replays, and step
// numbers on the way, against plain loops on the host; then all that may not be recorded, one at a time.
#include "kernels/cuda/tests/cuda_test_support.h"
#include "kernels/cuda/tests/portable_test_kernels.h"

#include <stdbool.h>
#include <string.h>

#define COUNT 300u // numbers that are stepped

// The device's memory.
typedef struct {
    uint32_t *turns;
    uint32_t *wanted;
    uint32_t *numbers; // [COUNT]
    uint32_t *others;  // [COUNT]
} memory_t;

static memory_t memory;

static uint32_t *alloc(uint32_t count)
{
    void *at = NULL;
    cuda_test_ok(or_cuda_alloc(test_device, count * sizeof(uint32_t), &at));
    return at;
}

static int open_device(void **state)
{
    (void)cuda_test_set_up(state);
    memory = (memory_t){alloc(1), alloc(1), alloc(COUNT), alloc(COUNT)};
    return 0;
}

static int close_device(void **state)
{
    or_cuda_free(test_device, memory.turns);
    or_cuda_free(test_device, memory.wanted);
    or_cuda_free(test_device, memory.numbers);
    or_cuda_free(test_device, memory.others);
    return cuda_test_tear_down(state);
}

static void clear(void)
{
    cuda_test_ok(or_cuda_clear(test_device, memory.turns, sizeof(uint32_t)));
    cuda_test_ok(or_cuda_clear(test_device, memory.numbers, COUNT * sizeof(uint32_t)));
    cuda_test_ok(or_cuda_clear(test_device, memory.others, COUNT * sizeof(uint32_t)));
}

static void want(uint32_t turns)
{
    cuda_test_ok(or_cuda_upload(test_device, memory.wanted, &turns, sizeof turns));
}

static void assert_turns(uint32_t expected)
{
    uint32_t turns = UINT32_MAX;
    cuda_test_download(test_device, &turns, memory.turns, sizeof turns);
    assert_int_equal(turns, expected);
}

static void assert_all(const uint32_t *at, uint32_t expected)
{
    uint32_t numbers[COUNT];
    memset(numbers, 0xAA, sizeof numbers);
    cuda_test_download(test_device, numbers, at, sizeof numbers);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(numbers[i], expected);
    }
}

static void step(uint32_t factor)
{
    cuda_test_ok(test_launch_step(test_device, memory.numbers, factor, COUNT));
}

static void replay(or_cuda_recording_t *recording)
{
    cuda_test_ok(or_cuda_replay(test_device, recording));
}

// ---- loops that are done ----

// Record a loop of one kernel, and nothing around it.
static or_cuda_recording_t *record_count(void)
{
    or_cuda_loop_t loop = OR_CUDA_NO_LOOP;
    or_cuda_recording_t *recording = NULL;
    cuda_test_ok(or_cuda_record_begin(test_device));
    cuda_test_ok(or_cuda_loop_begin(test_device, &loop));
    assert_true(loop != OR_CUDA_NO_LOOP);
    cuda_test_ok(test_launch_turn(test_device, memory.turns, memory.wanted, loop));
    cuda_test_ok(or_cuda_loop_end(test_device));
    cuda_test_ok(or_cuda_record_end(test_device, &recording));
    return recording;
}

static void a_loop_is_done_as_often_as_it_says(void **state)
{
    (void)state;
    static const uint32_t wanted[] = {3, 1, 64, 0, 2, 1000};
    clear();
    or_cuda_recording_t *recording = record_count();
    assert_turns(0); // not yet
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        want(wanted[i]);
        clear();
        replay(recording);
        assert_turns(wanted[i] > 0 ? wanted[i] : 1);
    }
    or_cuda_recording_free(&recording);
}

// before, (between, a copy of what is now, behind) ..., after
static or_cuda_recording_t *record_steps(void)
{
    or_cuda_loop_t loop = OR_CUDA_NO_LOOP;
    or_cuda_recording_t *recording = NULL;
    cuda_test_ok(or_cuda_record_begin(test_device));
    cuda_test_ok(or_cuda_clear(test_device, memory.turns, sizeof(uint32_t)));
    step(2);
    cuda_test_ok(or_cuda_loop_begin(test_device, &loop));
    step(3);
    cuda_test_ok(
        or_cuda_copy(test_device, memory.others, memory.numbers, COUNT * sizeof *memory.others));
    cuda_test_ok(test_launch_turn(test_device, memory.turns, memory.wanted, loop));
    step(5);
    cuda_test_ok(or_cuda_loop_end(test_device));
    step(7);
    cuda_test_ok(or_cuda_record_end(test_device, &recording));
    return recording;
}

// Do to a number what the recording does, and return its copy.
static uint32_t expect_steps(uint32_t *number, uint32_t turns)
{
    uint32_t copy = 0;
    *number = *number * 2 + 1;
    for (uint32_t i = 0; i < turns; i++) {
        copy = *number = *number * 3 + 1;
        *number = *number * 5 + 1;
    }
    *number = *number * 7 + 1;
    return copy;
}

// Twice each, without a wait in between.
static void work_lies_before_a_loop_in_it_and_behind(void **state)
{
    (void)state;
    uint32_t number = 0;
    clear();
    or_cuda_recording_t *recording = record_steps();
    for (uint32_t turns = 1; turns <= 5; turns += 2) {
        want(turns);
        replay(recording);
        replay(recording);
        (void)expect_steps(&number, turns);
        uint32_t copy = expect_steps(&number, turns);
        assert_turns(turns);
        assert_all(memory.others, copy);
        assert_all(memory.numbers, number);
    }
    or_cuda_recording_free(&recording);
}

static void loops_may_follow_one_another(void **state)
{
    (void)state;
    or_cuda_loop_t loops[2];
    or_cuda_recording_t *recording = NULL;
    clear();
    want(4);
    cuda_test_ok(or_cuda_record_begin(test_device));
    for (uint32_t i = 0; i < 2; i++) {
        cuda_test_ok(or_cuda_loop_begin(test_device, &loops[i]));
        step(2 + i);
        cuda_test_ok(test_launch_turn(test_device, memory.turns, memory.wanted, loops[i]));
        cuda_test_ok(or_cuda_loop_end(test_device));
        cuda_test_ok(or_cuda_clear(test_device, memory.turns, sizeof(uint32_t)));
    }
    cuda_test_ok(or_cuda_record_end(test_device, &recording));
    replay(recording);
    uint32_t expected = 0;
    for (uint32_t i = 0; i < 8; i++) {
        expected = expected * (2 + i / 4) + 1;
    }
    assert_all(memory.numbers, expected);
    or_cuda_recording_free(&recording);
}

static void a_kernel_without_a_loop_is_done_once(void **state)
{
    (void)state;
    clear();
    want(5);
    cuda_test_ok(test_launch_turn(test_device, memory.turns, memory.wanted, OR_CUDA_NO_LOOP));
    assert_turns(1);
}

// ---- loops that are not recorded ----

static int begin_within(void)
{
    or_cuda_loop_t loop = OR_CUDA_NO_LOOP;
    int status = or_cuda_loop_begin(test_device, &loop);
    assert_true(loop == OR_CUDA_NO_LOOP);
    return status;
}

static int record_within(void)
{
    return or_cuda_record_begin(test_device);
}

static int wait_within(void)
{
    return or_cuda_wait(test_device);
}

static int download_within(void)
{
    uint32_t own = 0;
    return or_cuda_download(test_device, &own, memory.turns, sizeof own);
}

static int end_recording_within(void)
{
    or_cuda_recording_t *recording = NULL;
    int status = or_cuda_record_end(test_device, &recording);
    assert_null(recording);
    cuda_test_ok(
        or_cuda_record_begin(test_device)); // one that has failed already for whoever goes on
    assert_int_not_equal(or_cuda_loop_end(test_device), OR_CUDA_OK);
    return status;
}

// An error within a recording is told at once and at its end, and nothing of the recording is done, then or later.
static void assert_fails_within(int (*what)(void))
{
    or_cuda_loop_t loop = OR_CUDA_NO_LOOP;
    or_cuda_recording_t *recording = NULL;
    clear();
    want(2);
    cuda_test_ok(or_cuda_record_begin(test_device));
    step(2);
    cuda_test_ok(or_cuda_loop_begin(test_device, &loop));
    step(3);
    assert_int_not_equal(what(), OR_CUDA_OK);
    (void)or_cuda_loop_end(test_device);
    int status = or_cuda_record_end(test_device, &recording);
    assert_int_not_equal(status, OR_CUDA_OK);
    assert_true(strlen(or_cuda_text(status)) > 0);
    assert_null(recording);
    assert_all(memory.numbers, 0);
    step(4);
    assert_all(memory.numbers, 1);
}

static void assert_records(void)
{
    or_cuda_recording_t *recording = record_count();
    clear();
    want(2);
    replay(recording);
    assert_turns(2);
    or_cuda_recording_free(&recording);
}

static void what_fails_within_leaves_nothing_recorded(void **state)
{
    (void)state;
    int (*const failures[])(void) = {begin_within, record_within, wait_within, download_within,
                                     end_recording_within};
    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
        assert_fails_within(failures[i]);
        assert_records();
    }
}

static void a_loop_is_of_a_recording(void **state)
{
    (void)state;
    or_cuda_loop_t loop = OR_CUDA_NO_LOOP;
    or_cuda_recording_t *recording = NULL;
    assert_int_not_equal(or_cuda_loop_begin(test_device, &loop), OR_CUDA_OK);
    assert_true(loop == OR_CUDA_NO_LOOP);
    assert_int_not_equal(or_cuda_loop_end(test_device), OR_CUDA_OK);
    assert_records();

    clear();
    cuda_test_ok(or_cuda_record_begin(test_device)); // another, that never had one
    step(2);
    cuda_test_ok(or_cuda_record_end(test_device, &recording));
    replay(recording);
    assert_all(memory.numbers, 1);
    or_cuda_recording_free(&recording);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loop_is_done_as_often_as_it_says),
        cmocka_unit_test(work_lies_before_a_loop_in_it_and_behind),
        cmocka_unit_test(loops_may_follow_one_another),
        cmocka_unit_test(a_kernel_without_a_loop_is_done_once),
        cmocka_unit_test(what_fails_within_leaves_nothing_recorded),
        cmocka_unit_test(a_loop_is_of_a_recording),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
