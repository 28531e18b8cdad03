// test_support - what every test needs: the place of the data, a seed that replays, and cmocka with its
// prerequisites.
//
// OUTRIDER_TEST_DATA names the data folder (default ../shared/data). If it is absent a test that needs
// it is skipped by name; with CI=true it fails. OR_TEST_SEED replays a property test, which prints its
// seed when it starts.
//
// A program whose every test was skipped ends with 77, which CTest tells from success: nothing was
// tested.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

// These replace cmocka's own, as described above.
#undef skip
#define skip() (test_note_skip(), _skip(__FILE__, __LINE__))
#undef cmocka_run_group_tests
#define cmocka_run_group_tests(tests, set_up, tear_down)                                           \
    test_status(_cmocka_run_group_tests(#tests, tests, sizeof(tests) / sizeof((tests)[0]), set_up, \
                                        tear_down),                                                \
                sizeof(tests) / sizeof((tests)[0]))
void test_note_skip(void);
// The exit status after `failed` of so many tests failed.
int test_status(int failed, size_t tests);

// The path of a file in the data folder ("vocab/gpt-2.gguf"), in static storage (8 rotating
// buffers). Skips the running test if the file is absent (fails it with CI=true).
const char *test_data(const char *name);
// A model of this repository: "tales-6m-f16.gguf" -> launch/models/...
const char *test_model(const char *name);
// The seed of a property test: OR_TEST_SEED, or a fixed default. Printed.
uint64_t test_seed(void);

// The number of seeds or faults that a test goes through: `few` in CI, or OR_TEST_RUNS.
uint32_t test_runs(uint32_t few);
// Return 1 where OR_TEST_WHOLE is set, and `parts` where it is not. The gate goes through one in so many of a test's cases.
// The rest of the checks (launch/test.sh --all) and the mutants go through all of them.
uint32_t test_share(uint32_t parts);
// Setup and teardown of a test that has a folder of its own, empty when it begins. test_folder says where that is.
int test_folder_setup(void **state);
int test_folder_teardown(void **state);
const char *test_folder(void);
// Write a file below that folder, with the folders that lead to it.
void test_write_file(const char *name, const char *text);
// Delete a folder and all that is in it, if it is there.
void test_remove_folder(const char *path);
// The bytes of all files in a folder.
uint64_t test_folder_bytes(const char *path);
// Log only errors, or what OR_TEST_LOG names ("debug").
void test_log_init(void);
// A small generator for tests: splitmix64.
uint64_t test_random(uint64_t *state);
static inline uint64_t test_below(uint64_t *state, uint64_t n)
{
    return test_random(state) % n;
}
static inline double test_uniform(uint64_t *state)
{
    return (double)(test_random(state) >> 11) * 0x1p-53;
}
