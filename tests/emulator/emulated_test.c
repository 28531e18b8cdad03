// Goal: the emulator tells what a kernel may not do, and does what a device may do although it seldom does.
// Method: kernels that make one mistake each, in a process of their own that must end with the right sentence;
// threads that note their turns, shared memory that nobody wrote, and results that nobody has waited for.
#include "kernels/cuda/tests/cuda_test_support.h"
#include "kernels/cuda/tests/portable_test_kernels.h"
#include "tests/emulator/emulated_test_kernels.h"

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST 1024u // threads

static uint32_t *numbers; // of the device, 4 * MOST

static int open_device(void **state)
{
    (void)cuda_test_set_up(state);
    cuda_test_ok(or_cuda_alloc(test_device, 4 * MOST * sizeof *numbers, (void **)&numbers));
    return 0;
}

static int close_device(void **state)
{
    or_cuda_free(test_device, numbers);
    return cuda_test_tear_down(state);
}

// ---- how they run ----

static void turns_are_scrambled(void **state)
{
    (void)state;
    enum { BLOCKS = 4 };
    static uint32_t turns[BLOCKS * MOST];
    static bool taken[BLOCKS * MOST];
    cuda_test_ok(test_launch_turns(test_device, BLOCKS, MOST, numbers));
    cuda_test_download(test_device, turns, numbers, sizeof turns);
    uint32_t in_order = 0;
    for (uint32_t i = 0; i < BLOCKS * MOST; i++) {
        assert_true(turns[i] < BLOCKS * MOST && !taken[turns[i]]);
        taken[turns[i]] = true;
        in_order += i > 0 && turns[i] == turns[i - 1] + 1;
    }
    assert_true(in_order < BLOCKS * MOST / 2);
}

static void shared_memory_is_garbage(void **state)
{
    (void)state;
    enum { BLOCKS = 3, WORDS = 4 };
    uint32_t words[BLOCKS * WORDS];
    cuda_test_ok(test_launch_garbage(test_device, BLOCKS, numbers));
    cuda_test_download(test_device, words, numbers, sizeof words);
    for (uint32_t i = 0; i < BLOCKS * WORDS; i++) {
        assert_int_equal(words[i], UINT32_MAX);
    }
}

// Until work that comes after has been waited for. The host can look only here.
static void new_memory_is_garbage(void **state)
{
    (void)state;
    uint8_t *at = NULL, *pinned = NULL;
    cuda_test_ok(or_cuda_alloc(test_device, 1, (void **)&at));
    cuda_test_ok(or_cuda_alloc_pinned(test_device, 1, (void **)&pinned));
    assert_int_not_equal(*at, 0);
    assert_int_not_equal(*pinned, 0);
    cuda_test_ok(or_cuda_wait(test_device));
    assert_int_equal(*at, 0);
    or_cuda_free(test_device, at);
    or_cuda_free_pinned(test_device, pinned);
}

// A download to pinned memory has not happened, and an upload from there has yet to look.
static void work_is_done_as_late_as_can_be(void **state)
{
    (void)state;
    uint32_t *pinned = NULL;
    cuda_test_ok(or_cuda_alloc_pinned(test_device, sizeof *pinned, (void **)&pinned));
    *pinned = 1;
    cuda_test_ok(or_cuda_upload(test_device, numbers, pinned, sizeof *pinned));
    *pinned = 2;
    cuda_test_ok(or_cuda_wait(test_device));
    uint32_t uploaded = 0;
    cuda_test_download(test_device, &uploaded, numbers, sizeof uploaded);
    assert_int_equal(uploaded, 2);

    cuda_test_ok(test_launch_double(test_device, numbers, 1, 8, 0));
    cuda_test_ok(or_cuda_download(test_device, pinned, numbers + 7, sizeof *pinned));
    assert_int_equal(*pinned, 2);
    cuda_test_ok(or_cuda_wait(test_device));
    assert_int_equal(*pinned, 14);
    or_cuda_free_pinned(test_device, pinned);
}

