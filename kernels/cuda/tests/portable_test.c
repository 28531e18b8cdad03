// Goal: what kernels are written with (cuda_portable.cuh) does what it says on a GPU and in the emulator alike: each
// tells that the other is right.
// Method: small kernels that use one thing each, against plain loops.
#include "kernels/cuda/tests/cuda_test_support.h"
#include "kernels/cuda/tests/portable_test_kernels.h"

#include <stdlib.h>
#include <string.h>

#define WARP 32u

static void fill(uint64_t *random, void *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ((uint8_t *)bytes)[i] = (uint8_t)test_random(random);
    }
}

static void *clear_memory(size_t bytes)
{
    void *at = NULL;
    cuda_test_ok(or_cuda_alloc(test_device, bytes, &at));
    return at;
}

// ---- kernels ----

static void check_count(test_size_t grid, test_size_t block)
{
    uint32_t threads = block.x * block.y * block.z;
    uint32_t n = grid.x * grid.y * grid.z * threads;
    uint32_t *counts = malloc(n * sizeof *counts);
    void *at = clear_memory(n * sizeof *counts);
    cuda_test_ok(test_launch_count(test_device, grid, block, at));
    cuda_test_download(test_device, counts, at, n * sizeof *counts);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(counts[i], 1 + i % threads);
    }
    or_cuda_free(test_device, at);
    free(counts);
}

static void every_thread_runs_once(void **state)
{
    (void)state;
    const test_size_t sizes[] = {{1, 1, 1}, {7, 1, 1}, {33, 5, 3}, {1, 13, 1}, {2, 1, 64}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        check_count(sizes[i], (test_size_t){1, 1, 1});
        check_count((test_size_t){1, 1, 1}, sizes[i]);
        check_count(sizes[i], (test_size_t){5, 3, 7});
    }
    check_count((test_size_t){3, 1, 1}, (test_size_t){1024, 1, 1});
    check_count((test_size_t){100000, 1, 1}, (test_size_t){1, 1, 1});
}

static void check_block_sums(uint64_t *random, uint32_t n, int dynamic)
{
    enum { BLOCKS = 9, MOST = 256 };
    uint32_t values[BLOCKS * MOST], sums[BLOCKS * MOST];
    fill(random, values, sizeof values);
    void *from = cuda_test_upload(test_device, values, BLOCKS * n * sizeof *values);
    void *to = cuda_test_upload(test_device, NULL, BLOCKS * n * sizeof *values);
    cuda_test_ok(test_launch_block_sums(test_device, BLOCKS, n, dynamic, from, to));
    cuda_test_download(test_device, sums, to, BLOCKS * n * sizeof *values);
    for (uint32_t i = 0; i < BLOCKS * n; i++) {
        uint32_t sum = 0;
        for (uint32_t j = 0; j < n; j++) {
            sum += values[i / n * n + j];
        }
        assert_int_equal(sums[i], sum);
    }
    or_cuda_free(test_device, from);
    or_cuda_free(test_device, to);
}

static void threads_of_a_block_wait_for_each_other(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    for (uint32_t n = 1; n <= 256; n *= 2) {
        check_block_sums(&random, n, 0);
        check_block_sums(&random, n, 1);
    }
}

enum { WARPS = 3, LANES = WARPS * WARP };

static void check_shuffles(uint32_t mask, const uint32_t from[WARP], const float values[LANES])
{
    float by_mask[LANES], by_memory[LANES], by_lane[LANES];
    void *from_at = cuda_test_upload(test_device, from, WARP * sizeof *from);
    void *values_at = cuda_test_upload(test_device, values, sizeof by_mask);
    void *by_mask_at = cuda_test_upload(test_device, NULL, sizeof by_mask);
    void *by_memory_at = cuda_test_upload(test_device, NULL, sizeof by_memory);
    void *by_lane_at = cuda_test_upload(test_device, NULL, sizeof by_lane);
    cuda_test_ok(test_launch_shuffles(test_device, WARPS, mask, from_at, values_at, by_mask_at,
                                      by_memory_at, by_lane_at));
    cuda_test_download(test_device, by_mask, by_mask_at, sizeof by_mask);
    cuda_test_download(test_device, by_memory, by_memory_at, sizeof by_memory);
    cuda_test_download(test_device, by_lane, by_lane_at, sizeof by_lane);
    for (uint32_t i = 0; i < LANES; i++) {
        assert_true(by_mask[i] == values[i ^ mask]);
        assert_true(by_memory[i] == values[i ^ mask]);
        assert_true(by_lane[i] == values[i / WARP * WARP + from[i % WARP]] + 1.0f);
    }
    or_cuda_free(test_device, from_at);
    or_cuda_free(test_device, values_at);
    or_cuda_free(test_device, by_mask_at);
    or_cuda_free(test_device, by_memory_at);
    or_cuda_free(test_device, by_lane_at);
}

