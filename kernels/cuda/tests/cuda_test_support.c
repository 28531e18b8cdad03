#include "kernels/cuda/tests/cuda_test_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels_test_support.h"

#define SKIPPED 77 // what CTest takes for it (SKIP_RETURN_CODE)

void cuda_test_check(int status, const char *file, int line)
{
    if (status == OR_CUDA_OK)
        return;
    print_error("the device: %s\n", or_cuda_text(status));
    _fail(file, line);
}

or_cuda_t *cuda_test_open(void)
{
    if (or_cuda_count() == 0) {
        puts("no GPU");
        exit(SKIPPED);
    }
    or_cuda_t *cuda = NULL;
    cuda_test_ok(or_cuda_open(0, &cuda));
    return cuda;
}

or_cuda_t *test_device;

int cuda_test_set_up(void **state)
{
    (void)state;
    test_device = cuda_test_open();
    return 0;
}

int cuda_test_tear_down(void **state)
{
    (void)state;
    or_cuda_close(&test_device);
    assert_null(test_device);
    return 0;
}

void *cuda_test_upload(or_cuda_t *cuda, const void *from, size_t bytes)
{
    void *at = NULL;
    cuda_test_ok(or_cuda_alloc(cuda, bytes, &at));
    if (from) {
        cuda_test_ok(or_cuda_upload(cuda, at, from, bytes));
        return at;
    }
    void *poison = malloc(bytes + 1);
    assert_non_null(poison);
    memset(poison, 0xAA, bytes);
    cuda_test_ok(or_cuda_upload(cuda, at, poison, bytes));
    free(poison);
    return at;
}

void cuda_test_download(or_cuda_t *cuda, void *to, const void *from, size_t bytes)
{
    cuda_test_ok(or_cuda_download(cuda, to, from, bytes));
    cuda_test_ok(or_cuda_wait(cuda));
}

void cuda_test_same_block(const or_q8_block_t *actual, const or_q8_block_t *expected, size_t at)
{
    assert_memory_equal(actual->quants, expected->quants, sizeof expected->quants);
    assert_same(actual->scale, expected->scale, "scale", at);
    assert_same(actual->scaled_sum, expected->scaled_sum, "scaled sum", at);
    assert_int_equal(actual->sum, expected->sum);
    assert_int_equal(actual->bias, expected->bias);
    for (size_t h = 0; h < 2; h++) {
        assert_same(actual->scaled_half_sums[h], expected->scaled_half_sums[h], "half sum", at);
        assert_int_equal(actual->half_biases[h], expected->half_biases[h]);
    }
}
