// Goal: memory, copies, time and recordings do what cuda_device.h says, on every device that there is.
// Method: send bytes around the device and compare them; record copies, and replay them over other bytes.
#include "kernels/cuda/tests/cuda_test_support.h"

#include <string.h>

#include "kernels/cuda/cuda_kernels.h"

#define BYTES 100000u // no multiple of anything that a device copies at once

static uint8_t sent[BYTES];
static uint8_t received[BYTES];

static void fill(uint8_t *at, uint64_t seed)
{
    for (size_t i = 0; i < BYTES; i++)
        at[i] = (uint8_t)test_random(&seed);
}

static void *alloc(or_cuda_t *cuda, size_t bytes)
{
    void *at = NULL;
    cuda_test_ok(or_cuda_alloc(cuda, bytes, &at));
    return at;
}

static void assert_holds(or_cuda_t *cuda, const void *at, const void *expected)
{
    memset(received, 0xAA, BYTES);
    cuda_test_download(cuda, received, at, BYTES);
    assert_memory_equal(received, expected, BYTES);
}

static void devices_are_described(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < or_cuda_count(); i++) {
        or_cuda_description_t d;
        memset(&d, 0xAA, sizeof d);
        cuda_test_ok(or_cuda_describe(i, &d));
        print_message("device %u: %s, capability %u.%u, %u multiprocessors, %llu MiB\n", i, d.name,
                      d.major, d.minor, d.multiprocessors,
                      (unsigned long long)(d.memory_bytes >> 20));
        assert_true(strlen(d.name) > 0);
        assert_true(d.multiprocessors > 0);
        uint64_t left = UINT64_MAX;
        cuda_test_ok(or_cuda_free_bytes(i, &left));
        assert_true(d.memory_bytes > 0 && left <= d.memory_bytes);
    }
}

static void what_is_not_there_is_an_error(void **state)
{
    (void)state;
    or_cuda_t *cuda = NULL;
    or_cuda_description_t d;
    int status = or_cuda_open(or_cuda_count(), &cuda);
    assert_int_not_equal(status, OR_CUDA_OK);
    assert_null(cuda);
    assert_true(strlen(or_cuda_text(status)) > 0);
    assert_int_not_equal(or_cuda_describe(or_cuda_count(), &d), OR_CUDA_OK);
    uint64_t left;
    assert_int_not_equal(or_cuda_free_bytes(or_cuda_count(), &left), OR_CUDA_OK);
}

// And a failure is told once: what comes after it works.
static void too_much_memory_is_an_error(void **state)
{
    (void)state;
    or_cuda_t *cuda = cuda_test_open();
    void *at = NULL;
    int status = or_cuda_alloc(cuda, SIZE_MAX / 4, &at);
    assert_int_not_equal(status, OR_CUDA_OK);
    assert_null(at);
    print_message("told: %s\n", or_cuda_text(status));
    or_cuda_free(cuda, at);
    cuda_test_ok(or_cuda_wait(cuda));
    or_cuda_free(cuda, alloc(cuda, BYTES));
    or_cuda_close(&cuda);
    assert_null(cuda);
}

static void memory_is_aligned_and_zeroed(void **state)
{
    (void)state;
    or_cuda_t *cuda = cuda_test_open();
    static const uint8_t zeros[BYTES];
    for (int i = 0; i < 3; i++) { // the second time it may be what was freed before
        void *at = alloc(cuda, BYTES);
        assert_int_equal((uintptr_t)at % 256, 0);
        assert_holds(cuda, at, zeros);
        memset(sent, 0xFF, BYTES);
        cuda_test_ok(or_cuda_upload(cuda, at, sent, BYTES));
        or_cuda_free(cuda, at);
    }
    or_cuda_close(&cuda);
}

static void copies_arrive_in_order(void **state)
{
    (void)state;
    or_cuda_t *cuda = cuda_test_open();
    static const uint8_t zeros[BYTES];
    uint8_t *a = alloc(cuda, BYTES), *b = alloc(cuda, BYTES);
    uint64_t seed = test_seed();
    fill(sent, seed);
    cuda_test_ok(or_cuda_upload(cuda, a, sent, BYTES));
    cuda_test_ok(or_cuda_copy(cuda, b, a, BYTES));
    cuda_test_ok(or_cuda_clear(cuda, a, BYTES));
    memset(sent, 0, BYTES); // memory that is not pinned is the caller's again
    fill(sent, seed);
    assert_holds(cuda, b, sent);
    assert_holds(cuda, a, zeros);

    cuda_test_ok(or_cuda_upload(cuda, b + 1, sent + 17, 3)); // from anywhere to anywhere
    memcpy(sent + 1, sent + 17, 3);
    assert_holds(cuda, b, sent);
    cuda_test_ok(or_cuda_copy(cuda, b, a, 0));
    cuda_test_ok(or_cuda_upload(cuda, b, sent + 5, 0));
    cuda_test_ok(or_cuda_clear(cuda, b, 0));
    assert_holds(cuda, b, sent);
    or_cuda_free(cuda, a);
    or_cuda_free(cuda, b);
    or_cuda_close(&cuda);
}