static void lanes_see_each_other(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    uint32_t from[WARP];
    float values[LANES];
    for (uint32_t mask = 0; mask < WARP; mask++) {
        for (uint32_t i = 0; i < LANES; i++) {
            from[i % WARP] = (uint32_t)test_below(&random, WARP);
            values[i] = (float)test_uniform(&random);
        }
        check_shuffles(mask, from, values);
    }
}

enum { PRODUCTS = 20, OUTPUTS = 16, ROWS = 8, DEPTH = 32 };

static int32_t dot(const uint8_t *a, const int8_t *b)
{
    int32_t sum = 0;
    for (uint32_t k = 0; k < DEPTH; k++) {
        sum += a[k] * b[k];
    }
    return sum;
}

static void bytes_are_multiplied_exactly(void **state)
{
    (void)state;
    static uint8_t a[PRODUCTS][OUTPUTS][DEPTH];
    static int8_t b[PRODUCTS][ROWS][DEPTH];
    static int32_t sums[PRODUCTS][OUTPUTS][ROWS], actual[PRODUCTS][OUTPUTS][ROWS];
    uint64_t random = test_seed();
    fill(&random, a, sizeof a);
    fill(&random, b, sizeof b);
    memset(a[0], 0xFF, sizeof a[0]);
    memset(b[0], 0x80, sizeof b[0]);
    for (uint32_t i = 0; i < PRODUCTS * OUTPUTS * ROWS; i++) {
        (&sums[0][0][0])[i] = (int32_t)test_below(&random, 1u << 24) - (1 << 23);
    }
    void *a_at = cuda_test_upload(test_device, a, sizeof a);
    void *b_at = cuda_test_upload(test_device, b, sizeof b);
    void *sums_at = cuda_test_upload(test_device, sums, sizeof sums);
    cuda_test_ok(test_launch_multiply(test_device, PRODUCTS, a_at, b_at, sums_at));
    cuda_test_download(test_device, actual, sums_at, sizeof actual);
    for (uint32_t p = 0; p < PRODUCTS; p++) {
        for (uint32_t i = 0; i < OUTPUTS * ROWS; i++) {
            uint32_t output = i / ROWS, row = i % ROWS;
            assert_int_equal(actual[p][output][row],
                             sums[p][output][row] + dot(a[p][output], b[p][row]));
        }
    }
    or_cuda_free(test_device, a_at);
    or_cuda_free(test_device, b_at);
    or_cuda_free(test_device, sums_at);
}

static void bytes_are_picked(void **state)
{
    (void)state;
    enum { COUNT = 500 };
    uint32_t low[COUNT], high[COUNT], which[COUNT], picked[COUNT];
    uint64_t random = test_seed();
    fill(&random, low, sizeof low);
    fill(&random, high, sizeof high);
    for (uint32_t i = 0; i < COUNT; i++) {
        which[i] = (uint32_t)test_random(&random) & 0x7777u;
    }
    void *low_at = cuda_test_upload(test_device, low, sizeof low);
    void *high_at = cuda_test_upload(test_device, high, sizeof high);
    void *which_at = cuda_test_upload(test_device, which, sizeof which);
    void *picked_at = cuda_test_upload(test_device, NULL, sizeof picked);
    cuda_test_ok(test_launch_pick(test_device, COUNT, low_at, high_at, which_at, picked_at));
    cuda_test_download(test_device, picked, picked_at, sizeof picked);
    for (uint32_t i = 0; i < COUNT; i++) {
        for (uint32_t byte = 0; byte < 4; byte++) {
            uint32_t number = which[i] >> 4 * byte & 7;
            uint32_t word = number < 4 ? low[i] : high[i];
            assert_int_equal(picked[i] >> 8 * byte & 0xFF, word >> 8 * (number % 4) & 0xFF);
        }
    }
    or_cuda_free(test_device, low_at);
    or_cuda_free(test_device, high_at);
    or_cuda_free(test_device, which_at);
    or_cuda_free(test_device, picked_at);
}