// Nothing orders fetches against the host's writes, so both orders happen.
static void fetches_are_early_or_late(void **state)
{
    (void)state;
    uint32_t *pinned = NULL;
    uint32_t seen[2] = {0};
    cuda_test_ok(or_cuda_alloc_pinned(test_device, sizeof *pinned, (void **)&pinned));
    *pinned = 1;
    for (uint32_t i = 0; i < 20; i++) {
        uint32_t fetched = UINT32_MAX;
        cuda_test_ok(or_cuda_clear(test_device, numbers, sizeof *numbers));
        cuda_test_ok(or_cuda_wait(test_device));
        cuda_test_ok(or_cuda_fetch(test_device, numbers, pinned, sizeof *pinned));
        cuda_test_ok(or_cuda_copy(test_device, numbers + 1, numbers, sizeof *numbers));
        cuda_test_download(test_device, &fetched, numbers + 1, sizeof fetched);
        assert_true(fetched <= 1);
        seen[fetched]++;
        cuda_test_ok(or_cuda_await_fetches(test_device));
        cuda_test_download(test_device, &fetched, numbers, sizeof fetched);
        assert_int_equal(fetched, 1);
    }
    assert_true(seen[0] > 0 && seen[1] > 0);
    or_cuda_free_pinned(test_device, pinned);
}

static void waiting_cannot_be_recorded(void **state)
{
    (void)state;
    uint32_t own = 0;
    void *at = NULL;
    cuda_test_ok(or_cuda_record_begin(test_device));
    assert_int_not_equal(or_cuda_wait(test_device), OR_CUDA_OK);
    assert_int_not_equal(or_cuda_upload(test_device, numbers, &own, sizeof own), OR_CUDA_OK);
    assert_int_not_equal(or_cuda_alloc(test_device, 1, &at), OR_CUDA_OK);
    assert_int_not_equal(or_cuda_mark(test_device, 0), OR_CUDA_OK);
    assert_int_not_equal(or_cuda_fetch(test_device, numbers, &own, sizeof own), OR_CUDA_OK);
    assert_int_not_equal(or_cuda_hold_fetches(test_device), OR_CUDA_OK);
    assert_int_not_equal(or_cuda_await_fetches(test_device), OR_CUDA_OK);
    assert_int_not_equal(or_cuda_record_begin(test_device), OR_CUDA_OK);
    or_cuda_recording_t *recording = NULL;
    assert_int_not_equal(or_cuda_record_end(test_device, &recording), OR_CUDA_OK);
    assert_int_not_equal(or_cuda_record_end(test_device, &recording), OR_CUDA_OK);
    assert_null(recording);
}

static void what_fails_leaves_nothing_recorded(void **state)
{
    (void)state;
    or_cuda_recording_t *recording = NULL;
    cuda_test_ok(or_cuda_record_begin(test_device));
    assert_int_not_equal(or_cuda_wait(test_device), OR_CUDA_OK);
    cuda_test_ok(or_cuda_clear(test_device, numbers, sizeof *numbers));
    assert_int_not_equal(or_cuda_record_end(test_device, &recording), OR_CUDA_OK);
    assert_null(recording);
    cuda_test_ok(or_cuda_record_begin(test_device));
    cuda_test_ok(or_cuda_record_end(test_device, &recording)); // of nothing, but whole
    cuda_test_ok(or_cuda_replay(test_device, recording));
    or_cuda_recording_free(&recording);
}

// ---- what none may do ----

// The standard error of a process that does `what(detail)` and must be aborted by it.
static void last_words_of(void (*what)(uint32_t), uint32_t detail, char *words, size_t size)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)dup2(ends[1], STDERR_FILENO);
        what(detail);
        (void)or_cuda_wait(test_device);
        _exit(0);
    }
    close(ends[1]);
    size_t length = 0;
    ssize_t more;
    while ((more = read(ends[0], words + length, size - 1 - length)) > 0) {
        length += (size_t)more;
    }
    words[length] = '\0';
    close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void assert_last_words(void (*what)(uint32_t), uint32_t detail, const char *expected)
{
    char words[1000];
    last_words_of(what, detail, words, sizeof words);
    if (!strstr(words, expected)) {
        fail_msg("\"%s\" is not in: %s", expected, words);
    }
}