static void pinned_memory_is_memory(void **state)
{
    (void)state;
    or_cuda_t *cuda = cuda_test_open();
    void *pinned = NULL;
    cuda_test_ok(or_cuda_alloc_pinned(cuda, BYTES, &pinned));
    void *at = alloc(cuda, BYTES);
    fill(pinned, test_seed());
    memcpy(sent, pinned, BYTES);
    cuda_test_ok(or_cuda_upload(cuda, at, pinned, BYTES));
    cuda_test_ok(or_cuda_wait(cuda));
    memset(pinned, 0, BYTES);
    cuda_test_ok(or_cuda_download(cuda, pinned, at, BYTES));
    cuda_test_ok(or_cuda_wait(cuda));
    assert_memory_equal(pinned, sent, BYTES);
    or_cuda_free(cuda, at);
    or_cuda_free_pinned(cuda, pinned);
    or_cuda_free(cuda, NULL);
    or_cuda_free_pinned(cuda, NULL);
    or_cuda_close(&cuda);
}

// Parts of what the host has, through two buffers by turns, into one that holds them all. Each time the device may
// fetch earlier or later.
static void fetches_come_between_work(void **state)
{
    (void)state;
    enum { PARTS = 5, PART = BYTES / PARTS };
    or_cuda_t *cuda = cuda_test_open();
    uint8_t *pinned = NULL;
    cuda_test_ok(or_cuda_alloc_pinned(cuda, BYTES, (void **)&pinned));
    uint8_t *all = alloc(cuda, BYTES);
    uint8_t *buffers[2] = {alloc(cuda, PART), alloc(cuda, PART)};
    uint64_t seed = test_seed();
    for (uint64_t i = 0; i < 20; i++) {
        fill(pinned, seed + i);
        cuda_test_ok(or_cuda_hold_fetches(cuda));
        cuda_test_ok(or_cuda_fetch(cuda, buffers[0], pinned, PART));
        for (size_t part = 0; part < PARTS; part++) {
            cuda_test_ok(or_cuda_await_fetches(cuda));
            cuda_test_ok(or_cuda_hold_fetches(cuda));
            size_t next = (part + 1) % PARTS;
            cuda_test_ok(or_cuda_fetch(cuda, buffers[(part + 1) % 2], pinned + next * PART, PART));
            cuda_test_ok(or_cuda_copy(cuda, all + part * PART, buffers[part % 2], PART));
        }
        memcpy(sent, pinned, BYTES);
        assert_holds(cuda, all, sent);
        cuda_test_ok(or_cuda_await_fetches(cuda)); // of the last, before pinned memory changes
        cuda_test_ok(or_cuda_wait(cuda));
    }
    cuda_test_ok(or_cuda_fetch(cuda, all, pinned, 0));
    cuda_test_ok(or_cuda_fetch(cuda, all, pinned, BYTES)); // which freeing waits for
    or_cuda_free_pinned(cuda, pinned);
    or_cuda_free(cuda, buffers[0]);
    or_cuda_free(cuda, buffers[1]);
    or_cuda_free(cuda, all);
    or_cuda_close(&cuda);
}

#define FLOATS 1024u

// rows [branch][FLOATS] += one, each on its branch; then sum += rows.
static void add_on_branches(or_cuda_t *cuda, const float *one, float *rows, float *sum)
{
    cuda_test_ok(or_cuda_part(cuda));
    for (uint32_t b = 0; b <= OR_CUDA_BRANCHES; b++) {
        or_cuda_branch(cuda, b);
        cuda_test_ok(or_cuda_add(cuda, rows + (size_t)b * FLOATS, 1, one, 0, 1, FLOATS));
    }
    cuda_test_ok(or_cuda_meet(cuda));
    for (uint32_t b = 0; b <= OR_CUDA_BRANCHES; b++) {
        cuda_test_ok(or_cuda_add(cuda, sum, 1, rows + (size_t)b * FLOATS, 1, 1, FLOATS));
    }
}