// ---- the stream ----

static void launches_are_done_in_order(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    uint32_t *pinned = NULL;
    cuda_test_ok(or_cuda_alloc_pinned(test_device, COUNT * sizeof *pinned, (void **)&pinned));
    uint32_t *at = clear_memory(COUNT * sizeof *at);
    for (uint32_t i = 0; i < COUNT; i++) {
        pinned[i] = i;
    }
    cuda_test_ok(or_cuda_upload(test_device, at, pinned, COUNT * sizeof *at));
    cuda_test_ok(test_launch_step(test_device, at, 3, COUNT));
    cuda_test_ok(test_launch_step(test_device, at, 5, COUNT));
    cuda_test_ok(or_cuda_download(test_device, pinned, at, COUNT * sizeof *at));
    cuda_test_ok(or_cuda_wait(test_device));
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(pinned[i], (i * 3 + 1) * 5 + 1);
    }
    or_cuda_free(test_device, at);
    or_cuda_free_pinned(test_device, pinned);
}

// The recording reads `pinned` when it is replayed, and knows by heart what its launches were given.
static or_cuda_recording_t *record(uint32_t *at, uint32_t *pinned, uint32_t count)
{
    or_cuda_recording_t *recording = NULL;
    cuda_test_ok(or_cuda_record_begin(test_device));
    cuda_test_ok(or_cuda_upload(test_device, at, pinned, count * sizeof *at));
    for (uint32_t factor = 2; factor <= 3; factor++) {
        cuda_test_ok(test_launch_step(test_device, at, factor, count));
    }
    cuda_test_ok(or_cuda_download(test_device, pinned, at, count * sizeof *at));
    cuda_test_ok(or_cuda_record_end(test_device, &recording));
    return recording;
}

static void launches_are_recorded(void **state)
{
    (void)state;
    enum { COUNT = 300 };
    uint32_t *pinned = NULL;
    cuda_test_ok(or_cuda_alloc_pinned(test_device, COUNT * sizeof *pinned, (void **)&pinned));
    uint32_t *at = clear_memory(COUNT * sizeof *at);
    memset(pinned, 0, COUNT * sizeof *pinned);
    or_cuda_recording_t *recordings[] = {record(at, pinned, COUNT), record(at, pinned, COUNT)};
    cuda_test_ok(or_cuda_wait(test_device));
    assert_int_equal(pinned[0], 0); // not done yet

    uint32_t expected = 0;
    for (uint32_t replay = 0; replay < 4; replay++) {
        expected = (expected * 2 + 1) * 3 + 1;
        cuda_test_ok(or_cuda_replay(test_device, recordings[replay % 2]));
        cuda_test_ok(or_cuda_wait(test_device));
        for (uint32_t i = 0; i < COUNT; i++) {
            assert_int_equal(pinned[i], expected);
        }
    }
    or_cuda_recording_free(&recordings[0]);
    or_cuda_recording_free(&recordings[1]);
    or_cuda_free(test_device, at);
    or_cuda_free_pinned(test_device, pinned);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_thread_runs_once),
        cmocka_unit_test(threads_of_a_block_wait_for_each_other),
        cmocka_unit_test(lanes_see_each_other),
        cmocka_unit_test(bytes_are_multiplied_exactly),
        cmocka_unit_test(bytes_are_picked),
        cmocka_unit_test(launches_are_done_in_order),
        cmocka_unit_test(launches_are_recorded),
    };
    return cmocka_run_group_tests(tests, cuda_test_set_up, cuda_test_tear_down);
}