static void make_mistake(uint32_t mistake)
{
    (void)test_launch_mistake(test_device, mistake, 64, numbers);
}

static uint32_t *new_memory(void)
{
    uint32_t *at = NULL;
    (void)or_cuda_alloc(test_device, 2 * 64 * sizeof *at, (void **)&at);
    return at;
}

static void make_mistake_in_new_memory(uint32_t mistake)
{
    (void)test_launch_mistake(test_device, mistake, 64, new_memory());
}

static void make_mistake_behind_doubles(uint32_t mistake)
{
    uint32_t *at = new_memory();
    (void)test_launch_double(test_device, at, 1, 64, 0);
    (void)test_launch_mistake(test_device, mistake, 64, at);
}

static void make_partial_warp(uint32_t threads)
{
    (void)test_launch_mistake(test_device, TEST_MISTAKE_RETURNED_WARP, threads, numbers);
}

static void launch_blocks(uint32_t blocks)
{
    (void)test_launch_double(test_device, numbers, blocks, 1, 0);
}

static void launch_threads(uint32_t threads)
{
    (void)test_launch_double(test_device, numbers, 1, threads, 0);
}

static void launch_plane_of_threads(uint32_t rows)
{
    const test_size_t one = {1, 1, 1}, plane = {32, rows, 1};
    (void)test_launch_count(test_device, one, plane, numbers);
}

static void launch_shared(uint32_t bytes)
{
    (void)test_launch_double(test_device, numbers, 1, 1, bytes);
}

static void launch_with_host_memory(uint32_t threads)
{
    static uint32_t own[MOST];
    (void)test_launch_double(test_device, own, 1, threads, 0);
}

static void upload_behind(uint32_t bytes)
{
    static uint8_t own[8];
    (void)or_cuda_upload(test_device, numbers + 4 * MOST - 1, own, bytes);
}

static void fetch_from_host_memory(uint32_t bytes)
{
    static uint8_t own[8];
    (void)or_cuda_fetch(test_device, numbers, own, bytes);
}

static void close_too_early(uint32_t detail)
{
    (void)detail;
    or_cuda_close(&test_device);
}

// Told by so many threads in each turn.
static void go_round(uint32_t tellers)
{
    or_cuda_loop_t at = OR_CUDA_NO_LOOP;
    or_cuda_recording_t *recording = NULL;
    cuda_test_ok(or_cuda_record_begin(test_device));
    cuda_test_ok(or_cuda_loop_begin(test_device, &at));
    cuda_test_ok(test_launch_tell(test_device, at, tellers));
    cuda_test_ok(or_cuda_loop_end(test_device));
    cuda_test_ok(or_cuda_record_end(test_device, &recording));
    cuda_test_ok(or_cuda_replay(test_device, recording));
}

static void tell_from_elsewhere(uint32_t loop)
{
    (void)test_launch_tell(test_device, loop, 1);
}

static void waits_that_not_all_come_to(void **state)
{
    (void)state;
    assert_last_words(make_mistake, TEST_MISTAKE_RETURNED_BLOCK,
                      "or_block_wait for thread (5, 0, 0), which has returned");
    assert_last_words(make_mistake, TEST_MISTAKE_RETURNED_BLOCK, "block (1, 0, 0), thread (");
    assert_last_words(make_mistake, TEST_MISTAKE_RETURNED_BLOCK, "emulated_test_kernels.cu:");
    assert_last_words(make_mistake, TEST_MISTAKE_RETURNED_WARP,
                      "or_shuffle_xor for thread (35, 0, 0), which has returned");
    assert_last_words(make_mistake, TEST_MISTAKE_DIVERGED_WARP, "of its warp waits in or_");
    assert_last_words(make_mistake, TEST_MISTAKE_DIVERGED_BLOCK,
                      "for thread (40, 0, 0), which waits in or_warp_wait");
    assert_last_words(make_partial_warp, 33,
                      "thread (32, 0, 0) comes to or_shuffle_xor in a warp of 1 threads");
}