// Once launched, and then as a recording.
static void branches_part_and_meet(void **state)
{
    (void)state;
    enum { REPLAYS = 9 };
    static float sums[FLOATS];
    const float one = 1.0f;
    or_cuda_t *cuda = cuda_test_open();
    or_cuda_recording_t *recording = NULL;
    float *device_one = cuda_test_upload(cuda, &one, sizeof one);
    float *rows = alloc(cuda, (OR_CUDA_BRANCHES + 1) * FLOATS * sizeof *rows);
    float *sum = alloc(cuda, sizeof sums);
    add_on_branches(cuda, device_one, rows, sum);
    cuda_test_ok(or_cuda_record_begin(cuda));
    add_on_branches(cuda, device_one, rows, sum);
    cuda_test_ok(or_cuda_record_end(cuda, &recording));
    for (uint32_t i = 0; i < REPLAYS; i++) {
        cuda_test_ok(or_cuda_replay(cuda, recording));
    }
    cuda_test_download(cuda, sums, sum, sizeof sums);
    for (uint32_t i = 0; i < FLOATS; i++) { // 1 + 2 + ... of each branch
        assert_true(sums[i] == (OR_CUDA_BRANCHES + 1) * (REPLAYS + 1) * (REPLAYS + 2) / 2.0f);
    }
    or_cuda_recording_free(&recording);
    or_cuda_free(cuda, sum);
    or_cuda_free(cuda, rows);
    or_cuda_free(cuda, device_one);
    or_cuda_close(&cuda);
}

static void time_goes_on_between_marks(void **state)
{
    (void)state;
    or_cuda_t *cuda = cuda_test_open();
    void *at = alloc(cuda, BYTES);
    cuda_test_ok(or_cuda_mark(cuda, 0));
    cuda_test_ok(or_cuda_clear(cuda, at, BYTES));
    cuda_test_ok(or_cuda_mark(cuda, OR_CUDA_MARKS - 1));
    float milliseconds = -1.0f;
    cuda_test_ok(or_cuda_elapsed(cuda, 0, OR_CUDA_MARKS - 1, &milliseconds));
    assert_true(milliseconds >= 0.0f && milliseconds < 10000.0f);
    or_cuda_free(cuda, at);
    or_cuda_close(&cuda);
}

static void a_recording_is_done_when_it_is_replayed(void **state)
{
    (void)state;
    or_cuda_t *cuda = cuda_test_open();
    static const uint8_t zeros[BYTES];
    void *from = alloc(cuda, BYTES), *to = alloc(cuda, BYTES);
    or_cuda_recording_t *recording = NULL;
    cuda_test_ok(or_cuda_record_begin(cuda));
    cuda_test_ok(or_cuda_copy(cuda, to, from, BYTES));
    cuda_test_ok(or_cuda_clear(cuda, from, BYTES));
    cuda_test_ok(or_cuda_record_end(cuda, &recording));

    uint64_t seed = test_seed();
    for (uint64_t i = 0; i < 3; i++) {
        fill(sent, seed + i);
        cuda_test_ok(or_cuda_upload(cuda, from, sent, BYTES));
        assert_holds(cuda, from, sent); // not yet
        cuda_test_ok(or_cuda_replay(cuda, recording));
        assert_holds(cuda, to, sent);
        assert_holds(cuda, from, zeros);
    }
    or_cuda_recording_free(&recording);
    assert_null(recording);
    or_cuda_recording_free(&recording);
    or_cuda_free(cuda, from);
    or_cuda_free(cuda, to);
    or_cuda_close(&cuda);
}

int main(void)
{
    or_cuda_t *cuda = cuda_test_open(); // or skip them all
    or_cuda_close(&cuda);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_described),
        cmocka_unit_test(what_is_not_there_is_an_error),
        cmocka_unit_test(too_much_memory_is_an_error),
        cmocka_unit_test(memory_is_aligned_and_zeroed),
        cmocka_unit_test(copies_arrive_in_order),
        cmocka_unit_test(pinned_memory_is_memory),
        cmocka_unit_test(fetches_come_between_work),
        cmocka_unit_test(branches_part_and_meet),
        cmocka_unit_test(time_goes_on_between_marks),
        cmocka_unit_test(a_recording_is_done_when_it_is_replayed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
