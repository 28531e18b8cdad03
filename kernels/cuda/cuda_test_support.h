// cuda_test_support - for tests of the kernels of this folder: a device, and arrays that go there and back.
#pragma once

#include "tests/support/test_support.h"

#include "kernels/cuda/cuda_device.h"
#include "kernels/quants.h"

// The first device, which the caller closes. Where there is none the program ends, skipped as "no GPU".
or_cuda_t *cuda_test_open(void);

// The running test fails where `status` is not OR_CUDA_OK, with the device's reason.
#define cuda_test_ok(status) cuda_test_check(status, __FILE__, __LINE__)
void cuda_test_check(int status, const char *file, int line);

// A copy of `bytes` in device memory, which the caller frees (or_cuda_free). From NULL it is poison (0xAA).
void *cuda_test_upload(or_cuda_t *cuda, const void *from, size_t bytes);
// And back; waits, so what a kernel did wrong is told here.
void cuda_test_download(or_cuda_t *cuda, void *to, const void *from, size_t bytes);

// Bit by bit; `at` says which block it is.
void cuda_test_same_block(const or_q8_block_t *actual, const or_q8_block_t *expected, size_t at);
