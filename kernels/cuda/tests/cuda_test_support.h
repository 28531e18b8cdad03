// cuda_test_support - what the tests of the GPU kernels share: a device, and arrays that are copied there and back.
#pragma once

#include "tests/support/test_support.h"

#include "kernels/cuda/cuda_device.h"
#include "kernels/quants.h"

// Open the first device; the caller closes it. Where there is no device, print "no GPU" and exit with the status that
// CTest counts as skipped.
or_cuda_t *cuda_test_open(void);

// The device of a test program: opened and closed by these, as set-up and tear-down of its group of tests.
extern or_cuda_t *test_device;
int cuda_test_set_up(void **state);
int cuda_test_tear_down(void **state);

// Fail the running test, with the device's reason, unless `status` is OR_CUDA_OK.
#define cuda_test_ok(status) cuda_test_check(status, __FILE__, __LINE__)
void cuda_test_check(int status, const char *file, int line);

// Copy `bytes` to new device memory, which the caller frees (or_cuda_free). If `from` is NULL, fill it with poison (0xAA).
void *cuda_test_upload(or_cuda_t *cuda, const void *from, size_t bytes);
// Copy `bytes` back and wait, so that an error of an earlier kernel is reported here.
void cuda_test_download(or_cuda_t *cuda, void *to, const void *from, size_t bytes);

// Compare two blocks bit by bit; `at` is the block's number in the message.
void cuda_test_same_block(const or_q8_block_t *actual, const or_q8_block_t *expected, size_t at);