static void copies_that_nobody_waits_for(void **state)
{
    (void)state;
    assert_last_words(make_mistake, TEST_MISTAKE_NOT_AWAITED,
                      "returns without waiting for what it copies");
}

static void early_kernels_that_do_not_await_others(void **state)
{
    (void)state;
    assert_last_words(make_mistake, TEST_MISTAKE_BEFORE_OTHERS,
                      "thread (7, 0, 0) returns without or_await_before");
}

static void early_kernels_that_touch_what_others_write(void **state)
{
    (void)state;
    const char *touches = "thread (7, 0, 0) touches memory before or_await_before that kernels "
                          "write, first of them ";
    assert_last_words(make_mistake_behind_doubles, TEST_MISTAKE_READ_BEFORE, touches);
    assert_last_words(make_mistake_behind_doubles, TEST_MISTAKE_READ_BEFORE, "block (1, 0, 0)");
    assert_last_words(make_mistake_behind_doubles, TEST_MISTAKE_READ_BEFORE,
                      "or_launch(cuda, write_doubles");
    assert_last_words(make_mistake_behind_doubles, TEST_MISTAKE_COPIED_BEFORE, touches);
    assert_last_words(make_mistake_behind_doubles, TEST_MISTAKE_WRITTEN_BEFORE, touches);
    assert_last_words(make_mistake_in_new_memory, TEST_MISTAKE_WRITTEN_BEFORE,
                      "thread (7, 0, 0) writes to device memory before or_await_before");
}

// A table of pointers in memory that no kernel has written.
static const uint32_t *const *new_table(const uint32_t *first, const uint32_t *second)
{
    const uint32_t *const pointers[] = {first, second}, **table = NULL;
    (void)or_cuda_alloc(test_device, sizeof pointers, (void **)&table);
    (void)or_cuda_upload(test_device, table, pointers, sizeof pointers);
    return table;
}

enum { OTHER_POINTER, OTHER_NUMBER, OTHER_TABLE, NEWLY_WRITTEN, WRITTEN_FOR_ANOTHER, DIFFERENCES };

// Read weights early, first those that nobody wrote, which is no mistake.
static void make_mistake_behind_its_like(uint32_t difference)
{
    enum { THREADS = 64 };
    uint32_t *const fresh = new_memory(), *const written = new_memory(), *other = new_memory();
    const uint32_t *const *table = new_table(fresh, written);
    (void)test_launch_double(test_device, written, 1, THREADS, 0);
    (void)test_launch_double(test_device, other, 1, THREADS, 0);
    if (difference == OTHER_POINTER) {
        (void)test_launch_early(test_device, false, THREADS, fresh, written);
        (void)test_launch_early(test_device, false, THREADS, written, written);
        return;
    }
    (void)test_launch_chosen_early(test_device, THREADS, table, 0, written);
    if (difference == WRITTEN_FOR_ANOTHER) {
        or_cuda_free(test_device, other);
    }
    if (difference >= NEWLY_WRITTEN) {
        (void)test_launch_double(test_device, fresh, 1, THREADS, 0);
    }
    table = difference == OTHER_TABLE ? new_table(written, written) : table;
    (void)test_launch_chosen_early(test_device, THREADS, table, difference == OTHER_NUMBER,
                                   written);
}

static void early_kernels_that_did_right_before(void **state)
{
    (void)state;
    for (uint32_t difference = 0; difference < DIFFERENCES; difference++) {
        assert_last_words(make_mistake_behind_its_like, difference,
                          "touches memory before or_await_before that kernels write");
    }
}

// Rehearsing leaves nothing behind, whichever wait of others it comes to.
static void early_kernels_that_may_read_weights(void **state)
{
    (void)state;
    enum { THREADS = 64, CHAIN = 4 };
    uint32_t weights[THREADS], sums[THREADS];
    uint32_t *at = NULL;
    for (uint32_t i = 0; i < THREADS; i++) {
        weights[i] = 1000 + i;
    }
    cuda_test_ok(or_cuda_alloc(test_device, sizeof weights, (void **)&at));
    cuda_test_ok(or_cuda_upload(test_device, at, weights, sizeof weights));
    cuda_test_ok(test_launch_double(test_device, numbers, 1, THREADS, 0));
    for (uint32_t i = 0; i < CHAIN; i++) {
        cuda_test_ok(test_launch_early(test_device, i % 2 == 1, THREADS, at, numbers));
    }
    cuda_test_download(test_device, sums, numbers, sizeof sums);
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_int_equal(sums[i], 2 * i + CHAIN * weights[i]);
    }
    or_cuda_free(test_device, at);
}

static void launches_that_cuda_does_not_allow(void **state)
{
    (void)state;
    assert_last_words(launch_threads, MOST + 1, "a block of 1025 x 1 x 1 threads");
    assert_last_words(launch_threads, 0, "a block of 0 x 1 x 1 threads");
    assert_last_words(launch_plane_of_threads, 33, "a block of 32 x 33 x 1 threads");
    assert_last_words(launch_blocks, 0, "a grid of 0 x 1 x 1 blocks");
    assert_last_words(launch_shared, 48 * 1024 + 1, "49153 bytes of shared memory");
    assert_last_words(make_mistake, TEST_MISTAKE_TOO_MUCH_SHARED, "more shared memory");
}

static void memory_that_is_not_theirs(void **state)
{
    (void)state;
    assert_last_words(make_mistake, TEST_MISTAKE_BEHIND_SHARED, "wrote behind its 256 bytes");
    assert_last_words(launch_with_host_memory, 1, "that is not to device memory");
    assert_last_words(upload_behind, 8, "which are not (all) of one device memory");
    assert_last_words(make_mistake, TEST_MISTAKE_NOWHERE,
                      "thread (9, 0, 0) reads or writes where there is no memory");
    assert_last_words(fetch_from_host_memory, 8, "which are not (all) of one pinned memory");
    assert_last_words(close_too_early, 0, "were allocated and not freed");
}

static void loops_that_are_told_nothing_or_too_much(void **state)
{
    (void)state;
    assert_last_words(go_round, 0, "a loop that was done 100000 times and goes on");
    assert_last_words(go_round, 2, "tells a loop what its launch has told one before");
    assert_last_words(tell_from_elsewhere, 1, "tells a loop that it is not in");
    cuda_test_ok(test_launch_tell(test_device, OR_CUDA_NO_LOOP, 64));
    cuda_test_ok(or_cuda_wait(test_device));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turns_are_scrambled),
        cmocka_unit_test(shared_memory_is_garbage),
        cmocka_unit_test(new_memory_is_garbage),
        cmocka_unit_test(work_is_done_as_late_as_can_be),
        cmocka_unit_test(fetches_are_early_or_late),
        cmocka_unit_test(waiting_cannot_be_recorded),
        cmocka_unit_test(what_fails_leaves_nothing_recorded),
        cmocka_unit_test(waits_that_not_all_come_to),
        cmocka_unit_test(copies_that_nobody_waits_for),
        cmocka_unit_test(early_kernels_that_do_not_await_others),
        cmocka_unit_test(early_kernels_that_touch_what_others_write),
        cmocka_unit_test(early_kernels_that_did_right_before),
        cmocka_unit_test(early_kernels_that_may_read_weights),
        cmocka_unit_test(launches_that_cuda_does_not_allow),
        cmocka_unit_test(memory_that_is_not_theirs),
        cmocka_unit_test(loops_that_are_told_nothing_or_too_much),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
